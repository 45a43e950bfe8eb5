# A merge of gpugraph with few changes inserts into the graph of its largest segment: the index is sound and has the recall of a new index; after enough
# such merges the graph is rebuilt; an error leaves the old index.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main', conf => "autovacuum = off\nvectorgpu.auto_merge = off\nvectorgpu.worker = off\nmaintenance_work_mem = 256MB\n");
my $rows = 8000;

# Overlapping clusters.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v vector(12));
CREATE FUNCTION point(i int) RETURNS vector LANGUAGE sql IMMUTABLE AS $$
	SELECT ARRAY(SELECT (sin((i % 20) * 7.3 + j * 1.7) + 0.7 * sin(i * 12.9898 + j * 78.233 + (i * j) % 977))::real FROM generate_series(1, 12) j)::vector $$;
SQL
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series(1, $rows) i");
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpugraph (v vector_l2_ops)');

$node->safe_psql('postgres', 'CREATE TABLE queries AS SELECT point(q * 101 + 7) AS v FROM generate_series(100001, 100200) q');

# The share of the 10 nearest rows of 200 points that a narrow search finds.
sub recall
{
	return $node->safe_psql('postgres', <<'SQL');
CREATE TEMP TABLE near AS SELECT q.v, (SELECT array_agg(id) FROM (SELECT id FROM t ORDER BY (t.v <-> q.v) + 0.0, id LIMIT 10) x) AS ids FROM queries q;
SET enable_seqscan = off; SET enable_sort = off; SET gpugraph.search_width = 16;
SELECT avg((SELECT count(*) FROM (SELECT id FROM t ORDER BY t.v <-> near.v LIMIT 10) x WHERE id = ANY (near.ids)) / 10.0)::numeric(6, 4) FROM near;
SQL
}

# Merges; returns true if it inserted, and the server's messages.
my $said;

sub merged
{
	my ($settings) = @_;
	my $out;

	$node->psql('postgres', 'SET client_min_messages = debug1; ' . ($settings // '') . " SELECT vectorgpu_merge('i')",
		stdout => \$out, stderr => \$said, on_error_die => 1);
	return scalar $said =~ /the graph of \d+ rows was made from one of/;
}

sub check_as_anew
{
	my ($name) = @_;

	check_index($node, 'i', name => $name);
	my $found = recall();
	$node->safe_psql('postgres', 'CREATE TABLE copied AS SELECT * FROM t ORDER BY ctid; ALTER TABLE t RENAME TO merged; ALTER TABLE copied RENAME TO t; '
		  . 'CREATE INDEX anew ON t USING gpugraph (v vector_l2_ops)');
	my $anew = recall();
	$node->safe_psql('postgres', 'DROP TABLE t; ALTER TABLE merged RENAME TO t');
	cmp_ok($found, '>=', $anew - 0.005, "$name: recall is $found, and $anew of an index that is built anew");
	return;
}

# A tenth of new rows, some with reused TIDs of rows that vacuum has removed.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 25 = 3; VACUUM (INDEX_CLEANUP ON) t');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1, $rows + 600) i");
is($node->safe_psql('postgres', "SELECT count(*) > 100 FROM t WHERE id > $rows AND ctid < (SELECT max(ctid) FROM t WHERE id <= $rows)"),
	't', 'new rows have the TIDs of rows that are gone');
ok(merged(), 'a merge that changes a tenth inserts');
check_as_anew('after a merge by insertion');

# Changes add up over merges.
$node->safe_psql('postgres', "INSERT INTO t SELECT i, CASE WHEN i % 50 > 0 THEN point(i) END FROM generate_series($rows + 601, $rows + 1000) i");
ok(merged(), 'a second one inserts');
check_index($node, 'i', name => 'after two of them');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1001, $rows + 1400) i");
ok(!merged(), 'with a third one the changes are too many for insertion, and the graph is rebuilt');
check_as_anew('after a merge that builds anew');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1401, $rows + 1800) i");
ok(merged(), 'then insertion serves again');

