-- the planner's choice for queries with conditions: an index of the condition where few rows pass, a vector index where many do
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file

SET max_parallel_workers_per_gather = 0;
SET vectorgpu.worker = off; -- on a GPU each search costs less
CREATE TABLE filtered (id int, share int, tags text[], v vector(16)) WITH (autovacuum_enabled = off);
INSERT INTO filtered SELECT i, i % 1000, CASE WHEN i % 500 = 0 THEN '{all,few}' WHEN i % 2 = 0 THEN '{all,half}' ELSE '{all}' END::text[],
	(SELECT array_agg((hashint8extended(i * 16 + d, 1) & 1023)::real - 511.5) FROM generate_series(1, 16) d)::vector FROM generate_series(1, 20000) i;
CREATE TABLE tag_members (usr text, tag text);
INSERT INTO tag_members VALUES ('a', 'few');
ANALYZE tag_members;
-- a copy of the table for each access method, in a schema of its name
DO $$
DECLARE
	method text;
BEGIN
	FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf', 'gpugraph'] LOOP
		EXECUTE format('CREATE SCHEMA %I', method);
		EXECUTE format('CREATE TABLE %I.filtered WITH (autovacuum_enabled = off) AS SELECT * FROM filtered', method);
		EXECUTE format('CREATE INDEX filtered_share ON %I.filtered (share)', method);
		EXECUTE format('CREATE INDEX filtered_tags ON %I.filtered USING gin (tags)', method);
		EXECUTE format('CREATE INDEX filtered_v ON %1$I.filtered USING %1$s (v vector_l2_ops)', method);
		EXECUTE format('ANALYZE %I.filtered', method);
	END LOOP;
END $$;

-- for each access method, what answers the query
CREATE FUNCTION plans(condition text, rows int) RETURNS TABLE (method text, answer text) LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf', 'gpugraph'] LOOP
		EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM %I.filtered WHERE %s ORDER BY v <-> array_fill(100, ARRAY[16])::vector LIMIT %s', method, condition, rows) INTO node;
		node := node->0->'Plan';
		WHILE node->>'Node Type' IN ('Limit', 'Sort', 'Bitmap Heap Scan') LOOP
			SELECT child INTO node FROM json_array_elements(node->'Plans') child WHERE child->>'Parent Relationship' = 'Outer';
		END LOOP;
		answer := concat_ws(' ', node->>'Node Type', node->>'Index Name');
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM plans('share < 500', 10);
SELECT * FROM plans('share = 7', 10);
SELECT * FROM plans($$tags @> '{half}'$$, 10);
SELECT * FROM plans($$tags @> '{few}'$$, 10);
-- an array of a sub-select, as in a policy: core expects one of a hundred rows
SELECT * FROM plans($$tags && (SELECT array_agg(tag) FROM tag_members WHERE usr = 'a')$$, 10);
SELECT * FROM plans('share = 7', 1000);

