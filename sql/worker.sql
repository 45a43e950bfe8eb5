-- The worker: settings, views, the functions that ask for it, and who may call them. The answers of scans with and without
-- it are compared by all other tests, which run both ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
LOAD 'vectorgpu';

SELECT name, boot_val, unit, context, vartype FROM pg_settings
	WHERE name ~ '^vectorgpu\.(worker|spin_time|inline_load|ship_limit)' AND name !~ 'vectorgpu\.worker(_min_size)?$' ORDER BY name;
\set VERBOSITY sqlstate
SET vectorgpu.worker_timeout = '5ms';
\unset VERBOSITY
SET vectorgpu.worker_threads = 2;
SET vectorgpu.spin_time_us = 20000;
-- The test waits for the worker, on a busy machine too.
SET vectorgpu.worker_timeout = '2min';

CREATE TABLE wrk (id int, v vector(3), h halfvec(5), b bit(70));
INSERT INTO wrk SELECT i, CASE WHEN i % 10 > 0 THEN ARRAY[i % 7, i % 11, i]::vector END, array_fill(i % 13, ARRAY[5])::halfvec,
	repeat(i::bit(10)::text, 7)::bit(70) FROM generate_series(1, 500) i;
CREATE INDEX wrk_v ON wrk USING gpuflat (v vector_l2_ops);
CREATE INDEX wrk_h ON wrk USING gpuflat (h halfvec_cosine_ops);
CREATE INDEX wrk_b ON wrk USING gpuflat (b bit_jaccard_ops);
CREATE INDEX wrk_id ON wrk (id);

-- Copies: made, compared, brought up to date, dropped
SELECT vectorgpu_prewarm('wrk_v'), vectorgpu_prewarm('wrk_h'), vectorgpu_prewarm('wrk_b');
SELECT index_name, resident_bytes > 0 AS resident, copy_manifest_generation, copy_delta_end, copy_tombstone_generation, loads
	FROM vectorgpu_indexes WHERE table_name = 'wrk' ORDER BY 1;
INSERT INTO wrk SELECT -i, ARRAY[i, i, i]::vector, NULL, i::bit(70) FROM generate_series(1, 5) i;
DELETE FROM wrk WHERE id IN (-1, 7, 8, 10);
VACUUM wrk;
SELECT vectorgpu_prewarm('wrk_v') IS NOT NULL AS warm;
SELECT index_name, copy_manifest_generation = manifest_generation AS manifest, copy_delta_end AS delta_end,
	copy_tombstone_generation = tombstone_generation AS tombstones FROM vectorgpu_indexes WHERE index_name = 'wrk_v';
SELECT rows, null_rows, dead_rows, cache_rows_checked FROM vectorgpu_check('wrk_v', true, true);
SELECT cache_rows_checked FROM vectorgpu_check('wrk_h', false, true);
SELECT vectorgpu_merge('wrk_v') IS NOT NULL AS merged;
SELECT vectorgpu_prewarm('wrk_v') IS NOT NULL AS warm;
SELECT rows, dead_rows, delta_rows, cache_rows_checked FROM vectorgpu_check('wrk_v', true, true);
SELECT vectorgpu_evict('wrk_v'), vectorgpu_evict('wrk_v');
SELECT cache_rows_checked FROM vectorgpu_check('wrk_v', false, true);
SELECT resident_bytes, loads, searches FROM vectorgpu_indexes WHERE index_name = 'wrk_v';
-- An index whose rows are all NULL, and one without rows
CREATE TABLE wrk_none (v vector(4));
CREATE INDEX wrk_none_v ON wrk_none USING gpuflat (v vector_l2_ops);
SELECT vectorgpu_prewarm('wrk_none_v');
INSERT INTO wrk_none SELECT NULL FROM generate_series(1, 10);
REINDEX INDEX wrk_none_v;
SELECT vectorgpu_prewarm('wrk_none_v');
SELECT rows, null_rows, cache_rows_checked FROM vectorgpu_check('wrk_none_v', true, true);

-- The view
SELECT pid > 0 AS pid, supervisor_pid > 0 AS supervisor_pid, ready, engine IN ('cpu', 'cuda') AS engine, device IS NOT NULL AS device, uptime > '0' AS uptime,
	restarts >= 0 AS restarts, sessions >= 1 AS sessions, queued >= 0 AS queued, copies >= 3 AS copies,
	resident_bytes > 0 AS resident_bytes, memory_bytes > 0 AS memory_bytes FROM vectorgpu_worker;