# Updates of another column: each row takes the place of its older version in the graph, in the order that free space gives.
$node->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN note text');
my $found_before = recall();
for my $round (1 .. 2)
{
	$node->safe_psql('postgres', "UPDATE t SET note = '$round'; UPDATE t SET note = note || '.'");
	$node->psql('postgres', "SET client_min_messages = debug1; VACUUM (INDEX_CLEANUP ON) t", stderr => \$said);
	like($said, qr/the graph of (\d+) rows was made from one of \1, of which \1 are left/, 'a VACUUM after updates of another column keeps the graph');
	check_index($node, 'i', name => "after round $round of such updates");
	cmp_ok(abs(recall() - $found_before), '<=', 0.002, 'which finds what it found before');
}
# Some vectors change too.
$node->safe_psql('postgres', "UPDATE t SET note = 'x', v = CASE WHEN id % 20 = 0 THEN point(id + 50000) ELSE v END; VACUUM (INDEX_CLEANUP ON) t");
check_as_anew('after updates of another column, and of some vectors');

# Little memory, and other reasons to rebuild.
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1801, $rows + 1810) i");
$node->safe_psql('postgres', "ALTER SYSTEM SET maintenance_work_mem = '1MB'");
$node->reload;
ok(!merged(), 'without memory for an insertion there are several graphs');
$node->safe_psql('postgres', "ALTER SYSTEM RESET maintenance_work_mem");
$node->reload;
$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1811, $rows + 1820) i");
ok(!merged(), 'several graphs become one new graph');
check_index($node, 'i', name => 'after merges that rebuilt the graph');

if (faults_enabled($node))
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($rows + 1821, $rows + 2000) i");
	my $before = recall();

	$node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'graph_insert:1:error'; SELECT vectorgpu_merge('i')");
	check_index($node, 'i', name => 'after an error in a merge by insertion');
	is(recall(), $before, 'which has changed nothing');
	ok(merged(), 'the next merge inserts');
	check_as_anew('in the end');
}

# By the worker.
my $resources;
SKIP:
{
	skip 'the worker is not installed', 1 unless -x worker_file($node);
	my $last = $node->safe_psql('postgres', 'SELECT max(id) FROM t');
	my $insert = sub {
		my ($n) = @_;

		$node->safe_psql('postgres', "INSERT INTO t SELECT i, point(i) FROM generate_series($last + 1, $last + $n) i");
		$last += $n;
	};

	$node->safe_psql('postgres', 'REINDEX INDEX i'); # changes are counted from here on
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 600s\n");
	$node->restart;
	ok(wait_worker($node), 'the worker is ready');
	$resources = note_resources($node);
	$insert->(300);
	ok(merged(), 'a merge with a worker inserts');
	like($said, qr/the worker has built the graph of \d+ rows by insertion/, '... and the worker does it');
	check_as_anew('after an insertion by the worker');

	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	# As with a GPU, where a rebuild is faster unless few rows change.
	my $exact = "SET vectorgpu.fault = 'graph_worker_exact:1:corrupt";

	$insert->(100);
	ok(merged("$exact';"), 'with a GPU a merge with few changes inserts');
	like($said, qr/by insertion/, '... by the worker');
	$insert->(600);
	ok(!merged("$exact';"), 'one with more changes rebuilds');
	my $how = $node->safe_psql('postgres', 'SELECT engine FROM vectorgpu_worker') eq 'cuda' ? ', neighbors by exact searches' : '';
	like($said, qr/the worker has built the graph of \d+ rows\Q$how\E$/m, '... by the worker');
	check_as_anew('after a merge as beside a GPU');
	$insert->(700);
	ok(merged("$exact,bridge_send:3:corrupt';"), 'one whose rebuild fails inserts');
	check_as_anew('after that');
	check_faults_reached($node);
}

check_resources($node, $resources) if defined $resources;
check_stopped($node);
done_testing();
