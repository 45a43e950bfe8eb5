# Indexes of gpumatch, answered by the worker: rows, distances and order are those that the backend finds in the pages, for arrays,
# documents, tuples, texts (by edit distance) and signatures (whose candidates the worker counts), with any LIMIT,
# under filters, after inserts of values of every size, deletes, vacuum, merges, and without a copy.
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

# Arrays of no, few and many elements (a value takes one slot of the delta or hundreds), NULL, ties.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, k int, a int4[], c text, d tsvector, v vector(6));
CREATE FUNCTION make_rows(first int, last int) RETURNS void LANGUAGE sql AS $$
INSERT INTO t SELECT i, i % 100,
	CASE WHEN i % 97 <> 0 THEN coalesce((SELECT array_agg((i * 7919 + j * j * 31) % 997)
		FROM generate_series(1, CASE WHEN i % 501 = 0 THEN 5000 ELSE i % 12 END) j), '{}') END,
	'w' || i % 17, to_tsvector('simple', 'foo' || i % 13 || ' bar' || i % 7 || ' baz' || i % 101),
	ARRAY[sin(i * 7), cos(i * 3), sin(i * i), i % 5, i % 3, cos(i)]::real[]::vector FROM generate_series(first, last) i $$;
SELECT make_rows(1, 5000);
CREATE INDEX ta ON t USING gpumatch (a);
CREATE INDEX td ON t USING gpumatch (d);
CREATE INDEX tm ON t USING gpumatch (matchrow(k, c, id));
CREATE INDEX tc ON t USING gpumatch ((c || id / 3) text_gram_ops (n = 2));
CREATE INDEX tj ON t USING gpumatch (a array_minhash_ops (hashes = 24));
CREATE INDEX tv ON t USING gpumatch (v vector_lsh_l2_ops (hashes = 24, width = 3));
CREATE VIEW questions AS
	SELECT 'a <#> ' || quote_literal(v) AS q FROM (VALUES ('{1,2,3,4,5,6,7}'), ('{}'), ('{50,60,70,996}'), ('{5000}')) x(v)
	UNION ALL SELECT 'a <#> (SELECT array_agg(i) FROM generate_series(1, 3000) i)'
	UNION ALL SELECT 'd <#> ' || quote_literal(v) FROM (VALUES ('foo1 bar2 baz7'), ('none'), ('foo3 baz4')) x(v)
	UNION ALL SELECT 'matchrow(k, c, id) <#> ' || v FROM (VALUES ('matchquery(int4range(10, 20), ''w3''::text, int4range(100, 3000))'),
		('matchquery(NULL, NULL, 7)'), ('matchquery(NULL, ARRAY[''w1'', ''w2'', ''w16''], NULL)')) x(v)
	UNION ALL SELECT 'a <%> ' || quote_literal(v) FROM (VALUES ('{1,2,3,4,5,6,7}'), ('{}'), ('{50,60,70,996}')) x(v)
	UNION ALL SELECT '(c || id / 3) <~> ' || quote_literal(v) FROM (VALUES ('w1123'), (''), ('w'), ('w16166612345678'), ('v12100')) x(v)
	UNION ALL SELECT 'v <-> ' || quote_literal(v) FROM (VALUES ('[0.5,0.5,0.1,2,1,0]'), ('[0,0,0,100,100,0]')) x(v);
