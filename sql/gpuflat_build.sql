-- building and rebuilding gpuflat indexes
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE FUNCTION flat_vector(i int) RETURNS vector LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 50 > 0 THEN ARRAY[(i * 7919) % 101, (i * 104729) % 97, (i * 31) % 89]::real[]::vector END
$$;

-- rows of several heap versions: updated in place, deleted, aborted
CREATE TABLE flat_build (id int, v vector(3), note text) WITH (fillfactor = 50, autovacuum_enabled = off);
INSERT INTO flat_build SELECT i, flat_vector(i), '' FROM generate_series(1, 4000) i;
UPDATE flat_build SET note = 'updated' WHERE id % 3 = 0;
UPDATE flat_build SET v = flat_vector(id + 1) WHERE id % 7 = 0;
DELETE FROM flat_build WHERE id % 11 = 0;
BEGIN;
INSERT INTO flat_build SELECT i, flat_vector(i), '' FROM generate_series(4001, 5000) i;
ROLLBACK;
SET max_parallel_maintenance_workers = 0;
CREATE INDEX flat_build_v ON flat_build USING gpuflat (v);
-- from 18 on CREATE INDEX leaves alone the count of a table without autovacuum
SELECT i.reltuples = count(*) AS index_tuples, t.reltuples = count(*) OR (t.reltuples = -1 AND current_setting('server_version_num')::int >= 180000) AS heap_tuples FROM flat_build, pg_class i, pg_class t
WHERE i.relname = 'flat_build_v' AND t.relname = 'flat_build' GROUP BY i.reltuples, t.reltuples;

-- updated rows are indexed by the root of their HOT chain, so ids are compared as sets here
CREATE FUNCTION pg_temp.same_rows(tab text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	different bigint;
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE format('CREATE TEMP TABLE by_index ON COMMIT DROP AS SELECT row_number() OVER () AS rank, * FROM
		(SELECT id, v <-> %L AS d FROM %s ORDER BY v <-> %L) x', query, tab, query);
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE format('CREATE TEMP TABLE by_table ON COMMIT DROP AS SELECT row_number() OVER () AS rank, * FROM
		(SELECT id, v <-> %L AS d FROM %s ORDER BY v <-> %L) x', query, tab, query);
	SELECT count(*), count(*) FILTER (WHERE i.d IS DISTINCT FROM t.d) INTO n, different
	FROM by_index i FULL JOIN by_table t USING (rank);
	SELECT different + count(*) INTO different FROM by_index i FULL JOIN by_table t ON i.id = t.id AND i.d IS NOT DISTINCT FROM t.d
	WHERE i.id IS NULL OR t.id IS NULL;
	RETURN format('%s rows, %s different', n, different);
END $$;
SELECT pg_temp.same_rows('flat_build', '[50,50,50]');

-- the same with parallel workers
DROP INDEX flat_build_v;
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '128MB';
CREATE INDEX flat_build_v ON flat_build USING gpuflat (v);
SELECT i.reltuples = count(*) AS index_tuples, t.reltuples = count(*) OR (t.reltuples = -1 AND current_setting('server_version_num')::int >= 180000) AS heap_tuples FROM flat_build, pg_class i, pg_class t
WHERE i.relname = 'flat_build_v' AND t.relname = 'flat_build' GROUP BY i.reltuples, t.reltuples;
SELECT pg_temp.same_rows('flat_build', '[50,50,50]');
CREATE INDEX CONCURRENTLY flat_build_c ON flat_build USING gpuflat (v) WHERE id % 2 = 0;
REINDEX INDEX CONCURRENTLY flat_build_v;
SELECT pg_temp.same_rows('flat_build', '[50,50,50]');
SELECT pg_temp.same_rows('(SELECT * FROM flat_build WHERE id % 2 = 0) s', '[50,50,50]');
DROP INDEX flat_build_c;
-- no parallel worker available: the leader scans alone
SET max_parallel_workers = 0;
REINDEX INDEX flat_build_v;
SELECT pg_temp.same_rows('flat_build', '[50,50,50]');
RESET max_parallel_workers;

-- an expression, a predicate, another type
CREATE TABLE flat_expression (id int, v vector);
INSERT INTO flat_expression SELECT i, flat_vector(i) FROM generate_series(1, 3000) i;
CREATE INDEX ON flat_expression USING gpuflat ((v::vector(3)) vector_l2_ops);
CREATE INDEX ON flat_expression USING gpuflat ((v::halfvec(3)) halfvec_l1_ops) WHERE id > 1000;
CREATE INDEX ON flat_expression USING gpuflat ((binary_quantize(v)::bit(3)) bit_hamming_ops);
INSERT INTO flat_expression SELECT i, flat_vector(i) FROM generate_series(3001, 3500) i;
SELECT pg_temp.compare_scans('flat_expression', '(v::vector(3)) <-> ''[1,2,3]''');
SELECT pg_temp.compare_scans('flat_expression', '(v::halfvec(3)) <+> ''[1,2,3]''', 'WHERE id > 1000 LIMIT 500');
SELECT pg_temp.compare_scans('flat_expression', '(binary_quantize(v)::bit(3)) <~> B''101''');
INSERT INTO flat_expression VALUES (0, '[1,2]');
INSERT INTO flat_expression VALUES (0, NULL);
RESET min_parallel_table_scan_size;
RESET maintenance_work_mem;

-- commands that rewrite or move the table, committed and rolled back
CREATE TABLE flat_rewrite (id int, v vector(3));
INSERT INTO flat_rewrite SELECT i, flat_vector(i) FROM generate_series(1, 3000) i;
CREATE INDEX flat_rewrite_v ON flat_rewrite USING gpuflat (v);
DELETE FROM flat_rewrite WHERE id % 4 = 0;
VACUUM flat_rewrite;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
INSERT INTO flat_rewrite SELECT i, flat_vector(i * 3) FROM generate_series(3001, 4000) i;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
VACUUM FULL flat_rewrite;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
BEGIN;
TRUNCATE flat_rewrite;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
INSERT INTO flat_rewrite SELECT i, flat_vector(i) FROM generate_series(1, 100) i;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
ROLLBACK;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
TRUNCATE flat_rewrite;
INSERT INTO flat_rewrite SELECT i, flat_vector(i) FROM generate_series(1, 2000) i;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
-- created and truncated in one transaction: the index is built twice in the same file
BEGIN;
CREATE TABLE flat_again (id int, v vector(3));
CREATE INDEX ON flat_again USING gpuflat (v);
INSERT INTO flat_again SELECT i, flat_vector(i) FROM generate_series(1, 1500) i;
SELECT pg_temp.compare_scans('flat_again', 'v <-> ''[1,2,3]''');
TRUNCATE flat_again;
SELECT pg_temp.compare_scans('flat_again', 'v <-> ''[1,2,3]''');
INSERT INTO flat_again SELECT i, flat_vector(i) FROM generate_series(1001, 1700) i;
SELECT pg_temp.compare_scans('flat_again', 'v <-> ''[1,2,3]''');
COMMIT;
SELECT pg_temp.compare_scans('flat_again', 'v <-> ''[1,2,3]''');
BEGIN;
REINDEX TABLE flat_rewrite;
ROLLBACK;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3]''');
ALTER TABLE flat_rewrite ALTER v TYPE vector(4) USING (CASE WHEN v IS NOT NULL THEN v || '[7]'::vector END);
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3,4]''');
ALTER TABLE flat_rewrite ALTER v TYPE halfvec(4);
DROP INDEX flat_rewrite_v;
CREATE INDEX flat_rewrite_v ON flat_rewrite USING gpuflat (v);
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3,4]''');
ALTER TABLE flat_rewrite SET UNLOGGED;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3,4]''');
ALTER TABLE flat_rewrite SET LOGGED;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3,4]''');
ALTER TABLE flat_rewrite SET TABLESPACE pg_default;
-- a column that loses its type modifier keeps its index, and the index its dimensions
ALTER TABLE flat_rewrite ALTER v TYPE halfvec;
INSERT INTO flat_rewrite SELECT i, (flat_vector(i) || '[7]'::vector)::halfvec FROM generate_series(3001, 3100) i;
SELECT pg_temp.compare_scans('flat_rewrite', 'v <-> ''[1,2,3,4]''');
\set VERBOSITY sqlstate
INSERT INTO flat_rewrite VALUES (0, '[1,2,3]');
\set VERBOSITY default
ALTER TABLE flat_rewrite ALTER v TYPE halfvec(4);
CREATE TABLE flat_like (LIKE flat_rewrite INCLUDING ALL);
INSERT INTO flat_like SELECT * FROM flat_rewrite;
SELECT pg_temp.compare_scans('flat_like', 'v <-> ''[1,2,3,4]''');

