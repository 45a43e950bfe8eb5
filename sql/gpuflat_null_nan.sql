-- NULL, NaN and infinite distances: in the order of a sequential scan
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE TABLE flat_null (id int, v vector(2));
INSERT INTO flat_null VALUES (1, NULL), (2, '[1,0]'), (3, '[0,0]'), (4, NULL), (5, '[0,1]'), (6, '[0,0]');
CREATE INDEX flat_null_l2 ON flat_null USING gpuflat (v);
CREATE INDEX flat_null_cosine ON flat_null USING gpuflat (v vector_cosine_ops);
CREATE INDEX flat_null_ip ON flat_null USING gpuflat (v vector_ip_ops);
INSERT INTO flat_null VALUES (7, NULL), (8, '[0,0]'), (9, '[1,1]'), (10, NULL);

-- zero vectors have no cosine distance: NaN, after all others, before NULL
SET enable_seqscan = off;
SELECT id, v, v <=> '[1,0]' AS d FROM flat_null ORDER BY v <=> '[1,0]';
SELECT id, v, v <-> '[1,0]' AS d FROM flat_null ORDER BY v <-> '[1,0]';

-- a zero query, a NULL query
SELECT id, v <=> '[0,0]' AS d FROM flat_null ORDER BY v <=> '[0,0]';
SELECT pg_temp.plan($$SELECT id, v <-> NULL AS d FROM flat_null ORDER BY v <-> NULL::vector$$);
PREPARE by_query(vector) AS SELECT id, v <-> $1 AS d FROM flat_null ORDER BY v <-> $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_query(NULL);
EXECUTE by_query(NULL);
EXECUTE by_query('[1,1]');
RESET plan_cache_mode;
RESET enable_seqscan;

SELECT pg_temp.compare_scans('flat_null', format('v %s %L', operator, query), tail)
FROM (VALUES ('<->'), ('<=>'), ('<#>')) o(operator), (VALUES ('[1,0]'), ('[0,0]'), ('[3e38,3e38]')) q(query),
	(VALUES (''), ('LIMIT 1'), ('LIMIT 4'), ('LIMIT 7'), ('LIMIT 10'), ('LIMIT 100'), ('OFFSET 6')) t(tail);

-- infinite and undefined sums
INSERT INTO flat_null VALUES (11, '[3e38,-3e38]'), (12, '[3e38,3e38]'), (13, '[-3e38,-3e38]'), (14, '[1e-44,1e-44]');
SELECT pg_temp.compare_scans('flat_null', format('v %s %L', operator, query))
FROM (VALUES ('<->'), ('<=>'), ('<#>')) o(operator), (VALUES ('[3e38,3e38]'), ('[-3e38,3e38]'), ('[1e-44,0]')) q(query);

-- only NULLs; no rows
CREATE TABLE flat_only_null (id int, v vector(2));
CREATE INDEX ON flat_only_null USING gpuflat (v);
SELECT pg_temp.compare_scans('flat_only_null', 'v <-> ''[1,2]''');
INSERT INTO flat_only_null SELECT i, NULL FROM generate_series(1, 3000) i;
SELECT pg_temp.compare_scans('flat_only_null', 'v <-> ''[1,2]''');
REINDEX TABLE flat_only_null;
SELECT pg_temp.compare_scans('flat_only_null', 'v <-> ''[1,2]''');
SELECT pg_temp.compare_scans('flat_only_null', 'v <-> ''[1,2]''', 'LIMIT 2500');

-- no ORDER BY: all rows of a partial index, in the table's order
CREATE TABLE flat_partial (id int, v vector(2));
INSERT INTO flat_partial SELECT i, CASE WHEN i % 5 > 0 THEN ARRAY[i % 10, i % 7]::real[]::vector END FROM generate_series(1, 4000) i;
CREATE INDEX flat_partial_even ON flat_partial USING gpuflat (v) WHERE id % 2 = 0;
INSERT INTO flat_partial SELECT i, CASE WHEN i % 5 > 0 THEN ARRAY[i % 10, i % 7]::real[]::vector END FROM generate_series(4001, 5000) i;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM flat_partial WHERE id % 2 = 0;
SELECT count(*), count(v), bool_and(in_order) FROM
	(SELECT v, id > lag(id) OVER () IS NOT FALSE AS in_order FROM flat_partial WHERE id % 2 = 0) x;
EXPLAIN (COSTS OFF) SELECT id FROM flat_partial WHERE id % 2 = 0 ORDER BY v <-> '[1,1]';
SELECT pg_temp.compare_scans('flat_partial', 'v <-> ''[1,1]''', 'WHERE id % 2 = 0');

DROP TABLE flat_null, flat_only_null, flat_partial;
DEALLOCATE by_query;
