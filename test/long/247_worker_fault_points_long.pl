# test/t/247_worker_fault_points.pl at every call for gpumatch too.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/247_worker_fault_points.pl" or die "exec: $!";
