-- which rows a gpuflat scan returns: row security, aborted and deleted rows, a transaction's own rows
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE TABLE flat_rows (id int, owner text, v vector(2));
INSERT INTO flat_rows SELECT i, CASE WHEN i % 100 = 0 THEN 'regress_flat_bob' ELSE 'alice' END, ARRAY[i, i % 13]::real[]::vector
FROM generate_series(1, 5000) i;
CREATE INDEX flat_rows_v ON flat_rows USING gpuflat (v);

-- row security: the policy's quals are checked above the scan, which continues until enough rows pass
CREATE ROLE regress_flat_bob;
GRANT SELECT ON flat_rows TO regress_flat_bob;
ALTER TABLE flat_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY flat_rows_owner ON flat_rows USING (owner = current_user);
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 10');
SET ROLE regress_flat_bob;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 3;
SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 3;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 1000) x;
SET enable_seqscan = on;
SET enable_indexscan = off;
SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 3;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 1000) x;
RESET enable_indexscan;
RESET ROLE;
ALTER TABLE flat_rows DISABLE ROW LEVEL SECURITY;

-- aborted rows nearer than all others do not use up the answer
BEGIN;
INSERT INTO flat_rows SELECT 10000 + i, 'alice', '[3,3]' FROM generate_series(1, 500) i;
ROLLBACK;
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 10');
-- nor do deleted ones
DELETE FROM flat_rows WHERE id <= 400;
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 10');
VACUUM flat_rows;
INSERT INTO flat_rows SELECT 20000 + i, 'carol', ARRAY[i, 5000]::real[]::vector FROM generate_series(1, 400) i;
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 10');
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,5003]''', 'LIMIT 10');
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''');

-- a transaction sees its own rows, and no longer after a rollback to a savepoint
BEGIN;
INSERT INTO flat_rows VALUES (30001, 'alice', '[3,3]');
SAVEPOINT s;
INSERT INTO flat_rows VALUES (30002, 'alice', '[3,3]');
SET LOCAL enable_seqscan = off;
SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 2;
ROLLBACK TO s;
SELECT id FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 1;
UPDATE flat_rows SET v = '[-1000,-1000]' WHERE id = 30001;
SELECT id FROM flat_rows ORDER BY v <-> '[-1000,-1000]' LIMIT 1;
SELECT id >= 401 AS other FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 1;
COMMIT;
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 20');

-- errors in a loop of subtransactions, 40 deep
CREATE FUNCTION flat_nest(depth int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO flat_rows VALUES (40000 + depth, 'alice', '[3,3]');
	IF depth > 0 THEN
		PERFORM flat_nest(depth - 1);
	END IF;
	PERFORM id, 1 / (depth % 2) FROM flat_rows ORDER BY v <-> '[3,3]' LIMIT 3;
	RETURN depth;
EXCEPTION WHEN division_by_zero THEN
	RETURN -1;
END $$;
SELECT flat_nest(39);
SELECT flat_nest(40);
SELECT count(*) FROM flat_rows WHERE id >= 40000;
SELECT pg_temp.compare_scans('flat_rows', 'v <-> ''[3,3]''', 'LIMIT 50');

-- a scan in a function of a scan, ended by an error half way
SET enable_seqscan = off;
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT id, v FROM flat_rows ORDER BY v <-> '[1000,5]' LIMIT 300 LOOP
		BEGIN
			PERFORM 1 / (id - r.id) FROM flat_rows ORDER BY v <-> r.v LIMIT 5;
		EXCEPTION WHEN division_by_zero THEN
			n := n + 1;
		END;
	END LOOP;
	RAISE NOTICE '% of 300', n;
END $$;
RESET enable_seqscan;

-- updates that keep the vector leave its entry alone
UPDATE flat_rows SET owner = 'dave' WHERE id BETWEEN 1000 AND 1100;
UPDATE flat_rows SET owner = 'erin' WHERE id BETWEEN 1000 AND 1100;
SET enable_seqscan = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM flat_rows ORDER BY v <-> '[1050,3]' OFFSET 0) x;

-- counting needs no column, but no index-only scan either: without pins on pages the visibility map cannot be trusted
INSERT INTO flat_rows SELECT 50000 + i, 'frank', NULL FROM generate_series(1, 10) i;
SET enable_bitmapscan = off; -- PostgreSQL 18 counts disabled nodes, and none in a bitmap
SELECT pg_temp.plan($$SELECT count(*) FROM flat_rows$$);
RESET enable_bitmapscan;
SELECT count(*) FROM flat_rows;
VACUUM flat_rows;
SELECT count(*) FROM flat_rows;
SELECT n, (SELECT count(*) FROM flat_rows WHERE n > 0) FROM generate_series(0, 2) n;
SET enable_indexonlyscan = off;
SELECT count(*) FROM flat_rows;
RESET enable_indexonlyscan;
RESET enable_seqscan;

DROP FUNCTION flat_nest(int);
DROP TABLE flat_rows;
DROP ROLE regress_flat_bob;
