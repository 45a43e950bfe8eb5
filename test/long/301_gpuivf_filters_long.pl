# test/t/301_gpuivf_filters.pl on 200,000 rows with 400 queries for each condition and 4,000 without one.
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/301_gpuivf_filters.pl" or die "exec: $!";
