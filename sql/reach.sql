-- An index that cannot reach the default recall target says so: however it is built, at the first merge after which that is so, in EXPLAIN,
-- and in the view
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
LOAD 'vectorgpu';
\set VERBOSITY terse
SET vectorgpu.worker_timeout = '2min';
SET vectorgpu.worker_min_size = 0;
SET min_parallel_table_scan_size = 0;
SET vectorgpu.worker = off;

-- 4 edges do not lead through rows without any structure; no half of the rows has 0.95 of all neighbours
CREATE TABLE rch (id int, v vector(96)) WITH (autovacuum_enabled = off, parallel_workers = 2);
CREATE FUNCTION rch_row(i int) RETURNS vector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT array_agg((hashint8extended(i * 96::int8 + d, 3) & 65535) / 65536.0)::real[]::vector FROM generate_series(1, 96) d$$;
INSERT INTO rch SELECT i, rch_row(i) FROM generate_series(1, 3000) i;
SET max_parallel_maintenance_workers = 0;
CREATE INDEX rch_graph ON rch USING gpugraph (v) WITH (degree = 4);
CREATE INDEX rch_lists ON rch USING gpuivf (v) WITH (lists = 2);
CREATE INDEX rch_codes ON rch USING gpuivf (v) WITH (lists = 2, storage = pq, refine = none);
-- those that reach it, and those that have no target, say nothing
CREATE INDEX rch_good ON rch USING gpugraph (v) WITH (degree = 24);
CREATE INDEX rch_many ON rch USING gpuivf (v);
CREATE INDEX rch_flat ON rch USING gpuflat (v);
-- nor does one of few rows, where a look at all is as fast; it has what it reaches in the view
CREATE TABLE rch_few AS SELECT * FROM rch WHERE id <= 300;
CREATE INDEX rch_few_v ON rch_few USING gpugraph (v) WITH (degree = 4);
CREATE TABLE rch_none (v vector(96));
CREATE INDEX rch_none_v ON rch_none USING gpugraph (v);

SELECT index_name, recall_target, recall_reached < recall_target - 0.005 AS short, recall_reached BETWEEN 0.3 AND 1 AS plausible
	FROM vectorgpu_indexes WHERE table_name LIKE 'rch%' ORDER BY index_name COLLATE "C";
CREATE ROLE rch_stranger;
SET ROLE rch_stranger;
SELECT * FROM vectorgpu_index_reach('rch_graph');
RESET ROLE;
DROP ROLE rch_stranger;
SELECT * FROM vectorgpu_index_reach('rch') a, vectorgpu_index_reach(0::regclass) b;
DROP TABLE rch_few, rch_none;

-- Other ways to build
SET max_parallel_maintenance_workers = 2;
REINDEX INDEX rch_graph;
REINDEX INDEX rch_lists;
REINDEX INDEX CONCURRENTLY rch_graph;
CREATE INDEX CONCURRENTLY rch_again ON rch USING gpugraph (v) WITH (degree = 4);
DROP INDEX rch_again, rch_flat, rch_good, rch_many;
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('rch_graph') > 0 AS warm;
REINDEX INDEX rch_graph;
REINDEX INDEX rch_lists;
REINDEX INDEX rch_codes;

-- The default target is that of a session that has not changed it; a target of 1 asks for all rows
SET gpugraph.recall_target = 0.3;
REINDEX INDEX rch_graph;
RESET gpugraph.recall_target;
SELECT current_database() AS db \gset
ALTER DATABASE :"db" SET gpugraph.recall_target = 0.3;
ALTER DATABASE :"db" SET gpuivf.recall_target = 1;
\c
\set VERBOSITY terse
SET client_min_messages = notice;
LOAD 'vectorgpu';
REINDEX INDEX rch_graph;
REINDEX INDEX rch_lists;
SELECT index_name, recall_target FROM vectorgpu_indexes WHERE table_name = 'rch' ORDER BY index_name COLLATE "C";
ALTER DATABASE :"db" RESET gpugraph.recall_target;
ALTER DATABASE :"db" RESET gpuivf.recall_target;
\c
\set VERBOSITY terse
LOAD 'vectorgpu';
SET vectorgpu.worker_timeout = '2min';
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker = off;

\set file :srcdir '/sql/include/settled.sql'
\i :file
-- A merge warns when that becomes so, not each time; so does VACUUM
SET vectorgpu.auto_merge = off; -- only merges of this session
-- The view knows nothing of an index while a file is being shrunk
CREATE FUNCTION rch_state(wanted text) RETURNS TABLE (segments int, short bool) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		SELECT v.segments, v.recall_reached < v.recall_target INTO segments, short FROM vectorgpu_indexes v WHERE v.index_name = wanted;
		EXIT WHEN segments IS NOT NULL AND short IS NOT NULL;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN NEXT;
