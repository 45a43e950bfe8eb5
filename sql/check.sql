-- vectorgpu_check, vectorgpu_merge and the view vectorgpu_indexes: results and errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE TABLE chk (id int, v vector(3), w vector, b bit(20), h halfvec(4)) WITH (autovacuum_enabled = off);
CREATE INDEX chk_v ON chk USING gpuflat (v vector_cosine_ops);
CREATE INDEX chk_w ON chk USING gpuflat ((w::vector(7)) vector_l1_ops) WHERE w IS NOT NULL;
CREATE INDEX chk_b ON chk USING gpuflat (b bit_jaccard_ops);
CREATE INDEX chk_h ON chk USING gpuflat (h halfvec_ip_ops);
CREATE INDEX chk_id ON chk (id);
SELECT c.index, h.* FROM (SELECT index_name AS index FROM vectorgpu_indexes WHERE table_name = 'chk') c,
	LATERAL vectorgpu_check(c.index::text::regclass, true) h ORDER BY 1;

INSERT INTO chk SELECT i, ARRAY[i % 3, 0, 0]::vector, CASE WHEN i % 2 = 0 THEN array_fill(i, ARRAY[7])::vector END,
	i::bit(20), CASE WHEN i % 4 > 0 THEN ARRAY[i, 1, 2, 3]::halfvec END FROM generate_series(1, 1000) i;
SELECT c.index, h.* FROM (SELECT index_name AS index FROM vectorgpu_indexes WHERE table_name = 'chk') c,
	LATERAL vectorgpu_check(c.index::text::regclass, true) h ORDER BY 1;
SELECT vectorgpu_merge('chk_v') IS NOT NULL AS merged;
DELETE FROM chk WHERE id % 10 = 0;
VACUUM chk;
SELECT c.index, h.* FROM (SELECT index_name AS index FROM vectorgpu_indexes WHERE table_name = 'chk') c,
	LATERAL vectorgpu_check(c.index::text::regclass, true) h ORDER BY 1;
SELECT index_name, access_method, element, metric, dimensions, rows, null_rows, dead_rows, segments, delta_rows,
	delta_bytes, manifest_generation, tombstone_generation, leaked_blocks, format_version, is_valid, needs_reindex,
	index_bytes = pg_relation_size(index_name::text::regclass) AS size_right
	FROM vectorgpu_indexes WHERE table_name = 'chk' ORDER BY 1;

-- under an older snapshot than some rows
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM chk;
SELECT heap_rows_checked FROM vectorgpu_check('chk_v', true);
INSERT INTO chk SELECT i, '[1,1,1]' FROM generate_series(2001, 2010) i;
SELECT heap_rows_checked FROM vectorgpu_check('chk_v', true);
ROLLBACK;
SELECT rows, heap_rows_checked FROM vectorgpu_check('chk_v', true);

-- NULL arguments
SELECT vectorgpu_check(NULL), vectorgpu_check('chk_v', NULL), vectorgpu_merge(NULL);

-- wrong kinds of relations
CREATE VIEW chk_view AS SELECT * FROM chk;
CREATE SEQUENCE chk_seq;
CREATE TABLE chk_part (id int, v vector(3)) PARTITION BY RANGE (id);
CREATE TABLE chk_part_1 PARTITION OF chk_part FOR VALUES FROM (0) TO (100);
CREATE INDEX chk_part_idx ON chk_part USING gpuflat (v);
SELECT vectorgpu_check('chk');
SELECT vectorgpu_check('chk_view');
SELECT vectorgpu_check('chk_seq');
SELECT vectorgpu_check('chk_id');
SELECT vectorgpu_check('chk_part_idx');
SELECT vectorgpu_check('chk_part_1_v_idx');
SELECT vectorgpu_check(0);
SELECT vectorgpu_check('pg_class_oid_index');
SELECT vectorgpu_merge('chk');
SELECT vectorgpu_merge('chk_view');
SELECT vectorgpu_merge('chk_id');
SELECT vectorgpu_merge('chk_part_idx');
SELECT vectorgpu_merge(0);
SELECT segments_after FROM vectorgpu_merge('chk_part_1_v_idx');

-- the same, by code
\set VERBOSITY sqlstate
SELECT vectorgpu_check('chk');
SELECT vectorgpu_check('chk_id');
SELECT vectorgpu_check('chk_part_idx');
SELECT vectorgpu_check(0);
\set VERBOSITY default

-- an index whose concurrent build has failed
CREATE FUNCTION fails(v vector) RETURNS vector(3) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE division_by_zero;
END
$$;
CREATE INDEX CONCURRENTLY chk_invalid ON chk USING gpuflat ((fails(v)::vector(3)));
SELECT vectorgpu_check('chk_invalid');
SELECT vectorgpu_merge('chk_invalid');
SELECT index_name, rows, is_valid, needs_reindex FROM vectorgpu_indexes WHERE index_name = 'chk_invalid';
DROP INDEX chk_invalid;

DROP TABLE chk_part, chk CASCADE;
DROP SEQUENCE chk_seq;
DROP FUNCTION fails;
