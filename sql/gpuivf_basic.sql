-- gpuivf: operator classes, answers with all lists looked at and with few, small tables, odd data
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

SELECT o.opcname, o.opcdefault, t.typname, amvalidate(o.oid)
FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod JOIN pg_type t ON t.oid = o.opcintype
WHERE a.amname = 'gpuivf' AND o.opcname NOT LIKE '%filter\_ops' ORDER BY t.typname, o.opcname;

CREATE FUNCTION ivf_vector(i int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 89 = 0 THEN ARRAY[0, 0, 0, 0]
		ELSE ARRAY[(i % 13) * 10 + (i * 7919) % 7, (i % 7) * 10 + (i * 104729) % 5, (i * 31) % 11, (i * 17) % 9 - 4] END::real[]
$$;
CREATE TABLE ivf (id int, v vector(4), h halfvec(4));
INSERT INTO ivf SELECT i, ivf_vector(i)::vector, ivf_vector(i)::vector::halfvec FROM generate_series(1, 3000) i;

-- every metric and type: all lists are looked at, so that answers are those of a sequential scan
SET gpuivf.probes = 20;
CREATE FUNCTION pg_temp.each_class(tails text[]) RETURNS TABLE (class text, tail text, result text) LANGUAGE plpgsql AS $$
BEGIN
	FOR class IN SELECT t.typname || '_' || m || '_ops' FROM pg_type t, unnest('{l2,ip,cosine,l1}'::text[]) m
		WHERE typname IN ('vector', 'halfvec') ORDER BY 1
	LOOP
		EXECUTE format('CREATE INDEX ivf_i ON ivf USING gpuivf (%s %s) WITH (lists = 20)', left(class, 1), class);
		FOREACH tail IN ARRAY tails LOOP
			result := pg_temp.compare_scans('ivf', format('%s %s ''[50,30,5,1]''', left(class, 1),
				CASE split_part(class, '_', 2) WHEN 'l2' THEN '<->' WHEN 'ip' THEN '<#>' WHEN 'cosine' THEN '<=>' ELSE '<+>' END), tail);
			RETURN NEXT;
		END LOOP;
		PERFORM vectorgpu_check('ivf_i', true);
		DROP INDEX ivf_i;
	END LOOP;
END $$;
SELECT * FROM pg_temp.each_class('{LIMIT 10,LIMIT 2000,OFFSET 0,WHERE id % 50 = 3 LIMIT 20}');

-- one list at first: a LIMIT that is known gets its rows, in order; a scan without one ends with all rows
SET gpuivf.probes = 1;
CREATE INDEX ivf_v ON ivf USING gpuivf (v) WITH (lists = 30);
CREATE FUNCTION pg_temp.scan(order_by text, tail text) RETURNS TABLE (n bigint, different bigint, in_order boolean) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	RETURN QUERY EXECUTE format('SELECT count(*), count(DISTINCT id), coalesce(bool_and(ordered), true) FROM (
		SELECT id, d >= lag(d) OVER () IS NOT FALSE AS ordered
		FROM (SELECT id, %1$s AS d FROM ivf %2$s) s) t', order_by,
		CASE WHEN tail ~ 'WHERE' THEN replace(tail, 'ORDER', 'ORDER BY ' || order_by) ELSE 'ORDER BY ' || order_by || ' ' || tail END);
END $$;
EXPLAIN (COSTS OFF) SELECT id FROM ivf ORDER BY v <-> '[50,30,5,1]' LIMIT 10;
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'LIMIT 10');
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'LIMIT 500');
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'LIMIT 3000');
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'WHERE id % 100 = 7 ORDER LIMIT 10');
SET vectorgpu.scan_order = relaxed;
SELECT n, different FROM pg_temp.scan('v <-> ''[50,30,5,1]''', '');
SELECT n, different FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'WHERE id % 100 = 7 ORDER LIMIT 10');
SELECT n, different FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'WHERE id % 100 = 7 ORDER');
RESET vectorgpu.scan_order;
SELECT n <= 3000 AS at_most_all, n = different AS once, in_order FROM pg_temp.scan('v <-> ''[50,30,5,1]''', '');
-- without a distance: all rows, in the table's order
SET enable_seqscan = off;
SELECT count(*), count(*) FILTER (WHERE v IS NULL) AS nulls FROM (SELECT v FROM ivf ORDER BY v <-> NULL) s;
RESET enable_seqscan;

