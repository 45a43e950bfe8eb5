# ALTER EXTENSION UPDATE (F46): the SQL objects of each earlier version under this version's library, with indexes of every access method: answers,
# changes, vacuum, merges, the check and the views before the update, and the same indexes after it. 061_recall_samples.pl
# checks that the objects are those of a new installation.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

my $node = make_node('update');
my @versions = split /\n/, $node->safe_psql('postgres',
	q{SELECT version FROM pg_available_extension_versions WHERE name = 'vectorgpu' AND NOT installed ORDER BY version});
cmp_ok(scalar @versions, '>', 0, "earlier versions: @versions");

# table, column type, index, a value of i, question
my @kinds = (
	[ 'gpuflat',  'vector(8)', '(v vector_l2_ops)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'} ],
	[ 'gpuivf',   'vector(8)', '(v vector_l2_ops) WITH (lists = 10)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'} ],
	[ 'gpugraph', 'vector(8)', '(v vector_l2_ops)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'} ],
	[ 'gpumatch', 'int[]', '(v)', '(SELECT array_agg(d * 10 + (hashint8extended(i * 8 + d, 5) & 7)::int) FROM generate_series(1, 8) d)', q{'<#>', '''{11,22,33,47,50}''::int[]'} ]);

for my $version (@versions)
{
	my $db = 'old_' . $version =~ tr/./_/r;
	my $extension = sub { return $node->safe_psql($db, q{SELECT extversion FROM pg_extension WHERE extname = 'vectorgpu'}); };
	my $next = 1;
	my $add = sub { my ($table, $value, $n) = @_; $node->safe_psql($db, "INSERT INTO $table SELECT i, i % 10, $value FROM generate_series($next, $next + $n - 1) i"); $next += $n; };
	my $sound = sub {
		my ($when) = @_;

		for my $kind (@kinds)
		{
			my ($table, undef, undef, undef, $asked) = @$kind;

			is($node->safe_psql($db, "SELECT compare_answers('$table', $asked, 20) || compare_answers('$table', $asked)"), '', "$version, $when: $table, both scans agree");
			# The narrow scans of check_index need functions of this version.
			check_index($node, "${table}_v", db => $db, narrow => $when =~ /update/ ? 1 : 0, name => "$version, $when: $table, check");
		}
	};
	my $change = sub {
		for my $kind (@kinds)
		{
			my ($table, undef, undef, $value) = @$kind;

			$add->($table, $value, 60);
			$node->safe_psql($db, "DELETE FROM $table WHERE id % 9 = 4");
			$node->safe_psql($db, "VACUUM (INDEX_CLEANUP on) $table");
			$add->($table, $value, 20);
			$node->safe_psql($db, "SELECT vectorgpu_merge('${table}_v')");
			$add->($table, $value, 10);
		}
	};

	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION vectorgpu VERSION '$version'");
	create_comparer($node, db => $db);
	for my $kind (@kinds)
	{
		my ($table, $type, $index, $value) = @$kind;

		$node->safe_psql($db, "CREATE TABLE $table (id bigint, category int, v $type)");
		$add->($table, $value, 400);
		$node->safe_psql($db, "CREATE INDEX ${table}_v ON $table USING $table $index");
	}
	is($extension->(), $version, "objects of $version");
	$sound->('as built');
	$change->();
	$sound->('changed');
	is($node->safe_psql($db, "SELECT count(*), bool_and(is_valid), bool_or(needs_reindex) FROM vectorgpu_indexes"), '4|t|f', "$version: the view of indexes");
	is($node->safe_psql($db, 'SELECT count(*) FROM vectorgpu_worker'), '1', "$version: the view of the worker");

	$node->safe_psql($db, 'ALTER EXTENSION vectorgpu UPDATE');
	isnt($extension->(), $version, "$version is updated");
	is($node->safe_psql($db, "SELECT count(*), bool_and(is_valid), bool_or(needs_reindex) FROM vectorgpu_indexes"), '4|t|f', "$version, after the update: its indexes need no REINDEX");
	$sound->('after the update');
	$change->();
	$sound->('changed after the update');
	for my $kind (@kinds)
	{
		my ($table, undef, $index) = @$kind;

		$node->safe_psql($db, "REINDEX INDEX ${table}_v; CREATE INDEX ${table}_x ON $table USING $table $index; DROP INDEX ${table}_x");
	}
	$sound->('rebuilt after the update');
	$node->safe_psql($db, 'DROP EXTENSION vectorgpu CASCADE');
	is($node->safe_psql($db, q{SELECT count(*) FROM pg_class WHERE relkind = 'i' AND relname LIKE 'gpu%'}), '0', "$version: nothing is left behind");
	$node->safe_psql('postgres', "DROP DATABASE $db");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|ERROR:/, 'no error, no crash');
$node->stop;
done_testing();
