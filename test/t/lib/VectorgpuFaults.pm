# test/faults.txt: which test has to reach which fault point, for which access methods. What acts is in the server's log ("fault point … acts"),
# so that a test can prove at its end what it has reached.
package VectorgpuFaults;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

our @EXPORT = qw(fault_list_file faults_required faults_tried check_faults_reached);

my $this = basename($0, '.pl');

sub fault_list_file { return $ENV{VECTORGPU_FAULT_LIST} // dirname($0) . '/../faults.txt'; }

# The points of which the list says that this test reaches them for $AM; with `by_chance` also those that it may reach (`?`).
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

# One test: the servers' logs tell of every point that this file has to reach for $AM.
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
