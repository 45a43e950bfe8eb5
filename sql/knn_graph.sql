-- vectorgpu_knn_graph and vectorgpu_path: the same as by SQL, for every access method on vectors; arguments and privileges
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- An autovacuum would remove the dead rows that the tests are about.
CREATE TABLE knn (id int, v vector(6)) WITH (autovacuum_enabled = off, fillfactor = 60);
INSERT INTO knn SELECT i, (SELECT array_agg((hashint4(i * 8 + d) & 1023)::float4) FROM generate_series(1, 6) d)::vector
	FROM generate_series(1, 300) i;
CREATE INDEX knn_flat ON knn USING gpuflat (v vector_l2_ops);

-- The graph by brute force: the distance of every two rows, ties by ctid
CREATE FUNCTION knn_truth(k int) RETURNS TABLE (source tid, target tid, rank int, distance float8) LANGUAGE sql AS $$
	SELECT a.ctid, b.ctid, b.rank, b.d FROM knn a, LATERAL (
		SELECT o.ctid, o.v <-> a.v AS d, row_number() OVER (ORDER BY o.v <-> a.v, o.ctid)::int AS rank
		FROM knn o WHERE o.ctid <> a.ctid AND o.v IS NOT NULL) b
	WHERE a.v IS NOT NULL AND b.rank <= k
$$;
-- Edges of the index that the brute force does not have, and vice versa; and whether they come in the table's order
CREATE FUNCTION knn_compare(index regclass, k int, OUT edges int8, OUT wrong int8, OUT missing int8, OUT in_order bool) LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE got AS SELECT n, (g).* FROM (SELECT row_number() OVER () AS n, g
		FROM (SELECT vectorgpu_knn_graph(index, k) AS g OFFSET 0) s) t;
	SELECT count(*) INTO edges FROM got;
	SELECT count(*) INTO wrong FROM (SELECT source, target, rank, distance FROM got EXCEPT SELECT * FROM knn_truth(k)) x;
	SELECT count(*) INTO missing FROM (SELECT * FROM knn_truth(k) EXCEPT SELECT source, target, rank, distance FROM got) x;
	SELECT coalesce(bool_and(n = r), true) INTO in_order
		FROM (SELECT n, row_number() OVER (ORDER BY source, rank) AS r FROM got) x;
	DROP TABLE got;
END
$$;
SELECT * FROM knn_compare('knn_flat', 1);
SELECT * FROM knn_compare('knn_flat', 10);
-- more than exist
SELECT * FROM knn_compare('knn_flat', 400);
-- in the select list rows come as they are found, in FROM as well as from a cursor
SELECT * FROM vectorgpu_knn_graph('knn_flat', 2) LIMIT 5;
SELECT (vectorgpu_knn_graph('knn_flat', 3)).* LIMIT 4;
BEGIN;
DECLARE c CURSOR FOR SELECT vectorgpu_knn_graph('knn_flat', 3);
FETCH 2 FROM c;
MOVE 780 IN c;
FETCH 2 FROM c;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
-- concurrent changes have no effect: the cursor has its snapshot
INSERT INTO knn SELECT 1000 + i, '[1,1,1,1,1,1]' FROM generate_series(1, 5) i;
MOVE ALL IN c;
FETCH 1 FROM c;
ROLLBACK;

-- approximate indexes: exact if the search is wide enough, else each row gets k others, each once
CREATE INDEX knn_ivf ON knn USING gpuivf (v vector_l2_ops) WITH (lists = 12);
CREATE INDEX knn_graph ON knn USING gpugraph (v vector_l2_ops);
SET gpuivf.probes = 12;
SELECT * FROM knn_compare('knn_ivf', 7);
SET gpuivf.probes = 1;
SELECT edges, wrong > 0 AS some_miss, wrong < 1800 AS few, in_order FROM knn_compare('knn_ivf', 7);
SELECT count(*) = 300 * 7 AND min(n) = 7 AND bool_and(no_self) FROM (SELECT count(DISTINCT target) AS n, bool_and(source <> target) AS no_self
	FROM vectorgpu_knn_graph('knn_ivf', 7) GROUP BY source) s, generate_series(1, 7);
