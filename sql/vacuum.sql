-- VACUUM: tombstones, reused TIDs, INDEX_CLEANUP, PARALLEL, the vacuum scan of CREATE INDEX CONCURRENTLY
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/agree.sql'
\i :file
\set query '''<-> \'\'[3,1,4]\'\''''

CREATE TABLE vac (id int, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO vac SELECT i, ARRAY[i % 97, i % 13, i % 7]::vector FROM generate_series(1, 3000) i;
INSERT INTO vac SELECT i, NULL FROM generate_series(3001, 3100) i;
CREATE INDEX vac_idx ON vac USING gpuflat (v);
INSERT INTO vac SELECT i, ARRAY[i % 97, i % 13, i % 7]::vector FROM generate_series(3101, 4000) i;
INSERT INTO vac SELECT i, NULL FROM generate_series(4001, 4010) i;
SELECT index_agrees('vac', :query);

-- dead rows in the segment, among its NULLs and in the delta
CREATE TABLE old_places AS SELECT ctid AS place FROM vac WHERE id % 5 = 0;
DELETE FROM vac WHERE id % 5 = 0;
SELECT index_agrees('vac', :query);
VACUUM vac;
SELECT index_agrees('vac', :query);
SELECT segments, rows, null_rows, dead_rows, delta_rows, tombstone_generation, manifest_generation
	FROM vectorgpu_indexes WHERE index_name = 'vac_idx';
SELECT segments, rows, null_rows, dead_rows, delta_rows, heap_rows_checked, leaked_blocks
	FROM vectorgpu_check('vac_idx', true);

-- the same TIDs hold other rows now: no scan finds the old ones
INSERT INTO vac SELECT 10000 + i, CASE WHEN i % 9 > 0 THEN ARRAY[i % 89, i % 11, i % 5]::vector END
	FROM generate_series(1, 802) i;
SELECT count(*) > 700 AS places_used_again FROM vac WHERE id > 10000 AND ctid IN (SELECT place FROM old_places);
SELECT index_agrees('vac', :query);
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('vac_idx', true);

-- and again, with rows inserted since
DELETE FROM vac WHERE id % 7 = 0;
VACUUM vac;
INSERT INTO vac SELECT 20000 + i, ARRAY[i % 83, i % 9, i % 3]::vector FROM generate_series(1, 600) i;
SELECT index_agrees('vac', :query);
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('vac_idx', true);

-- nothing to do: no generation moves
SELECT tombstone_generation, manifest_generation FROM vectorgpu_indexes WHERE index_name = 'vac_idx' \gset before_
VACUUM vac;
VACUUM vac;
ANALYZE vac;
SELECT tombstone_generation - :before_tombstone_generation AS tombstones,
	manifest_generation - :before_manifest_generation AS manifest
	FROM vectorgpu_indexes WHERE index_name = 'vac_idx';

-- counts that core stores
SELECT c.reltuples AS index_tuples, (SELECT count(*) FROM vac) AS rows,
	c.relpages * current_setting('block_size')::int = pg_relation_size('vac_idx') AS pages_right
	FROM pg_class c WHERE oid = 'vac_idx'::regclass;

-- without index cleanup TIDs stay unused, and the entries stay
DELETE FROM vac WHERE id % 11 = 0;
VACUUM (INDEX_CLEANUP off) vac;
INSERT INTO vac SELECT 30000 + i, ARRAY[i % 79, i % 8, i % 2]::vector FROM generate_series(1, 300) i;
SELECT index_agrees('vac', :query);
SELECT heap_rows_checked FROM vectorgpu_check('vac_idx', true);
VACUUM (INDEX_CLEANUP on) vac;
INSERT INTO vac SELECT 40000 + i, ARRAY[i % 73, i % 6, i % 4]::vector FROM generate_series(1, 300) i;
SELECT index_agrees('vac', :query);
SELECT heap_rows_checked FROM vectorgpu_check('vac_idx', true);

-- little memory: several passes over the index
SET maintenance_work_mem = '1MB';
DELETE FROM vac WHERE id % 2 = 0;
VACUUM vac;
RESET maintenance_work_mem;
SELECT index_agrees('vac', :query);
SELECT heap_rows_checked FROM vectorgpu_check('vac_idx', true);

-- several indexes, parallel
SET min_parallel_index_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
CREATE INDEX vac_cosine ON vac USING gpuflat (v vector_cosine_ops);
CREATE INDEX vac_ip ON vac USING gpuflat (v vector_ip_ops);
INSERT INTO vac SELECT 50000 + i, ARRAY[i % 71, i % 5, i % 3 + 1]::vector FROM generate_series(1, 1000) i;
DELETE FROM vac WHERE id % 3 = 0;
VACUUM (PARALLEL 2) vac;
INSERT INTO vac SELECT 60000 + i, ARRAY[i % 67, i % 4, i % 3 + 1]::vector FROM generate_series(1, 500) i;
SELECT index_agrees('vac', :query), index_agrees('vac', '<#> ''[3,1,4]''');
SELECT c.index, c.dead, h.heap_rows_checked
	FROM (SELECT index_name AS index, dead_rows > 0 AS dead FROM vectorgpu_indexes WHERE table_name = 'vac') c,
		LATERAL vectorgpu_check(c.index::text::regclass, true) h ORDER BY 1;
DROP INDEX vac_cosine, vac_ip;
RESET min_parallel_index_scan_size;
RESET max_parallel_maintenance_workers;

-- all rows dead
DELETE FROM vac;
VACUUM vac;
SELECT index_agrees('vac', :query);
SELECT segments, rows, dead_rows, delta_rows FROM vectorgpu_check('vac_idx', true);
INSERT INTO vac VALUES (1, '[1,2,3]'), (2, NULL);
SELECT index_agrees('vac', :query);

-- updates: an entry for each chain of HOT updates
CREATE TABLE hot (id int, note int, v vector(3)) WITH (fillfactor = 50, autovacuum_enabled = off);
CREATE INDEX hot_idx ON hot USING gpuflat (v);
INSERT INTO hot SELECT i, 0, ARRAY[i % 17, i % 5, 1]::vector FROM generate_series(1, 200) i;
UPDATE hot SET note = note + 1;
UPDATE hot SET note = note + 1;
UPDATE hot SET v = '[9,9,9]' WHERE id % 4 = 0;
VACUUM hot;
UPDATE hot SET note = note + 1;
UPDATE hot SET v = NULL WHERE id % 4 = 1;
SELECT index_agrees('hot', :query);
VACUUM hot;
SELECT index_agrees('hot', :query);
SELECT rows, null_rows, heap_rows_checked FROM vectorgpu_check('hot_idx', true);

-- rows inserted and rolled back leave invisible entries until a vacuum
BEGIN;
INSERT INTO hot SELECT i, 0, '[3,1,4]' FROM generate_series(1001, 1500) i;
ROLLBACK;
SELECT index_agrees('hot', :query);
VACUUM hot;
SELECT index_agrees('hot', :query);
SELECT rows, null_rows, heap_rows_checked FROM vectorgpu_check('hot_idx', true);

-- built and rebuilt concurrently
CREATE INDEX CONCURRENTLY hot_cic ON hot USING gpuflat (v vector_l1_ops);
REINDEX INDEX CONCURRENTLY hot_idx;
SELECT c.index, h.rows, h.null_rows, h.heap_rows_checked
	FROM (SELECT index_name AS index FROM vectorgpu_indexes WHERE table_name = 'hot') c,
		LATERAL vectorgpu_check(c.index::text::regclass, true) h ORDER BY 1;

-- temporary and unlogged tables
CREATE TEMP TABLE vac_temp (id int, v vector(3));
CREATE INDEX vac_temp_idx ON vac_temp USING gpuflat (v);
CREATE UNLOGGED TABLE vac_unlogged (id int, v vector(3)) WITH (autovacuum_enabled = off);
CREATE INDEX vac_unlogged_idx ON vac_unlogged USING gpuflat (v);
INSERT INTO vac_temp SELECT i, ARRAY[i % 97, i % 13, i % 7]::vector FROM generate_series(1, 6000) i;
INSERT INTO vac_unlogged SELECT * FROM vac_temp;
DELETE FROM vac_temp WHERE id % 2 = 0;
DELETE FROM vac_unlogged WHERE id % 2 = 0;
VACUUM vac_temp;
VACUUM vac_unlogged;
SELECT index_agrees('vac_temp', :query), index_agrees('vac_unlogged', :query);
SELECT segments, rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('vac_temp_idx', true);
SELECT segments, rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('vac_unlogged_idx', true);

DROP TABLE vac, hot, old_places, vac_temp, vac_unlogged;
DROP FUNCTION index_agrees;
