-- merging: same answers, reused blocks, tiers
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/agree.sql'
\i :file

-- an empty index, then only NULLs
CREATE TABLE mrg (id int, v vector(3)) WITH (autovacuum_enabled = off);
CREATE INDEX mrg_idx ON mrg USING gpuflat (v);
SELECT * FROM vectorgpu_merge('mrg_idx');
INSERT INTO mrg SELECT i, NULL FROM generate_series(1, 10) i;
SELECT segments_before, segments_after, rows_moved, rows_dropped, bytes_written FROM vectorgpu_merge('mrg_idx');
SELECT segments, rows, null_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('mrg_idx', true);

-- delta and segment interleave, because vacuum has made room among the old rows
INSERT INTO mrg SELECT i, ARRAY[i % 97, i % 13, i % 7]::vector FROM generate_series(11, 2000) i;
SELECT segments_before, segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('mrg_idx');
DELETE FROM mrg WHERE id % 3 = 0;
VACUUM mrg;
INSERT INTO mrg SELECT i, CASE WHEN i % 10 > 0 THEN ARRAY[i % 89, i % 11, i % 5]::vector END
	FROM generate_series(2001, 2600) i;
SELECT index_agrees('mrg', '<-> ''[3,1,4]''');
SELECT segments_before, segments_after, rows_moved, rows_dropped, wal_bytes >= bytes_written AND bytes_written > 0 AS logged
	FROM vectorgpu_merge('mrg_idx');
SELECT index_agrees('mrg', '<-> ''[3,1,4]''');
SELECT segments, rows, null_rows, dead_rows, delta_rows, heap_rows_checked, leaked_blocks
	FROM vectorgpu_check('mrg_idx', true);
SELECT * FROM vectorgpu_merge('mrg_idx');

-- inside of a transaction that has written and continues to read
BEGIN;
INSERT INTO mrg VALUES (3001, '[3,1,4]');
DECLARE near CURSOR FOR SELECT id FROM mrg ORDER BY v <-> '[3,1,4]' LIMIT 400;
FETCH 1 FROM near;
SELECT rows_moved > 0 AS moved FROM vectorgpu_merge('mrg_idx');
INSERT INTO mrg VALUES (3002, '[3,1,4]');
MOVE ALL FROM near;
SELECT rows, delta_rows FROM vectorgpu_check('mrg_idx', true);
ROLLBACK;
SELECT index_agrees('mrg', '<-> ''[3,1,4]''');

