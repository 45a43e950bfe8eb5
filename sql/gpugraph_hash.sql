-- gpugraph with hash_bits: searches compare codes; vectors give the exact distances
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE FUNCTION hash_vector(i int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 89 = 0 THEN array_fill(0, ARRAY[12])
		ELSE (SELECT array_agg(round((10 * sin(i * j + j * j) + 5 * cos(i * 0.37 * j))::numeric, 1)) FROM generate_series(1, 12) j) END::real[]
$$;
CREATE TABLE hashed (id int, v vector(12), h halfvec(12));
INSERT INTO hashed SELECT i, hash_vector(i)::vector, hash_vector(i)::vector::halfvec FROM generate_series(1, 3000) i;

-- every metric and type with codes: a search as wide as this looks at all rows and answers as a sequential scan; a narrower one finds
-- most of the nearest rows
CREATE FUNCTION pg_temp.each_class(bits int[]) RETURNS TABLE (class text, hash_bits int, all_rows text, few_rows text, enough boolean) LANGUAGE plpgsql AS $$
DECLARE
	distance text;
BEGIN
	FOR class IN SELECT t.typname || '_' || m || '_ops' FROM pg_type t, unnest('{l2,ip,cosine}'::text[]) m
		WHERE typname IN ('vector', 'halfvec') ORDER BY 1
	LOOP
		distance := format('%s %s (SELECT %1$s FROM hashed WHERE id = 7)', left(class, 1),
			CASE split_part(class, '_', 2) WHEN 'l2' THEN '<->' WHEN 'ip' THEN '<#>' ELSE '<=>' END);
		FOREACH hash_bits IN ARRAY bits LOOP
			EXECUTE format('CREATE INDEX hashed_i ON hashed USING gpugraph (%s %s) WITH (degree = 16, hash_bits = %s)', left(class, 1), class, hash_bits);
			PERFORM set_config('gpugraph.search_width', '1000000', false);
			all_rows := pg_temp.compare_scans('hashed', distance);
			few_rows := pg_temp.compare_scans('hashed', distance, 'WHERE id % 50 = 3 LIMIT 20');
			PERFORM set_config('gpugraph.search_width', '350', false);
			enough := (SELECT recall >= 0.9 FROM vectorgpu_recall('hashed_i', 300, 10));
			PERFORM vectorgpu_check('hashed_i', true);
			DROP INDEX hashed_i;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM pg_temp.each_class('{256}');
RESET gpugraph.search_width;

-- what is not supported
CREATE INDEX ON hashed USING gpugraph (v vector_l1_ops) WITH (hash_bits = 64);
CREATE INDEX ON hashed USING gpugraph (v) WITH (hash_bits = 100);
CREATE INDEX ON hashed USING gpugraph (v) WITH (hash_bits = 1024);
CREATE INDEX hashed_v ON hashed USING gpugraph (v vector_l1_ops) WITH (hash_bits = 0);
ALTER INDEX hashed_v SET (hash_bits = 64); -- a storage parameter knows no operator class
REINDEX INDEX hashed_v;
ALTER INDEX hashed_v RESET (hash_bits);
REINDEX INDEX hashed_v;
DROP INDEX hashed_v;

-- with few bits a recall target needs wider searches; it is reached by looking at more rows
CREATE INDEX hashed_v ON hashed USING gpugraph (v) WITH (degree = 8, hash_bits = 64);
SET gpugraph.recall_target = 0.9;
SELECT recall >= 0.85 AS enough FROM vectorgpu_recall('hashed_v', 1000, 10);
RESET gpugraph.recall_target;

-- a narrow search: a LIMIT that is known gets its rows, in order; a scan without one ends with all rows
SET gpugraph.search_width = 1;
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM hashed ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 10$$);
CREATE FUNCTION pg_temp.scan(tail text) RETURNS TABLE (n bigint, different bigint, in_order boolean) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT count(*), count(DISTINCT id), coalesce(bool_and(ordered), true) FROM (
		SELECT id, d >= lag(d) OVER () IS NOT FALSE AS ordered
		FROM (SELECT id, v <-> (SELECT v FROM hashed WHERE id = 7) AS d FROM hashed %s) s) t', tail);
END $$;
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 1');
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 500');
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 3000');
SELECT * FROM pg_temp.scan('WHERE id % 100 = 7 ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 10');
SET vectorgpu.scan_order = relaxed;
SELECT n, different FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7)');
RESET vectorgpu.scan_order;

-- inserts, vacuum, merges, another number of bits
INSERT INTO hashed SELECT i, hash_vector(i)::vector FROM generate_series(3001, 4000) i;
DELETE FROM hashed WHERE id % 3 = 0 AND id <> 7;
VACUUM hashed;
SELECT * FROM pg_temp.scan('ORDER BY v <-> (SELECT v FROM hashed WHERE id = 7) LIMIT 10');
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('hashed', 'v <-> (SELECT v FROM hashed WHERE id = 7)', 'LIMIT 50');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('hashed_v', true);
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('hashed_v');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('hashed_v', true);
SELECT pg_temp.compare_scans('hashed', 'v <-> (SELECT v FROM hashed WHERE id = 7)', 'LIMIT 50');
ALTER INDEX hashed_v SET (hash_bits = 512);
INSERT INTO hashed SELECT i, hash_vector(i)::vector FROM generate_series(4001, 4500) i;
SELECT segments_after FROM vectorgpu_merge('hashed_v'); -- still of 64
SELECT rows, delta_rows FROM vectorgpu_check('hashed_v', true);
REINDEX INDEX hashed_v;
SELECT rows, delta_rows FROM vectorgpu_check('hashed_v', true);
SET gpugraph.search_width = 400;
SELECT recall >= 0.9 AS enough FROM vectorgpu_recall('hashed_v', 50, 10);
ALTER INDEX hashed_v RESET (hash_bits);
REINDEX INDEX CONCURRENTLY hashed_v;
SELECT rows, delta_rows FROM vectorgpu_check('hashed_v', true);
RESET enable_seqscan;

-- no row has a cosine with a zero vector
CREATE INDEX hashed_cosine ON hashed USING gpugraph (v vector_cosine_ops) WITH (hash_bits = 32);
SELECT pg_temp.compare_scans('hashed', 'v <=> array_fill(0, ARRAY[12])::vector', 'LIMIT 5');
DROP INDEX hashed_cosine;

-- few rows, no rows, no value, one dimension, equal rows
CREATE FUNCTION pg_temp.odd_table(type text, rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text;
	distance text := format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type);
BEGIN
	EXECUTE format('CREATE TABLE odd (id int, v %s)', type);
	EXECUTE 'INSERT INTO odd ' || rows;
	CREATE INDEX odd_v ON odd USING gpugraph (v) WITH (hash_bits = 32);
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

-- more than fits maintenance_work_mem: parts share one code model
CREATE TABLE hash_parts (id int, v vector(100));
INSERT INTO hash_parts SELECT i, (SELECT array_agg((i * d) % 31 + i % 2 * 100) FROM generate_series(1, 100) d)::real[]::vector FROM generate_series(1, 5000) i;
SET maintenance_work_mem = '1MB';
\set VERBOSITY terse
CREATE INDEX hash_parts_v ON hash_parts USING gpugraph (v) WITH (hash_bits = 128);
\set VERBOSITY default
RESET maintenance_work_mem;
SELECT rows, heap_rows_checked FROM vectorgpu_check('hash_parts_v', true);
SET gpugraph.search_width = 100;
SELECT recall >= 0.9 AS enough FROM vectorgpu_recall('hash_parts_v', 1000, 10);
