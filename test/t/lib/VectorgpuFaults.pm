# test/faults.txt: which test has to reach which fault point, for which access methods. The server logs each point that acts ("fault point … acts"),
# so that a test can prove at its end which it has reached, and can try one call after the other until none is left.
package VectorgpuFaults;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

our @EXPORT = qw(fault_list_file faults_required faults_tried check_faults_reached fault_acted calls_until_clean);

my $this = basename($0, '.pl');

sub fault_list_file { return $ENV{VECTORGPU_FAULT_LIST} // dirname($0) . '/../faults.txt'; }

# The points that this test has to reach for $AM by the list; with `by_chance` also those that it may reach (`?`).
sub points
{
	my ($by_chance) = @_;
	my @names;

	for my $line (split /\n/, slurp_file(fault_list_file()))
	{
		my ($name, $where) = $line =~ /^(\w+)\s+(\S+)\s/ or next;

		for my $entry (split /,/, $where)
		{
			my ($file, $chance, $methods) = $entry =~ /^(\w+)(\??)(?::(\S+))?$/ or die "$name: cannot read $entry";
			my @of = split /\+/, $methods // $AM;

			next if $file ne $this || ($chance && !$by_chance);
			push @names, $name if grep { $_ eq $AM || ($_ eq "$AM/codes" && $ENV{VECTORGPU_STORAGE}) } @of;
		}
	}
	return @names;
}

sub faults_required { return points(0); }
sub faults_tried { return points(1); }

# Whether the server's log after an offset shows that a point acted at a call: the process writes the line before it acts, so before its client
# sees an answer or the connection's end.
sub fault_acted
{
	my ($node, $point, $call, $offset) = @_;

	return slurp_file($node->logfile, $offset) =~ /LOG:  fault point "\Q$point\E" acts at call $call$/m;
}

# Runs TRY for call 1, 2, 3 … until it reports that the point no longer acted; if that may be chance, `tries` in a row have to. Returns the last call
# that acted, and the problem: '', or that calls have no end, since the test must bound them, not this number.
#   most, tries (1), first (1), step (1); every, part (64): after `every` calls n, the next is later by n / part
sub calls_until_clean
{
	my ($try, %opt) = @_;
	my $last = 0;
	my $step = $opt{step} // 1;
	my $every = $opt{every};
	my $part = $opt{part} // 64;

	for (my $call = $opt{first} // 1;; $call += $every && $call > $every && $call > $step * $part ? int($call / $part) : $step)
	{
		return ($last, "call $call still acts; ") if $call > $opt{most};
		my $acted = 0;
		for (1 .. $opt{tries} // 1)
		{
			last if $acted = $try->($call);
		}
		return ($last, '') if !$acted;
		$last = $call;
	}
}

# One test: the servers' logs show every point that this file has to reach for $AM.
sub check_faults_reached
{
	my (@nodes) = @_;
	my %acted;

	for my $node (@nodes)
	{
		$acted{$_} = 1 for slurp_file($node->logfile) =~ /LOG:  fault point "(\w+)" acts at call/g;
	}
	my @names = faults_required();
	my @missing = grep { !$acted{$_} } @names;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(@names > 0 && !@missing, 'each of the ' . @names . " fault points of faults.txt for $AM was reached")
	  || diag(@names ? "not reached: @missing" : "faults.txt has no points for $this");
}

1;
