-- LIMIT, OFFSET, cursors and plans around a gpuflat scan
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE TABLE flat_limit (id int PRIMARY KEY, grp int, v vector(3));
INSERT INTO flat_limit SELECT i, i % 10, ARRAY[(i * 7919) % 101, (i * 104729) % 97, (i * 31) % 89]::real[]::vector
FROM generate_series(1, 4000) i;
CREATE INDEX flat_limit_v ON flat_limit USING gpuflat (v);
INSERT INTO flat_limit SELECT i, i % 10, ARRAY[(i * 7919) % 101, (i * 104729) % 97, (i * 31) % 89]::real[]::vector
FROM generate_series(4001, 5000) i;
ANALYZE flat_limit;

SELECT tail, pg_temp.compare_scans('flat_limit', 'v <-> ''[50,50,50]''', tail)
FROM unnest(ARRAY['', 'LIMIT 0', 'LIMIT 1', 'LIMIT 10', 'LIMIT 100', 'LIMIT 101', 'LIMIT 1700', 'LIMIT 1701', 'LIMIT 4999',
	'LIMIT 5000', 'LIMIT 5001', 'LIMIT 1000000', 'LIMIT ALL', 'LIMIT NULL', 'LIMIT 10 OFFSET 20', 'OFFSET 4990', 'OFFSET 6000',
	'LIMIT 5 OFFSET 4998', 'LIMIT (SELECT 7)', 'LIMIT (SELECT count(*) FROM generate_series(1, 321))']) tail;

-- a filter above the scan
SELECT tail, pg_temp.compare_scans('flat_limit', 'v <-> ''[50,50,50]''', tail)
FROM unnest(ARRAY['WHERE grp = 3 LIMIT 5', 'WHERE grp = 3 LIMIT 450', 'WHERE grp = 3 LIMIT 600', 'WHERE grp = 99 LIMIT 5',
	'WHERE grp IN (3, 5)', 'WHERE v <-> ''[50,50,50]'' < 20']) tail;

-- batches are bounded by work_mem
SET work_mem = '64kB';
SELECT tail, pg_temp.compare_scans('flat_limit', 'v <-> ''[50,50,50]''', tail)
FROM unnest(ARRAY['', 'LIMIT 4000', 'LIMIT 10', 'WHERE grp = 3']) tail;
RESET work_mem;

SET enable_seqscan = off;
SET enable_sort = off;

-- a scan with a known LIMIT reads the index once; others read it again for each larger batch
CREATE FUNCTION pg_temp.index_blocks(query text) RETURNS float8 LANGUAGE plpgsql SET :parallel_mode = off
	SET vectorgpu.worker = off AS $$
DECLARE
	before bigint := pg_stat_get_xact_blocks_fetched('flat_limit_v'::regclass);
BEGIN
	EXECUTE query;
	RETURN pg_stat_get_xact_blocks_fetched('flat_limit_v'::regclass) - before;
END $$;
SELECT query, round(pg_temp.index_blocks(query) /
	pg_temp.index_blocks('SELECT id FROM flat_limit ORDER BY v <-> ''[5,5,5]'' LIMIT 1')) AS passes
FROM (SELECT replace(q, '$', 'FROM flat_limit ORDER BY v <-> ''[5,5,5]''') AS query FROM unnest(ARRAY[
	'SELECT id $ LIMIT 4000',
	'SELECT id $ LIMIT 2000 OFFSET 2000',
	'SELECT id $ FETCH FIRST 2000 ROWS WITH TIES',
	'SELECT id FROM (SELECT id, v $ OFFSET 0) x LIMIT 2000',
	'SELECT (SELECT count(*) FROM (SELECT id $ LIMIT n) x) FROM unnest(ARRAY[500, 4000, 1]) n',
	'SELECT count(*) FROM generate_series(1, 20) g, LATERAL (SELECT id FROM flat_limit ORDER BY v <-> ARRAY[g, g, g]::real[]::vector LIMIT 200) x',
	'WITH near AS MATERIALIZED (SELECT id $ LIMIT 2000) SELECT count(*) FROM near',
	'(SELECT id $ LIMIT 2000) UNION ALL (SELECT id $ LIMIT 2000)',
	'SELECT id $',
	'SELECT id $ LIMIT ALL']) q) x;

-- WITH TIES
CREATE TABLE flat_ties (id int, v vector(1));
INSERT INTO flat_ties SELECT i, ARRAY[i / 300]::real[]::vector FROM generate_series(0, 2999) i;
CREATE INDEX ON flat_ties USING gpuflat (v);
SELECT count(*), array_agg(DISTINCT v::text) FROM (SELECT v FROM flat_ties ORDER BY v <-> '[0]' FETCH FIRST 1 ROW WITH TIES) x;
SELECT count(*), array_agg(DISTINCT v::text) FROM (SELECT v FROM flat_ties ORDER BY v <-> '[0]' FETCH FIRST 301 ROWS WITH TIES) x;
SELECT count(*), array_agg(DISTINCT v::text) FROM (SELECT v FROM flat_ties ORDER BY v <-> '[0]' OFFSET 100 FETCH FIRST 200 ROWS WITH TIES) x;