-- inserts, vacuum, merges
INSERT INTO ivf SELECT i, ivf_vector(i)::vector FROM generate_series(3001, 4000) i;
DELETE FROM ivf WHERE id % 3 = 0;
VACUUM ivf;
SET gpuivf.probes = 30;
SELECT pg_temp.compare_scans('ivf', 'v <-> ''[50,30,5,1]''', 'LIMIT 50');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('ivf_v', true);
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('ivf_v');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('ivf_v', true);
SELECT pg_temp.compare_scans('ivf', 'v <-> ''[50,30,5,1]''', 'LIMIT 50');
SELECT pg_temp.compare_scans('ivf', 'v <-> ''[50,30,5,1]''', '');
REINDEX INDEX ivf_v;
REINDEX INDEX CONCURRENTLY ivf_v;
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('ivf_v', true);

-- few rows, no rows, one value, no value, one dimension
CREATE FUNCTION pg_temp.odd_table(type text, rows text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text;
BEGIN
	EXECUTE format('CREATE TABLE odd (id int, v %s)', type);
	EXECUTE 'INSERT INTO odd ' || rows;
	EXECUTE 'CREATE INDEX odd_v ON odd USING gpuivf (v) ' || options;
	results := pg_temp.compare_scans('odd', format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type));
	PERFORM vectorgpu_check('odd_v', true);
	EXECUTE 'INSERT INTO odd ' || rows;
	PERFORM vectorgpu_merge('odd_v');
	PERFORM vectorgpu_check('odd_v', true);
	results := results || '; merged: ' || pg_temp.compare_scans('odd', format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type));
	DROP TABLE odd;
	RETURN results;
END $$;
SET gpuivf.probes = 0;
SET client_min_messages = warning; -- of fewer lists
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, NULL::vector WHERE false', '');
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, NULL::vector WHERE false', 'WITH (lists = 100)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, ''[1,2,3]''::vector', 'WITH (lists = 100)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, NULL FROM generate_series(1, 100) i', 'WITH (lists = 10)');
SET gpuivf.probes = 100;
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, array[i, -i, i % 3]::vector FROM generate_series(1, 7) i', 'WITH (lists = 100)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, ''[1,2,3]''::vector FROM generate_series(1, 500) i', 'WITH (lists = 10)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, array[i % 2, 1, 1]::vector FROM generate_series(1, 500) i', 'WITH (lists = 10)');
SELECT pg_temp.odd_table('vector(1)', 'SELECT i, array[i]::vector FROM generate_series(1, 500) i', 'WITH (lists = 10)');
SELECT pg_temp.odd_table('halfvec(2)', 'SELECT i, array[i, 2]::vector::halfvec FROM generate_series(1, 500) i', '');

RESET client_min_messages;

-- more lists than different rows
CREATE TABLE few (id int, v vector(2)) PARTITION BY LIST (id);
CREATE TABLE few_0 PARTITION OF few FOR VALUES IN (0);
CREATE TABLE few_1 PARTITION OF few FOR VALUES IN (1);
CREATE TABLE few_2 PARTITION OF few FOR VALUES IN (2);
INSERT INTO few SELECT 1, array[i, -i]::vector FROM generate_series(1, 7) i;
INSERT INTO few VALUES (1, NULL);
INSERT INTO few SELECT 2, array[i % 2, 1]::vector FROM generate_series(1, 500) i;
CREATE INDEX few_v ON few USING gpuivf (v) WITH (lists = 10);
SELECT index_name, lists FROM vectorgpu_indexes WHERE table_name LIKE 'few%' ORDER BY 1;
INSERT INTO few SELECT 1, array[i, -i]::vector FROM generate_series(8, 30) i;
SELECT segments_after, rows_moved FROM vectorgpu_merge('few_1_v_idx');
SELECT index_name, lists FROM vectorgpu_indexes WHERE table_name = 'few_1';
DELETE FROM few_1 WHERE v <-> '[1,-1]' > 0;
REINDEX INDEX CONCURRENTLY few_1_v_idx;
ALTER INDEX few_1_v_idx RESET (lists);
REINDEX INDEX few_1_v_idx;
CREATE INDEX CONCURRENTLY ON few_0 USING gpuivf (v) WITH (lists = 10);
DROP TABLE few;