-- blocks are used again: many merges, the file stops growing
CREATE PROCEDURE churn(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		INSERT INTO mrg SELECT 10000 + j, ARRAY[j % 7, i, 1]::vector FROM generate_series(1, 300) j;
		COMMIT;
		PERFORM vectorgpu_merge('mrg_idx');
		COMMIT;
	END LOOP;
END
$$;
CALL churn(5);
SELECT pg_relation_size('mrg_idx') AS early \gset
CALL churn(5);
SELECT pg_relation_size('mrg_idx') < 2 * :early AS size_bounded;
SELECT segments, delta_rows, heap_rows_checked, leaked_blocks FROM vectorgpu_check('mrg_idx', true);
SELECT index_agrees('mrg', '<-> ''[3,1,4]''');

-- VACUUM merges by tiers: a delta of more than 4096 rows becomes a segment of its own beside a large one
CREATE TABLE tier (id int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO tier SELECT i, ARRAY[i % 101, i % 31]::vector FROM generate_series(1, 40000) i;
CREATE INDEX tier_idx ON tier USING gpuflat (v);
INSERT INTO tier SELECT i, ARRAY[i % 101, i % 31]::vector FROM generate_series(40001, 44096) i;
VACUUM tier;
SELECT segments, delta_rows FROM vectorgpu_check('tier_idx');
INSERT INTO tier VALUES (44097, '[1,1]');
VACUUM tier;
SELECT segments, delta_rows FROM vectorgpu_check('tier_idx');

-- never more than 8 segments
CREATE PROCEDURE grow(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		INSERT INTO tier SELECT 100000 * i + j, ARRAY[j % 103, i % 37]::vector FROM generate_series(1, 4200) j;
		COMMIT;
	END LOOP;
END
$$;
CALL grow(1);
VACUUM tier;
CALL grow(1);
VACUUM tier;
SELECT segments FROM vectorgpu_check('tier_idx');
CALL grow(1);
VACUUM tier;
CALL grow(1);
VACUUM tier;
CALL grow(1);
VACUUM tier;
SELECT segments FROM vectorgpu_check('tier_idx');
CALL grow(1);
VACUUM tier;
CALL grow(1);
VACUUM tier;
SELECT segments, delta_rows, heap_rows_checked FROM vectorgpu_check('tier_idx', true);
SELECT index_agrees('tier', '<-> ''[50,3]''');

-- a segment with more than a third of its rows dead is rewritten
DELETE FROM tier WHERE id <= 13000;
VACUUM (INDEX_CLEANUP on) tier;
SELECT dead_rows FROM vectorgpu_check('tier_idx');
DELETE FROM tier WHERE id <= 14000;
VACUUM (INDEX_CLEANUP on) tier;
SELECT dead_rows, heap_rows_checked FROM vectorgpu_check('tier_idx', true);
SELECT index_agrees('tier', '<-> ''[50,3]''');

-- rows that span pages, halfvec, bit
CREATE TABLE wide (id int, v vector(5000)) WITH (autovacuum_enabled = off);
CREATE INDEX wide_idx ON wide USING gpuflat (v);
INSERT INTO wide SELECT i, CASE WHEN i % 7 > 0 THEN array_fill((i % 11)::float4, ARRAY[5000])::vector END
	FROM generate_series(1, 40) i;
DELETE FROM wide WHERE id % 3 = 0;
VACUUM wide;
INSERT INTO wide SELECT i, array_fill((i % 11)::float4, ARRAY[5000])::vector FROM generate_series(41, 60) i;
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('wide_idx');
INSERT INTO wide SELECT i, array_fill((i % 11)::float4, ARRAY[5000])::vector FROM generate_series(61, 70) i;
SELECT segments, rows, null_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('wide_idx', true);
SELECT index_agrees('wide', '<-> array_fill(3, ARRAY[5000])::vector');

CREATE TABLE half (id int, v halfvec(5)) WITH (autovacuum_enabled = off);
CREATE INDEX half_idx ON half USING gpuflat (v halfvec_ip_ops);
INSERT INTO half SELECT i, ARRAY[i % 7, i % 5, 1, 2, i % 3]::halfvec FROM generate_series(1, 3000) i;
DELETE FROM half WHERE id % 3 = 0;
VACUUM half;
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('half_idx');
SELECT segments, rows, heap_rows_checked FROM vectorgpu_check('half_idx', true);
SELECT index_agrees('half', '<#> ''[1,2,3,4,5]''');

CREATE TABLE bits (id int, v bit(13)) WITH (autovacuum_enabled = off);
CREATE INDEX bits_idx ON bits USING gpuflat (v bit_hamming_ops);
INSERT INTO bits SELECT i, (i % 8191)::bit(13) FROM generate_series(1, 3000) i;
DELETE FROM bits WHERE id % 3 = 0;
VACUUM bits;
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('bits_idx');
INSERT INTO bits SELECT i, (i % 8191)::bit(13) FROM generate_series(3001, 3100) i;
SELECT segments, rows, delta_rows, heap_rows_checked FROM vectorgpu_check('bits_idx', true);
SELECT index_agrees('bits', '<~> B''1010101010101''');

DROP TABLE mrg, tier, wide, half, bits;
DROP PROCEDURE churn, grow;
DROP FUNCTION index_agrees;