-- cursors
BEGIN;
DECLARE plain CURSOR FOR SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]';
FETCH 3 FROM plain;
INSERT INTO flat_limit SELECT 10000 + i, 0, '[50,50,50]' FROM generate_series(1, 50) i;
MOVE 200 FROM plain;
FETCH 2 FROM plain;
MOVE ALL FROM plain;
SELECT count(*) FROM flat_limit WHERE id > 10000;
ROLLBACK;
BEGIN;
DECLARE scroll SCROLL CURSOR FOR SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT 300;
FETCH 2 FROM scroll;
FETCH ABSOLUTE 250 FROM scroll;
FETCH BACKWARD 2 FROM scroll;
FETCH FIRST FROM scroll;
FETCH LAST FROM scroll;
MOVE BACKWARD ALL IN scroll;
FETCH 1 FROM scroll;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT 150;
FETCH 2 FROM held;
COMMIT;
DELETE FROM flat_limit WHERE id = 1;
FETCH 2 FROM held;
MOVE ALL FROM held;
CLOSE held;
INSERT INTO flat_limit SELECT 1, 1, '[40,71,31]';

-- joins: one scan for each outer row
SELECT count(*), count(DISTINCT o.id), bool_and(n.d <= 30) FROM flat_limit o,
	LATERAL (SELECT i.id, i.v <-> o.v AS d FROM flat_limit i ORDER BY i.v <-> o.v LIMIT 3) n WHERE o.id <= 200;
SELECT o.id, n.id FROM flat_limit o, LATERAL (SELECT i.id FROM flat_limit i ORDER BY i.v <-> o.v, o.id LIMIT 1) n
WHERE o.id BETWEEN 10 AND 14 ORDER BY 1;
SELECT (SELECT i.id FROM flat_limit i ORDER BY i.v <-> o.v LIMIT 1) FROM flat_limit o WHERE o.id BETWEEN 10 AND 14 ORDER BY o.id;
-- the limit differs from one outer row to the next
SELECT n, (SELECT count(*) FROM (SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT n) x)
FROM unnest(ARRAY[1, 400, 0, 7, 5000, NULL, 3]) n;

-- UNION ALL, row locks, subqueries, CTEs
(SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT 2) UNION ALL (SELECT id FROM flat_limit ORDER BY v <-> '[1,1,1]' LIMIT 2);
SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT 2 FOR UPDATE;
WITH near AS MATERIALIZED (SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]' LIMIT 400) SELECT count(*) FROM near;
SELECT id FROM (SELECT id, v <-> '[50,50,50]' AS d FROM flat_limit ORDER BY v <-> '[50,50,50]' OFFSET 0) x WHERE d > 5 LIMIT 2;

-- two distances: the index serves the first
SELECT pg_temp.plan($$SELECT id FROM flat_limit ORDER BY v <-> '[50,50,50]', v <-> '[1,1,1]' LIMIT 2$$);

-- partitions: MergeAppend gives each child the limit
CREATE TABLE flat_parted (id int, v vector(3)) PARTITION BY RANGE (id);
CREATE TABLE flat_parted_1 PARTITION OF flat_parted FOR VALUES FROM (0) TO (1500);
CREATE TABLE flat_parted_2 PARTITION OF flat_parted FOR VALUES FROM (1500) TO (3500);
CREATE TABLE flat_parted_3 PARTITION OF flat_parted DEFAULT;
CREATE INDEX flat_parted_v ON flat_parted USING gpuflat (v);
INSERT INTO flat_parted SELECT id, v FROM flat_limit;
INSERT INTO flat_parted SELECT i, NULL FROM generate_series(1, 4000, 400) i;
EXPLAIN (COSTS OFF) SELECT id FROM flat_parted ORDER BY v <-> '[50,50,50]' LIMIT 5;
RESET enable_seqscan;
RESET enable_sort;
SELECT tail, pg_temp.compare_scans('flat_parted', 'v <-> ''[50.1,49.637,51.253]''', tail)
FROM unnest(ARRAY['LIMIT 1', 'LIMIT 20', 'LIMIT 20 OFFSET 5']) tail;

-- prepared statements: custom plans, then generic ones
PREPARE nearest(vector, int) AS SELECT id FROM flat_limit ORDER BY v <-> $1 LIMIT $2;
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
EXECUTE nearest('[50,50,50]', 1);
EXECUTE nearest('[50,50,50]', 4);
EXECUTE nearest('[1,1,1]', 2);
REINDEX INDEX flat_limit_v;
EXECUTE nearest('[1,1,1]', 2);
DROP INDEX flat_limit_v;
EXECUTE nearest('[1,1,1]', 2);
RESET plan_cache_mode;
RESET enable_seqscan;
DEALLOCATE nearest;

DROP TABLE flat_limit, flat_ties, flat_parted;