END $$;
CREATE TABLE rch_merge (id int, v vector(96)) WITH (autovacuum_enabled = off);
CREATE INDEX rch_merge_graph ON rch_merge USING gpugraph (v) WITH (degree = 4);
CREATE INDEX rch_merge_lists ON rch_merge USING gpuivf (v) WITH (lists = 2);
INSERT INTO rch_merge SELECT i, rch_row(i) FROM generate_series(1, 3000) i;
SELECT rows_moved FROM vectorgpu_merge('rch_merge_graph');
VACUUM rch_merge;
INSERT INTO rch_merge SELECT i, rch_row(i) FROM generate_series(3001, 3600) i;
SELECT rows_moved FROM vectorgpu_merge('rch_merge_graph');
SELECT rows_moved FROM vectorgpu_merge('rch_merge_lists');
DELETE FROM rch_merge WHERE id % 2 = 0;
SELECT pg_temp.settled();
VACUUM rch_merge;
SELECT index_name, s.* FROM unnest('{rch_merge_graph, rch_merge_lists}'::text[]) index_name, rch_state(index_name) s ORDER BY 1;
-- half of the rows in groups that are found: then it is not so any more, and when it becomes so again, that is said again
DELETE FROM rch_merge;
INSERT INTO rch_merge SELECT i, (SELECT array_agg((hashint8extended(i % 50 * 96::int8 + d, 5) & 255) + (hashint8extended(i * 96::int8 + d, 3) & 65535) / 6553600.0)::real[]::vector
	FROM generate_series(1, 96) d) FROM generate_series(1, 3000) i;
SELECT pg_temp.settled();
VACUUM rch_merge;
SELECT vectorgpu_merge('rch_merge_lists') IS NOT NULL AS merged;
SELECT * FROM rch_state('rch_merge_lists');
DELETE FROM rch_merge;
INSERT INTO rch_merge SELECT i, rch_row(i) FROM generate_series(1, 3000) i;
SELECT pg_temp.settled();
VACUUM rch_merge;
SELECT vectorgpu_merge('rch_merge_lists') IS NOT NULL AS merged;
DROP TABLE rch_merge;
DROP FUNCTION rch_state;

-- EXPLAIN: by session and worker, in text and JSON; only where that is why all rows are looked at
ANALYZE rch;
SET enable_seqscan = off;
CREATE FUNCTION rch_explain(query text) RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Index Scan|Answered By|Exhaustive' THEN
			line := regexp_replace(btrim(line, ' ->'), '( rows=\d+)\.00', '\1'); -- 18 has our lines in the node, and fractions of rows
			RETURN QUERY SELECT regexp_replace(regexp_replace(regexp_replace(line, 'Reached: 0\.\d+', 'Reached: SHARE'), '(Compared|Candidates|Rescored): \d+', '\1: N', 'g'), 'Worker Engine: \w+', 'Worker Engine: ENGINE');
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION rch_json(query text) RETURNS TABLE (answered_by text, exhaustive int, because text, wanted float8, reached bool) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT s ->> 'Answered By', (s ->> 'Exhaustive')::int, s ->> 'Exhaustive Because', (s ->> 'Recall Wanted')::float8, (s ->> 'Recall Reached')::float8 BETWEEN 0.3 AND 0.94
		FROM (SELECT coalesce(plan #> '{0,Vectorgpu Scans,0}', jsonb_path_query_first(plan::jsonb, '$.**."Vectorgpu Scan"')::json) AS s) s;
END $$;
\set nearest 'SELECT id FROM rch ORDER BY v <-> (SELECT rch_row(-5)) LIMIT 10'
DROP INDEX rch_lists, rch_codes;
SELECT * FROM rch_explain(:'nearest');
SELECT * FROM rch_json(:'nearest');
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('rch_graph') > 0 AS warm;
SELECT * FROM rch_explain(:'nearest');
SELECT * FROM rch_json(:'nearest');
SET gpugraph.recall_target = 1;
SELECT * FROM rch_json(:'nearest');
SET gpugraph.recall_target = 0.3;
SELECT because FROM rch_json(:'nearest');
SET vectorgpu.worker = off;
SELECT because FROM rch_json(:'nearest');
RESET gpugraph.recall_target;
SELECT because, exhaustive FROM rch_json('SELECT id FROM rch ORDER BY v <-> (SELECT rch_row(-5)) LIMIT 2500');
SET gpugraph.search_width = 100;
SELECT because FROM rch_json(:'nearest');
RESET gpugraph.search_width;
DROP INDEX rch_graph;
CREATE INDEX rch_lists ON rch USING gpuivf (v) WITH (lists = 2);
SELECT * FROM rch_explain(:'nearest');
SELECT * FROM rch_json(:'nearest');
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('rch_lists') > 0 AS warm;
SELECT * FROM rch_json(:'nearest');
SET gpuivf.recall_target = 0.3;
SELECT because FROM rch_json(:'nearest');
RESET gpuivf.recall_target;
SET gpuivf.probes = 2;
SELECT because FROM rch_json(:'nearest');
RESET gpuivf.probes;
DROP TABLE rch;
DROP FUNCTION rch_explain(text), rch_json(text), rch_row(int);
