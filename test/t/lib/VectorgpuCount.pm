# What a TAP test went through, in figures: how many answers were compared and how often a process or a server died. One line at the
# end of the test, which scripts/test adds up:
#   # counted: answers=120 wrong=0 checks=8 lost=0 worker_deaths=3 recoveries=4 processes_killed=1
# Deaths are read from the logs of the test's servers, so that nothing has to be counted where it is caused.
package VectorgpuCount;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(count);

my $process = $$;
my %counts = map { $_ => 0 } qw(answers wrong checks lost);
my %in_log = (
	worker_deaths    => qr/vectorgpu worker \(PID \d+\) ended by signal/,
	recoveries       => qr/database system was not properly shut down; automatic recovery in progress/,
	processes_killed => qr/was terminated by signal 9\b/);

# answers: compared with those of a sequential scan; wrong: of them; checks: by vectorgpu_check or of a row that was acknowledged;
# lost: of them, those that failed.
sub count
{
	my ($name, $n) = @_;

	die "nothing is counted as $name" if !exists $counts{$name};
	$counts{$name} += $n // 1;
	return;
}

END
{
	my $status = $?;

	if ($$ == $process)
	{
		for my $file (glob("$PostgreSQL::Test::Utils::log_path/*.log"))
		{
			open my $log, '<', $file or next;
			while (my $line = <$log>)
			{
				for my $name (keys %in_log)
				{
					$counts{$name}++ if $line =~ $in_log{$name};
				}
			}
		}
		note('counted: ' . join(' ', map { "$_=" . ($counts{$_} // 0) } sort { $a cmp $b } keys %{ { %counts, %in_log } }));
	}
	$? = $status;
}

1;
