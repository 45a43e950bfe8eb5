# test/t/400_mixed_load.pl with 100 clients (F34): for ten minutes with the worker on, for five each with it off and killed each second (VECTORGPU_WORKER).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_SECONDS} //= ($ENV{VECTORGPU_WORKER} // 'on') eq 'on' ? 600 : 300;
$ENV{VECTORGPU_CLIENTS} //= 100;
# When the time is up most of the clients may wait for each other's VACUUM and merges, which all come to their turn.
$ENV{PG_TEST_TIMEOUT_DEFAULT} //= 1800;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/400_mixed_load.pl" or die "exec: $!";
