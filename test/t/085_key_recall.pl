# Recall of conditions on key columns: from .05 to 50 % of the rows, chosen without regard to the query, near it, or far from it. All are found where at most
# 10 % pass; above, the target's share less a margin for 30 queries. From the pages and by the worker, after inserts and merges too.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('key_recall', conf => "fsync = off\ngpuivf.probes = 0\ngpugraph.search_width = 0\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\n");
my $n = 12000;

# 40 clusters; s is a projection of a row, so that rows with an s like the query's are near.
$node->safe_psql('postgres', <<SQL);
SELECT setseed(0.5);
CREATE TABLE r AS SELECT i AS id, abs(hashint4(i)::bigint) % 10000 AS h, (SELECT array_agg((random() - .5) * 3 + 10 * sin(i % 40 * 0.7 * d) + 0 * i) FROM generate_series(1, 16) d)::vector(16) AS v FROM generate_series(1, $n) i;
ALTER TABLE r ALTER v TYPE vector(16), ADD s float8;
UPDATE r SET s = (SELECT sum(e) FROM unnest(v::real[]) e);
CREATE FUNCTION nearest(q vector, condition text, by_index bool) RETURNS int[] LANGUAGE plpgsql AS \$\$
DECLARE
	ids int[];
BEGIN
	PERFORM set_config('enable_seqscan', (NOT by_index)::text, true), set_config('enable_sort', (NOT by_index)::text, true), set_config('enable_indexscan', by_index::text, true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM r WHERE %s ORDER BY v <-> %L LIMIT 10) s', condition, q) INTO ids;
	RETURN ids;
END \$\$;
-- 30 queries; for each share of the rows how far their s may lie, or has to.
CREATE TABLE ask AS SELECT id, v, s FROM r WHERE id % ($n / 30) = 7;
CREATE TABLE conditions AS SELECT a.id, p, kind, CASE kind WHEN 'any' THEN format('h < %s', (10000 * p)::int) WHEN 'near' THEN format('s BETWEEN %s AND %s', a.s - near, a.s + near)
		WHEN 'far' THEN format(CASE WHEN a.s > middle THEN 's < %s' ELSE 's > %s' END, CASE WHEN a.s > middle THEN low ELSE high END) END AS condition
	FROM ask a, (VALUES (.0005), (.01), (.09), (.2), (.5)) x (p), (VALUES ('any'), ('near'), ('far')) y (kind),
	LATERAL (SELECT percentile_disc(p) WITHIN GROUP (ORDER BY abs(r.s - a.s)) AS near, percentile_disc(p) WITHIN GROUP (ORDER BY r.s) AS low, percentile_disc(1 - p) WITHIN GROUP (ORDER BY r.s) AS high,
		percentile_disc(.5) WITHIN GROUP (ORDER BY r.s) AS middle FROM r) z;
CREATE TABLE truth (id int, p numeric, kind text, ids int[]);
ANALYZE;
CREATE INDEX r_v ON r USING $AM (v vector_l2_ops, h, s);
SQL
my $target = $AM eq 'gpuflat' ? 1 : 0 + $node->safe_psql('postgres', "LOAD 'vectorgpu'; SHOW $AM.recall_target");

sub recall
{
	my ($name, $worker) = @_;
	my $rows = $node->safe_psql('postgres', "SET vectorgpu.worker = $worker; TRUNCATE truth; INSERT INTO truth SELECT c.id, p, kind, nearest(v, condition, false) FROM conditions c JOIN ask USING (id);"
	  . "SELECT kind, p, sum(cardinality(t.ids)), sum(cardinality(found)), sum((SELECT count(*) FROM unnest(found) x WHERE x = ANY (t.ids))) FROM (SELECT c.id, kind, p, nearest(v, condition, true) AS found FROM conditions c JOIN ask USING (id)) s "
	  . 'JOIN truth t USING (id, kind, p) GROUP BY 1, 2 ORDER BY 1, 2');

	for (split /\n/, $rows)
	{
		my ($kind, $p, $wanted, $found, $right) = split /\|/;
		# Three standard errors of 30 queries, whose hits vary by about 2 of 10.
		my $floor = $p <= 0.1 || $AM eq 'gpuflat' ? 1 : $target - 0.1;

		is($found, $wanted, "$name: $kind $p: as many rows");
		cmp_ok($right / $wanted, '>=', $floor, "$name: $kind $p: recall");
	}
	return;
}

recall('pages', 'off');
SKIP:
{
	skip 'the worker is not installed', 1 if !-x worker_file($node);
	$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('r_v')});
	recall('worker', 'on');
}
$node->safe_psql('postgres', "DELETE FROM r WHERE id % 3 = 0 AND id NOT IN (SELECT id FROM ask); INSERT INTO r SELECT id + 100000, h, v + v, s * 2 FROM r WHERE id % 3 = 1; VACUUM r; SELECT vectorgpu_merge('r_v')");
recall('merged', 'off');
my ($way) = $node->safe_psql('postgres', q{LOAD 'vectorgpu'; SET vectorgpu.worker = off; SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM r WHERE h < 5000 ORDER BY v <-> (SELECT v FROM ask LIMIT 1) LIMIT 10}) =~ /Filter Way: (\w+)/;
is($way, 'mask', 'EXPLAIN shows the way: a mask where half of the rows pass');
$node->stop;
done_testing();
