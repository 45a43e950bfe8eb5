# Ends of scans with conditions on key columns, with the searches' own widths: a LIMIT above the number of rows that pass, few rows that pass in the newest of
# several segments, rows whose distance is NaN, and labels added to an enum while a transaction runs.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('key_ends', conf => "fsync = off\nautovacuum = off\ngpuivf.probes = 0\ngpugraph.search_width = 0\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\n");
my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;';
my $has_worker = -x worker_file($node);

# The number of rows that both a sequential scan and the index return of each query; equal if none is missing.
sub check_queries
{
	my ($name, $condition, $limit, $worker) = @_;
	my $query = "SELECT string_agg((SELECT count(*) FROM (SELECT id FROM r WHERE $condition ORDER BY v <-> q.v LIMIT $limit) s)::text, ' ' ORDER BY q.id) FROM (SELECT id, v FROM r WHERE id % 331 = 7) q";
	my $wanted = $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $query");

	is($node->safe_psql('postgres', "SET vectorgpu.worker = $worker; $by_index $query"), $wanted, "$name, worker $worker: $condition LIMIT $limit");
	return;
}

# recall@10 of the queries of such a condition.
sub recall
{
	my ($condition, $worker) = @_;
	my $of = sub { "SELECT q.id, ARRAY(SELECT id FROM r WHERE $condition ORDER BY v <-> q.v LIMIT 10) AS ids FROM (SELECT id, v FROM r WHERE id % 331 = 7) q" };

	$node->safe_psql('postgres', "DROP TABLE IF EXISTS truth; SET enable_indexscan = off; SET enable_bitmapscan = off; CREATE TABLE truth AS " . $of->());
	return $node->safe_psql('postgres', "SET vectorgpu.worker = $worker; $by_index WITH found AS MATERIALIZED (" . $of->() . ') '
		  . 'SELECT round(sum((SELECT count(*) FROM unnest(f.ids) x WHERE x = ANY (t.ids)))::numeric / sum(cardinality(t.ids)), 3) FROM truth t JOIN found f USING (id)');
}

# 60 clusters of 20 dimensions. sn: text whose order codes do not decide.
my $icu = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_collation WHERE collprovider = 'i'});
$node->safe_psql('postgres', "SELECT setseed(.25); CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)") if $icu > 0;
my $collation = $icu > 0 ? 'COLLATE any_case' : '';
$node->safe_psql('postgres', <<SQL);
SELECT setseed(.25);
CREATE FUNCTION some_vector(i int) RETURNS vector LANGUAGE sql VOLATILE AS \$\$SELECT array_agg((random() - .5) * 5 + 6 * sin(i % 60 * .7 * d))::vector FROM generate_series(1, 20) d\$\$;
CREATE TABLE r AS SELECT i AS id, abs(hashint4(i)::bigint) % 1000 AS h, (ARRAY['a', 'A', 'b', 'B', 'c', 'D'])[1 + abs(hashint4(-i)::bigint) % 6] || i % 9 AS sn, some_vector(i)::vector(20) AS v FROM generate_series(1, 4000) i;
ALTER TABLE r ALTER sn TYPE text $collation;
ANALYZE r;
CREATE INDEX r_v ON r USING $AM (v vector_l2_ops, h, sn, id);
SQL
for my $worker ('off', $has_worker ? 'on' : ())
{
	$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('r_v')}) if $worker eq 'on';
	check_queries('more than pass', @$_, $worker) for ['h < 150', 700], ['h < 300', 1300], ['h < 90', 500], ["sn < 'Abc'", 1900], ["sn = 'A3' AND h < 500", 100];
	# The planner knows nothing of the condition: the first step tells.
	check_queries('more than pass', 'h < (SELECT 200)', 900, $worker);
}

# Few rows of all pass, but more than a tenth of a segment.
$node->safe_psql('postgres', q{INSERT INTO r SELECT i, 7, 'e', some_vector(i) FROM generate_series(4001, 9100) i; });
$node->safe_psql('postgres', 'VACUUM ANALYZE r');
is($node->safe_psql('postgres', q{SELECT segments FROM vectorgpu_indexes WHERE index_name = 'r_v'}), 2, 'two segments');
for my $worker ('off', $has_worker ? 'on' : ())
{
	$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('r_v')}) if $worker eq 'on';
	is(recall('id > 8200', $worker), '1.000', "worker $worker: recall of the newest rows");
	is(recall('id BETWEEN 3400 AND 4250', $worker), '1.000', "worker $worker: recall of rows of two segments");
}

