# test/t/122_match_rules.pl with 10,000 timeouts (F36) and builds cancelled at 50 random moments (C45, F10).
use strict;
use warnings;

use FindBin;

$ENV{VECTORGPU_LONG} = 1;
# The other file has its own done_testing.
exec $^X, (map { "-I$_" } @INC), "$FindBin::RealBin/../t/122_match_rules.pl" or die "exec: $!";
