# test/t/200_faults.pl at every call of every fault point, and exit in every kind of statement.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/200_faults.pl" or die "exec: $!";
