# test/t/110_crash.pl with 75 builds killed at random moments, 50 of them CREATE INDEX (C45, F9), and few crashes under load, of which 110_crash_long has many.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
$ENV{VECTORGPU_CRASH_ROUNDS} //= 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/110_crash.pl" or die "exec: $!";