-- the fewer pass, the more a scan costs until it has enough; with none that fails nothing is added
CREATE FUNCTION limit_cost(method text, condition text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	SET LOCAL vectorgpu.enable_filtered_scan = off;
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM %I.filtered WHERE %s ORDER BY v <-> array_fill(100, ARRAY[16])::vector LIMIT 10', method, condition) INTO node;
	RETURN node->0->'Plan'->>'Total Cost';
END $$;
SELECT method, limit_cost(method, 'share + 0 >= 0') > limit_cost(method, 'true') AS a_third,
	limit_cost(method, 'share < 500') > limit_cost(method, 'share < 990') AS half, limit_cost(method, 'share < 50') > 2 * limit_cost(method, 'share < 500') AS few,
	limit_cost(method, 'share < 2') > limit_cost(method, 'share < 50') AS fewer
FROM unnest(ARRAY['gpuflat', 'gpuivf', 'gpugraph']) method;

-- a join that drops nine of ten rows makes the scan return more, and cost more
CREATE TABLE kept (share int PRIMARY KEY);
INSERT INTO kept SELECT i * 10 FROM generate_series(0, 99) i;
CREATE TABLE same (id int PRIMARY KEY);
INSERT INTO same SELECT generate_series(1, 20000);
ANALYZE kept, same;
CREATE FUNCTION scan_cost(tables text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off;
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT f.id FROM %s ORDER BY f.v <-> array_fill(100, ARRAY[16])::vector LIMIT 10', tables) INTO node;
	node := node->0->'Plan';
	WHILE node->>'Index Name' IS DISTINCT FROM 'filtered_v' LOOP
		node := node->'Plans'->0;
	END LOOP;
	RETURN node->>'Startup Cost';
END $$;
SELECT scan_cost('gpuivf.filtered f JOIN kept USING (share)') > 1.5 * scan_cost('gpuivf.filtered f') AS drops_rows,
	scan_cost('gpuivf.filtered f JOIN same USING (id)') = scan_cost('gpuivf.filtered f') AS keeps_rows,
	scan_cost('gpuivf.filtered f LEFT JOIN kept USING (share)') = scan_cost('gpuivf.filtered f') AS left_join,
	scan_cost('gpuivf.filtered f WHERE EXISTS (SELECT FROM kept k WHERE k.share = f.share)') > 1.5 * scan_cost('gpuivf.filtered f') AS semi_join;
-- lists on key columns: the node that decides them costs less than a plain scan with a filter and a sequential one, whatever the LIMIT
CREATE FUNCTION keyed_plans(condition text) RETURNS TABLE (method text, answers text[]) LANGUAGE plpgsql AS $$
DECLARE
	wanted int;
	node json;
BEGIN
	FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf'] LOOP
		answers := NULL;
		FOREACH wanted IN ARRAY ARRAY[10, 50, 100] LOOP
			EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM %I.filtered WHERE %s ORDER BY v <-> array_fill(100, ARRAY[16])::vector LIMIT %s', method, condition, wanted) INTO node;
			answers := answers || coalesce(node #>> '{0,Plan,Plans,0,Custom Plan Provider}', node #>> '{0,Plan,Plans,0,Node Type}');
		END LOOP;
		RETURN NEXT;
	END LOOP;
END $$;
DROP INDEX gpuflat.filtered_share, gpuivf.filtered_share, gpuflat.filtered_v, gpuivf.filtered_v;
CREATE INDEX filtered_v ON gpuflat.filtered USING gpuflat (v vector_l2_ops, share);
CREATE INDEX filtered_v ON gpuivf.filtered USING gpuivf (v vector_l2_ops, share);
SELECT * FROM keyed_plans('(share < 20 OR share = 700)');

-- Where few rows are expected to pass, one search returns all that the LIMIT wants. Where more pass than expected, the scan begins again by steps:
-- it returns what it returns where that is expected.
CREATE FUNCTION searches(condition text, rows int) RETURNS TABLE (batches int, asked int, ids int[]) LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id FROM gpuivf.filtered WHERE %s ORDER BY v <-> array_fill(100, ARRAY[16])::vector LIMIT %s', condition, rows);
	plan json;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	SET LOCAL enable_bitmapscan = off;
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	batches := pg_temp.first_scan(plan)->>'Backend Batches';
	asked := pg_temp.first_scan(plan)->>'Rows Asked';
	EXECUTE format('SELECT array_agg(id) FROM (%s) s', query) INTO ids;
	RETURN NEXT;
END $$;
SELECT wanted, batches, asked FROM unnest(ARRAY[10, 400]) wanted, searches('share < 50', wanted);
SELECT wanted, few.asked > expected.asked AS again, few.ids = expected.ids AS same, cardinality(few.ids) AS n
FROM unnest(ARRAY[10, 40]) wanted, searches('share BETWEEN (SELECT 0) AND (SELECT 600)', wanted) few, searches('share BETWEEN 0 AND 600', wanted) expected;
SET client_min_messages = warning;
DROP SCHEMA gpuflat, gpuivf, gpugraph CASCADE;
DROP TABLE filtered, tag_members, kept, same;
DROP FUNCTION plans(text, int), limit_cost(text, text), scan_cost(text), keyed_plans(text), searches(text, int);
