# ALTER EXTENSION UPDATE (F46): the SQL objects of each earlier version under this version's library, with indexes of every access method: answers,
# changes, vacuum, merges, every function, the check and the views before the update, and the same indexes after it, also by a session that was open
# before. Filtered scans over the old indexes, before and after; key columns need objects of this version and a new index. 061_recall_samples.pl checks that
# the objects are those of a new installation.
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

# table, column type, index, a value of i, question as arguments of compare_answers, as operator and operand
my @kinds = (
	[ 'gpuflat',  'vector(8)', '(v vector_l2_ops)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'}, '<->', 'test_vector(7, 8)::vector' ],
	[ 'gpuivf',   'vector(8)', '(v vector_l2_ops) WITH (lists = 10)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'}, '<->', 'test_vector(7, 8)::vector' ],
	[ 'gpugraph', 'vector(8)', '(v vector_l2_ops)', random_vector_sql('i', dims => 8), q{'<->', quote_literal(test_vector(7, 8)) || '::vector'}, '<->', 'test_vector(7, 8)::vector' ],
	[ 'gpumatch', 'int[]', '(v)', '(SELECT array_agg(d * 10 + (hashint8extended(i * 8 + d, 5) & 7)::int) FROM generate_series(1, 8) d)', q{'<#>', '''{11,22,33,47,50}''::int[]'}, '<#>', q{'{11,22,33,47,50}'::int[]} ]);

sub by_index { return "SET enable_seqscan = off; SET enable_sort = off; $_[0]"; }
sub by_table { return "SET enable_indexscan = off; SET enable_bitmapscan = off; $_[0]"; }

# Each function of the extension is in this library; those that take an index alone answer, or say what is missing.
sub functions_work
{
	my ($db, $when) = @_;
	my $own = "pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'vectorgpu'";
	my ($rc, $out, $err) = $node->psql($db, "SELECT count(fmgr_c_validator(p.oid)::text) > 100 FROM $own WHERE prolang = 13 AND prokind = 'f'");

	is("$out$err", 't', "$when: functions are in this library");
	my @calls = split /\n/, $node->safe_psql($db, "SELECT p.proname FROM $own WHERE p.pronargs - p.pronargdefaults = 1 AND p.proargtypes[0] = 'regclass'::regtype ORDER BY 1");

	cmp_ok(scalar @calls, '>', 3, "$when: functions of an index: @calls");
	for my $kind (@kinds)
	{
		my @failed;

		for my $call (@calls)
		{
			my ($state, $error) = psql_state($node, "SELECT $call('$kind->[0]_v')", db => $db);

			push @failed, "$call: $error" if $state !~ /^(00000|0A000|22023|42809)$/;
		}
		is("@failed", '', "$when: they answer for $kind->[0]");
	}
	return;
}

# A filtered scan whose rows come from a btree's bitmap.
sub filtered
{
	my ($db, $when, $kind) = @_;
	my ($table, undef, undef, undef, undef, $op, $query) = @$kind;
	my $sql = "SELECT v $op $query AS d FROM $table WHERE id < 12 AND category IN (1, 2, 3, 5, 6) ORDER BY v $op $query LIMIT 3";
	my $answer = "SELECT array_agg(d ORDER BY n) FROM (SELECT d, row_number() OVER () AS n FROM ($sql) s) s";

	$node->safe_psql($db, "CREATE INDEX IF NOT EXISTS ids_of_$table ON $table (id); ANALYZE $table");
	like($node->safe_psql($db, by_index("EXPLAIN $sql")), qr/Vectorgpu Filtered Scan.*${table}_v.*ids_of_$table/s, "$when: $table, a filtered scan");
	is($node->safe_psql($db, by_index($answer)), $node->safe_psql($db, by_table($answer)), "$when: $table, and its rows");
	return;
}

# The last update in a server that has the library of an earlier release in memory, for which plpgsql stands: it has no such function.
my $update = $node->config_data('--sharedir') . "/extension/vectorgpu--$versions[-1]--" . $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'vectorgpu'}) . '.sql';
my ($probe) = slurp_file($update) =~ /^(DO \$script\$.*?^\$script\$;)/ms;
for my $case ([ 'plpgsql', '55000', qr/is that of an earlier release\nHINT:  .*restart the server/ ], [ 'vectorgpu', '00000', qr/^$/ ])
{
	my ($library, $expected, $says) = @$case;
	my ($state, $err) = psql_state($node, $probe =~ s/MODULE_PATHNAME/\$libdir\/$library/r);

	is($state, $expected, "the update with the library $library in memory");
	like($err, $says, 'and what it says');
}

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
	functions_work($db, $version);
	filtered($db, "$version, before the update", $_) for @kinds;
	for my $kind (@kinds)
	{
		my ($table) = @$kind;
		my ($state, $error) = psql_state($node, "CREATE INDEX ON $table USING $table (v, category)", db => $db);

		is($state, '42704', "$version: $table has no class for key columns") or diag($error);
	}
	my $open = $node->background_psql($db);
	my $prepared = join "\n", 'SET enable_seqscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan;',
	  map { my ($table, $op, $query) = @$_[ 0, 5, 6 ]; "PREPARE ask_$table (int) AS SELECT id FROM $table ORDER BY v $op $query, id LIMIT \$1;" } @kinds;
	my $ask = join ' ', map { "EXECUTE ask_$_->[0] (7); SELECT count(*) FROM vectorgpu_indexes WHERE table_name = '$_->[0]';" } @kinds;

	$open->query_safe($prepared);
	my $answers = $open->query_safe($ask);
	is(scalar(split /\n/, $answers), 32, "$version: an open session is answered");

	$node->safe_psql($db, 'ALTER EXTENSION vectorgpu UPDATE');
	isnt($extension->(), $version, "$version is updated");
	is($open->query_safe($ask), $answers, "$version, after the update: the open session has the same answers");
	$open->quit;
	functions_work($db, "$version, after the update");
	filtered($db, "$version, after the update", $_) for @kinds;
	is($node->safe_psql($db, "SELECT count(*), bool_and(is_valid), bool_or(needs_reindex) FROM vectorgpu_indexes"), '4|t|f', "$version, after the update: its indexes need no REINDEX");
	$sound->('after the update');
	$change->();
	$sound->('changed after the update');
	for my $kind (@kinds)
	{
		my ($table, undef, $index, undef, undef, $op, $query) = @$kind;
		my $where = "WHERE category IN (1, 3) ORDER BY v $op $query";

		# The old index is there, and has no codes of the column.
		$node->safe_psql($db, "CREATE INDEX ${table}_k ON $table USING $table (v, category)");
		like($node->safe_psql($db, "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; EXPLAIN SELECT id FROM $table $where LIMIT 5"), qr/${table}_k\b/, "$version, after the update: $table, the index with a key column decides");
		is($node->safe_psql($db, by_index("SELECT id FROM $table $where, id LIMIT 9")), $node->safe_psql($db, by_table("SELECT id FROM $table $where, id LIMIT 9")), "$version, after the update: $table, and is right");
		check_index($node, "${table}_k", db => $db, name => "$version, after the update: $table, check of an index with a key column");
		$node->safe_psql($db, "DROP INDEX ${table}_k");

		$node->safe_psql($db, "REINDEX INDEX ${table}_v; CREATE INDEX ${table}_x ON $table USING $table $index; DROP INDEX ${table}_x");
	}
	$sound->('rebuilt after the update');
	$node->safe_psql($db, 'DROP EXTENSION vectorgpu CASCADE');
	is($node->safe_psql($db, q{SELECT count(*) FROM pg_class WHERE relkind = 'i' AND relname LIKE 'gpu%'}), '0', "$version: nothing is left behind");
	$node->safe_psql('postgres', "DROP DATABASE $db");
}
(my $log = slurp_file($node->logfile)) =~ s/ERROR:  data type integer has no default operator class for access method//g;
$log =~ s/ERROR:  the library of vectorgpu in this server's memory is that of an earlier release//;
unlike($log, qr/PANIC|TRAP|terminated by signal|ERROR:/, 'no other error, no crash');
$node->stop;
done_testing();
