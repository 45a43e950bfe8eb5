# Indexes over sparsevec, answered by the worker: rows, distances and order are those that the backend finds in the pages, for every
# operator, with any LIMIT, under conditions on key columns and bitmaps of another index, after inserts, deletes, vacuum and merges,
# and when the worker is killed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.inline_load_size = 1GB\nvectorgpu.auto_merge = off\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Up to 60 elements, of low indices often, and ties; every 97th row is NULL, every 13th has no element, every 401st has 3,000.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, k int, v sparsevec(100000));
CREATE FUNCTION make_rows(first int, last int) RETURNS void LANGUAGE sql AS $$
INSERT INTO t SELECT i, i % 100, CASE WHEN i % 97 <> 0 THEN coalesce((SELECT ('{' || string_agg(d || ':' || x, ',') || '}/100000')::sparsevec
	FROM (SELECT DISTINCT ON (d) 1 + abs(hashint4(i % 3000 * 100 + j)) % CASE WHEN j % 2 = 0 THEN 30 ELSE 100000 END AS d, (abs(hashint4(i + j)) % 15 - 7.5) AS x
		FROM generate_series(1, CASE WHEN i % 401 = 0 THEN 3000 WHEN i % 13 = 0 THEN 0 ELSE i % 60 END) j) e), '{}/100000') END
FROM generate_series(first, last) i $$;
SELECT make_rows(1, 4000);
CREATE INDEX t_l2 ON t USING gpuflat (v, k);
CREATE INDEX t_ip ON t USING gpuflat (v sparsevec_ip_ops, k);
CREATE INDEX t_cosine ON t USING gpuflat (v sparsevec_cosine_ops, k);
CREATE INDEX t_l1 ON t USING gpuflat (v sparsevec_l1_ops, k);
CREATE VIEW questions AS SELECT format('v %s %L::sparsevec', op, v) AS q
	FROM unnest(ARRAY['<->', '<#>', '<=>', '<+>']) op, unnest(ARRAY['{1:2,3:-1.5,5:0.25,700:4,99999:1}/100000', '{}/100000', (SELECT v FROM t WHERE id = 59)::text]) v;
CREATE FUNCTION answer(q text, n int, f text, worker text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	PERFORM set_config('vectorgpu.worker', worker, true);
	EXECUTE format('SELECT md5(string_agg(id || '':'' || coalesce(x::text, ''-''), '','')) || count(*) FROM (
		SELECT id, %1$s AS x FROM t WHERE %3$s ORDER BY %1$s LIMIT %2$s) y', q, n, f) INTO found;
	RETURN found;
END $$;
CREATE VIEW differences AS
	SELECT q, n, f FROM questions, unnest(ARRAY[1, 10, 6000]) n,
		unnest(ARRAY['true', 'k < 3', 'k IN (1, 5, 7, 50) OR k > 70', 'id BETWEEN 3900 AND 4100', 'id BETWEEN 3900 AND 4100 AND k < 50']) f
	WHERE answer(q, n, f, 'off') IS DISTINCT FROM answer(q, n, f, 'on');
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);
my $settings = 'SET enable_seqscan = off; SET enable_sort = off; SET jit = off';

sub compare
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $before = worker_stat($node, 'answered');

	by_worker($node, $name, sub {
		is($node->safe_psql('postgres', "$settings; SELECT * FROM differences"), '', "$name: the same answers from the worker as from the pages");
	});
	# 120 ask for few rows, which it answers; a copy that is not ready yet leaves some to the pages
	cmp_ok(worker_stat($node, 'answered') - $before, '>=', 90, "$name: most searches were the worker's")
	  or diag($node->safe_psql('postgres', 'SELECT index_name, fallback_reasons FROM vectorgpu_indexes'));
	return;
}

sub copies_equal
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $index (qw(t_l2 t_cosine))
	{
		cmp_ok($node->safe_psql('postgres', "SELECT cache_rows_checked FROM vectorgpu_check('$index', true, true)"), '>', 3000, "$name: the copy of $index equals the pages");
	}
	return;
}

compare('built');
like($node->safe_psql('postgres', "$settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM t WHERE k < 3 ORDER BY v <-> '{1:2}/100000' LIMIT 5"),
	qr/Answered By: worker.*Filter Way: list/s, 'the worker answers under conditions, too');
$node->safe_psql('postgres', 'SELECT make_rows(4001, 4400)');
compare('with rows of the delta');
copies_equal('with rows of the delta');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 7 = 3; VACUUM t; SELECT make_rows(4401, 4500)');
compare('with dead rows');
copies_equal('with dead rows');
if (worker_stat($node, 'engine') eq 'cuda')
{
	my ($by_gpu, $by_pages) = map { $node->safe_psql('postgres', "$settings; SET vectorgpu.worker = $_; EXPLAIN SELECT id FROM t ORDER BY v <-> '{1:2}/100000' LIMIT 5") =~ /t_l2 on t  \(cost=([0-9.]+)/ } qw(on off);

	cmp_ok($by_gpu, '<', $by_pages, 'a search by the GPU costs less than one of the pages');
}
is($node->safe_psql('postgres', "SELECT resident_bytes > 100000 FROM vectorgpu_indexes WHERE index_name = 't_l2'"), 't', 'vectorgpu_indexes shows the copy');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('t_l2'), vectorgpu_merge('t_cosine')");
compare('merged');
copies_equal('merged');

my $first = worker_pid($node);

kill_worker($node);
is($node->safe_psql('postgres', "$settings; SELECT * FROM differences WHERE n < 6000"), '', 'the worker was killed: the same answers');
ok(wait_worker($node, not_pid => $first), 'another worker is ready');
compare('another worker');
check_resources($node, $resources);
check_stopped($node);
done_testing();
