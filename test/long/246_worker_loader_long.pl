# test/t/246_worker_loader.pl with as many rows for each access method, and DROP during a load.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/246_worker_loader.pl" or die "exec: $!";
