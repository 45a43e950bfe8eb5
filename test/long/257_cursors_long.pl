# test/t/257_cursors.pl with cursors in relaxed order over searches of all rows as well.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/257_cursors.pl" or die "exec: $!";
