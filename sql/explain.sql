-- EXPLAIN (ANALYZE) tells of each index scan who answered it, what it was asked, and why not by the worker
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
LOAD 'vectorgpu';

CREATE TABLE expl (id int, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO expl SELECT i, CASE WHEN i % 100 > 0 THEN ARRAY[i % 7, i % 11, i]::vector END FROM generate_series(1, 500) i;
CREATE INDEX expl_v ON expl USING gpuflat (v vector_l2_ops);
ANALYZE expl;
SET enable_seqscan = off;
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker_timeout = '2min';

-- The engine of the worker is another one on another machine.
CREATE FUNCTION expl_run(query text, format text DEFAULT 'text') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT %s) %s', format, query) LOOP
		line := regexp_replace(line, '(Worker[ -]Engine"?[:>] ?"?)[a-z]+', '\1ENGINE');
		RETURN NEXT regexp_replace(line, '(Rescored"?[:>] ?)\d+', '\1N');
	END LOOP;
END $$;

-- By the backend
SET vectorgpu.worker = off;
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]'$$);
INSERT INTO expl SELECT -i, ARRAY[i, i, i]::vector FROM generate_series(1, 7) i;
SELECT expl_run($$SELECT id FROM expl "Other name" WHERE id % 2 = 0 ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$, 'json');
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$, 'yaml');


-- An approximate index: passes over more and more lists, at last over all
CREATE TABLE expl_ivf (id int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO expl_ivf SELECT i, ARRAY[i, 0]::vector FROM generate_series(1, 400) i;
CREATE INDEX expl_ivf_v ON expl_ivf USING gpuivf (v vector_l2_ops) WITH (lists = 8);
SET gpuivf.probes = 1;
SELECT regexp_replace(l, 'Compared: \d+', 'Compared: N') AS l FROM expl_run($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 3$$) l;
SELECT regexp_replace(l, '(Compared|Rounds|Most Probes): \d+', '\1: N', 'g') AS l FROM expl_run($$SELECT id FROM expl_ivf WHERE id > 390 ORDER BY v <-> '[5,0]' LIMIT 3$$) l;
-- how wide the worker is asked to search is the same as how wide the backend does
CREATE FUNCTION expl_widths(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
	RETURN (SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM json_each_text(plan #> '{0,Vectorgpu Scans,0}') WHERE key ~ '^(Answered|Rounds|Least|Most)');
END $$;
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('expl_ivf_v') > 0 AS warm;
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 3$$);
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 70$$);
SET vectorgpu.worker = off;
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 3$$);
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 70$$);
-- rows returned late: as many as the rows themselves tell
SET vectorgpu.scan_order = relaxed;
INSERT INTO expl_ivf SELECT i, ARRAY[hashint4(i) & 511, hashint4(i + 1000) & 511]::vector FROM generate_series(401, 1200) i;
REINDEX INDEX expl_ivf_v;
WITH rows AS (SELECT row_number() OVER () AS n, d FROM (SELECT v <-> '[130,130]' AS d FROM expl_ivf ORDER BY v <-> '[130,130]') s),
	late AS (SELECT count(*) AS n FROM (SELECT d, max(d) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM rows) s WHERE d < before),
	told AS (SELECT sum(substring(l FROM 'Late Rows: (\d+)')::int8) AS n FROM expl_run($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]'$$) l)
	SELECT late.n > 0 AS some, late.n = told.n AS as_told FROM late, told;
RESET vectorgpu.scan_order;
RESET gpuivf.probes;
DROP TABLE expl_ivf;

-- A graph: wider and wider searches. Match counts: neither, they are exact
CREATE TABLE expl_graph (id int, v vector(2), tags int[]) WITH (autovacuum_enabled = off);
INSERT INTO expl_graph SELECT i, ARRAY[hashint4(i) & 1023, hashint4(i + 5000) & 1023]::vector, ARRAY[i % 7, i % 11 + 10] FROM generate_series(1, 3000) i;
CREATE INDEX expl_graph_v ON expl_graph USING gpugraph (v vector_l2_ops) WITH (degree = 16);
CREATE INDEX expl_graph_tags ON expl_graph USING gpumatch (tags);
SET gpugraph.search_width = 32;
SELECT regexp_replace(l, 'Compared: \d+', 'Compared: N') AS l FROM expl_run($$SELECT id FROM expl_graph ORDER BY v <-> '[500,500]' LIMIT 3$$) l;
SELECT expl_widths($$SELECT id FROM expl_graph ORDER BY v <-> '[500,500]' LIMIT 3$$);
SELECT expl_widths($$SELECT id FROM expl_graph WHERE id % 50 = 0 ORDER BY v <-> '[500,500]' LIMIT 3$$);
SELECT expl_run($$SELECT id FROM expl_graph ORDER BY tags <#> '{3,14}' LIMIT 3$$);
SELECT expl_run($$SELECT id FROM expl_graph ORDER BY tags <#> '{3,14}' LIMIT 3$$, 'json');
RESET gpugraph.search_width;
DROP TABLE expl_graph;
DROP FUNCTION expl_widths;

-- By the worker; every rescan is a search
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('expl_v') > 0 AS warm;
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$, 'json');
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$, 'xml');
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$, 'yaml');
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]'$$);
INSERT INTO expl SELECT -i, ARRAY[i, i, i]::vector FROM generate_series(8, 10) i;
SELECT expl_run($$SELECT n.id FROM generate_series(1, 4) g, LATERAL (SELECT id FROM expl ORDER BY v <-> ARRAY[g, g, g]::vector LIMIT 2) n$$);
SELECT expl_run($$(SELECT id FROM expl a ORDER BY v <-> '[1,2,3]' LIMIT 1) UNION ALL
	(SELECT id FROM expl b ORDER BY v <-> (SELECT v FROM expl c ORDER BY v <-> '[0,0,0]' LIMIT 1) LIMIT 2)$$);

