# test/t/311_gpumatch_datasets.pl with 1,000 queries against the sequential scan.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/311_gpumatch_datasets.pl" or die "exec: $!";
