-- gpuivf: bit strings, by Hamming and Jaccard distance
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

-- groups of strings that differ from one of 16 by few bits; NULLs, empty strings, copies
CREATE FUNCTION group_bits(i int, n int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 89 = 0 THEN repeat('0', n)::bit varying
		ELSE (SELECT string_agg(((hashint8extended(i % 16 * 1000 + d, 3) & 1) #
			(hashint8extended(i % 500 * 100000 + d, 7) & 7 = 0)::int)::text, '' ORDER BY d) FROM generate_series(1, n) d)::bit varying END
$$;
CREATE TABLE bits (id int, b bit(61));
INSERT INTO bits SELECT i, group_bits(i, 61)::bit(61) FROM generate_series(1, 3000) i;
SELECT group_bits(5, 61)::bit(61)::text AS q \gset

-- all lists are looked at: as a sequential scan
SET gpuivf.probes = 40;
CREATE INDEX bits_h ON bits USING gpuivf (b) WITH (lists = 20);
SELECT tail, pg_temp.compare_scans('bits', format('b <~> %L', :'q'), tail)
FROM unnest('{LIMIT 10,LIMIT 2000,OFFSET 0,WHERE id % 50 = 3 LIMIT 20}'::text[]) tail;
DROP INDEX bits_h;
CREATE INDEX bits_j ON bits USING gpuivf (b bit_jaccard_ops) WITH (lists = 20);
SELECT tail, pg_temp.compare_scans('bits', format('b <%%> %L', :'q'), tail)
FROM unnest('{LIMIT 10,LIMIT 2000,OFFSET 0,WHERE id % 50 = 3 LIMIT 20}'::text[]) tail;
SELECT pg_temp.compare_scans('bits', format('b <%%> %L', repeat('0', 61)), 'LIMIT 100');
SELECT element, metric, dimensions, lists FROM vectorgpu_indexes WHERE index_name = 'bits_j';
CREATE INDEX bits_h ON bits USING gpuivf (b) WITH (lists = 20);
SELECT rows, null_rows, heap_rows_checked FROM vectorgpu_check('bits_h', true);
SELECT rows, null_rows, heap_rows_checked FROM vectorgpu_check('bits_j', true);

-- few lists: most of the nearest, with their distances, in order
EXPLAIN (COSTS OFF) SELECT id FROM bits ORDER BY b <~> :'q' LIMIT 10;
SET gpuivf.probes = 3;
SELECT count(*), count(DISTINCT id), bool_and(in_order) FROM
	(SELECT id, d >= lag(d) OVER () IS NOT FALSE AS in_order FROM (SELECT id, b <~> :'q' AS d FROM bits ORDER BY b <~> :'q' LIMIT 500) s) t;
SELECT recall > 0.9 AS finds_most FROM vectorgpu_recall('bits_h', 50);
SELECT recall > 0.9 AS finds_most FROM vectorgpu_recall('bits_j', 50);
SET gpuivf.probes = 1;
SELECT bool_and(found) AS finds_itself FROM (
	SELECT (SELECT min(o.b <~> i.b) FROM (SELECT b FROM bits ORDER BY b <~> i.b LIMIT 1) o) = 0 AS found FROM bits i WHERE id BETWEEN 100 AND 140 AND b IS NOT NULL) t;
RESET gpuivf.probes;
SELECT recall > 0.85 AS as_calibrated FROM vectorgpu_recall('bits_h', 100);
SELECT recall > 0.85 AS as_calibrated FROM vectorgpu_recall('bits_j', 100);

-- inserts, vacuum, merges
SET gpuivf.probes = 40;
INSERT INTO bits SELECT i, group_bits(i, 61)::bit(61) FROM generate_series(3001, 4000) i;
DELETE FROM bits WHERE id % 3 = 0;
VACUUM bits;
SELECT pg_temp.compare_scans('bits', format('b <~> %L', :'q'), 'LIMIT 50');
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('bits_h');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('bits_h', true);
SELECT pg_temp.compare_scans('bits', format('b <~> %L', :'q'), '');
SELECT pg_temp.compare_scans('bits', format('b <%%> %L', :'q'), 'LIMIT 50');
REINDEX TABLE bits;
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('bits_j', true);

-- strings of all lengths: one bit gives one or two lists, with all rows at two distances
SET gpuivf.probes = 20;
CREATE FUNCTION pg_temp.each_length(lengths int[], n_rows int, lists int) RETURNS TABLE (length int, hamming text, jaccard text, sound boolean) LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH length IN ARRAY lengths LOOP
		EXECUTE format('CREATE TABLE strings (id int, b bit(%s))', length);
		EXECUTE format('INSERT INTO strings SELECT i, group_bits(i, 61)::bit(%s) FROM generate_series(1, %s) i', length, n_rows);
		query := (SELECT b::text FROM strings WHERE id = 7);
		EXECUTE format('CREATE INDEX strings_h ON strings USING gpuivf (b) WITH (lists = %s)', lists);
		hamming := pg_temp.compare_scans('strings', format('b <~> %L', query), 'LIMIT 30');
		sound := (SELECT rows > 0 FROM vectorgpu_check('strings_h', true));
		DROP INDEX strings_h;
		EXECUTE format('CREATE INDEX strings_j ON strings USING gpuivf (b bit_jaccard_ops) WITH (lists = %s)', lists);
		jaccard := pg_temp.compare_scans('strings', format('b <%%> %L', query), 'LIMIT 30');
		sound := sound AND (SELECT rows > 0 FROM vectorgpu_check('strings_j', true));
		DROP TABLE strings;
		RETURN NEXT;
	END LOOP;
END $$;
SET client_min_messages = warning; -- fewer lists than asked for
SELECT * FROM pg_temp.each_length('{1,2,7,8,9,31,64,65,200}', 400, 5);
SELECT * FROM pg_temp.each_length('{64000}', 60, 3);
RESET client_min_messages;

-- nothing, one row, many copies of one
CREATE TABLE few_bits (id int, b bit(20));
CREATE INDEX few_bits_b ON few_bits USING gpuivf (b);
SELECT count(*) FROM (SELECT id FROM few_bits ORDER BY b <~> repeat('1', 20)::bit(20) LIMIT 5) s;
INSERT INTO few_bits VALUES (1, B'11110000111100001111');
REINDEX INDEX few_bits_b;
SELECT pg_temp.compare_scans('few_bits', format('b <~> %L', repeat('1', 20)), 'LIMIT 5');
INSERT INTO few_bits SELECT i, B'11110000111100001111' FROM generate_series(2, 500) i;
SELECT rows_moved FROM vectorgpu_merge('few_bits_b');
SELECT pg_temp.compare_scans('few_bits', format('b <~> %L', repeat('1', 20)), 'LIMIT 5');
SELECT recall FROM vectorgpu_recall('few_bits_b', 20);

-- what bit strings do not support
CREATE INDEX ON bits USING gpuivf (b) WITH (storage = sq8);
CREATE INDEX ON bits USING gpuivf (b) WITH (storage = fp32);
CREATE INDEX ON bits USING gpuivf (b) WITH (storage = pq, pq_m = 4);
CREATE INDEX ON bits USING gpuivf (b) WITH (refine = none);
CREATE INDEX ON bits USING gpuivf (b bit_jaccard_ops) WITH (refine = fp16);
CREATE INDEX ON bits USING gpuivf (b) WITH (opq);
CREATE INDEX ON bits USING gpuivf (b) WITH (storage = fp16, refine = none);
CREATE INDEX ON bits USING gpuivf (b) WITH (pq_bits = 4);
CREATE TABLE odd_bits (b bit varying);
CREATE INDEX ON odd_bits USING gpuivf (b);
CREATE INDEX ON odd_bits USING gpuivf ((b::bit(64001)));
SELECT id FROM bits ORDER BY b <~> B'1' LIMIT 1;
CREATE TABLE wide_bits (b bit(64000));
INSERT INTO wide_bits SELECT repeat(i::bit(8)::text, 8000)::bit(64000) FROM generate_series(1, 40) i;
SET maintenance_work_mem = '4MB';
CREATE INDEX ON wide_bits USING gpuivf (b) WITH (lists = 30);
CREATE INDEX wide_bits_b ON wide_bits USING gpuivf (b);
SELECT rows, heap_rows_checked FROM vectorgpu_check('wide_bits_b', true);
RESET maintenance_work_mem;
DROP TABLE bits, few_bits, odd_bits, wide_bits;
DROP FUNCTION group_bits;
