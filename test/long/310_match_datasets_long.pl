# test/t/310_match_datasets.pl with all 1,000 queries of each set.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/310_match_datasets.pl" or die "exec: $!";
