-- Random queries of every shape in docs/queries.md, over rows with NULL, NaN, zero vectors, infinities and copies: the rows are those without an index
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker_min_size = 0;
SET max_parallel_workers_per_gather = 0;
SET jit = off;

-- Zero vectors are at NaN by <=>, the largest ones at infinity by <-> and <+>, and at NaN by <#>; j is in no index of ours.
CREATE FUNCTION pg_temp.odd_vector(i int, OUT v vector) LANGUAGE sql AS $$
	SELECT CASE WHEN i % 7 = 0 THEN NULL WHEN i % 11 = 0 THEN '[0,0]' WHEN i % 13 = 0 THEN '[3e38,-3e38]' WHEN i % 17 = 0 THEN '[3e38,3e38]' WHEN i % 19 = 0 THEN '[1e-44,1e-44]'
		ELSE ARRAY[hashint4extended(i % 90, 1) % 100, hashint4extended(i % 90, 2) % 100]::real[]::vector END
$$;
CREATE TABLE odd_rows (id int PRIMARY KEY, k int, w int, j int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO odd_rows SELECT i, nullif(i % 11, 7), nullif(i % 10, 3), i % 6, pg_temp.odd_vector(i) FROM generate_series(1, 400) i;
CREATE TABLE odd_queries (id int PRIMARY KEY, k int, j int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO odd_queries SELECT i, nullif(i % 9, 2), i % 8, pg_temp.odd_vector(i * 5 + 1) FROM generate_series(1, 40) i;
CREATE INDEX ON odd_rows (w);
CREATE TABLE odd_shapes (name text, query text);
INSERT INTO odd_shapes VALUES
	('range', 'SELECT id FROM odd_rows t WHERE v $o $q < $r'),
	('range and key', 'SELECT id FROM odd_rows t WHERE v $o $q BETWEEN $l AND $r AND $k'),
	('range, ordered', 'SELECT id FROM odd_rows t WHERE $r >= v $o $q AND $k ORDER BY v $o $q, id LIMIT 7'),
	('range join', 'SELECT u.id, t.id AS other FROM odd_queries u JOIN odd_rows t ON t.v $o u.v < $r AND $k'),
	('range, EXISTS', 'SELECT u.id FROM odd_queries u WHERE EXISTS (SELECT FROM odd_rows t WHERE t.v $o u.v < $r AND $k)'),
	('range, NOT EXISTS', 'SELECT u.id FROM odd_queries u WHERE NOT EXISTS (SELECT FROM odd_rows t WHERE t.v $o u.v <= $r AND $k)'),
	('two keys', 'SELECT id FROM odd_rows t WHERE $k ORDER BY v $o $q, id DESC LIMIT 9 OFFSET 2'),
	('decreasing', 'SELECT id FROM odd_rows t WHERE $k ORDER BY 1 - (v $o $q) DESC, id LIMIT 60'),
	('decreasing, NULLS LAST', 'SELECT id FROM odd_rows t WHERE $k ORDER BY -2 * (v $o $q) DESC NULLS LAST, id LIMIT 9'),
	('similar', 'SELECT id FROM odd_rows t WHERE 1 - (v $o $q) > $l AND $k ORDER BY v $o $q, id LIMIT 9'),
	('semijoin', 'SELECT id FROM odd_rows t WHERE k IN (SELECT k FROM odd_queries WHERE j < $n) AND $k ORDER BY v $o $q, id LIMIT 9'),
	('EXISTS', 'SELECT id FROM odd_rows t WHERE EXISTS (SELECT FROM odd_queries u WHERE u.k = t.k AND j = $n) ORDER BY 1 - (v $o $q) DESC, id LIMIT 9'),
	('NOT EXISTS', 'SELECT id FROM odd_rows t WHERE NOT EXISTS (SELECT FROM odd_queries u WHERE u.k = t.k AND j = $n) AND $k ORDER BY v $o $q, id LIMIT 9'),
	('nearest for each', 'SELECT u.id, s.id AS other FROM odd_queries u, LATERAL (SELECT t.id FROM odd_rows t WHERE $k ORDER BY t.v $o u.v, t.id LIMIT 3) s'),
	('nearest, selected', 'SELECT u.id, (SELECT t.id FROM odd_rows t WHERE $k ORDER BY t.v $o u.v, t.id LIMIT 1) FROM odd_queries u'),
	('row numbers', 'SELECT * FROM (SELECT u.id, t.id AS other, row_number() OVER (PARTITION BY u.id ORDER BY t.v $o u.v, t.id) AS n FROM odd_queries u, odd_rows t WHERE $k) s WHERE n <= 3'),
	('groups', 'SELECT * FROM (SELECT DISTINCT ON (j) j, id FROM (SELECT j, id, v $o $q AS d FROM odd_rows t WHERE $k ORDER BY d, id LIMIT 31) n ORDER BY j, d, id) b ORDER BY id LIMIT 5'),
	('least', 'SELECT min(v $o $q), max(1 - (v $o $q)) FROM odd_rows t WHERE $k');
-- The rows of a query, with our plans or without them.
CREATE FUNCTION pg_temp.odd_ids(query text, by_index bool, OUT ids text[], OUT uses_index bool) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config(s, by_index::text, true) FROM unnest(ARRAY['vectorgpu.enable_semijoin_list', 'vectorgpu.enable_derived_order', 'vectorgpu.enable_filtered_scan', 'vectorgpu.read_ahead', 'enable_indexscan']) s;
	PERFORM set_config(s, (NOT by_index)::text, true) FROM unnest(ARRAY['enable_seqscan', 'enable_sort']) s;
	PERFORM set_config('vectorgpu.range_search', CASE WHEN by_index THEN 'approximate' ELSE 'off' END, true);
	uses_index := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		uses_index := uses_index OR line ~ 'Vectorgpu Filtered Scan|Index Scan using odd_by';
	END LOOP;
	EXECUTE format('SELECT array_agg(s::text ORDER BY s::text) FROM (%s) s', query) INTO ids;
END $$;
CREATE FUNCTION pg_temp.odd_compare(shape odd_shapes, n_queries int, OUT by_index int, OUT n_rows int, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	conditions text[] := ARRAY['t.k = $n', 't.k IN ($n, $m, NULL)', '(t.k = $n OR t.j > $m)', 'NOT (t.k < $n AND t.k <> $m)', 't.w = $n', '(t.w = $n OR t.k = $m)', 't.k IS NULL', 't.v IS NOT NULL', 't.id % 3 = 1', 'true', 't.w IN ($n, $m) AND t.k > 4'];
	bounds text[] := ARRAY['-Infinity', '-100', '0', '0.05', '1', '20', '60', '300', '1e6', 'Infinity', 'NaN'];
	query text;
	found text[];
	expected text[];
	uses_index bool;
BEGIN
	by_index := 0;
	n_rows := 0;
	FOR n IN 1..n_queries LOOP
		query := replace(replace(replace(shape.query, '$k', conditions[1 + floor(random() * 11)::int]), '$o', (ARRAY['<->', '<=>', '<#>', '<+>'])[1 + floor(random() * 4)::int]),
			'$q', (ARRAY['''[1,2]''', '''[60,40]''', '''[0,0]''', '''[3e38,3e38]''', '(SELECT NULL::vector)'])[1 + floor(random() * 5)::int]);
		query := replace(replace(query, '$r', quote_literal(bounds[1 + floor(random() * 11)::int]) || '::float8'), '$l', quote_literal(bounds[1 + floor(random() * 5)::int]) || '::float8');
		query := replace(replace(query, '$n', floor(random() * 10)::text), '$m', floor(random() * 10)::text);
		SELECT * INTO found, uses_index FROM pg_temp.odd_ids(query, true);
		SELECT ids INTO expected FROM pg_temp.odd_ids(query, false);
		by_index := by_index + uses_index::int;
		n_rows := n_rows + coalesce(cardinality(expected), 0);
		IF found IS DISTINCT FROM expected AND wrong IS NULL THEN
			wrong := format('%s: %s, not %s', query, found, expected);
		END IF;
	END LOOP;
END $$;
SELECT setseed(0.25);
CREATE INDEX odd_by_l2 ON odd_rows USING gpuflat (v vector_l2_ops, k);
CREATE INDEX odd_by_cosine ON odd_rows USING gpuflat (v vector_cosine_ops, k);
CREATE INDEX odd_by_ip ON odd_rows USING gpuflat (v vector_ip_ops, k);
CREATE INDEX odd_by_l1 ON odd_rows USING gpuflat (v vector_l1_ops, k);
ANALYZE odd_rows, odd_queries;
SELECT name, by_index > 3 AS by_index, n_rows > 30 AS rows, wrong FROM odd_shapes s, pg_temp.odd_compare(s, 40) ORDER BY name;
-- rows of the delta, others dead
INSERT INTO odd_rows SELECT i, nullif(i % 11, 7), nullif(i % 10, 3), i % 6, pg_temp.odd_vector(i) FROM generate_series(401, 500) i;
DELETE FROM odd_rows WHERE id % 4 = 1;
SELECT name, by_index > 1 AS by_index, n_rows > 10 AS rows, wrong FROM odd_shapes s, pg_temp.odd_compare(s, 20) ORDER BY name;
DROP TABLE odd_rows, odd_queries;
