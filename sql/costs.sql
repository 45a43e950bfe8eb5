-- cost estimates: higher for more rows and a higher recall target, nothing for distances that are not computed
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE FUNCTION startup_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO node;
	RETURN node->0->'Plan'->>'Startup Cost';
END $$;

CREATE TABLE cost_points (id int, v vector(12)) WITH (autovacuum_enabled = off);
INSERT INTO cost_points SELECT i, (SELECT array_agg((hashint8extended(i * 12 + d, 1) & 1023)::real - 511.5) FROM generate_series(1, 12) d)::vector FROM generate_series(1, 10000) i;
ANALYZE cost_points;
SET vectorgpu.worker = off; -- on a GPU neither costs more
SET enable_seqscan = off;
DO $$
DECLARE
	method text;
	query text := 'SELECT id FROM cost_points ORDER BY v <-> ''[100,0,30,5,-6,7,9,200,1,-50,3,80]'' LIMIT ';
	few float8;
	many float8;
	better float8;
BEGIN
	FOREACH method IN ARRAY ARRAY['gpuivf', 'gpugraph'] LOOP
		EXECUTE format('CREATE INDEX cost_i ON cost_points USING %s (v vector_l2_ops)%s', method, CASE WHEN method = 'gpugraph' THEN ' WITH (degree = 16)' END);
		few := startup_cost(query || 10);
		many := startup_cost(query || 1000);
		PERFORM set_config(method || '.recall_target', '0.99', true);
		better := startup_cost(query || 10);
		RAISE NOTICE '%: 1000 rows cost % more than 10, a recall of 0.99 % more than 0.95', method,
			CASE WHEN many > few THEN 'something' ELSE 'nothing' END, CASE WHEN better > few THEN 'something' ELSE 'nothing' END;
		DROP INDEX cost_i;
	END LOOP;
END $$;
-- the fewer the bits of a code, the wider the search for the same recall
DO $$
DECLARE
	bits int;
	cost float8;
	before float8 := 0;
BEGIN
	FOREACH bits IN ARRAY ARRAY[0, 512, 128] LOOP
		EXECUTE format('CREATE INDEX cost_i ON cost_points USING gpugraph (v) WITH (degree = 16, hash_bits = %s)', bits);
		cost := startup_cost('SELECT id FROM cost_points ORDER BY v <-> ''[100,0,30,5,-6,7,9,200,1,-50,3,80]'' LIMIT 10');
		RAISE NOTICE 'hash_bits = %: more than before: %', bits, cost > before;
		before := cost;
		DROP INDEX cost_i;
	END LOOP;
END $$;
-- by the index's calibration: lists of clusters, where one list finds all rows, cost less than lists of evenly spread points
CREATE TABLE cost_clusters (id int, v vector(12)) WITH (autovacuum_enabled = off);
INSERT INTO cost_clusters SELECT i, (SELECT array_agg((hashint8extended(i % 100 * 12 + d, 1) & 1023)::real + (hashint8extended(i * 12 + d, 2) & 1023)::real / 16) FROM generate_series(1, 12) d)::vector
	FROM generate_series(1, 10000) i;
CREATE INDEX ON cost_points USING gpuivf (v vector_l2_ops);
CREATE INDEX ON cost_clusters USING gpuivf (v vector_l2_ops);
ANALYZE cost_clusters;
SELECT startup_cost('SELECT id FROM cost_clusters ORDER BY v <-> ''[100,0,30,5,-6,7,9,200,1,-50,3,80]'' LIMIT 10') <
	startup_cost('SELECT id FROM cost_points ORDER BY v <-> ''[100,0,30,5,-6,7,9,200,1,-50,3,80]'' LIMIT 10') / 1.3 AS clusters_cost_less;
-- A recall target that no measured width reached: the cost of looking at all rows, as the scan does
CREATE TABLE cost_far (id int, v vector(32)) WITH (autovacuum_enabled = off);
INSERT INTO cost_far SELECT i, (SELECT array_agg((hashint8extended(i * 32 + d, 1) & 1023)::real) FROM generate_series(1, 32) d)::vector
	FROM generate_series(1, 10000) i;
CREATE INDEX cost_g ON cost_far USING gpugraph (v) WITH (degree = 4);
ANALYZE cost_far;
CREATE FUNCTION far_cost(recall_target text) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpugraph.recall_target', recall_target, true);
	RETURN startup_cost('SELECT id FROM cost_far ORDER BY v <-> array_fill(1, ARRAY[32])::vector LIMIT 10');
END $$;
SELECT far_cost('0.95') > 3 * far_cost('0.1') AS out_of_reach, far_cost('1') = far_cost('0.95') AS all_rows;
SET enable_indexscan = off; -- nothing is read of the index then
SELECT far_cost('0.99') - far_cost('0.1') BETWEEN 1 AND 50 AS by_the_target;
RESET enable_indexscan;
SET gpugraph.search_width = 20; -- what the width is set to counts
SELECT far_cost('0.95') = far_cost('0.1') AS by_width;
RESET gpugraph.search_width;
DROP FUNCTION far_cost(text);
DROP TABLE cost_far;
RESET enable_seqscan;
RESET vectorgpu.worker;
DROP TABLE cost_points;

-- Vectors in the TOAST table: the index for all rows in order, which reads none of them; a sequential scan if their distances are selected
CREATE TABLE cost_wide (id int, v vector(1000)) WITH (autovacuum_enabled = off);
INSERT INTO cost_wide SELECT i, (SELECT array_agg(sin(i * d)) FROM generate_series(1, 1000) d)::real[]::vector FROM generate_series(1, 300) i;
CREATE INDEX ON cost_wide USING gpuflat (v vector_l2_ops);
ANALYZE cost_wide;
SELECT v AS q FROM cost_wide WHERE id = 7 \gset
CREATE FUNCTION nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	node json;
	names text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO node;
	node := node->0->'Plan';
	WHILE node IS NOT NULL LOOP
		names := concat_ws(' < ', names, node->>'Node Type');
		node := node->'Plans'->0;
	END LOOP;
	RETURN names;
END $$;
SELECT nodes(format('SELECT id FROM cost_wide ORDER BY v <-> %L LIMIT 300', :'q'));
SELECT nodes(format('SELECT id, v <-> %1$L FROM cost_wide ORDER BY v <-> %1$L LIMIT 300', :'q'));
SELECT nodes(format('SELECT id FROM cost_wide ORDER BY v <-> %L FETCH FIRST 300 ROWS WITH TIES', :'q'));
SELECT nodes(format('SELECT id FROM cost_wide ORDER BY v <-> %L LIMIT 300 FOR UPDATE', :'q'));
SELECT nodes(format('SELECT id, v <-> %1$L FROM cost_wide ORDER BY v <-> %1$L LIMIT 10', :'q'));
DROP TABLE cost_wide;
DROP FUNCTION nodes(text), startup_cost(text);