# A scan that has looked at some rows only must not note that there are none with NaN.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE unit AS SELECT i AS id, 1 AS n, ('[' || cos(i) || ',' || sin(i) || ']')::vector(2) AS v FROM generate_series(1, 200) i;
INSERT INTO unit VALUES (0, 2, '[0,0]');
CREATE INDEX unit_v ON unit USING $AM (v vector_cosine_ops, n);
ANALYZE unit;
SQL
my $near = "count(*) FROM (SELECT id FROM unit WHERE %s 1 - (v <=> '[1,0]') > .9 ORDER BY v <=> '[1,0]') s";
my $rows = $node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT ' . sprintf($near, ''));
is($node->safe_psql('postgres', "$by_index SELECT " . sprintf($near, '')), $rows, 'rows within a bound, and one whose distance is NaN');
$node->safe_psql('postgres', "$by_index SELECT " . sprintf($near, 'n = 1 AND'));
is($node->safe_psql('postgres', "$by_index SELECT " . sprintf($near, '')), $rows, 'the same after a scan of the other rows');

# An index without vectors: the table gives the distances of the rows that pass, and zero vectors have none.
if ($AM eq 'gpuivf')
{
	$node->safe_psql('postgres', <<SQL);
CREATE TABLE zeros AS SELECT i AS id, i % 12 AS n, CASE WHEN i % 12 = 3 THEN array_fill(0, ARRAY[20])::vector ELSE some_vector(i) END::vector(20) AS v FROM generate_series(1, 9000) i;
CREATE INDEX zeros_v ON zeros USING gpuivf (v vector_cosine_ops, n) WITH (storage = sq8, refine = none);
INSERT INTO zeros SELECT i, CASE WHEN i % 70 = 0 THEN 3 ELSE 20 END, some_vector(i) FROM generate_series(9001, 13600) i;
VACUUM zeros;
ANALYZE zeros;
SQL
	my $finite = "SELECT count(*) FROM (SELECT v <=> (SELECT v FROM zeros WHERE id = 1) AS d FROM zeros WHERE n = 3 ORDER BY 1 LIMIT 60) s WHERE d <> 'NaN'";
	$node->safe_psql('postgres', 'CREATE TABLE coded AS SELECT * FROM zeros WHERE id <= 5000 AND n <> 3; CREATE INDEX coded_v ON coded USING gpuivf (v vector_l2_ops, n) WITH (storage = sq8, refine = none); VACUUM ANALYZE coded');
	my $coded = "SELECT string_agg((SELECT string_agg(id::text, ',' ORDER BY id) FROM (SELECT id FROM coded WHERE n < 6 ORDER BY v <-> q.v LIMIT 1800) s), ' ' ORDER BY q.id) FROM (SELECT id, v FROM coded WHERE id % 997 = 7) q";
	is($node->safe_psql('postgres', "$by_index $coded"), $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $coded"), 'most of the rows that pass, by codes alone');
	is($node->safe_psql('postgres', "$by_index $finite"), $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $finite"), 'rows with a distance come first, whatever their segment');
}

# Labels that are added while a transaction holds its locks.
$node->safe_psql('postgres', <<SQL);
CREATE TYPE mood AS ENUM ('b', 'd');
CREATE TABLE moods AS SELECT i AS id, (ARRAY['b', 'd'])[1 + i % 2]::mood AS m, some_vector(i)::vector(20) AS v FROM generate_series(1, 40) i;
CREATE INDEX moods_v ON moods USING $AM (v vector_l2_ops, m);
SQL
my $session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe("$by_index SET plan_cache_mode = force_generic_plan; PREPARE below AS SELECT count(*) FROM (SELECT id FROM moods WHERE m < 'd' ORDER BY v <-> array_fill(1, ARRAY[20])::vector LIMIT 100) s");
$session->query_safe('BEGIN');
is($session->query_safe('EXECUTE below'), 20, 'labels below one');
$node->safe_psql('postgres', q{ALTER TYPE mood ADD VALUE 'a' BEFORE 'b'; ALTER TYPE mood ADD VALUE 'c' BEFORE 'd'});
$node->safe_psql('postgres', q{INSERT INTO moods SELECT i, 'c', some_vector(i) FROM generate_series(41, 45) i});
is($session->query_safe('EXECUTE below'), 25, 'and one added since, in the same transaction');
$session->query_safe('COMMIT');
$session->quit;

$node->stop;
done_testing();
