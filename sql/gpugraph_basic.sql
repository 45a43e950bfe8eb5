-- gpugraph: operator classes, answers of all rows and of few, small tables, odd data, several graphs in a segment
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

SELECT o.opcname, o.opcdefault, t.typname, amvalidate(o.oid)
FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod JOIN pg_type t ON t.oid = o.opcintype
WHERE a.amname = 'gpugraph' AND o.opcname NOT LIKE '%filter\_ops' ORDER BY t.typname, o.opcname;

CREATE FUNCTION graph_vector(i int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 89 = 0 THEN ARRAY[0, 0, 0, 0]
		ELSE ARRAY[(i % 13) * 10 + (i * 7919) % 7, (i % 7) * 10 + (i * 104729) % 5, (i * 31) % 11, (i * 17) % 9 - 4] END::real[]
$$;
CREATE TABLE graph (id int, v vector(4), h halfvec(4));
INSERT INTO graph SELECT i, graph_vector(i)::vector, graph_vector(i)::vector::halfvec FROM generate_series(1, 3000) i;

-- every metric and type: a search as wide as this looks at all rows and answers as a sequential scan
CREATE FUNCTION pg_temp.each_class(widths int[], tails text[]) RETURNS TABLE (class text, width int, tail text, result text) LANGUAGE plpgsql AS $$
DECLARE
	distance text;
BEGIN
	FOR class IN SELECT t.typname || '_' || m || '_ops' FROM pg_type t, unnest('{l2,ip,cosine,l1}'::text[]) m
		WHERE typname IN ('vector', 'halfvec') ORDER BY 1
	LOOP
		EXECUTE format('CREATE INDEX graph_i ON graph USING gpugraph (%s %s) WITH (degree = 16)', left(class, 1), class);
		distance := format('%s %s ''[50,30,5,1]''', left(class, 1),
			CASE split_part(class, '_', 2) WHEN 'l2' THEN '<->' WHEN 'ip' THEN '<#>' WHEN 'cosine' THEN '<=>' ELSE '<+>' END);
		FOREACH width IN ARRAY widths LOOP
			PERFORM set_config('gpugraph.search_width', width::text, false);
			FOREACH tail IN ARRAY tails LOOP
				result := pg_temp.compare_scans('graph', distance, tail);
				RETURN NEXT;
			END LOOP;
		END LOOP;
		PERFORM vectorgpu_check('graph_i', true);
		DROP INDEX graph_i;
	END LOOP;
END $$;
SELECT * FROM pg_temp.each_class('{1000000}', '{LIMIT 10,LIMIT 2000,OFFSET 0,WHERE id % 50 = 3 LIMIT 20}');
-- a search of the graph finds the nearest of so few rows
SELECT * FROM pg_temp.each_class('{200}', '{LIMIT 3}');

-- a narrow search: a LIMIT that is known gets its rows, in order; a scan without one ends with all rows
SET gpugraph.search_width = 1;
CREATE INDEX graph_v ON graph USING gpugraph (v);
CREATE FUNCTION pg_temp.scan(order_by text, tail text) RETURNS TABLE (n bigint, different bigint, in_order boolean) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	RETURN QUERY EXECUTE format('SELECT count(*), count(DISTINCT id), coalesce(bool_and(ordered), true) FROM (
		SELECT id, d >= lag(d) OVER () IS NOT FALSE AS ordered
		FROM (SELECT id, %1$s AS d FROM graph %2$s) s) t', order_by,
		CASE WHEN tail ~ 'WHERE' THEN replace(tail, 'ORDER', 'ORDER BY ' || order_by) ELSE 'ORDER BY ' || order_by || ' ' || tail END);
