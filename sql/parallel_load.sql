-- a function of a parallel query is the session's first use of the module: settings made before apply there, and are kept
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- Two lists, around 9 and 100. The centroid of the second is nearer to 60; its nearest row is 90; 49 is in the first.
CREATE TABLE pload (v vector(1));
INSERT INTO pload SELECT ARRAY[i / 4.0]::vector FROM generate_series(0, 40) i UNION ALL SELECT '[49]' UNION ALL SELECT ARRAY[90 + i / 2.0]::vector FROM generate_series(0, 40) i;
CREATE INDEX pload_v ON pload USING gpuivf (v vector_l2_ops) WITH (lists = 2);
CREATE TABLE pload_rows AS SELECT i FROM generate_series(1, 1000) i;
CREATE FUNCTION pload_nearest(i int) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS
	'BEGIN RETURN (SELECT v FROM pload ORDER BY v <-> ''[60]'' LIMIT 1); END';
ANALYZE pload_rows;

-- In the leader of a parallel query: without workers it does all work.
\c -
\set file :srcdir '/sql/include/plan.sql'
\i :file
SET enable_seqscan = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers = 0;
SET gpuivf.probes = 1;
SELECT string_agg(btrim(line, ' ->'), ', ') FILTER (WHERE line ~ 'Parallel|Workers') AS parallel FROM pg_temp.plan('SELECT DISTINCT pload_nearest(i) FROM pload_rows') line;
SELECT DISTINCT pload_nearest(i) FROM pload_rows;
SHOW gpuivf.probes;
SHOW gpuivf.recall_target;
SET gpuivf.probes = 100000000;
RESET gpuivf.probes;
SHOW gpuivf.probes;

-- Settings of a transaction are rolled back with it.
\c -
SET enable_seqscan = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers = 0;
SET gpuivf.probes = 1;
BEGIN;
SET LOCAL gpuivf.probes = 2;
SELECT DISTINCT pload_nearest(i) FROM pload_rows;
SET LOCAL gpuivf.probes = 1;
SELECT DISTINCT pload_nearest(i) FROM pload_rows;
SET gpuivf.probes = 2;
SELECT DISTINCT pload_nearest(i) FROM pload_rows;
ROLLBACK;
SHOW gpuivf.probes;
SELECT DISTINCT pload_nearest(i) FROM pload_rows;

-- In a parallel worker
\c -
SET enable_seqscan = off;
SET :parallel_mode = regress;
SET gpuivf.probes = 1;
SELECT pload_nearest(1);
SHOW gpuivf.probes;
SET gpuivf.probes = 2;
SELECT pload_nearest(1);

DROP FUNCTION pload_nearest(int);
DROP TABLE pload, pload_rows;