-- unlogged, temporary, partitioned
CREATE UNLOGGED TABLE flat_unlogged (id int, v vector(3));
CREATE INDEX ON flat_unlogged USING gpuflat (v);
INSERT INTO flat_unlogged SELECT i, flat_vector(i) FROM generate_series(1, 1000) i;
SELECT pg_temp.compare_scans('flat_unlogged', 'v <-> ''[1,2,3]''');
BEGIN;
CREATE TEMP TABLE flat_temp (id int, v vector(3)) ON COMMIT DELETE ROWS;
INSERT INTO flat_temp SELECT i, flat_vector(i) FROM generate_series(1, 1000) i;
CREATE INDEX ON flat_temp USING gpuflat (v);
INSERT INTO flat_temp SELECT i, flat_vector(i) FROM generate_series(1001, 2000) i;
SELECT pg_temp.compare_scans('flat_temp', 'v <-> ''[1,2,3]''');
COMMIT;
SELECT pg_temp.compare_scans('flat_temp', 'v <-> ''[1,2,3]''');
BEGIN;
INSERT INTO flat_temp SELECT i, flat_vector(i) FROM generate_series(1, 50) i;
SELECT pg_temp.compare_scans('flat_temp', 'v <-> ''[1,2,3]''');
ROLLBACK;
CREATE TABLE flat_tree (id int, v vector(3)) PARTITION BY HASH (id);
CREATE TABLE flat_tree_0 PARTITION OF flat_tree FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE INDEX flat_tree_v ON ONLY flat_tree USING gpuflat (v);
CREATE INDEX flat_tree_0_v ON flat_tree_0 USING gpuflat (v);
ALTER INDEX flat_tree_v ATTACH PARTITION flat_tree_0_v;
CREATE TABLE flat_tree_1 PARTITION OF flat_tree FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'flat_tree_v'::regclass;
INSERT INTO flat_tree SELECT i, flat_vector(i) FROM generate_series(1, 1000) i;
SELECT pg_temp.compare_scans('flat_tree_1', 'v <-> ''[1,2,3]''');
REINDEX TABLE flat_tree;
SELECT pg_temp.compare_scans('flat_tree_0', 'v <-> ''[1,2,3]''', 'LIMIT 100');

DROP TABLE flat_again, flat_build, flat_expression, flat_rewrite, flat_like, flat_unlogged, flat_temp, flat_tree;
DROP FUNCTION flat_vector(int);
