-- gpugraph with codes = 'rabitq': searches compare codes of RaBitQ; vectors give the exact distances
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE FUNCTION coded_vector(i int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 89 = 0 THEN array_fill(0, ARRAY[12])
		ELSE (SELECT array_agg(round((10 * sin(i * j + j * j) + 5 * cos(i * 0.37 * j))::numeric, 1)) FROM generate_series(1, 12) j) END::real[]
$$;
CREATE TABLE coded (id int, v vector(12), h halfvec(12));
INSERT INTO coded SELECT i, coded_vector(i)::vector, coded_vector(i)::vector::halfvec FROM generate_series(1, 3000) i;

-- every metric and type: a search as wide as this looks at all rows and answers as a sequential scan; a narrower one finds most of the
-- nearest rows
CREATE FUNCTION pg_temp.each_class(all_bits int[]) RETURNS TABLE (class text, bits int, all_rows text, few_rows text, enough boolean) LANGUAGE plpgsql AS $$
DECLARE
	distance text;
BEGIN
	FOR class IN SELECT t.typname || '_' || m || '_ops' FROM pg_type t, unnest('{l2,ip,cosine}'::text[]) m
		WHERE typname IN ('vector', 'halfvec') ORDER BY 1
	LOOP
		distance := format('%s %s (SELECT %1$s FROM coded WHERE id = 7)', left(class, 1),
			CASE split_part(class, '_', 2) WHEN 'l2' THEN '<->' WHEN 'ip' THEN '<#>' ELSE '<=>' END);
		FOREACH bits IN ARRAY all_bits LOOP
			EXECUTE format('CREATE INDEX coded_i ON coded USING gpugraph (%s %s) WITH (degree = 16, codes = rabitq, bits = %s)', left(class, 1), class, bits);
			PERFORM set_config('gpugraph.search_width', '1000000', false);
			all_rows := pg_temp.compare_scans('coded', distance);
			few_rows := pg_temp.compare_scans('coded', distance, 'WHERE id % 50 = 3 LIMIT 20');
			PERFORM set_config('gpugraph.search_width', CASE bits WHEN 1 THEN '350' WHEN 2 THEN '200' ELSE '100' END, false);
			enough := (SELECT recall >= 0.9 FROM vectorgpu_recall('coded_i', 300, 10));
			PERFORM vectorgpu_check('coded_i', true);
			DROP INDEX coded_i;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM pg_temp.each_class('{1, 2, 4}');
RESET gpugraph.search_width;

-- parameters that contradict each other, and what is not supported
CREATE INDEX ON coded USING gpugraph (v) WITH (codes = 'pq');
CREATE INDEX ON coded USING gpugraph (v) WITH (codes = 'rabitq', bits = 3);
CREATE INDEX ON coded USING gpugraph (v) WITH (bits = 2);
CREATE INDEX ON coded USING gpugraph (v) WITH (codes = 'none', bits = 2);
CREATE INDEX ON coded USING gpugraph (v) WITH (codes = 'rabitq', hash_bits = 128);
CREATE INDEX ON coded USING gpugraph (v) WITH (codes = 'none', hash_bits = 128);
CREATE INDEX ON coded USING gpugraph (v vector_l1_ops) WITH (codes = 'rabitq');
CREATE INDEX coded_v ON coded USING gpugraph (v vector_l1_ops) WITH (codes = 'none');
ALTER INDEX coded_v SET (bits = 4);
ALTER INDEX coded_v SET (codes = 'rabitq'); -- a storage parameter knows no operator class
REINDEX INDEX coded_v;
ALTER INDEX coded_v RESET (codes);
REINDEX INDEX coded_v;
DROP INDEX coded_v;
CREATE TABLE coded_bits (b bit(64));
CREATE INDEX ON coded_bits USING gpugraph (b) WITH (codes = 'rabitq');
DROP TABLE coded_bits;

-- the default are 4 bits: a code of 12 dimensions takes 8 bytes and 16, with 1 bit the same; of 128 dimensions 72 and 24
CREATE TABLE coded_wide AS SELECT i AS id, (SELECT array_agg(hashint4extended(i, d) % 100) FROM generate_series(1, 128) d)::real[]::vector(128) AS v FROM generate_series(1, 2000) i;
CREATE INDEX coded_wide_0 ON coded_wide USING gpugraph (v) WITH (degree = 16);
CREATE INDEX coded_wide_1 ON coded_wide USING gpugraph (v) WITH (degree = 16, codes = 'rabitq', bits = 1);
CREATE INDEX coded_wide_4 ON coded_wide USING gpugraph (v) WITH (degree = 16, codes = 'rabitq');
SELECT (pg_relation_size('coded_wide_1') - pg_relation_size('coded_wide_0')) / 8192 - 24 * 2000 / 8192 BETWEEN 0 AND 3 AS small,
	(pg_relation_size('coded_wide_4') - pg_relation_size('coded_wide_0')) / 8192 - 72 * 2000 / 8192 BETWEEN 0 AND 3 AS larger;
DROP TABLE coded_wide;

-- a recall target is reached
CREATE INDEX coded_v ON coded USING gpugraph (v) WITH (degree = 12, codes = 'rabitq', bits = 2);
SET gpugraph.recall_target = 0.9;
SELECT recall >= 0.85 AS enough FROM vectorgpu_recall('coded_v', 1000, 10);
RESET gpugraph.recall_target;

-- a narrow search: a LIMIT that is known gets its rows, in order; a scan without one ends with all rows
SET gpugraph.search_width = 1;
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM coded ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 10$$);
CREATE FUNCTION pg_temp.scan(tail text) RETURNS TABLE (n bigint, different bigint, in_order boolean) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT count(*), count(DISTINCT id), coalesce(bool_and(ordered), true) FROM (
		SELECT id, d >= lag(d) OVER () IS NOT FALSE AS ordered
		FROM (SELECT id, v <-> (SELECT v FROM coded WHERE id = 7) AS d FROM coded %s) s) t', tail);
