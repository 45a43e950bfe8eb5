-- EXPLAIN (ANALYZE) shows for each index scan what answered it, the rows requested, and why the worker did not answer
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';

CREATE TABLE expl (id int, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO expl SELECT i, CASE WHEN i % 100 > 0 THEN ARRAY[i % 7, i % 11, i]::vector END FROM generate_series(1, 500) i;
CREATE INDEX expl_v ON expl USING gpuflat (v vector_l2_ops);
ANALYZE expl;
SET enable_seqscan = off;
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker_timeout = '2min';

-- The worker's engine depends on the machine.
CREATE FUNCTION expl_run(query text, format text DEFAULT 'text') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, FORMAT %s) %s', format, query) LOOP
		-- the same words for all of PostgreSQL's versions
		CONTINUE WHEN line ~ '^ *(Disabled: true|Index Searches: \d+)$';
		line := regexp_replace(line, '(rows=|Actual[ -]Rows"?[:>] ?)(\d+)\.00', '\1\2', 'g');
		line := regexp_replace(line, '(InitPlan \d+) \(returns \$\d+\)$', '\1');
		line := regexp_replace(line, '\(InitPlan 1\)\.col1', '$0', 'g');
		line := regexp_replace(line, '(Scan[ -]Direction"?[:>] ?"?)Forward', '\1NoMovement', 'g');
		line := regexp_replace(line, ',?\n *["<]?(Index[ -]Searches|Disabled)"?[:>] ?[^,\n]*', '', 'g');
		line := regexp_replace(line, '(Worker[ -]Engine"?[:>] ?"?)[a-z]+', '\1ENGINE');
		RETURN NEXT regexp_replace(line, '((Candidates|Rescored)"?[:>] ?)\d+', '\1N', 'g');
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
-- the worker searches as wide as the backend
CREATE FUNCTION expl_widths(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
	RETURN (SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM json_each_text(pg_temp.first_scan(plan)) WHERE key ~ '^(Answered|Rounds|Least|Most)');
END $$;
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('expl_ivf_v') > 0 AS warm;
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 3$$);
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 70$$);
SET vectorgpu.worker = off;
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 3$$);
SELECT expl_widths($$SELECT id FROM expl_ivf ORDER BY v <-> '[5,0]' LIMIT 70$$);
-- rows returned late: the count equals that of the rows out of order
SET vectorgpu.scan_order = relaxed;
INSERT INTO expl_ivf SELECT i, ARRAY[hashint4(i) & 511, hashint4(i + 1000) & 511]::vector FROM generate_series(401, 1200) i;
REINDEX INDEX expl_ivf_v;
WITH rows AS (SELECT row_number() OVER () AS n, d FROM (SELECT v <-> '[130,130]' AS d FROM expl_ivf ORDER BY v <-> '[130,130]') s),
	late AS (SELECT count(*) AS n FROM (SELECT d, max(d) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM rows) s WHERE d < before),
	told AS (SELECT sum(substring(l FROM 'Late Rows: (\d+)')::int8) AS n FROM expl_run($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]'$$) l)
	SELECT late.n > 0 AS some, late.n = told.n AS as_told FROM late, told;
RESET vectorgpu.scan_order;
-- rows left out: with those returned they are all rows, by backend and worker. A scan that a LIMIT may end goes by steps; a scan that nothing ends is exact
CREATE FUNCTION expl_left_out(query text) RETURNS TABLE (answered_by text, returned int8, left_out int8, late int8) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	answerer text;
BEGIN
	FOREACH answerer IN ARRAY '{off,on}'::text[] LOOP
		PERFORM set_config('vectorgpu.worker', answerer, true);
		EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
		RETURN QUERY SELECT s ->> 'Answered By', (plan #>> '{0,Plan,Actual Rows}')::numeric::int8, (s ->> 'Rows Left Out')::int8, (s ->> 'Late Rows')::int8
			FROM (SELECT pg_temp.first_scan(plan) AS s) scan;
	END LOOP;
END $$;
SELECT vectorgpu_prewarm('expl_ivf_v') > 0 AS warm;
SELECT answered_by, left_out > 0 AS some, returned + left_out AS all_rows, late FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]' LIMIT 9999 FOR UPDATE$$);
SELECT count(DISTINCT left_out) AS alike, min(left_out) > 0 AS some, max(left_out + returned) < 1200 AS not_all
	FROM expl_left_out($$SELECT id FROM expl_ivf WHERE id % 40 = 0 ORDER BY v <-> '[130,130]' LIMIT 12$$);
SELECT answered_by, left_out > 0 AS some FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]' LIMIT 300$$);
SELECT answered_by, left_out, returned FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]'$$);
SELECT answered_by, left_out, returned FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]' LIMIT 700$$);
SELECT substring(l FROM 'Rows Left Out: ') AS shown FROM expl_run($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]' LIMIT 9999 FOR UPDATE$$) l WHERE l ~ 'Rows Asked';
SET vectorgpu.scan_order = relaxed;
SELECT returned, left_out, late > 0 AS late FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]'$$);
RESET vectorgpu.scan_order;
-- dead rows, rows of the delta and a second segment are counted exactly
DELETE FROM expl_ivf WHERE id % 5 = 0;
VACUUM expl_ivf;
INSERT INTO expl_ivf SELECT i, ARRAY[hashint4(i) & 511, hashint4(i + 1000) & 511]::vector FROM generate_series(1201, 1300) i;
SELECT answered_by, left_out > 0 AS some, returned + left_out AS all_rows FROM expl_left_out($$SELECT id FROM expl_ivf ORDER BY v <-> '[130,130]' LIMIT 9999 FOR UPDATE$$);
RESET gpuivf.probes;
DROP TABLE expl_ivf;

