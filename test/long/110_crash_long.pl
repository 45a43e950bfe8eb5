# test/t/110_crash.pl with 100 immediate stops under load (F14), with the worker off, on and killed each second (VECTORGPU_WORKER).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_CRASH_ROUNDS} //= 100;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/110_crash.pl" or die "exec: $!";
