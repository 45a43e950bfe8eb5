-- Vectorgpu Filtered Scan over bitmaps of other indexes: where it is planned, and what it answers
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/asked.sql'
\i :file

SET max_parallel_workers_per_gather = 0;
SET vectorgpu.worker = off;
SET enable_seqscan = off;
SET enable_sort = off;
CREATE TABLE found (id int PRIMARY KEY, tenant int, category int, day date, span int4range, meta jsonb, v vector(128)) WITH (autovacuum_enabled = off, fillfactor = 25);
INSERT INTO found SELECT i, i % 30, CASE WHEN i % 41 <> 0 THEN i * 37 % 100 END, date '2026-01-01' + i / 20, int4range(i, i + 90), jsonb_build_object('colour', i % 60, 'tags', jsonb_build_array('t' || i % 70, 't' || i % 90)),
	(SELECT array_agg((hashint8extended(i * 128 + d, 1) & 1023)::real - 511.5) FROM generate_series(1, 128) d)::vector
	FROM generate_series(1, 4000) i;
CREATE INDEX found_v ON found USING gpuflat (v vector_l2_ops, tenant);
CREATE INDEX found_category ON found (category);
CREATE INDEX found_day ON found USING brin (day) WITH (pages_per_range = 4);
CREATE INDEX found_span ON found USING gist (span);
CREATE INDEX found_meta ON found USING gin (meta jsonb_path_ops);
CREATE INDEX found_part ON found (tenant) WHERE category > 95;
VACUUM ANALYZE found;
CREATE FUNCTION asked(condition text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT asked_of('found', condition) $$;

-- each kind of index
SELECT asked('category = 7');
SELECT asked('category IN (7, 9, NULL)');
SELECT asked('category IS NULL');
SELECT asked('meta @> ''{"colour": 5}''');
SELECT asked('meta @> ''{"tags": ["t5", "t75"]}''');
SELECT asked('span @> 500');
SELECT asked('day BETWEEN ''2026-02-01'' AND ''2026-02-04''');
-- AND and OR of them, beside key columns and what no index decides
SELECT asked('meta @> ''{"tags": ["t3"]}'' AND span && int4range(100, 900)');
SELECT asked('category = 7 OR meta @> ''{"colour": 5}''');
SELECT asked('(category = 7 OR span @> 300) AND tenant IN (7, 17) AND id % 2 = 1');
SELECT asked('tenant = 7 AND category BETWEEN 5 AND 10 AND v IS NOT NULL');
SELECT asked('category = 7 AND v <-> q() < 4000');
SELECT asked('category = 1000');
-- a range without order: the bitmap's rows, of which those within the bound; for approximate access methods by one search
CREATE FUNCTION range_of(condition text, OUT plan text, OUT all_rows bool, OUT most bool) LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT id, 0 AS d FROM found WHERE ' || replace(condition, '$q', '(SELECT v FROM found WHERE id = 9)');
	line text;
BEGIN
	FOR line IN SELECT * FROM pg_temp.plan(query) LOOP
		plan := concat_ws(', ', plan, substring(line FROM 'Vectorgpu Filtered Scan|Bitmap \w+ Scan|Range Search: \w+|Seq Scan'));
	END LOOP;
	all_rows := rows_of(query, true) = rows_of(query, false);
	most := rows_of(query, true) <@ rows_of(query, false) AND cardinality(rows_of(query, true)) >= 0.85 * cardinality(rows_of(query, false));
END $$;
CREATE FUNCTION range_rounds(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT id FROM found WHERE ' || replace(condition, '$q', '(SELECT v FROM found WHERE id = 9)') INTO plan;
	RETURN format('%s of %s, %s', pg_temp.first_scan(plan) ->> 'Exhaustive', pg_temp.first_scan(plan) ->> 'Rounds', pg_temp.first_scan(plan) ->> 'Filter Way');
END $$;
CREATE TABLE range_conditions AS SELECT unnest(ARRAY['v <-> $q < 4300 AND category BETWEEN 5 AND 12', 'category BETWEEN 5 AND 12 AND v <-> $q BETWEEN 3900 AND 4300 AND tenant < 20 AND id % 2 = 1',
	'v <-> $q < 4300 AND (category BETWEEN 3 AND 8 OR meta @> ''{"colour": 5}'')', 'v <-> $q < 4300 OR category = 7']) AS condition;
SELECT condition, r.* FROM range_conditions, range_of(condition) r;
DROP INDEX found_v;
CREATE INDEX found_v ON found USING gpuivf (v vector_l2_ops, tenant);
SELECT condition, r.* FROM range_conditions, range_of(condition) r;
DROP INDEX found_v;
CREATE INDEX found_v ON found USING gpugraph (v vector_l2_ops, tenant);
SELECT condition, r.* FROM range_conditions, range_of(condition) r;
SELECT range_rounds('v <-> $q < 4300 AND category BETWEEN 5 AND 12');
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE v <-> q() < 3000 UNION SELECT id FROM found WHERE id = 7') p WHERE p ~ 'Scan';
DROP INDEX found_v;
CREATE INDEX found_v ON found USING gpuflat (v vector_l2_ops, tenant);
-- by a partial index
SELECT asked('tenant + 0 = 7 AND category > 95');
-- sets, whose class has no operator between two values of its own type
CREATE TABLE sets AS SELECT id, category, ARRAY[id % 7, 7 + id % 11, 18 + id % 13] AS s FROM found;
CREATE INDEX sets_s ON sets USING gpumatch (s);
CREATE INDEX sets_category ON sets (category);
VACUUM ANALYZE sets;
SELECT * FROM pg_temp.plan('SELECT id FROM sets WHERE category = 7 AND id % 2 = 1 ORDER BY s <#> ''{1,8,19}'' LIMIT 5');
SELECT array_agg(d) FROM (SELECT s <#> '{1,8,19}' AS d FROM sets WHERE category = 7 AND id % 2 = 1 ORDER BY s <#> '{1,8,19}' LIMIT 5) o;
DROP TABLE sets;
-- not by this plan: key columns decide all; many rows pass; no other index decides it
SELECT asked('tenant = 7');
SELECT asked('category < 50');
SELECT asked('meta ->> ''colour'' = ''5''');
SET enable_bitmapscan = off;
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE meta @> ''{"colour": 5}'' ORDER BY v <-> q() LIMIT 5');
RESET enable_bitmapscan;
SET vectorgpu.enable_filtered_scan = off;
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE category = 7 ORDER BY v <-> q() LIMIT 5');
RESET vectorgpu.enable_filtered_scan;

-- EXPLAIN (ANALYZE): lossy pages are checked; those of a bitmap beyond work_mem are lossy
CREATE FUNCTION counted(query text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT * FROM pg_temp.plan(query, 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF') p WHERE p !~ 'Vectorgpu Scan using|Answered|Asked|Worker|Fallback|Engine|Buffers|Planning|Index Searches'
$$;
SELECT counted('SELECT id FROM found WHERE category = 7 AND id > 50 ORDER BY v <-> q() LIMIT 4');
SELECT counted('SELECT id FROM found WHERE day BETWEEN ''2026-02-01'' AND ''2026-02-04'' ORDER BY v <-> q() LIMIT 400');
SET plan_cache_mode = force_generic_plan;
SET work_mem = '64kB';
PREPARE between_two(int, int) AS SELECT id FROM found WHERE category BETWEEN $1 AND $2 ORDER BY v <-> q();
SELECT * FROM pg_temp.plan('EXECUTE between_two(0, 49)');
SELECT count(*) AS rechecked FROM pg_temp.plan('EXECUTE between_two(0, 49)', 'ANALYZE, COSTS OFF, TIMING OFF') p WHERE p ~ 'Removed by Index Recheck: [1-9]';
CREATE TEMP TABLE by_bitmap AS EXECUTE between_two(0, 49);
SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM found WHERE category < 50) FROM by_bitmap;
EXECUTE between_two(7, NULL);
RESET work_mem;
RESET plan_cache_mode;
DEALLOCATE ALL;

-- LATERAL: a bitmap for each outer row, or one for all; cursors; locks
SELECT * FROM pg_temp.plan('SELECT o.id, s.id FROM found o, LATERAL (SELECT id FROM found i WHERE i.category = o.category ORDER BY i.v <-> o.v LIMIT 2) s WHERE o.id < 4') p WHERE p ~ 'Custom|Index';
SELECT o.id, array_agg(s.id ORDER BY s.id) FROM found o, LATERAL (SELECT id FROM found i WHERE i.category = o.category ORDER BY i.v <-> o.v LIMIT 2) s WHERE o.id < 4 GROUP BY 1 ORDER BY 1;
-- what access methods keep for their scan outlives each of its bitmaps
SELECT * FROM pg_temp.plan('SELECT o.id, s.id FROM found o, LATERAL (SELECT id FROM found i WHERE i.meta @> o.meta ORDER BY i.v <-> o.v LIMIT 1) s WHERE o.id < 40') p WHERE p ~ 'Custom|Bitmap';
SELECT count(*), count(*) FILTER (WHERE o.id = s.id) AS same FROM found o, LATERAL (SELECT id FROM found i WHERE i.meta @> o.meta ORDER BY i.v <-> o.v LIMIT 1) s WHERE o.id < 40;
SELECT count(*), count(*) FILTER (WHERE o.id = s.id) AS same FROM found o, LATERAL (SELECT id FROM found i WHERE i.category IN (o.category, o.id) ORDER BY i.v <-> o.v LIMIT 1) s WHERE o.id < 40;
SELECT * FROM counted('SELECT o.id, s.id FROM found o, LATERAL (SELECT id FROM found i WHERE i.category = 7 ORDER BY i.v <-> o.v LIMIT 2) s WHERE o.id < 4') c WHERE c ~ 'Bitmap|Custom';
BEGIN;
DECLARE forth SCROLL CURSOR FOR SELECT id FROM found WHERE category IN (7, 9) ORDER BY v <-> q();
FETCH 3 FROM forth;
FETCH BACKWARD 2 FROM forth;
DELETE FROM found WHERE id IN (SELECT id FROM found WHERE category IN (7, 9) ORDER BY v <-> q() LIMIT 3);
UPDATE found SET category = 8 WHERE id = (SELECT id FROM found WHERE category IN (7, 9) ORDER BY v <-> q() LIMIT 1 FOR UPDATE);
SELECT asked('category IN (7, 8, 9)');
ROLLBACK;

-- in parallel workers: whole, and in a sub-select of a parallel scan; not where the order may not be computed there
CREATE TABLE beside AS SELECT i % 4000 AS id FROM generate_series(1, 20000) i;
ANALYZE beside;
\set outside 'SELECT count(*), sum(id) FROM beside WHERE id NOT IN (SELECT id FROM found WHERE category IN (7, 9) ORDER BY v <-> q() LIMIT 20)'
:outside;
SET :parallel_mode = on;
SET max_parallel_workers_per_gather = 2;
ALTER FUNCTION q() PARALLEL RESTRICTED; -- not UNSAFE, which forbids the whole query parallel workers
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE category = 7 ORDER BY v <-> q() LIMIT 5');
ALTER FUNCTION q() PARALLEL SAFE;
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE category = 7 ORDER BY v <-> q() LIMIT 5');
SELECT asked('category = 7 AND tenant IN (1, 11)');
RESET :parallel_mode;
SET enable_seqscan = on;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM pg_temp.plan(:'outside') p WHERE p ~ 'Gather|Scan';
:outside;
SET enable_seqscan = off;
SET max_parallel_workers_per_gather = 0;
DROP TABLE beside;

-- row security: a condition that may leak is not decided before the policy
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE ROLE regress_found;
GRANT SELECT ON found TO regress_found;
CREATE POLICY categories ON found USING (category = 7);
ALTER TABLE found ENABLE ROW LEVEL SECURITY;
SET ROLE regress_found;
SELECT * FROM pg_temp.plan('SELECT id FROM found WHERE leak(id) AND meta @> ''{"colour": 7}'' ORDER BY v <-> q() LIMIT 2');
SELECT id FROM found WHERE leak(id) AND meta @> '{"colour": 7}' ORDER BY v <-> q() LIMIT 2;
RESET ROLE;
DROP TABLE found;
DROP ROLE regress_found;
DROP FUNCTION rows_of(text, bool), asked_of(regclass, text), asked(text), counted(text), leak(int), q();
