# test/t/241_worker_faults.pl with 50 deaths of the worker by each signal (F1).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/241_worker_faults.pl" or die "exec: $!";
