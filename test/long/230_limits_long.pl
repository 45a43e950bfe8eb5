# test/t/230_limits.pl with 10,000 timeouts and cancels of each kind, and cancels of what takes long (F36).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/230_limits.pl" or die "exec: $!";