END $$;
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 1');
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 500');
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 3000');
SELECT * FROM pg_temp.scan('WHERE id % 100 = 7 ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 10');

-- inserts, vacuum, merges, another number of bits, and codes of the other kind
INSERT INTO coded SELECT i, coded_vector(i)::vector FROM generate_series(3001, 4000) i;
DELETE FROM coded WHERE id % 3 = 0 AND id <> 7;
VACUUM coded;
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM coded WHERE id = 7) LIMIT 10');
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('coded', 'v <-> (SELECT v FROM coded WHERE id = 7)', 'LIMIT 50');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('coded_v', true);
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('coded_v');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('coded_v', true);
SELECT pg_temp.compare_scans('coded', 'v <-> (SELECT v FROM coded WHERE id = 7)', 'LIMIT 50');
ALTER INDEX coded_v SET (bits = 4);
INSERT INTO coded SELECT i, coded_vector(i)::vector FROM generate_series(4001, 4500) i;
SELECT segments_after FROM vectorgpu_merge('coded_v'); -- still of 2
SELECT rows, delta_rows FROM vectorgpu_check('coded_v', true);
REINDEX INDEX coded_v;
SELECT rows, delta_rows FROM vectorgpu_check('coded_v', true);
ALTER INDEX coded_v RESET (codes); -- not alone
ALTER INDEX coded_v SET (hash_bits = 256); -- a row has one code
ALTER INDEX coded_v RESET (codes, bits);
ALTER INDEX coded_v SET (hash_bits = 256);
REINDEX INDEX CONCURRENTLY coded_v;
SELECT rows, delta_rows FROM vectorgpu_check('coded_v', true);
RESET enable_seqscan;

-- no row has a cosine with a zero vector
CREATE INDEX coded_cosine ON coded USING gpugraph (v vector_cosine_ops) WITH (codes = 'rabitq');
SELECT pg_temp.compare_scans('coded', 'v <=> array_fill(0, ARRAY[12])::vector', 'LIMIT 5');
DROP INDEX coded_cosine;

-- few rows, no rows, no value, one dimension, equal rows
CREATE FUNCTION pg_temp.odd_table(type text, rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text;
	distance text := format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type);
BEGIN
	EXECUTE format('CREATE TABLE odd (id int, v %s)', type);
	EXECUTE 'INSERT INTO odd ' || rows;
	CREATE INDEX odd_v ON odd USING gpugraph (v) WITH (codes = 'rabitq', bits = 1);
	results := pg_temp.compare_scans('odd', distance);
	PERFORM vectorgpu_check('odd_v', true);
	EXECUTE 'INSERT INTO odd ' || rows;
	PERFORM vectorgpu_merge('odd_v');
	PERFORM vectorgpu_check('odd_v', true);
	results := results || '; merged: ' || pg_temp.compare_scans('odd', distance);
	DROP TABLE odd;
	RETURN results;
END $$;
SET gpugraph.search_width = 1000000;
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, NULL::vector WHERE false');
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, ''[1,2,3]''::vector');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, NULL FROM generate_series(1, 100) i');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, ''[1,2,3]''::vector FROM generate_series(1, 500) i');
SELECT pg_temp.odd_table('vector(1)', 'SELECT i, array[i]::vector FROM generate_series(1, 500) i');

-- lengths beyond a float's range: a session makes the codes that the worker has made
CREATE TABLE coded_far AS SELECT i AS id, (SELECT array_agg(hashint4extended(i, d) % 1000 * 3e35) FROM generate_series(1, 40) d)::real[]::vector(40) AS v FROM generate_series(1, 600) i;
SET vectorgpu.worker_min_size = 0;
CREATE INDEX coded_far_l2 ON coded_far USING gpugraph (v) WITH (degree = 16, codes = rabitq, bits = 1);
CREATE INDEX coded_far_ip ON coded_far USING gpugraph (v vector_ip_ops) WITH (degree = 16, codes = rabitq);
RESET vectorgpu.worker_min_size;
SELECT c.rows FROM unnest('{coded_far_l2,coded_far_ip}'::regclass[]) i, vectorgpu_check(i, true) c;
DROP TABLE coded_far;

-- more than fits maintenance_work_mem: parts share one centre
CREATE TABLE coded_parts (id int, v vector(100));
INSERT INTO coded_parts SELECT i, (SELECT array_agg((i * d) % 31 + i % 2 * 100) FROM generate_series(1, 100) d)::real[]::vector FROM generate_series(1, 5000) i;
SET maintenance_work_mem = '1MB';
\set VERBOSITY terse
CREATE INDEX coded_parts_v ON coded_parts USING gpugraph (v) WITH (codes = 'rabitq', bits = 2);
\set VERBOSITY default
RESET maintenance_work_mem;
SELECT rows, heap_rows_checked FROM vectorgpu_check('coded_parts_v', true);
SET gpugraph.search_width = 100;
SELECT recall >= 0.9 AS enough FROM vectorgpu_recall('coded_parts_v', 1000, 10);
