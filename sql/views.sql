-- The views vectorgpu_indexes and vectorgpu_worker: what their numbers count
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE TABLE vws (id int, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO vws SELECT i, CASE WHEN i % 10 > 0 THEN ARRAY[i % 7, i % 11, i]::vector END FROM generate_series(1, 1000) i;
CREATE INDEX vws_v ON vws USING gpuflat (v vector_l2_ops);
CREATE VIEW vws_counts AS
	SELECT rows, rows = (SELECT count(*) FROM vws) AS all_rows, segment_rows, null_rows, delta_rows, dead_rows, segments,
		rows = segment_rows + delta_rows - dead_rows AS adds_up
	FROM vectorgpu_indexes WHERE index_name = 'vws_v';

SELECT * FROM vws_counts;
INSERT INTO vws SELECT i, CASE WHEN i % 10 > 0 THEN ARRAY[1, 2, i]::vector END FROM generate_series(1001, 1100) i;
SELECT * FROM vws_counts;
-- deleted rows count until a vacuum has marked them
DELETE FROM vws WHERE id IN (1, 2, 10, 1001, 1002, 1010, 1020);
SELECT * FROM vws_counts;
VACUUM (INDEX_CLEANUP on) vws;
SELECT * FROM vws_counts;
SELECT rows_moved, rows_dropped FROM vectorgpu_merge('vws_v');
SELECT * FROM vws_counts;
DELETE FROM vws;
VACUUM (INDEX_CLEANUP on) vws;
SELECT rows, all_rows, delta_rows, dead_rows - segment_rows AS dead FROM vws_counts;
SELECT rows_moved, rows_dropped FROM vectorgpu_merge('vws_v');
SELECT * FROM vws_counts;

-- Units
INSERT INTO vws SELECT i, ARRAY[1, 2, i]::vector FROM generate_series(1, 10) i;
SELECT delta_rows, delta_bytes, delta_bytes = delta_rows * (8 + 16) AS header_and_padded_vector,
	index_bytes = pg_relation_size('vws_v') AS index_bytes, free_blocks * current_setting('block_size')::int < index_bytes AS free_blocks
	FROM vectorgpu_indexes WHERE index_name = 'vws_v';
-- codes of key columns: 10 rows of 4 bytes and of a bit, padded; a row of the delta has 4 bytes and one for the NULL bits
CREATE INDEX vws_keys ON vws USING gpuflat (v vector_l2_ops, id);
INSERT INTO vws VALUES (11, '[1,2,3]');
SELECT index_name, format_version, key_columns, key_bytes FROM vectorgpu_indexes WHERE index_name IN ('vws_v', 'vws_keys') ORDER BY 1;
SELECT attrelid::regclass AS view, count(*) AS columns, string_agg(attname, ' ') FILTER (WHERE col_description(attrelid, attnum) IS NULL) AS not_described
	FROM pg_attribute WHERE attrelid IN ('vectorgpu_indexes'::regclass, 'vectorgpu_worker'::regclass, 'vectorgpu_index_recall'::regclass) AND attnum > 0
	GROUP BY 1 ORDER BY 1;
DROP VIEW vws_counts;
DROP TABLE vws;
-- the phases that pg_stat_progress_create_index names
SELECT amname, string_agg(pg_indexam_progress_phasename(a.oid, n), ', ' ORDER BY n) AS phases
	FROM pg_am a, generate_series(1, 12) n WHERE amname LIKE 'gpu%' GROUP BY 1 ORDER BY 1;
