# For the long runs of every test with a worker (matrix-tap): counts the batches of rows that workers answered, by the view
# vectorgpu_worker just before a server stops in an orderly way or the test ends. One line at the end of the test, which scripts/test adds up:
#   # counted: answered=120
# Loaded by `perl -MVectorgpuAnswered`; the tests do not depend on it. Counts before a crash of a server are lost.
package VectorgpuAnswered;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use Test::More;

my $process = $$;
my %running;
my $answered = 0;

# The result of a query, or the empty string: a server that does not answer is not counted.
sub ask
{
	my ($node, $sql) = @_;
	my $out = '';
	my $rc = eval { $node->psql('postgres', $sql, stdout => \$out, timeout => 10, timed_out => \my $late) } // 1;

	return $rc == 0 ? $out : '';
}

# Logs no error if the extension does not exist.
sub count_node
{
	my ($node) = @_;
	my $view = ask($node, "SELECT c.oid::regclass FROM pg_class c WHERE c.relname = 'vectorgpu_worker' AND c.relkind = 'v'");

	delete $running{ $node->name };
	my $n = $view eq '' ? '' : ask($node, "SELECT answered FROM $view");
	$answered += $n if $n =~ /^\d+$/;
	return;
}

{
	no warnings 'redefine';
	my ($start, $stop) = (\&PostgreSQL::Test::Cluster::start, \&PostgreSQL::Test::Cluster::stop);

	*PostgreSQL::Test::Cluster::start = sub {
		my ($node) = @_;

		$running{ $node->name } = $node;
		return $start->(@_);
	};
	*PostgreSQL::Test::Cluster::stop = sub {
		my ($node, $mode) = @_;

		count_node($node) if $$ == $process && $running{ $node->name } && ($mode // 'fast') ne 'immediate';
		delete $running{ $node->name };
		return $stop->(@_);
	};
}

END
{
	my $status = $?;

	if ($$ == $process)
	{
		count_node($_) for values %running;
		note("counted: answered=$answered");
	}
	$? = $status;
}

1;