RESET gpuivf.probes;
SET gpugraph.search_width = 400;
SELECT * FROM knn_compare('knn_graph', 7);
SET gpugraph.search_width = 8;
SELECT edges, wrong < 1000 AS few, in_order FROM knn_compare('knn_graph', 7);
RESET gpugraph.search_width;

-- the smoothest path: its longest step is the least threshold that connects the two rows
CREATE FUNCTION knn_bottleneck(a tid, b tid, k int) RETURNS float8 LANGUAGE sql AS $$
	WITH RECURSIVE edges AS MATERIALIZED (
		SELECT source, target, distance FROM knn_truth(k) UNION SELECT target, source, distance FROM knn_truth(k)
	), thresholds AS (
		SELECT distance AS t, row_number() OVER (ORDER BY distance) AS n FROM (SELECT DISTINCT distance FROM edges) d
	), search AS (
		SELECT 0::int8 AS low, (SELECT max(n) + 1 FROM thresholds) AS high
		UNION ALL
		SELECT CASE WHEN joined THEN low ELSE middle END, CASE WHEN joined THEN middle ELSE high END
		FROM (SELECT low, high, middle, (
				WITH RECURSIVE reached AS (
					SELECT a AS node
					UNION
					SELECT e.target FROM reached r JOIN edges e ON e.source = r.node
						AND e.distance <= (SELECT t FROM thresholds WHERE n = middle)
				) SELECT bool_or(node = b) FROM reached) AS joined
			FROM (SELECT low, high, (low + high) / 2 AS middle FROM search WHERE high - low > 1) h) j
	)
	SELECT t FROM thresholds WHERE n = (SELECT min(high) FROM search)
$$;
-- a path's ends, whether every step is an edge of the graph with that distance, and whether no path is smoother
CREATE FUNCTION knn_path_holds(index regclass, a int, b int, k int, OUT ends bool, OUT edges bool, OUT smoothest bool, OUT once bool)
	LANGUAGE plpgsql AS $$
DECLARE
	first tid := (SELECT ctid FROM knn WHERE id = a);
	last tid := (SELECT ctid FROM knn WHERE id = b);
BEGIN
	CREATE TEMP TABLE way AS SELECT * FROM vectorgpu_path(index, first, last, k);
	SELECT w.tid = first INTO ends FROM way w WHERE step = 1;
	ends := ends AND (SELECT w.tid = last FROM way w ORDER BY step DESC LIMIT 1);
	SELECT bool_and(EXISTS (SELECT FROM knn_truth(k) t WHERE (t.source, t.target) IN ((x.tid, y.tid), (y.tid, x.tid)) AND t.distance = y.distance))
		INTO edges FROM way x JOIN way y ON y.step = x.step + 1;
	smoothest := (SELECT max(distance) FROM way) = knn_bottleneck(first, last, k);
	once := (SELECT count(DISTINCT tid) = count(*) AND max(step) = count(*) FROM way);
	DROP TABLE way;
END
$$;
SELECT * FROM knn_path_holds('knn_flat', 1, 2, 10);
SELECT * FROM knn_path_holds('knn_flat', 17, 299, 5);
SELECT p.* FROM pg_catalog.generate_series(1, 10) i, knn_path_holds('knn_flat', i, 300 - 7 * i, 6) p GROUP BY 1, 2, 3, 4;
-- the reverse path
SELECT array_agg(tid ORDER BY step) = (SELECT array_agg(b.tid ORDER BY b.step DESC) FROM knn x, knn y, vectorgpu_path('knn_flat', y.ctid, x.ctid) b
	WHERE x.id = 3 AND y.id = 200) AS same FROM knn x, knn y, vectorgpu_path('knn_flat', x.ctid, y.ctid) WHERE x.id = 3 AND y.id = 200;
