# test/t/210_corruption.pl with 10,000 flipped bytes (F23).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_FLIPS} //= 10_000;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/210_corruption.pl" or die "exec: $!";
