# Vectorgpu Filtered Scan against sequential scans: random trees of AND, OR and NOT over conditions of every type of a filter class, lists with NULLs and
# without elements, constants, sub-selects, parameters of generic plans; beside parts that no index decides. For each access method, the worker off and on;
# rows built, deleted, inserted, merged. VECTORGPU_SEED.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $each = $ENV{VECTORGPU_LONG} ? 3000 : 60; # trees a step
my $seed = $ENV{VECTORGPU_SEED} // int(rand(1e6));
my $node = make_node('filtered_scans', conf => "fsync = off\nvectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\nvectorgpu.inline_load_size = 1GB\n");
my $has_worker = -x worker_file($node);

note("VECTORGPU_SEED=$seed");
$node->safe_psql('postgres', 'CREATE COLLATION tongue FROM "C"');
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/lib/key_conditions.sql"));
$node->safe_psql('postgres', 'SELECT setseed(' . ($seed % 1000 / 1000) . '); SELECT add_rows(1, 900); ANALYZE k; SELECT note_facts()');

# One test: random trees. Many have the plan, few pass all rows, some none.
sub try_trees
{
	my ($name, $worker, $distance) = @_;
	my $sql = "SET vectorgpu.worker = $worker; DO 'BEGIN PERFORM setseed(" . ($seed++ % 1000 / 1000) . "); END';"
	  . "SELECT n_tried, n_filtered > n_tried / 5, n_rows > n_tried, array_to_string(wrong[1:3], E'\\n'), cardinality(wrong) FROM try_conditions($each, true, '$distance')";
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my ($wrong) = $out =~ /\|(\d+)$/;

	count('answers', $each);
	count('wrong', $wrong // 1);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$out$err", "$each|t|t||0", "$name, worker $worker: $each trees") or diag("seed $seed");
	return;
}

# The first column with its class, the distance to a random %s, and whether further columns of text and of arrays need their classes by name.
my @methods = (
	[ 'gpuflat', 'v vector_l2_ops', 'v <-> %s', 0 ],
	[ 'gpuivf', 'v vector_l2_ops', 'v <-> %s', 0 ],
	[ 'gpugraph', 'v vector_l2_ops', 'v <-> %s', 0 ],
	[ 'gpumatch', 'ia', 'ia <#> %s', 1 ]);

for (@methods)
{
	my ($method, $first, $distance, $named) = @$_;
	my ($text, $array) = $named ? ('text_filter_ops', 'array_filter_ops') : ('', '');
	my $columns = "b, c, i2, i4, i8, o, f4, f8, n, dy, t, ts, tz, s $text, l $text, vc $text, u, y, e, a, dom, (m->>'tenant') $text, (i4 % 10), ta $array, tl $array" . ($named ? '' : ', ia');

	$node->safe_psql('postgres', "CREATE INDEX ki ON k USING $method ($first, $columns)");
	$node->safe_psql('postgres', "DELETE FROM k WHERE id % 7 = 0; SELECT setseed(0.5); SELECT add_rows(2001, 2200); UPDATE k SET b = NOT b WHERE id % 5 = 0");
	try_trees("$method, delta", 'off', $distance);
	SKIP:
	{
		skip 'the worker is not installed', 2 if !$has_worker;
		wait_until(sub { return $node->safe_psql('postgres', q{SELECT count(*) FROM vectorgpu_worker WHERE ready}) || $node->safe_psql('postgres',
			'SET vectorgpu.worker = on; SET enable_seqscan = off; SELECT count(*) * 0 FROM (SELECT id FROM k ORDER BY ' . sprintf($distance, $named ? q{'{1}'} : q{'[1,1,1,1,1,1,1,1]'}) . ' LIMIT 1) s') });
		by_worker($node, $method, sub { try_trees("$method, delta", 'on', $distance) });
	}
	$node->safe_psql('postgres', q{SELECT vectorgpu_merge('ki')});
	try_trees("$method, merged", $has_worker ? 'on' : 'off', $distance);
	check_index($node, 'ki', name => "$method: check", recall => 0);
	$node->safe_psql('postgres', 'DROP INDEX ki; DELETE FROM k WHERE id > 2000; SELECT setseed(0.6); SELECT add_rows(1 + max(id)::int, 1 + max(id)::int + 120) FROM k; VACUUM k');
}

# A row that a lock waits for is read again: its new version has to meet the conditions that the index decided.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE locked (id int, tenant int, note text, v vector(128));
INSERT INTO locked SELECT i, i % 40, '', array_fill(i, ARRAY[128])::vector FROM generate_series(1, 600) i;
CREATE INDEX ON locked USING gpuflat (v vector_l2_ops, tenant);
ANALYZE locked;
SQL
my $query = 'SELECT id, tenant, note FROM locked WHERE tenant IN (1, 2) ORDER BY v <-> array_fill(0, ARRAY[128])::vector LIMIT 3 FOR UPDATE';

like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Vectorgpu Filtered Scan/, 'locked: plan');
for ([ 'tenant = 9', "2|2|\n41|1|\n42|2|" ], [ q{note = 'new', tenant = 2}, "1|2|new\n2|2|\n41|1|" ], [ q{note = 'newer'}, "1|2|newer\n2|2|\n41|1|" ])
{
	my ($change, $expected) = @$_;
	my ($holder, $waiter) = map { $node->background_psql('postgres') } 1, 2;

	$holder->query_safe("BEGIN; UPDATE locked SET $change WHERE id = 1");
	$waiter->query_until(qr/begun/, "\\echo begun\n$query;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) or die 'no session waits';
	$holder->query_safe('COMMIT');
	is($waiter->query(''), $expected, "locked: $change");
	$holder->quit;
	$waiter->quit;
	$node->safe_psql('postgres', 'UPDATE locked SET tenant = 1 WHERE id = 1') if $change eq 'tenant = 9';
}

$node->stop;
done_testing();