END $$;
EXPLAIN (COSTS OFF) SELECT id FROM graph ORDER BY v <-> '[50,30,5,1]' LIMIT 10;
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'LIMIT 1');
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
SET enable_seqscan = off;
SELECT count(*), count(*) FILTER (WHERE v IS NULL) AS nulls FROM (SELECT v FROM graph ORDER BY v <-> NULL) s;
RESET enable_seqscan;
-- no row has a cosine with a zero vector
CREATE INDEX graph_cosine ON graph USING gpugraph (v vector_cosine_ops);
SELECT pg_temp.compare_scans('graph', 'v <=> ''[0,0,0,0]''', 'LIMIT 5');
DROP INDEX graph_cosine;

-- inserts, vacuum, merges; searches pass through a dead row, but do not return it
INSERT INTO graph SELECT i, graph_vector(i)::vector FROM generate_series(3001, 4000) i;
DELETE FROM graph WHERE id % 3 = 0;
VACUUM graph;
SELECT * FROM pg_temp.scan('v <-> ''[50,30,5,1]''', 'LIMIT 10');
SET gpugraph.search_width = 300;
SELECT pg_temp.compare_scans('graph', 'v <-> ''[50,30,5,1]''', 'LIMIT 5');
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('graph', 'v <-> ''[50,30,5,1]''', 'LIMIT 50');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('graph_v', true);
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('graph_v');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('graph_v', true);
SELECT pg_temp.compare_scans('graph', 'v <-> ''[50,30,5,1]''', 'LIMIT 50');
SELECT pg_temp.compare_scans('graph', 'v <-> ''[50,30,5,1]''', '');
REINDEX INDEX graph_v;
REINDEX INDEX CONCURRENTLY graph_v;
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('graph_v', true);

-- few rows, no rows, one value, no value, one dimension, any degree
CREATE FUNCTION pg_temp.odd_table(type text, rows text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text;
	distance text := format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type);
BEGIN
	EXECUTE format('CREATE TABLE odd (id int, v %s)', type);
	EXECUTE 'INSERT INTO odd ' || rows;
	EXECUTE 'CREATE INDEX odd_v ON odd USING gpugraph (v) ' || options;
	results := pg_temp.compare_scans('odd', distance);
	PERFORM vectorgpu_check('odd_v', true);
	EXECUTE 'INSERT INTO odd ' || rows;
	PERFORM vectorgpu_merge('odd_v');
	PERFORM vectorgpu_check('odd_v', true);
	results := results || '; merged: ' || pg_temp.compare_scans('odd', distance);
	DROP TABLE odd;
	RETURN results;
END $$;
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, NULL::vector WHERE false', '');
SELECT pg_temp.odd_table('vector(3)', 'SELECT 1, ''[1,2,3]''::vector', 'WITH (degree = 256)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, NULL FROM generate_series(1, 100) i', '');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, array[i, -i, i % 3]::vector FROM generate_series(1, 7) i', 'WITH (degree = 4)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, array[i, -i, i % 3]::vector FROM generate_series(1, 64) i', 'WITH (degree = 64, prune = rng)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, ''[1,2,3]''::vector FROM generate_series(1, 500) i', 'WITH (degree = 5)');
SELECT pg_temp.odd_table('vector(3)', 'SELECT i, array[i % 2, 1, 1]::vector FROM generate_series(1, 500) i', 'WITH (prune = rank)');
SELECT pg_temp.odd_table('vector(1)', 'SELECT i, array[i]::vector FROM generate_series(1, 500) i', '');
SELECT pg_temp.odd_table('halfvec(2)', 'SELECT i, array[i, 2]::vector::halfvec FROM generate_series(1, 500) i', '');

-- more equal rows than are compared pairwise: all are reachable, and found
CREATE TABLE equal (id int, v vector(2));
INSERT INTO equal SELECT i, '[1,2]' FROM generate_series(1, 6000) i;
CREATE INDEX equal_v ON equal USING gpugraph (v);
SELECT rows, heap_rows_checked FROM vectorgpu_check('equal_v', true);
SET gpugraph.search_width = 10;
SET enable_seqscan = off;
SELECT count(DISTINCT id) FROM (SELECT id FROM equal ORDER BY v <-> '[1,2]' LIMIT 10) s;
SELECT count(DISTINCT id) FROM (SELECT id FROM equal ORDER BY v <-> '[1,2]' LIMIT 6000) s;
RESET enable_seqscan;