CREATE FUNCTION answer(q text, n int, f int, worker text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	PERFORM set_config('vectorgpu.worker', worker, true);
	EXECUTE format('SELECT md5(string_agg(id || '':'' || coalesce(x::text, ''-''), '','')) || count(*) FROM (
		SELECT id, %1$s AS x FROM t WHERE k < %3$s ORDER BY %1$s LIMIT %2$s) y', q, n, f) INTO found;
	RETURN found;
END $$;
CREATE VIEW differences AS
	SELECT q, n, f FROM questions, unnest(ARRAY[1, 10, 500, 7000]) n, unnest(ARRAY[10, 100]) f
	WHERE answer(q, n, f, 'off') IS DISTINCT FROM answer(q, n, f, 'on');
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my @indexes = qw(ta td tm tj tv tc);

# A query that the worker answers, for each of the indexes.
my %asks = (ta => "a <#> '{1,2,3,4,5,6,7}'", td => "d <#> 'foo1 bar2 baz7'", tm => 'matchrow(k, c, id) <#> matchquery(NULL, NULL, 7)',
	tj => "a <%> '{1,2,3,4,5,6,7}'", tv => "v <-> '[0.5,0.5,0.1,2,1,0]'", tc => "(c || id / 3) <~> 'w1123'");

# Both ways give the same answers; and the worker answers, with the indexes in their present state. For signatures it is not asked
# for candidates while the delta is large compared with the segments.
sub compare
{
	my ($name, %what) = @_;

	for my $index (@indexes)
	{
		if ($what{large_delta} && $index =~ /^t[jv]$/)
		{
			like($node->safe_psql('postgres', "SET enable_seqscan = off; EXPLAIN (ANALYZE, COSTS off) SELECT id FROM t ORDER BY $asks{$index} LIMIT 5"),
				qr/Worker Not Asked: delta/, "$name, $index: the pages have it sooner");
			next;
		}
		by_worker($node, "$name, $index", sub { $node->safe_psql('postgres', "SET enable_seqscan = off; SELECT id FROM t ORDER BY $asks{$index} LIMIT 5") });
	}
	by_worker($node, $name, sub {
		is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; SELECT * FROM differences'), '',
			"$name: the worker's answers are those of the pages");
	});
	return;
}

$node->safe_psql('postgres', "SELECT vectorgpu_prewarm(i) FROM unnest('{@{[join ',', @indexes]}}'::regclass[]) i");
compare('as built');
for my $order (@asks{qw(tj tv tc)})
{
	like($node->safe_psql('postgres',
			"SET enable_seqscan = off; EXPLAIN (ANALYZE, COSTS off) SELECT id FROM t ORDER BY $order LIMIT 5"),
		qr/Answered By: worker .* Worker Batches: 1\n/, "$order: EXPLAIN says that the worker counted");
}
like($node->safe_psql('postgres',
		"SET enable_seqscan = off; EXPLAIN (ANALYZE, COSTS off) SELECT id FROM t ORDER BY (c || id / 3) <~> repeat('w1', 33) LIMIT 5"),
	qr/Answered By: backend.*long_query/s, 'texts far from a long one are looked for by the backend, which can be interrupted');

# A query of half a megabyte: the pages have its answer, and the reason is not the worker's memory.
$node->safe_psql('postgres', 'CREATE VIEW large AS SELECT id FROM t ORDER BY a <#> (SELECT array_agg(i) FROM generate_series(1, 100000) i) LIMIT 5');
like($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (ANALYZE, COSTS off) SELECT * FROM large'),
	qr/request_too_large/, 'a query larger than a request: EXPLAIN shows it');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; SELECT * FROM large'),
	$node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_seqscan = on; SELECT id FROM t ORDER BY a <#> (SELECT array_agg(i) FROM generate_series(1, 100000) i), id LIMIT 5'),
	'a query larger than a request is answered');
$node->safe_psql('postgres', 'DROP VIEW large');
$node->safe_psql('postgres', 'SELECT make_rows(10001, 10700)');
compare('rows inserted', large_delta => 1);
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 7 = 0');
$node->safe_psql('postgres', 'VACUUM t');
compare('rows removed', large_delta => 1);
for my $index (@indexes)
{
	is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('$index', true, true)"), 't',
		"$index: the copy equals the pages");
}
$node->safe_psql('postgres', "SELECT vectorgpu_merge(i) FROM unnest('{@{[join ',', @indexes]}}'::regclass[]) i");
compare('merged');
$node->safe_psql('postgres', 'SELECT make_rows(20001, 20100)');
compare('rows inserted again');
is($node->safe_psql('postgres', "SELECT count(vectorgpu_evict(i)) FROM unnest('{@{[join ',', @indexes]}}'::regclass[]) i"), 6, 'the copies go');
compare('without copies at first');

check_resources($node, $resources);
check_stopped($node);
done_testing();