-- more rows of another kind: the model is trained anew
CREATE TABLE grown (id int, v vector(4));
CREATE INDEX grown_v ON grown USING gpuivf (v);
INSERT INTO grown SELECT i, ivf_vector(i)::vector FROM generate_series(1, 3000) i;
SELECT segments_after, rows_moved FROM vectorgpu_merge('grown_v');
INSERT INTO grown SELECT i, array[1000 + i, i % 100, 3, 4]::vector FROM generate_series(1, 3000) i;
SELECT segments_after, rows_moved FROM vectorgpu_merge('grown_v');
SELECT rows, heap_rows_checked FROM vectorgpu_check('grown_v', true);

-- more than fits maintenance_work_mem: temporary files partition the lists; a list may be larger than a part
CREATE TABLE ivf_parts (id int, v vector(500));
INSERT INTO ivf_parts SELECT i, (SELECT array_agg((i * d) % 31 + i % 2 * 100) FROM generate_series(1, 500) d)::real[]::vector FROM generate_series(1, 2000) i;
SET maintenance_work_mem = '1MB';
CREATE INDEX ivf_parts_few ON ivf_parts USING gpuivf (v) WITH (lists = 2);
SELECT rows, heap_rows_checked FROM vectorgpu_check('ivf_parts_few', true);
SET client_min_messages = warning; -- of fewer lists, as the sample has few different rows
CREATE INDEX ivf_parts_many ON ivf_parts USING gpuivf (v) WITH (lists = 50);
RESET client_min_messages;
SELECT rows, heap_rows_checked FROM vectorgpu_check('ivf_parts_many', true);
DELETE FROM ivf_parts WHERE id % 3 = 0;
VACUUM ivf_parts;
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('ivf_parts_many');
SELECT rows, heap_rows_checked FROM vectorgpu_check('ivf_parts_many', true);
RESET maintenance_work_mem;

-- bad input
CREATE INDEX ON ivf USING gpuivf (v) WITH (lists = -1);
CREATE INDEX ON ivf USING gpuivf (v) WITH (lists = 65537);
CREATE INDEX ON ivf USING gpuivf (v) WITH (list = 10);
CREATE INDEX ON ivf USING gpuivf (v, h);
CREATE INDEX ON ivf USING gpuivf ((v::text::vector));
CREATE TABLE ivf_texts (b text);
CREATE INDEX ON ivf_texts USING gpuivf (b);
CREATE TABLE ivf_wide (v vector(16000));
SET maintenance_work_mem = '1MB';
INSERT INTO ivf_wide SELECT array_fill(i, ARRAY[16000])::real[]::vector FROM generate_series(1, 10) i;
CREATE INDEX ON ivf_wide USING gpuivf (v) WITH (lists = 10);
CREATE INDEX ON ivf_wide USING gpuivf (v);
RESET maintenance_work_mem;

-- lists that memory has no room for: a build says so, a merge makes fewer
CREATE TABLE ivf_short (v vector(1000));
INSERT INTO ivf_short SELECT array_fill(i, ARRAY[1000])::real[]::vector FROM generate_series(1, 100) i;
CREATE INDEX ivf_short_v ON ivf_short USING gpuivf (v) WITH (lists = 50);
INSERT INTO ivf_short SELECT array_fill(i, ARRAY[1000])::real[]::vector FROM generate_series(101, 300) i;
SET maintenance_work_mem = '1MB';
SELECT segments_after, rows_moved FROM vectorgpu_merge('ivf_short_v');
SELECT rows, delta_rows, heap_rows_checked FROM vectorgpu_check('ivf_short_v', true);
SELECT lists BETWEEN 1 AND 49 FROM vectorgpu_indexes WHERE index_name = 'ivf_short_v';
REINDEX INDEX ivf_short_v;
RESET maintenance_work_mem;
SET gpuivf.probes = -1;
SET gpuivf.recall_target = 2;
SET gpuivf.nothing = 1;
DROP TABLE ivf, ivf_texts, ivf_wide, ivf_short, ivf_parts, grown;
DROP FUNCTION ivf_vector;