-- Codes select candidates, whose exact distances are computed from full vectors or from rows of the table. Backend and worker report the same
CREATE TABLE expl_codes (id int, v vector(8)) WITH (autovacuum_enabled = off);
INSERT INTO expl_codes SELECT i, (SELECT array_agg(hashint4(i * 8 + d) & 255) FROM generate_series(1, 8) d)::vector FROM generate_series(1, 2000) i;
CREATE FUNCTION expl_scan(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
	RETURN pg_temp.first_scan(plan);
END $$;
CREATE FUNCTION expl_candidates(method text, options text, OUT of text, OUT answered text, OUT looked_at_more boolean, OUT enough boolean, OUT rescored text, OUT alike boolean)
	LANGUAGE plpgsql AS $$
DECLARE
	query text := $q$SELECT id FROM expl_codes ORDER BY v <-> '[1,50,100,150,200,250,0,100]' LIMIT 5$q$;
	backend json;
	worker json;
	named int8;
	scored int8;
BEGIN
	EXECUTE format('CREATE INDEX expl_codes_v ON expl_codes USING %s (v) WITH (%s)', method, options);
	PERFORM vectorgpu_prewarm('expl_codes_v');
	PERFORM set_config('vectorgpu.worker', 'off', true);
	backend := expl_scan(query);
	PERFORM set_config('vectorgpu.worker', 'on', true);
	worker := expl_scan(query);
	named := backend ->> 'Candidates';
	scored := backend ->> 'Rescored';
	of := options;
	answered := (backend ->> 'Answered By') || ', ' || (worker ->> 'Answered By');
	looked_at_more := (backend ->> 'Compared')::int8 > named;
	enough := scored >= 5;
	rescored := CASE WHEN scored = named THEN 'all' WHEN scored < named THEN 'some' ELSE 'MORE' END;
	alike := (backend ->> 'Candidates', backend ->> 'Rescored', backend ->> 'Rescored In Engine Batch')
		= (worker ->> 'Candidates', worker ->> 'Rescored', worker ->> 'Rescored In Engine Batch');
	DROP INDEX expl_codes_v;
END $$;
SET gpuivf.probes = 3;
SET gpugraph.search_width = 40;
SELECT * FROM expl_candidates('gpuivf', 'lists = 10, storage = pq, refine = none');
SELECT * FROM expl_candidates('gpuivf', 'lists = 10, storage = pq, refine = fp16');
SELECT * FROM expl_candidates('gpuivf', 'lists = 10, storage = rabitq, refine = none');
SELECT * FROM expl_candidates('gpugraph', 'degree = 16, hash_bits = 64');
-- a GPU does not count those of lists with full vectors
SELECT of, looked_at_more, enough, rescored FROM expl_candidates('gpuivf', 'lists = 10, storage = pq');
-- rows that are no longer in the table have no distance
BEGIN;
CREATE INDEX expl_codes_v ON expl_codes USING gpuivf (v) WITH (lists = 10, storage = pq, refine = none);
DELETE FROM expl_codes WHERE id % 3 > 0;
SET LOCAL vectorgpu.worker = off;
SELECT (s ->> 'Rescored')::int < (s ->> 'Candidates')::int AS fewer, (s ->> 'Rescored')::int > 0 AS some FROM expl_scan($$SELECT id FROM expl_codes ORDER BY v <-> '[1,50,100,150,200,250,0,100]' LIMIT 5$$) s;
SELECT l ~ 'Compared: \d+  Candidates: N  Rescored: N  Delta Rows' AS shown FROM expl_run($$SELECT id FROM expl_codes ORDER BY v <-> '[1,50,100,150,200,250,0,100]' LIMIT 5$$) l WHERE l ~ 'Rows Asked';
ROLLBACK;
-- a search by codes as wide as this looks at all rows and has no width, by backend and worker
CREATE INDEX expl_codes_v ON expl_codes USING gpugraph (v) WITH (degree = 16, hash_bits = 64);
SELECT vectorgpu_prewarm('expl_codes_v') > 0 AS warm;
SET gpugraph.search_width = 300;
SELECT expl_widths($$SELECT id FROM expl_codes ORDER BY v <-> '[1,2,3,4,5,6,7,8]' LIMIT 5$$);
SET vectorgpu.worker = on;
SELECT expl_widths($$SELECT id FROM expl_codes ORDER BY v <-> '[1,2,3,4,5,6,7,8]' LIMIT 5$$);
-- rows left out by coarse searches: codes and a graph
SET gpugraph.search_width = 10;
SELECT answered_by, left_out > 0 AS some, returned + left_out AS all_rows FROM expl_left_out($$SELECT id FROM expl_codes ORDER BY v <-> '[1,50,100,150,200,250,0,100]' LIMIT 9999 FOR UPDATE$$);
DROP INDEX expl_codes_v;
CREATE INDEX expl_codes_v ON expl_codes USING gpuivf (v) WITH (lists = 10, storage = pq, refine = none);
SET gpuivf.probes = 1;
SELECT left_out > 0 AS some, returned + left_out AS all_rows FROM expl_left_out($$SELECT id FROM expl_codes ORDER BY v <-> '[1,50,100,150,200,250,0,100]' LIMIT 9999 FOR UPDATE$$);
RESET gpuivf.probes;
RESET gpugraph.search_width;
SET vectorgpu.worker = off;
DROP TABLE expl_codes;
DROP FUNCTION expl_candidates, expl_scan, expl_left_out;

-- A graph: ever wider searches. Match counts: neither, since they are exact
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
-- bitmap scans, if they ran
SET enable_indexscan = off;
SELECT expl_run($$SELECT id FROM expl_graph WHERE match_at_least(tags, '{3,14}', 2)$$);
SELECT expl_run($$SELECT id FROM expl_graph g WHERE match_at_least(tags, '{3,14}', 2) OR match_at_least(tags, '{4,15}', 2)$$);
SELECT expl_run($$SELECT CASE WHEN random() < 0 THEN (SELECT id FROM expl_graph WHERE match_at_least(tags, '{3,14}', 2) LIMIT 1) END$$);
RESET enable_indexscan;
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

-- Tables have the names of the plan
SELECT expl_run($$(SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 1) UNION ALL (SELECT id FROM expl ORDER BY v <-> '[3,2,1]' LIMIT 1)$$);
CREATE TABLE expl_parts (id int, v vector(3)) PARTITION BY RANGE (id);
CREATE TABLE expl_part1 PARTITION OF expl_parts FOR VALUES FROM (0) TO (10);
CREATE TABLE expl_part2 PARTITION OF expl_parts FOR VALUES FROM (10) TO (20);
INSERT INTO expl_parts SELECT i, ARRAY[i, 0, 0]::vector FROM generate_series(0, 19) i;
CREATE INDEX ON expl_parts USING gpuflat (v);
SELECT expl_run($$SELECT id FROM expl_parts part ORDER BY v <-> '[8,0,0]' LIMIT 3$$);
DROP TABLE expl_parts;

-- Reasons why the worker does not answer
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

-- Other forms of EXPLAIN; scans that do not run; scans of parallel workers, which are not counted
SET vectorgpu.worker = off;
EXPLAIN (COSTS OFF) SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5;
SELECT expl_run($$SELECT CASE WHEN random() < 0 THEN (SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 1) END$$);
SELECT expl_run($$CREATE TABLE expl_made AS SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$DECLARE c CURSOR FOR SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
SELECT expl_run($$SELECT count(line) FROM (SELECT FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 1) s,
	expl_run('SELECT id FROM expl ORDER BY v <-> ''[1,2,3]'' LIMIT 5') line$$);
PREPARE expl_prepared AS SELECT id FROM expl ORDER BY v <-> $1 LIMIT 5;
SELECT expl_run($$EXECUTE expl_prepared('[1,2,3]')$$);
SET :parallel_mode = on;
SELECT expl_run($$SELECT id FROM expl ORDER BY v <-> '[1,2,3]' LIMIT 5$$);
RESET :parallel_mode;
-- one process builds the bitmap with which parallel workers read the table
CREATE TABLE expl_bitmap AS SELECT i AS id, ARRAY[i % 7, i % 11 + 10] AS tags FROM generate_series(1, 3000) i;
CREATE INDEX expl_bitmap_tags ON expl_bitmap USING gpumatch (tags);
ALTER TABLE expl_bitmap SET (parallel_workers = 2);
ANALYZE expl_bitmap;
SET enable_indexscan = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET cpu_tuple_cost = 1;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT count(*) FILTER (WHERE l ~ 'Parallel Bitmap Heap Scan') AS parallel, count(*) FILTER (WHERE l ~ 'Answered By:|Not Counted') AS scans,
	array_agg(btrim(l)) FILTER (WHERE l ~ 'Not Counted') AS not_counted FROM expl_run($$SELECT count(*) FROM expl_bitmap WHERE match_at_least(tags, '{3,14}', 1)$$) l;
RESET parallel_leader_participation;
SELECT count(*) FILTER (WHERE l ~ 'Answered By:') AS scans FROM expl_run($$SELECT count(*) FROM expl_bitmap WHERE match_at_least(tags, '{3,14}', 1)$$) l;
RESET enable_indexscan;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET cpu_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE expl_bitmap;

-- The hook must not change buffers and times of planning, nor the texts of other queries
SELECT EXISTS (SELECT FROM expl_run('SELECT 1') line WHERE line ~ 'Vectorgpu') AS listed;
CREATE FUNCTION expl_keys(options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT JSON, %s) SELECT id FROM expl ORDER BY v <-> ''[1,2,3]'' LIMIT 5', options) INTO plan;
	RETURN (SELECT string_agg(key, ', ' ORDER BY ordinality) FROM json_object_keys(plan -> 0) WITH ORDINALITY k(key, ordinality));
END $$;
SELECT expl_keys('ANALYZE, BUFFERS OFF'), expl_keys('ANALYZE, BUFFERS'), expl_keys('BUFFERS'), expl_keys('SUMMARY'), expl_keys('SETTINGS');
EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) SELECT id FROM no_such_table;
DROP TABLE expl, expl_temp, expl_made;
DROP FUNCTION expl_run, expl_keys;