SELECT string_agg(key, ' ' ORDER BY key) FROM vectorgpu_worker, jsonb_object_keys(fallback_reasons) key;
-- Scans count only if the worker is on
SET enable_seqscan = off;
SET vectorgpu.worker_min_size = 0;
CREATE TEMP TABLE wrk_before AS SELECT answered + fallbacks AS n FROM vectorgpu_worker;
SELECT id FROM wrk ORDER BY v <-> '[1,2,3]' LIMIT 3;
-- scans of an index also count for the index
SELECT bool_and(fallbacks = n) AS adds_up, bool_and(fallbacks <= all_fallbacks) AS part_of_all FROM vectorgpu_indexes i,
	LATERAL (SELECT sum(value::int8) AS n FROM jsonb_each_text(fallback_reasons)) s, (SELECT fallbacks AS all_fallbacks FROM vectorgpu_worker) w
	WHERE table_name = 'wrk';
SELECT string_agg(key, ' ' ORDER BY key) = (SELECT string_agg(key, ' ' ORDER BY key) FROM vectorgpu_worker, jsonb_object_keys(fallback_reasons) key) AS same_reasons
	FROM vectorgpu_indexes, jsonb_object_keys(fallback_reasons) key WHERE index_name = 'wrk_b';
SELECT * FROM vectorgpu_index_fallbacks('wrk');
SELECT (answered + fallbacks > n) = current_setting('vectorgpu.worker')::bool AS counted FROM vectorgpu_worker, wrk_before;

-- Errors of the functions
SELECT vectorgpu_prewarm('wrk_id');
SELECT vectorgpu_prewarm('wrk');
SELECT vectorgpu_evict(0);
CREATE TEMP TABLE wrk_temp (v vector(3));
CREATE INDEX wrk_temp_v ON wrk_temp USING gpuflat (v vector_l2_ops);
SELECT vectorgpu_prewarm('wrk_temp_v');
SELECT vectorgpu_evict('wrk_temp_v');
SELECT cache_rows_checked FROM vectorgpu_check('wrk_temp_v', true, true);

-- Privileges
CREATE ROLE wrk_nobody;
CREATE ROLE wrk_reader;
CREATE ROLE wrk_monitor IN ROLE pg_stat_scan_tables;
GRANT SELECT ON wrk TO wrk_reader;
SET ROLE wrk_nobody;
SELECT vectorgpu_prewarm('wrk_v');
SELECT vectorgpu_evict('wrk_v');
SELECT count(*) FROM vectorgpu_worker;
SELECT count(*) FROM vectorgpu_indexes WHERE table_name = 'wrk';
SELECT count(*) FROM vectorgpu_worker_copies() WHERE filenode = pg_relation_filenode('wrk_h');
SELECT * FROM vectorgpu_index_fallbacks('wrk_h');
SET ROLE wrk_reader;
SELECT fallbacks >= 0 AS counted FROM vectorgpu_index_fallbacks('wrk_h');
SELECT count(*), count(resident_bytes) > 0 AS sizes FROM vectorgpu_indexes WHERE table_name = 'wrk';
SELECT count(*) FROM vectorgpu_worker_copies() WHERE filenode = pg_relation_filenode('wrk_h');
SET ROLE wrk_monitor;
SELECT count(*), count(resident_bytes) > 0 AS sizes FROM vectorgpu_indexes WHERE table_name = 'wrk';
SELECT count(*) FROM vectorgpu_worker_copies() WHERE filenode = pg_relation_filenode('wrk_h');
SET vectorgpu.worker_memory = '1GB';
RESET ROLE;
GRANT EXECUTE ON FUNCTION vectorgpu_prewarm, vectorgpu_evict TO wrk_nobody, wrk_reader;
SET ROLE wrk_nobody;
SELECT vectorgpu_prewarm('wrk_v');
SET ROLE wrk_reader;
SELECT vectorgpu_prewarm('wrk_v') IS NOT NULL AS warm;
RESET ROLE;
ALTER TABLE wrk ENABLE ROW LEVEL SECURITY;
SET ROLE wrk_reader;
SELECT vectorgpu_evict('wrk_v');
SELECT count(*) FROM vectorgpu_indexes WHERE table_name = 'wrk';
SELECT count(*) FROM vectorgpu_worker_copies() WHERE filenode = pg_relation_filenode('wrk_h');
SELECT * FROM vectorgpu_index_fallbacks('wrk_h');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION vectorgpu_prewarm, vectorgpu_evict FROM wrk_nobody, wrk_reader;
DROP TABLE wrk, wrk_none;
DROP ROLE wrk_nobody, wrk_reader, wrk_monitor;
