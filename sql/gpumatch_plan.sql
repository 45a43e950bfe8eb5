-- the planner's choice for tables of 1,000, 10,000 and 100,000 rows: gpumatch, GIN or a sequential scan
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SET max_parallel_workers_per_gather = 0;
DO $$
DECLARE
	n int;
BEGIN
	FOREACH n IN ARRAY ARRAY[1000, 10000, 100000] LOOP
		EXECUTE format('CREATE TABLE t%s (id int, a int[], d tsvector, w text) WITH (autovacuum_enabled = off)', n);
		EXECUTE format('INSERT INTO t%1$s SELECT i, ARRAY[i, i %% 7, i %% 1000], array_to_tsvector(ARRAY[''w'' || i %% 10, ''x'' || i %% 100, ''y'' || i %% 1000, ''z'' || i]),
			substr(md5(i::text), 1, 4 + i %% 6) FROM generate_series(1, %1$s) i', n);
		EXECUTE format('CREATE INDEX t%1$s_gin ON t%1$s USING gin (d); CREATE INDEX t%1$s_d ON t%1$s USING gpumatch (d); CREATE INDEX t%1$s_a ON t%1$s USING gpumatch (a);
			CREATE INDEX t%1$s_w ON t%1$s USING gpumatch (w text_gram_ops (n = 2)); ANALYZE t%1$s', n);
	END LOOP;
END $$;

-- the scan below sorts and limits
CREATE FUNCTION plans(tail text) RETURNS TABLE (rows int, plan text) LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	FOREACH rows IN ARRAY ARRAY[1000, 10000, 100000] LOOP
		EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM t%s ', rows) || tail INTO node;
		node := node->0->'Plan';
		WHILE node->>'Node Type' IN ('Limit', 'Sort', 'Incremental Sort', 'Bitmap Heap Scan') LOOP
			node := node->'Plans'->0;
		END LOOP;
		plan := concat_ws(' ', node->>'Node Type', replace(node->>'Index Name', 't' || rows || '_', ''));
		RETURN NEXT;
	END LOOP;
END $$;

-- few of the nearest: the index
SELECT * FROM plans($$ORDER BY d <#> 'w1 x1 y1 z1' LIMIT 10$$);
SELECT * FROM plans($$ORDER BY w <~> 'abcdef12' LIMIT 10$$);
-- with many items as well
SELECT * FROM plans(format('ORDER BY a <#> %L::int[] LIMIT 10', (SELECT array_agg(i * 3) FROM generate_series(1, 3000) i)));
-- all rows in order: a scan and a sort
SELECT * FROM plans($$ORDER BY d <#> 'w1 x1 y1 z1'$$);
SELECT * FROM plans($$ORDER BY w <~> 'abcdef12'$$);
-- a condition that few rows meet: GIN and a sort; one that many meet: in order, until enough rows meet it
SELECT * FROM plans($$WHERE d @@ 'z77' ORDER BY d <#> 'w1 x1 y1 z1' LIMIT 10$$);
SELECT * FROM plans($$WHERE d @@ '!z77' ORDER BY d <#> 'w1 x1 y1 z1' LIMIT 10$$);
-- at least n in common
SELECT * FROM plans($$WHERE match_at_least(d, 'w1 x1 y1 z1', 3)$$);
-- a query that is not known yet
PREPARE nearest(tsvector) AS SELECT id FROM t100000 ORDER BY d <#> $1 LIMIT 10;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE nearest('w1 x1');
RESET plan_cache_mode;
-- more items cost more, and so do more rows; the cost of comparing texts depends on LIMIT
CREATE FUNCTION startup_cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	node json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO node;
	RETURN node->0->'Plan'->>'Startup Cost';
END $$;
SET enable_seqscan = off;
SELECT startup_cost($$SELECT id FROM t1000 ORDER BY a <#> '{1}' LIMIT 10$$) < startup_cost($$SELECT id FROM t1000 ORDER BY a <#> '{1,2,3,4,5,6,7,8,9}' LIMIT 10$$) AS by_items,
	startup_cost($$SELECT id FROM t1000 ORDER BY w <~> 'abc' LIMIT 1$$) < startup_cost($$SELECT id FROM t1000 ORDER BY w <~> 'abc' LIMIT 500$$) AS by_limit,
	startup_cost($$SELECT id FROM t1000 ORDER BY w <~> 'abc' LIMIT 1$$) < startup_cost($$SELECT id FROM t10000 ORDER BY w <~> 'abc' LIMIT 1$$) AS by_rows;
RESET enable_seqscan;
DROP TABLE t1000, t10000, t100000;
DROP FUNCTION plans(text), startup_cost(text);