-- from a row to itself, and no path: with one neighbour each the graph is not connected
SELECT step, tid = ctid AS itself, distance FROM knn, vectorgpu_path('knn_flat', ctid, ctid) WHERE id = 5;
SELECT count(*) FROM knn x, knn y, vectorgpu_path('knn_flat', x.ctid, y.ctid, 1) WHERE x.id = 1 AND y.id = 2;
SELECT knn_bottleneck(x.ctid, y.ctid, 1) FROM knn x, knn y WHERE x.id = 1 AND y.id = 2;

-- by the worker, if it is on: the same rows in the same order as from the pages
CREATE FUNCTION knn_both_ways(index regclass, k int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	is_on text := (SELECT reset_val FROM pg_settings WHERE name = 'vectorgpu.worker');
	by_worker text[];
	by_pages text[];
BEGIN
	PERFORM set_config('vectorgpu.worker', is_on, true);
	SELECT array_agg(g::text) INTO by_worker FROM vectorgpu_knn_graph(index, k) g;
	PERFORM set_config('vectorgpu.worker', 'off', true);
	SELECT array_agg(g::text) INTO by_pages FROM vectorgpu_knn_graph(index, k) g;
	RETURN by_worker = by_pages;
END
$$;
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker_timeout = '2min';
SELECT knn_both_ways(i, 9) FROM unnest('{knn_flat, knn_ivf, knn_graph}'::regclass[]) i;
SELECT * FROM knn_compare('knn_flat', 10);

-- versions in one chain, dead rows, NULL, rows of the delta
UPDATE knn SET id = id WHERE id % 5 = 0;
UPDATE knn SET v = v WHERE id % 7 = 0;
DELETE FROM knn WHERE id % 11 = 0;
INSERT INTO knn SELECT 1000 + i, CASE WHEN i < 8 THEN array_fill(100 * i, ARRAY[6])::vector END FROM generate_series(1, 10) i;
SELECT * FROM knn_compare('knn_flat', 8);
SET gpuivf.probes = 12;
SELECT * FROM knn_compare('knn_ivf', 8);
RESET gpuivf.probes;
SELECT * FROM knn_path_holds('knn_flat', 1, 299, 8);
SELECT knn_both_ways(i, 9) FROM unnest('{knn_flat, knn_ivf, knn_graph}'::regclass[]) i;
SELECT * FROM knn_compare('knn_flat', 8);
VACUUM knn;
SELECT knn_both_ways(i, 9) FROM unnest('{knn_flat, knn_ivf, knn_graph}'::regclass[]) i;
SELECT * FROM knn_compare('knn_flat', 8);
-- changes by the same transaction while a cursor is open have no effect, and a serializable transaction has the same graph
CREATE FUNCTION knn_beside_changes(k int, OUT edges int8, OUT wrong int8, OUT missing int8) LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR FOR SELECT (g).* FROM (SELECT vectorgpu_knn_graph('knn_flat', k) AS g OFFSET 0) s;
	edge record;
BEGIN
	CREATE TEMP TABLE truth AS SELECT * FROM knn_truth(k);
	CREATE TEMP TABLE got (source tid, target tid, rank int, distance float8);
	edges := 0;
	OPEN c;
	LOOP
		FETCH c INTO edge;
		EXIT WHEN NOT FOUND;
		edges := edges + 1;
		INSERT INTO got SELECT edge.source, edge.target, edge.rank, edge.distance;
		IF edges = 10 THEN
			DELETE FROM knn WHERE id % 4 = 0;
			UPDATE knn SET id = id WHERE id % 3 = 0;
			UPDATE knn SET v = v WHERE id % 3 = 1;
		END IF;
	END LOOP;
	SELECT count(*) INTO wrong FROM (SELECT * FROM got EXCEPT SELECT * FROM truth) x;
	SELECT count(*) INTO missing FROM (SELECT * FROM truth EXCEPT SELECT * FROM got) x;
	DROP TABLE truth, got;
END
$$;
BEGIN;
SELECT edges > 2000 AS all, wrong, missing FROM knn_beside_changes(8);
SELECT wrong, missing FROM knn_compare('knn_flat', 8);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT knn_both_ways('knn_flat', 9);
SELECT wrong, missing FROM knn_compare('knn_flat', 8);
COMMIT;
DROP FUNCTION knn_beside_changes;
RESET vectorgpu.worker_min_size;
-- a condition and an expression: rows outside the index are not in the graph
CREATE INDEX knn_part ON knn USING gpuflat ((v::halfvec(6)) halfvec_l2_ops) WHERE id % 2 = 0;
SELECT count(*), count(DISTINCT source) = (SELECT count(*) FROM knn WHERE id % 2 = 0 AND v IS NOT NULL) AS sources,
	bool_and(a.id % 2 = 0 AND b.id % 2 = 0 AND distance = (a.v::halfvec(6) <-> b.v::halfvec(6))) AS right
	FROM vectorgpu_knn_graph('knn_part', 3) JOIN knn a ON a.ctid = source JOIN knn b ON b.ctid = target;

-- types and metrics; NaN distances
CREATE TABLE knn1 (b bit(16), h halfvec(2));
CREATE INDEX knn1_b ON knn1 USING gpuflat (b bit_hamming_ops);
CREATE INDEX knn1_h ON knn1 USING gpuflat (h halfvec_cosine_ops);
SELECT * FROM vectorgpu_knn_graph('knn1_b', 3);
INSERT INTO knn1 VALUES (B'1010101010101010', '[0,0]'), (NULL, '[1,0]');
SELECT * FROM vectorgpu_knn_graph('knn1_b', 3);
INSERT INTO knn1 VALUES (B'0000000000000000', '[0,2]'), (B'1111101010101010', '[3,3]'), (B'1010101010101010', NULL);
SELECT * FROM vectorgpu_knn_graph('knn1_b', 2);
SELECT * FROM vectorgpu_knn_graph('knn1_h', 5);
-- NaN is no edge
SELECT * FROM vectorgpu_path('knn1_h', '(0,2)', '(0,3)');
SELECT * FROM vectorgpu_path('knn1_h', '(0,1)', '(0,3)');

-- arguments
SELECT vectorgpu_knn_graph('knn_flat', 0);
SELECT vectorgpu_knn_graph('knn_flat', 10001);
SELECT count(*) FROM vectorgpu_knn_graph(NULL, 3);
SELECT count(*) FROM vectorgpu_knn_graph('knn_flat', NULL);
SELECT vectorgpu_knn_graph('knn', 3);
SELECT vectorgpu_knn_graph(0, 3);
CREATE INDEX knn_id ON knn (id);
SELECT vectorgpu_knn_graph('knn_id', 3);
CREATE TABLE knn2 (a int[]);
CREATE INDEX knn2_a ON knn2 USING gpumatch (a);
SELECT vectorgpu_knn_graph('knn2_a', 3);
SELECT vectorgpu_path('knn2_a', '(0,1)', '(0,1)');
SELECT vectorgpu_path('knn_flat', '(0,1)', '(0,2)', 0);
SELECT vectorgpu_path('knn_flat', '(0,1)', NULL);
SELECT vectorgpu_path('knn_flat', '(0,1)', '(7777,1)');
SELECT vectorgpu_path('knn_flat', '(0,0)', '(0,1)');
-- a row without a value, and one that the index leaves out
SELECT ctid AS odd FROM knn WHERE id = 299 \gset
SELECT vectorgpu_path('knn1_b', '(0,1)', '(0,2)');
SELECT vectorgpu_path('knn_part', :'odd', :'odd');

-- memory
CREATE TABLE knn3 (v vector(1));
INSERT INTO knn3 SELECT ARRAY[i]::vector FROM generate_series(1, 14000) i;
CREATE INDEX knn3_v ON knn3 USING gpuflat (v vector_l2_ops);
SET maintenance_work_mem = '1MB';
SELECT vectorgpu_path('knn3_v', '(0,1)', '(0,2)');
RESET maintenance_work_mem;

-- privileges: SELECT on the whole table without row-level security; pg_stat_scan_tables is not enough
CREATE ROLE vg_knn_reader;
CREATE ROLE vg_knn_monitor IN ROLE pg_stat_scan_tables;
GRANT EXECUTE ON FUNCTION vectorgpu_knn_graph, vectorgpu_path TO vg_knn_reader, vg_knn_monitor;
GRANT SELECT (b) ON knn1 TO vg_knn_reader;
SET SESSION AUTHORIZATION vg_knn_reader;
SELECT vectorgpu_knn_graph('knn1_b', 1);
SELECT vectorgpu_path('knn1_b', '(0,1)', '(0,1)');
SET SESSION AUTHORIZATION vg_knn_monitor;
SELECT vectorgpu_knn_graph('knn1_b', 1);
SELECT vectorgpu_path('knn1_b', '(0,1)', '(0,1)');
RESET SESSION AUTHORIZATION;
GRANT SELECT ON knn1 TO vg_knn_reader;
SET SESSION AUTHORIZATION vg_knn_reader;
SELECT vectorgpu_knn_graph('knn1_b', 1);
SELECT vectorgpu_path('knn1_b', '(0,1)', '(0,1)');
SELECT current_user;
RESET SESSION AUTHORIZATION;
GRANT SELECT ON knn1 TO vg_knn_monitor;
ALTER TABLE knn1 ENABLE ROW LEVEL SECURITY;
SET SESSION AUTHORIZATION vg_knn_reader;
SELECT vectorgpu_knn_graph('knn1_b', 1);
SELECT vectorgpu_path('knn1_b', '(0,1)', '(0,1)');
SET SESSION AUTHORIZATION vg_knn_monitor;
SELECT vectorgpu_knn_graph('knn1_b', 1);
-- a right revoked between two batches ends the walk
RESET SESSION AUTHORIZATION;
GRANT SELECT ON knn TO vg_knn_reader;
SET SESSION AUTHORIZATION vg_knn_reader;
BEGIN;
DECLARE c CURSOR FOR SELECT vectorgpu_knn_graph('knn_flat', 1);
FETCH 1 FROM c;
RESET SESSION AUTHORIZATION;
REVOKE SELECT ON knn FROM vg_knn_reader;
SET SESSION AUTHORIZATION vg_knn_reader;
MOVE ALL IN c;
ROLLBACK;
RESET SESSION AUTHORIZATION;
-- ctids change when the transaction itself rewrites the table
BEGIN;
DECLARE c CURSOR FOR SELECT vectorgpu_knn_graph('knn_flat', 1);
FETCH 1 FROM c;
CLUSTER knn USING knn_id;
MOVE ALL IN c;
ROLLBACK;
-- also if the first batch has all rows
BEGIN;
CREATE TABLE knn4 (id int PRIMARY KEY, v vector(2));
INSERT INTO knn4 SELECT i, ARRAY[i, i]::vector FROM generate_series(10, 1, -1) i;
CREATE INDEX knn4_flat ON knn4 USING gpuflat (v vector_l2_ops);
DECLARE c CURSOR FOR SELECT vectorgpu_knn_graph('knn4_flat', 1);
MOVE 1 IN c;
CLUSTER knn4 USING knn4_pkey;
MOVE ALL IN c;
ROLLBACK;
REVOKE ALL ON knn, knn1 FROM vg_knn_reader, vg_knn_monitor;
REVOKE EXECUTE ON FUNCTION vectorgpu_knn_graph, vectorgpu_path FROM vg_knn_reader, vg_knn_monitor;
DROP ROLE vg_knn_reader, vg_knn_monitor;
DROP FUNCTION knn_both_ways, knn_path_holds, knn_bottleneck, knn_compare, knn_truth;
DROP TABLE knn, knn1, knn2, knn3;
