# The life of an index with key columns: faults and crashes in the middle of inserts, merges and builds, a killed backend, a standby at each step,
# CONCURRENTLY, rewrites, places used again after VACUUM, rows of aborted transactions, HOT and other updates, unlogged and temporary tables, partial
# indexes, partitions, parallel builds, parallel workers, dump and restore, other definitions of a column; vectorgpu_check finds a wrong code.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuTest;

my $node = make_node('key_life', streaming => 1, conf => "wal_consistency_checking = 'generic'\nrestart_after_crash = on\nmax_prepared_transactions = 2\n");
my $faults = faults_enabled($node);
my $vector = random_vector_sql('i', dims => 8);
my $rows = "SELECT i, i % 10, $vector, CASE WHEN i % 11 > 0 THEN i % 50 END, CASE WHEN i % 13 > 0 THEN 'tenant ' || i % 20 END, now() - i * interval '1 h', jsonb_build_object('t', i % 7), "
  . "CASE WHEN i % 17 > 0 THEN ARRAY(SELECT nullif('tag ' || (i * j) % 23, 'tag 3') FROM generate_series(1, i % 6) j) END FROM generate_series";
create_comparer($node);
my $standby = make_standby($node, 'key_life_standby');

# One test: scans with conditions of all kinds agree, of a table of `rows`.
#   on  the node
my @conditions = ('n = 7', 'n < 5', 'n IS NULL', 's = \'tenant 3\'', 's >= \'tenant 12\' AND n <> 20', 'n BETWEEN 10 AND 30 AND v IS NOT NULL', '(j->>\'t\') = \'4\' AND n > 3', 'at < now() - interval \'50 h\'', 's IS NOT NULL', 'tags @> \'{tag 4}\'', 'tags && \'{tag 5,tag 9}\' AND n < 40');
sub conditions_agree
{
	my ($name, %opt) = @_;
	my $table = $opt{table} // 't';
	my $list = join ', ', map { "(\$c\$$_\$c\$)" } @conditions;
	my $sql = "SELECT string_agg(format('%s LIMIT %s: %s', c, k, a), E'\\n') FROM (SELECT c, k, compare_answers('$table', '<->', quote_literal(test_vector(900 + k, 8)) || '::vector', nullif(k, 0), c) AS a "
	  . "FROM (VALUES $list) x (c), (VALUES (10), (0)) y (k)) s WHERE a <> ''";
	# What the index finds by conditions alone.
	my $counts = 'SELECT ' . join(', ', map { "(SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM $table WHERE $_)" } @conditions);
	my ($rc, $out, $err) = ($opt{on} // $node)->psql('postgres', $sql);
	my @found = map { ($opt{on} // $node)->safe_psql('postgres', "SET enable_seqscan = $_; SET enable_indexscan = " . ($_ eq 'on' ? 'off' : 'on') . "; SET enable_bitmapscan = off; SET enable_sort = on; $counts") } qw(on off);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	count("answers", 2 * @conditions);
	is("$out$err" . ($found[0] eq $found[1] ? '' : "by sequential scans $found[0], by the index $found[1]"), '', "$name: scans with conditions agree");
	return;
}

# SQL on the primary, then everything on both servers.
sub step
{
	my ($name, $sql) = @_;

	$node->safe_psql('postgres', $sql);
	wait_standby($node, $standby);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	conditions_agree($name);
	conditions_agree("$name, standby", on => $standby);
	check_index($node, 't_v', name => "$name: check", narrow => 0);
	return;
}

my $columns = "(v vector_l2_ops, n, s, at, (j->>'t'), tags)";
my $table = 'id bigint, category int, v vector(8), n int, s text COLLATE "C", at timestamptz, j jsonb, tags text[]';
$node->safe_psql('postgres', "CREATE TABLE t ($table) WITH (fillfactor = 70)");
step('build', "INSERT INTO t $rows(1, 600) i; CREATE INDEX t_v ON t USING $AM $columns");
step('inserts', "INSERT INTO t $rows(601, 900) i");
step('updates', "UPDATE t SET n = n + 1 WHERE id % 3 = 0; UPDATE t SET category = 3 WHERE id % 4 = 0; UPDATE t SET s = NULL, v = v + v WHERE id % 17 = 0; UPDATE t SET j = '{}' WHERE id % 19 = 0");
step('aborted', "BEGIN; INSERT INTO t $rows(1001, 1100) i; SAVEPOINT a; UPDATE t SET n = 7; ROLLBACK TO a; INSERT INTO t $rows(1101, 1110) i; ROLLBACK; BEGIN; SAVEPOINT a; UPDATE t SET n = 7; ROLLBACK TO a; INSERT INTO t $rows(1201, 1210) i; COMMIT");
step('deletes and VACUUM', 'DELETE FROM t WHERE id % 5 = 0; VACUUM t');
step('places used again', "INSERT INTO t $rows(2001, 2200) i");
step('merge', q{SELECT vectorgpu_merge('t_v')});
step('all places used again', "DELETE FROM t WHERE id % 2 = 0; VACUUM t; INSERT INTO t $rows(3001, 3500) i; SELECT vectorgpu_merge('t_v'); INSERT INTO t $rows(3501, 3600) i");
step('REINDEX', 'REINDEX INDEX t_v');
step('REINDEX CONCURRENTLY', "INSERT INTO t $rows(4001, 4100) i; REINDEX INDEX CONCURRENTLY t_v");
step('VACUUM FULL', 'VACUUM FULL t');
step('CREATE INDEX CONCURRENTLY', "DROP INDEX t_v; CREATE INDEX CONCURRENTLY t_v ON t USING $AM $columns");
step('another type of a column', 'ALTER TABLE t ALTER n TYPE bigint');
step('another collation', 'ALTER TABLE t ALTER s TYPE text COLLATE "POSIX"');
step('a prepared transaction', "BEGIN; INSERT INTO t $rows(5001, 5100) i; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'");
step('a rewrite rolled back', "BEGIN; ALTER TABLE t ALTER n TYPE int; INSERT INTO t $rows(5101, 5110) i; ROLLBACK; BEGIN; TRUNCATE t; ROLLBACK");
is($node->safe_psql('postgres', "SELECT n_tup_hot_upd > 0 FROM (SELECT pg_stat_force_next_flush()) f, pg_stat_user_tables WHERE relname = 't'"), 't', 'an update of a column without an index was HOT');

# --- the other tables ---

for my $kind ('UNLOGGED', 'TEMP')
{
	my $sql = "CREATE $kind TABLE o ($table); CREATE INDEX o_v ON o USING $AM $columns; INSERT INTO o $rows(1, 300) i; UPDATE o SET n = n + 1 WHERE id % 3 = 0;";
	my $answers = q{SELECT string_agg(compare_answers('o', '<->', quote_literal(test_vector(5, 8)) || '::vector', k, c), '') FROM (VALUES ('n = 7'), ('n > 20')) c (c), (VALUES (5), (1000)) k (k);};

	is($node->safe_psql('postgres', "$sql $answers SELECT vectorgpu_merge('o_v') IS NULL; $answers SELECT vectorgpu_check('o_v', true) IS NULL"), "\nf\n\nf", "$kind: scans agree");
}
crash_restart($node);
$node->safe_psql('postgres', "INSERT INTO o $rows(1, 200) i");
conditions_agree('unlogged, after a crash', table => 'o');
$node->safe_psql('postgres', 'ALTER TABLE o SET LOGGED');
conditions_agree('logged', table => 'o');
conditions_agree('after a crash');

$node->safe_psql('postgres', <<SQL);
CREATE TABLE parts ($table) PARTITION BY LIST (category);
CREATE INDEX parts_v ON parts USING $AM $columns;
CREATE TABLE parts0 PARTITION OF parts FOR VALUES IN (0, 1, 2, 3);
CREATE TABLE parts1 PARTITION OF parts DEFAULT;
INSERT INTO parts $rows(1, 600) i;
UPDATE parts SET category = 9 WHERE id % 5 = 0;
CREATE TABLE later ($table);
INSERT INTO later SELECT i, 77, v, n, s, at, j FROM (SELECT id + 10000 AS i, * FROM t) x;
CREATE TABLE parallel ($table);
ALTER TABLE parallel SET (parallel_workers = 4);
INSERT INTO parallel $rows(1, 3000) i;
SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = 4;
CREATE INDEX parallel_v ON parallel USING $AM $columns;
CREATE TABLE part ($table);
INSERT INTO part $rows(1, 1000) i;
CREATE INDEX part_v ON part USING $AM $columns WHERE category < 5;
SQL
conditions_agree('partitions', table => 'parts');
conditions_agree('a parallel build', table => 'parallel');
conditions_agree('a partial index', table => '(SELECT * FROM part WHERE category < 5) part');
is($node->safe_psql('postgres', "SET $PARALLEL_MODE = on; SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM (SELECT id FROM parallel WHERE n = 7 ORDER BY v <-> array_fill(0, ARRAY[8])::vector LIMIT 1000) s"),
	$node->safe_psql('postgres', 'SELECT count(*) FROM parallel WHERE n = 7'), 'in a parallel worker');
check_index($node, $_, narrow => 0) for qw(o_v parts0_v_n_s_at_expr_tags_idx parallel_v part_v);

# --- dump and restore ---

my $dump = $node->backup_dir . '/key_life.sql';
$node->command_ok([ 'pg_dump', '-p', $node->port, '-h', $node->host, '-f', $dump, 'postgres' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-p', $node->port, '-h', $node->host, '-d', 'restored', '-f', $dump ], 'restored');
my $definitions = q{SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid::regclass::text IN ('t', 'o', 'parts', 'part', 'parallel')};
is($node->safe_psql('restored', $definitions), $node->safe_psql('postgres', $definitions), 'the restored indexes are the dumped ones');
is($node->safe_psql('restored', "SELECT string_agg(compare_answers('t', '<->', quote_literal(test_vector(1, 8)) || '::vector', NULL, c), '') FROM (VALUES ('n = 7'), (\$\$s = 'tenant 3'\$\$)) x (c)"), '', 'and answer');

# --- codes that are wrong, definitions that have changed ---

# A function that lies: what the index holds is not what the table's rows say now.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE lies (id bigint, v vector(8), n int);
INSERT INTO lies SELECT i, $vector, i % 50 FROM generate_series(1, 300) i;
CREATE FUNCTION kind(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN \$1; END';
CREATE INDEX lies_v ON lies USING $AM (v vector_l2_ops, kind(n));
SQL
check_index($node, 'lies_v', name => 'before the function changes: check', narrow => 0);
$node->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION kind(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + ($1 = 49)::int; END'});
for my $state ('built', 'inserted', 'merged')
{
	$node->safe_psql('postgres', "INSERT INTO lies SELECT i, $vector, 1 FROM generate_series(1001, 1010) i") if $state eq 'inserted';
	$node->safe_psql('postgres', q{SELECT vectorgpu_merge('lies_v')}) if $state eq 'merged';
	my ($code, $message) = psql_state($node, q{SELECT vectorgpu_check('lies_v', true)});
	is($code, 'XX002', "$state: a wrong code is found");
	like($message, qr/has other codes of its key columns in the index.*REINDEX/s, "$state: the message says it");
}
is($node->safe_psql('postgres', q{SELECT vectorgpu_check('lies_v', false) IS NOT NULL}), 't', 'the pages are sound');
$node->safe_psql('postgres', 'REINDEX INDEX lies_v');
check_index($node, 'lies_v', name => 'rebuilt: check', narrow => 0);

# --- faults ---

SKIP:
{
	skip 'fault points are not built in', 1 unless $faults;
	my %statements = (
		delta_publish => "INSERT INTO t $rows(6001, 6030) i",
		delta_publish_two => "INSERT INTO t $rows(6101, 6900) i",
		chunk_format => "INSERT INTO t $rows(7001, 7900) i",
		meta_publish => "INSERT INTO t $rows(8001, 8800) i",
		merge_row => q{SELECT vectorgpu_merge('t_v')},
		buffer_write => q{SELECT vectorgpu_merge('t_v')},
		merge_publish => q{SELECT vectorgpu_merge('t_v')},
		sort_delta_read => q{SELECT vectorgpu_merge('t_v')},
		vacuum_tombstones => 'VACUUM t',
		vacuum_publish => 'VACUUM t',
		build_publish => 'REINDEX INDEX t_v',
		bulk_write => 'REINDEX INDEX t_v');
	my ($acted, $n) = (0, 0);

	for my $point (sort keys %statements)
	{
		for my $action ('error', 'exit')
		{
			# Some rows are dead and some in the delta.
			$node->safe_psql('postgres', "INSERT INTO t $rows(9001 + 50 * $n, 9050 + 50 * $n) i; DELETE FROM t WHERE id % 40 = $n");
			$n++;
			my ($code) = psql_state($node, "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:" . ($point =~ /delta_publish$/ ? 5 : 1) . ":$action'; $statements{$point}");
			$acted++ if $code ne '00000';
			wait_for_restart($node) if $action eq 'exit' && $code ne '00000';
			conditions_agree("$point, $action");
		}
	}
	cmp_ok($acted, '>=', $n - 6, "the server acted at $acted of $n points");
	check_index($node, 't_v', name => 'after faults: check', narrow => 0);

	# Power failures in the middle of a load.
	for my $turn (1 .. 2)
	{
		my $load = start_load($node, { 'w' => "\\set i random(1000000, 2000000000)\nINSERT INTO t SELECT :i, 1, test_vector(:i, 8)::vector, :i % 50, 'tenant ' || :i % 20, now(), '{}';\nUPDATE t SET n = n + 1 WHERE id = :i - 1;\n",
			'm@1' => "SELECT vectorgpu_merge('t_v');\n", 'd@1' => "DELETE FROM t WHERE id % 97 = (random() * 97)::int;\nVACUUM t;\n" }, seconds => 60, clients => 3);
		sleep 2;
		crash_restart($node);
		$load->{harness}->kill_kill;
		conditions_agree("power failure $turn");
		check_index($node, 't_v', name => "power failure $turn: check", narrow => 0);
	}
}
$standby->promote;
conditions_agree('promoted', on => $standby);
check_index($standby, 't_v', name => 'promoted: check', narrow => 0);
$standby->stop;
$node->stop;
done_testing();
