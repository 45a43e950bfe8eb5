# What a TAP test went through, in figures: how many answers were compared and how often a process or a server died. One line at the
# end of the test, which scripts/test adds up:
#   # counted: answers=120 wrong=0 checks=8 lost=0 worker_deaths=3 recoveries=4 processes_killed=1
# Deaths are read from the logs of the test's servers, so that nothing has to be counted where it is caused.
#
# The test fails if an answer was wrong or a row was lost, and if a server's log tells of a crash: a PANIC, a failed assertion, a process
# of the server or a worker that died of a signal that only its own faults send. Kills (signal 9) are the tests' own. A test
# that causes such a thing says so by expect_crash.
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

# ILL, ABRT, BUS, FPE, SEGV. Two blanks stand behind a severity of the log, and none in a statement that a test speaks of one in.
my $crash = qr/\bPANIC:  |\bTRAP: |\b(?:was terminated|ended) by signal (?:4|6|7|8|11)\b/;
my %expected;    # logfile => patterns
my $shown = 10;  # lines of a log

# answers: compared with those of a sequential scan; wrong: of them; checks: by vectorgpu_check or of a row that was acknowledged;
# lost: of them, those that failed.
sub count
{
	my ($name, $n) = @_;

	die "nothing is counted as $name" if !exists $counts{$name};
	$counts{$name} += $n // 1;
	return;
}

# Lines of a node's log that are no crash although they look like one, since the test itself brings them about.
sub expect_crash
{
	my ($node, @patterns) = @_;

	push @{ $expected{ $node->logfile } }, @patterns;
	return;
}

# Adds a log to the counts; returns its lines that tell of a crash which nobody expected.
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

		# Of this test alone: by make installcheck all have one folder. So PostgreSQL::Test::Cluster names them.
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
		push @faults, "$counts{lost} indexes or rows were not what they have to be" if $counts{lost} > 0;
		# After done_testing no test can be added: the exit status says that this one has failed.
		diag($_) for @faults;
		$status ||= 1 if @faults;
	}
	$? = $status;
}

1;