-- more than fits maintenance_work_mem: a graph for each part of the rows
CREATE TABLE parts (id int, v vector(100));
INSERT INTO parts SELECT i, (SELECT array_agg((i * d) % 31 + i % 2 * 100) FROM generate_series(1, 100) d)::real[]::vector FROM generate_series(1, 5000) i;
SET maintenance_work_mem = '1MB';
\set VERBOSITY terse
CREATE INDEX parts_v ON parts USING gpugraph (v);
\set VERBOSITY default
RESET maintenance_work_mem;
SELECT rows, heap_rows_checked FROM vectorgpu_check('parts_v', true);
-- each part is searched: rows of each part find themselves
CREATE FUNCTION pg_temp.found_itself(tab text, step int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	EXECUTE format('SELECT count(*) FROM %1$s q, LATERAL (SELECT v <-> q.v AS d FROM %1$s ORDER BY v <-> q.v LIMIT 1) s WHERE q.id %% %2$s = 0 AND s.d = 0', tab, step) INTO n;
	RETURN n;
END $$;
SELECT pg_temp.found_itself('parts', 100) >= 45 AS found;
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('parts', 'v <-> (SELECT v FROM parts WHERE id = 77)', 'LIMIT 20');

-- a higher recall target needs a wider search; so do more rows
CREATE TABLE sample (id int, v vector(8));
INSERT INTO sample SELECT i, (SELECT array_agg(('x' || substring(md5(i || ' ' || d), 1, 6))::bit(24)::int) FROM generate_series(1, 8) d)::real[]::vector FROM generate_series(1, 8000) i;
CREATE INDEX sample_v ON sample USING gpugraph (v) WITH (degree = 12);
CREATE FUNCTION pg_temp.compared(target real, k int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('gpugraph.recall_target', target::text, true),
		set_config('gpugraph.search_width', '0', true);
	EXECUTE format('EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF, COSTS OFF) SELECT id FROM sample ORDER BY v <-> (SELECT v FROM sample WHERE id = 5) LIMIT %s', k) INTO plan;
	RETURN substring(plan::text from '"Compared": (\d+)')::bigint;
END $$;
SET vectorgpu.worker = off; -- what the backend compares is counted
SELECT pg_temp.compared(0.5, 10) < pg_temp.compared(0.998, 10) AS wider_for_more_recall,
	pg_temp.compared(0.99, 10) < 8000 AS a_part, pg_temp.compared(0.9, 10) < pg_temp.compared(0.9, 100) AS wider_for_more_rows;
RESET vectorgpu.worker;

-- dead rows do not displace live rows in a search; else far rows of the delta would replace them
DELETE FROM sample WHERE id % 10 < 3;
VACUUM sample;
INSERT INTO sample SELECT i, (SELECT array_agg(('x' || substring(md5(i || ' ' || d), 1, 6))::bit(24)::int) FROM generate_series(1, 8) d)::real[]::vector FROM generate_series(8001, 9000) i;
SELECT recall > 0.93 AS found FROM vectorgpu_recall('sample_v', 300);

-- bad input
CREATE INDEX ON graph USING gpugraph (v) WITH (degree = 3);
CREATE INDEX ON graph USING gpugraph (v) WITH (degree = 257);
CREATE INDEX ON graph USING gpugraph (v) WITH (prune = none);
CREATE INDEX ON graph USING gpugraph (v) WITH (lists = 10);
CREATE INDEX ON graph USING gpugraph (v, h);
CREATE INDEX ON graph USING gpugraph ((v::text::vector));
SET gpugraph.search_width = -1;
SET gpugraph.recall_target = 2;
SET gpugraph.nothing = 1;
DROP TABLE graph, equal, parts, sample;
DROP FUNCTION graph_vector;
