# test/t/300_recall_datasets.pl on all rows: 1,000 queries at each LIMIT, 20 without.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/300_recall_datasets.pl" or die "exec: $!";
