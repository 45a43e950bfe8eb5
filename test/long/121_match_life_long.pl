# test/t/121_match_life.pl with a minute of changes beside scans and a dying worker.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} //= 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/121_match_life.pl" or die "exec: $!";
