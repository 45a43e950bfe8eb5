-- avg and sum: rows, no rows, NULL, parallel plans, windows, and the functions behind them
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SELECT avg(v), sum(v) FROM unnest(ARRAY['[1,2,3]'::vector, '[3,5,7]', NULL]) v;
SELECT avg(v), sum(v) FROM unnest(ARRAY['[1,2,3]'::halfvec, '[3,5,7]', NULL]) v;
SELECT avg(v), sum(v) FROM unnest(ARRAY[]::vector[]) v;
SELECT avg(v), sum(v) FROM unnest(ARRAY[NULL]::halfvec[]) v;
SELECT avg(v) FROM unnest(ARRAY['[3e38]'::vector, '[3e38]']) v;
SELECT avg(v) FROM unnest(ARRAY['[65504]'::halfvec, '[65504]']) v;
SELECT avg(v) FILTER (WHERE v <> '[1]'), avg(DISTINCT v) FROM unnest(ARRAY['[1]'::vector, '[2]', '[2]', '[3]']) v;
SELECT i, avg(v) OVER (ORDER BY i), avg(v) OVER (ORDER BY i ROWS 1 PRECEDING), sum(v) OVER (ORDER BY i)
FROM unnest(ARRAY['[1]'::vector, '[2]', '[6]']) WITH ORDINALITY AS rows (v, i);

-- a parallel plan gives what the plain one gives (whole numbers small enough to be exact in any order)
CREATE TABLE t (id int, v vector(3), h halfvec(3));
INSERT INTO t SELECT i, ARRAY[i % 100, -i % 100, i % 10], ARRAY[(i % 100 = 0)::int, -(i % 1000 = 0)::int, 0] FROM generate_series(1, 10000) i;
INSERT INTO t VALUES (10001, NULL, NULL);
ANALYZE t;
SET max_parallel_workers_per_gather = 0;
SELECT avg(v), sum(v), avg(h), sum(h) FROM t;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT avg(v), sum(v), avg(h), sum(h) FROM t;
SELECT avg(v), sum(v), avg(h), sum(h) FROM t;
SELECT avg(v), sum(v) FROM t WHERE id > 10001;
SELECT id % 3 AS part, avg(v), avg(h) FROM t GROUP BY part ORDER BY part;
SET parallel_leader_participation = off;
SELECT avg(v), sum(v), avg(h), sum(h) FROM t WHERE id <= 2;
RESET ALL;
DROP TABLE t;

-- transition, combine and final functions called directly leave their arguments as they are
SELECT vector_accum('{0}', '[1,2,3]'), vector_accum('{0,0,0,0}', '[1,2,3]'), halfvec_accum('{1,1,2}', '[1,2]');
SELECT state, vector_accum(state, '[1]'), state FROM (VALUES ('{1,5}'::double precision[])) AS states (state);
SELECT vector_combine('{1,2}', '{3,4}'), vector_combine('{0}', '{3,4}'), halfvec_combine('{1,2}', '{0}'), halfvec_combine('{0}', '{0}');
SELECT vector_avg('{2,2,4,6}'), vector_avg('{0}'), halfvec_avg('{2,2,4,6}'), halfvec_avg('{0}');
