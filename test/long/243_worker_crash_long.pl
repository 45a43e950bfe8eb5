# test/t/243_worker_crash.pl with 20 crashes after asynchronous commits (F13).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/243_worker_crash.pl" or die "exec: $!";
