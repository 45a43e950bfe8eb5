-- parallel builds: every process writes its vectors' pages; the same index as that of one process
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE SCHEMA parallel_build;
SET search_path = parallel_build, public;
SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '256MB';
SET max_parallel_maintenance_workers = 4;
SET vectorgpu.worker = off;
CREATE FUNCTION made_vector(i int, dims int) RETURNS vector LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 37 > 0 THEN (SELECT array_agg((hashint8extended(i::bigint * 8192 + d, 7) & 255)::real) FROM generate_series(1, dims) d)::vector END
$$;
-- rows, NULL rows and dead rows of the index; all rows of the table are compared with it, and the rows that it has with all of the table's
CREATE FUNCTION built(index regclass) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s rows, %s null, %s dead, %s compared', rows, null_rows, dead_rows, heap_rows_checked) FROM vectorgpu_check(index, heapallindexed => true)
$$;

-- many rows to a page of the index, rows beside each other, rows over several pages, out of line too
CREATE TABLE narrow (id int, v vector(3));
INSERT INTO narrow SELECT i, made_vector(i, 3) FROM generate_series(1, 30000) i;
DELETE FROM narrow WHERE id % 5 = 0;
UPDATE narrow SET id = -id WHERE id % 7 = 0;
CREATE TABLE wide (id int, category int, v vector(2500));
INSERT INTO wide SELECT i, i % 10, made_vector(i, 2500) FROM generate_series(1, 1500) i;
ALTER TABLE narrow SET (parallel_workers = 4);
ALTER TABLE wide SET (parallel_workers = 4);
ANALYZE narrow, wide;

CREATE INDEX narrow_flat ON narrow USING gpuflat (v);
CREATE INDEX narrow_graph ON narrow USING gpugraph (v) WHERE id > 0;
CREATE INDEX narrow_ivf ON narrow USING gpuivf (v) WITH (lists = 20);
CREATE INDEX narrow_sq8 ON narrow USING gpuivf (v) WITH (lists = 20, storage = sq8);
CREATE INDEX wide_flat ON wide USING gpuflat (v);
CREATE INDEX wide_keys ON wide USING gpuflat (v, category);
CREATE INDEX wide_half ON wide USING gpuflat ((v::halfvec(2500)) halfvec_l2_ops);
CREATE INDEX wide_bits ON wide USING gpuflat ((binary_quantize(v)::bit(2500)) bit_hamming_ops);
CREATE INDEX wide_graph ON wide USING gpugraph (v);
CREATE INDEX wide_ivf ON wide USING gpuivf (v) WITH (lists = 10);
CREATE INDEX wide_pq ON wide USING gpuivf (v) WITH (lists = 10, storage = pq, pq_m = 50);
SELECT indexrelid::regclass, built(indexrelid) FROM pg_index WHERE indrelid IN ('narrow'::regclass, 'wide'::regclass) ORDER BY indexrelid::regclass::text COLLATE "C";
DROP INDEX narrow_graph, narrow_ivf, narrow_sq8, wide_keys, wide_half, wide_bits, wide_graph, wide_pq;
SELECT pg_temp.compare_scans('wide', format('v <-> %L', made_vector(1, 2500)));

-- the pages are those of a serial build but for the number that tells the indexes apart: so are their sizes
CREATE TABLE sizes AS SELECT indexrelid::regclass::text AS index, pg_relation_size(indexrelid) AS size FROM pg_index WHERE indrelid IN ('narrow'::regclass, 'wide'::regclass);
SET max_parallel_maintenance_workers = 0;
REINDEX TABLE narrow;
REINDEX TABLE wide;
SELECT index, pg_relation_size(index::regclass) = size AS same_size FROM sizes ORDER BY index COLLATE "C";
SET max_parallel_maintenance_workers = 4;

-- less than a page, nothing but NULL, nothing, and more rows than the last count says
CREATE TABLE few (id int, v vector(3)) WITH (parallel_workers = 4, autovacuum_enabled = off);
CREATE INDEX few_v ON few USING gpuflat (v);
SELECT built('few_v');
INSERT INTO few SELECT i, NULL FROM generate_series(1, 2000) i;
REINDEX INDEX few_v;
SELECT built('few_v');
INSERT INTO few VALUES (1, '[1,2,3]');
REINDEX INDEX few_v;
SELECT built('few_v');
ANALYZE few;
INSERT INTO few SELECT i, made_vector(i, 3) FROM generate_series(1, 20000) i;
REINDEX INDEX few_v;
SELECT built('few_v');

-- unlogged, and written before the table's transaction ends
BEGIN;
CREATE UNLOGGED TABLE not_logged (id int, v vector(3)) WITH (parallel_workers = 4);
INSERT INTO not_logged SELECT id, v FROM narrow;
CREATE INDEX not_logged_v ON not_logged USING gpuflat (v);
CREATE TABLE fresh (id int, v vector(3)) WITH (parallel_workers = 4);
INSERT INTO fresh SELECT id, v FROM narrow;
CREATE INDEX fresh_v ON fresh USING gpugraph (v);
COMMIT;
SELECT built('not_logged_v'), built('fresh_v');

SET client_min_messages = warning;
DROP SCHEMA parallel_build CASCADE;
