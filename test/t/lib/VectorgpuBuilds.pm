# Builds that are cancelled or killed at moments over their whole duration, and the files that they leave in the data folder: each must belong to a
# relation. (After a crash PostgreSQL itself leaves the file of an unfinished index that has no row in pg_class yet.)
package VectorgpuBuilds;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

our @EXPORT = qw(orphans unowned_bytes cancel_builds);

# Non-empty files of a database that belong to no relation: FILE => bytes. Dropped files are truncated at once and removed by the next checkpoint.
# Files of temporary tables have other names.
sub orphans
{
	my ($node, $db) = @_;
	my ($oid, @owned) = split /\n/, $node->safe_psql($db // 'postgres',
		'SELECT oid FROM pg_database WHERE datname = current_database(); '
		  . q{SELECT pg_relation_filenode(oid) FROM pg_class WHERE relpersistence <> 't' AND pg_relation_filenode(oid) IS NOT NULL});
	my %owned = map { $_ => 1 } @owned;
	my %left;

	for my $file (glob($node->data_dir . "/base/$oid/*"))
	{
		my ($name, $number) = $file =~ m{/((\d+)[^/]*)$} or next;

		$left{$name} = -s $file if !$owned{$number} && -s $file;
	}
	return %left;
}

# Bytes in a database's folder beyond those of its relations.
sub unowned_bytes
{
	my ($node) = @_;
	my $bytes = data_folder_bytes($node);

	return $bytes - $node->safe_psql('postgres', <<'SQL');
SELECT sum(pg_relation_size(oid, f)) FROM pg_class, unnest('{main,fsm,vm,init}'::text[]) f
WHERE relpersistence <> 't' AND NOT relisshared AND pg_relation_filenode(oid) IS NOT NULL
SQL
}

# Other possible leftovers of a cancelled build: files for its rows and edges.
sub temporary_files
{
	my ($node) = @_;

	return glob($node->data_dir . '/base/pgsql_tmp/*');
}

# Two tests for each command that builds an index: after cancels at many moments, alternately by statement_timeout and by another session, it leaves nothing in
# the data folder, an invalid index can be dropped, and inserts work. And one: it was cancelled at all.
#   commands   { name => SQL }; those that replace an index have it before and after
#   moments    n: this many at random within the duration of the command; or a list of ms
#   leftovers  names of indexes to be dropped afterwards
#   between    returns SQL to run after each of them
sub cancel_builds
{
	my ($node, %opt) = @_;
	my $drop = join '', map { "DROP INDEX IF EXISTS $_; " } @{ $opt{leftovers} };
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = session_pid($session);
	my $before = unowned_bytes($node);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $what (sort keys %{ $opt{commands} })
	{
		my $sql = $opt{commands}{$what};
		my ($cancelled, @problems) = (0);
		my @moments = @{ ref $opt{moments} ? $opt{moments} : [] };

		if (!@moments)
		{
			my $start = time;
			$node->safe_psql('postgres', $sql);
			my $ms = (time - $start) * 1000;
			@moments = map { 1 + int(rand($ms)) } 1 .. $opt{moments};
			$node->safe_psql('postgres', $drop);
		}
		for my $try (0 .. $#moments)
		{
			my $ms = $moments[$try];
			my $error;

			if ($try % 2 == 0)
			{
				my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '${ms}ms'; $sql");
				$error = $err =~ /ERROR: +(.*)/ ? $1 : '';
			}
			else
			{
				$session->{stderr} = '';
				$session->{stdin} .= with_storage("$sql;\n");
				$session->{run}->pump_nb;
				sleep $ms / 1000;
				$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
				push @problems, "$ms ms: the session does not go on" if ($session->query(q{SELECT 'on'}) // '') !~ /on$/;
				$error = $session->{stderr} =~ /ERROR: +(.*)/ ? $1 : '';
			}
			$cancelled++ if $error =~ /^canceling statement due to/;
			push @problems, "$ms ms: $error" if $error !~ /^(?:canceling statement due to (?:statement timeout|user request))?$/;
			my $invalid = $node->safe_psql('postgres', 'SELECT string_agg(indexrelid::regclass::text, \' \') FROM pg_index WHERE NOT indisvalid');
			push @problems, "$ms ms: $invalid is there and not valid" if $invalid ne '' && $what !~ /CONCURRENTLY/;
			$node->safe_psql('postgres', $drop . $opt{between}->($try));
			my %left = orphans($node);
			push @problems, "$ms ms: no relation owns " . join(', ', map { "$_ ($left{$_} bytes)" } sort keys %left) if %left;
			push @problems, "$ms ms: left " . join(' ', temporary_files($node)) if temporary_files($node);
		}
		is(join("\n", @problems), '', "$what was cancelled $cancelled times of " . @moments . ': nothing is left of it');
		cmp_ok($cancelled, '>', 0, "$what was cancelled");
	}
	$session->quit;
	# The folder grows by its relations, including dead rows of the catalogs. A background merge may lengthen one meanwhile.
	my $after;
	ok(wait_until(sub { ($after = unowned_bytes($node)) == $before }), 'the data folder has what its relations have, as before')
	  or diag("$before bytes that are no relation's before, $after after");
	return;
}

1;
