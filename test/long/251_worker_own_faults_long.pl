# test/t/251_worker_own_faults.pl at each call of each fault point until there is none left, for a table of each access method alone.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/251_worker_own_faults.pl" or die "exec: $!";
