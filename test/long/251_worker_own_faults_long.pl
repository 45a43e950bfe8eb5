# test/t/251_worker_own_faults.pl at the first, the second and every call of each fault point.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/251_worker_own_faults.pl" or die "exec: $!";
