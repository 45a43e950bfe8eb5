# Counts of a TAP test: compared answers, deaths of processes and servers. One line at the end of the test, which scripts/test
# adds up:
#   # counted: answers=120 wrong=0 checks=8 lost=0 worker_deaths=3 recoveries=4 processes_killed=1
# Deaths are read from the logs of the test's servers, so that tests need not count the deaths that they cause.
# The test fails if an answer was wrong or a row was lost, and if a server's log shows a crash: a PANIC, a failed assertion, a process
# of the server or a worker that died by a signal that only its own faults send. Kills (signal 9) come from the tests. A test that
# causes such a crash calls expect_crash.
package VectorgpuCount;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(count expect_crash);

our $n_servers = 0;    # started by make_node
my $process = $$;
my %counts = map { $_ => 0 } qw(answers wrong checks lost);
my %in_log = (
	worker_deaths    => qr/vectorgpu worker \(PID \d+\) ended by signal/,
	recoveries       => qr/database system was not properly shut down; automatic recovery in progress/,
	processes_killed => qr/was terminated by signal 9\b/);

# ILL, ABRT, BUS, FPE, SEGV. Two blanks follow a severity in the log, but not in a statement that contains the word.
my $crash = qr/\bPANIC:  |\bTRAP: |\b(?:was terminated|ended) by signal (?:4|6|7|8|11)\b/;
my %expected;    # logfile => patterns
my @reasons;
my $shown = 10;  # lines of a log

# answers: compared with those of a sequential scan; wrong: wrong ones among them; checks: by vectorgpu_check or of an acknowledged row;
# lost: failed checks. why: what was found; it is printed again as the last lines of the test, which are all that some logs keep.
sub count
{
	my ($name, $n, $why) = @_;

	die "nothing is counted as $name" if !exists $counts{$name};
	$counts{$name} += $n // 1;
	push @reasons, $why if defined $why;
	return;
}

# Lines of a node's log that look like a crash but are caused by the test.
sub expect_crash
{
	my ($node, @patterns) = @_;

	push @{ $expected{ $node->logfile } }, @patterns;
	return;
}

# Adds a log to the counts; returns its lines that show an unexpected crash.
sub read_log
{
	my ($file) = @_;
	my @crashes;

	open my $log, '<', $file or die "$file: $!";
	while (my $line = <$log>)
	{
		for my $name (keys %in_log)
		{
			$counts{$name}++ if $line =~ $in_log{$name};
		}
		next if $line !~ $crash;
		push @crashes, $line if !grep { $line =~ $_ } @{ $expected{$file} // [] };
	}
	close $log;
	return @crashes;
}

END
{
	my $status = $?;

	if ($$ == $process)
	{
		my @faults;

		# Only logs of this test, by the names of PostgreSQL::Test::Cluster: with make installcheck all tests share a folder.
		my ($test) = $0 =~ m{([^/]+?)(?:\.[^./]+)?$};

		my @logs = glob("$PostgreSQL::Test::Utils::log_path/${test}_*.log");

		push @faults, "no server log of $test was found" if $n_servers > 0 && !@logs;
		for my $file (@logs)
		{
			my @crashes = eval { read_log($file) };

			push @faults, $@ if $@;
			push @faults, "$file tells of a crash:\n" . join('', @crashes[ 0 .. ($#crashes < $shown ? $#crashes : $shown - 1) ]) if @crashes;
		}
		note('counted: ' . join(' ', map { "$_=" . ($counts{$_} // 0) } sort { $a cmp $b } keys %{ { %counts, %in_log } }));
		push @faults, "$counts{wrong} answers were wrong" if $counts{wrong} > 0;
		push @faults, "$counts{lost} indexes or rows were not what they have to be", @reasons if $counts{lost} > 0;
		# After done_testing no test can be added: the exit status makes this one fail.
		diag($_) for @faults;
		$status ||= 1 if @faults;
	}
	$? = $status;
}

1;
