-- The distance that orders the rows is computed again only if the query reads it.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
SET enable_seqscan = off;
SET enable_sort = off;
SET track_functions = 'all';
CREATE TABLE unread (id int, v vector(3));
INSERT INTO unread SELECT i, ARRAY[i, i % 7, 1]::float4[]::vector FROM generate_series(1, 200) i;
CREATE INDEX ON unread USING gpuflat (v vector_l2_ops);

-- Calls of l2_distance by a query, as this transaction's statistics count them; the query's rows, as text.
CREATE FUNCTION calls(query text, OUT n bigint, OUT result text) LANGUAGE plpgsql AS $$
DECLARE
	before bigint := coalesce(pg_stat_get_xact_function_calls('l2_distance(vector, vector)'::regprocedure), 0);
	answer record;
BEGIN
	FOR answer IN EXECUTE query LOOP
		result := concat_ws(' ', result, answer::text);
	END LOOP;
	n := coalesce(pg_stat_get_xact_function_calls('l2_distance(vector, vector)'::regprocedure), 0) - before;
END $$;

EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 3;
-- Number of distances saved when only id is selected, against id and the distance (builds with assertions compute all
-- once more).
CREATE FUNCTION spared(rest text, OUT n bigint, OUT result text) LANGUAGE sql AS $$
	SELECT with_distance.n - without.n, without.result FROM calls('SELECT id FROM unread ' || rest) without,
		calls('SELECT id, v <-> ''[20, 6, 1]'' FROM unread ' || rest) with_distance $$;
SELECT * FROM spared($$ORDER BY v <-> '[20, 6, 1]' LIMIT 3$$);
SELECT n, length(result) FROM spared($$ORDER BY v <-> '[20, 6, 1]'$$);
SELECT * FROM spared($$WHERE id % 2 = 0 ORDER BY v <-> '[20, 6, 1]' LIMIT 3 OFFSET 1$$);
-- So is an expression of the distance that the index's order follows.
SELECT * FROM calls($$SELECT id FROM unread ORDER BY 1 - (v <-> '[20, 6, 1]') DESC LIMIT 3$$);
-- Read by the query, by ties, by a sort.
SELECT result FROM calls($$SELECT id, v <-> '[20, 6, 1]' FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 2$$);
SELECT * FROM spared($$ORDER BY v <-> '[20, 6, 1]' FETCH FIRST 3 ROWS WITH TIES$$);
SELECT n > 0 AS computed, result FROM calls($$SELECT id FROM unread ORDER BY v <-> '[20, 6, 1]', id LIMIT 3$$);
SELECT result FROM calls($$SELECT a.id, b.id FROM unread a CROSS JOIN LATERAL
	(SELECT id FROM unread b ORDER BY b.v <-> a.v LIMIT 2) b WHERE a.id IN (5, 6) ORDER BY a.id, b.id$$);
-- The rows of a nested loop's sides, and of a sub-query with a condition: 4 and 3 and 20 distances less.
CREATE FUNCTION spared_below(without text, with_distance text, OUT n bigint, OUT same bool) LANGUAGE sql AS $$
	SELECT b.n - a.n, a.result = b.result FROM calls(without) a, calls(with_distance) b $$;
SELECT * FROM spared_below($$SELECT a.id, s.id FROM unread a CROSS JOIN LATERAL
	(SELECT id FROM unread b ORDER BY b.v <-> a.v LIMIT 2) s WHERE a.id IN (5, 6)$$, $$SELECT a.id, s.id FROM unread a CROSS JOIN LATERAL
	(SELECT id, b.v <-> a.v AS d FROM unread b ORDER BY b.v <-> a.v LIMIT 2) s WHERE a.id IN (5, 6) AND s.d >= 0$$);
SELECT * FROM spared_below($$SELECT s.id FROM (SELECT id FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 3) s, LATERAL
	(SELECT s.id OFFSET 0) r$$, $$SELECT s.id FROM (SELECT id, v <-> '[20, 6, 1]' AS d FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 3) s, LATERAL
	(SELECT s.id, s.d OFFSET 0) r WHERE r.d >= 0$$);
SELECT * FROM spared_below($$SELECT id FROM (SELECT id FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 20) s WHERE id % 2 = 0$$,
	$$SELECT id FROM (SELECT id, v <-> '[20, 6, 1]' AS d FROM unread ORDER BY v <-> '[20, 6, 1]' LIMIT 20) s WHERE id % 2 = 0 AND d >= 0$$);
DROP FUNCTION spared_below;
-- The same plan repeatedly, with other parameters.
PREPARE nearest(vector) AS SELECT id FROM unread ORDER BY v <-> $1 LIMIT 2;
SET plan_cache_mode = force_generic_plan;
EXECUTE nearest('[1, 1, 1]');
EXECUTE nearest('[100, 2, 1]');
DEALLOCATE nearest;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM unread ORDER BY v <-> '[20, 6, 1]';
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;
DROP FUNCTION spared;
DROP FUNCTION calls;
DROP TABLE unread;