-- Why not by the worker
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> (SELECT NULL::vector) LIMIT 5$$);
SET vectorgpu.worker_min_size = '1GB';
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SET vectorgpu.worker_min_size = 0;
CREATE TEMP TABLE expl_temp AS SELECT * FROM expl;
CREATE INDEX expl_temp_v ON expl_temp USING gpuflat ((v::vector(3)) vector_l2_ops);
SELECT expl_run($$SELECT id FROM expl_temp ORDER BY v::vector(3) <-> '[1,2,3]' LIMIT 5$$);
SELECT vectorgpu_evict('expl_v');
SET vectorgpu.inline_load_size = 0;
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
RESET vectorgpu.inline_load_size;

-- Other forms of EXPLAIN; scans that do not run; scans of parallel workers, which count for themselves
SET vectorgpu.worker = off;
EXPLAIN (COSTS OFF) SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5;
SELECT expl_run($$SELECT CASE WHEN random() < 0 THEN (SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 1) END$$);
SELECT expl_run($$CREATE TABLE expl_made AS SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$DECLARE c CURSOR FOR SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$SELECT count(line) FROM (SELECT FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 1) s,
	expl_run('SELECT id FROM expl ORDER BY v <-> ''[1,2,3]'' LIMIT 5') line$$);
PREPARE expl_prepared AS SELECT id FROM expl ORDER BY v <-> $1 LIMIT 5;
SELECT expl_run($$EXECUTE expl_prepared('[1,2,3]')$$);
SET force_parallel_mode = on;
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
RESET force_parallel_mode;

-- What the hook must not change: planning's buffers and times, and the texts of other queries
SELECT EXISTS (SELECT FROM expl_run('SELECT 1') line WHERE line ~ 'Vectorgpu') AS listed;
CREATE FUNCTION expl_keys(options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT JSON, %s) SELECT id FROM expl ORDER BY v <-> ''[1,2,3]'' LIMIT 5', options) INTO plan;
	RETURN (SELECT string_agg(key, ', ' ORDER BY ordinality) FROM json_object_keys(plan -> 0) WITH ORDINALITY k(key, ordinality));
END $$;
SELECT expl_keys('ANALYZE'), expl_keys('ANALYZE, BUFFERS'), expl_keys('BUFFERS'), expl_keys('SUMMARY'), expl_keys('SETTINGS');
EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) SELECT id FROM no_such_table;
DROP TABLE expl, expl_temp, expl_made;
DROP FUNCTION expl_run, expl_keys;
