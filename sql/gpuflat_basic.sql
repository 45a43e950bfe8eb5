-- every operator class of gpuflat: index scan = sequential scan, bit for bit
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

SELECT opcname, opcdefault, opcintype::regtype, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'gpuflat' AND opcname NOT LIKE '%filter\_ops' ORDER BY opcname;

-- values with few distinct coordinates: many equal distances
CREATE TABLE flat_basic (id int, v vector(5), h halfvec(5), b bit(13));
CREATE FUNCTION flat_row(i int) RETURNS flat_basic LANGUAGE sql IMMUTABLE AS $$
	SELECT i, x::vector(5), x::vector(5)::halfvec(5), ((i * 7919) % 8192)::bit(13)
	FROM (SELECT ARRAY[i % 7, i % 11 - 5, (i * 31) % 13, i % 3, (i * 17) % 19]::real[] AS x) r
$$;
INSERT INTO flat_basic SELECT (flat_row(i)).* FROM generate_series(1, 2000) i;

CREATE INDEX flat_v_l2 ON flat_basic USING gpuflat (v);
CREATE INDEX flat_v_ip ON flat_basic USING gpuflat (v vector_ip_ops);
CREATE INDEX flat_v_cosine ON flat_basic USING gpuflat (v vector_cosine_ops);
CREATE INDEX flat_v_l1 ON flat_basic USING gpuflat (v vector_l1_ops);
CREATE INDEX flat_h_l2 ON flat_basic USING gpuflat (h);
CREATE INDEX flat_h_ip ON flat_basic USING gpuflat (h halfvec_ip_ops);
CREATE INDEX flat_h_cosine ON flat_basic USING gpuflat (h halfvec_cosine_ops);
CREATE INDEX flat_h_l1 ON flat_basic USING gpuflat (h halfvec_l1_ops);
CREATE INDEX flat_b_hamming ON flat_basic USING gpuflat (b);
CREATE INDEX flat_b_jaccard ON flat_basic USING gpuflat (b bit_jaccard_ops);

-- rows of the delta beside the rows of the build
INSERT INTO flat_basic SELECT (flat_row(i)).* FROM generate_series(2001, 3000) i;

BEGIN;
SET LOCAL enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY v <-> '[1,2,3,1,5]' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY v <#> '[1,2,3,1,5]' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY h <=> '[1,2,3,1,5]' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY h <+> '[1,2,3,1,5]' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY b <~> B'0101010101010' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM flat_basic ORDER BY b <%> B'0101010101010' LIMIT 5;
SELECT id, v <-> '[1,2,3,1,5]' AS d FROM flat_basic ORDER BY v <-> '[1,2,3,1,5]' LIMIT 5;
SELECT id, b <~> B'0101010101010' AS d FROM flat_basic ORDER BY b <~> B'0101010101010' LIMIT 5;
ROLLBACK;

SELECT column_name || operator AS what, pg_temp.compare_scans('flat_basic', format('%s %s %L', column_name, operator, query)),
	pg_temp.compare_scans('flat_basic', format('%s %s %L', column_name, operator, query), 'LIMIT 50')
FROM (VALUES ('v', '<->'), ('v', '<#>'), ('v', '<=>'), ('v', '<+>'), ('h', '<->'), ('h', '<#>'), ('h', '<=>'),
	('h', '<+>')) o(column_name, operator), (VALUES ('[1,2,3,1,5]'), ('[0,0,0,0,0]'), ('[-3,7,2.5,0,100]')) q(query);
SELECT operator, pg_temp.compare_scans('flat_basic', format('b %s %L', operator, query)),
	pg_temp.compare_scans('flat_basic', format('b %s %L', operator, query), 'LIMIT 50')
FROM (VALUES ('<~>'), ('<%>')) o(operator), (VALUES (B'0101010101010'), (B'0000000000000')) q(query);

-- the same bits from the scalar kernels
SET vectorgpu.simd = scalar;
SELECT pg_temp.compare_scans('flat_basic', 'v <-> ''[1,2,3,1,5]''');
CREATE TEMP TABLE scalar_bits AS SELECT id, float8send(v <=> '[1,2,3,1,5]') AS d FROM flat_basic;
SET vectorgpu.simd = auto;
SELECT count(*) FROM flat_basic JOIN scalar_bits s USING (id) WHERE float8send(v <=> '[1,2,3,1,5]') <> s.d;

-- values of the largest dimensions: a row spans many pages
CREATE TABLE flat_wide (id int, v vector(16000), b bit(64000));
INSERT INTO flat_wide SELECT i, array_fill(i::real, ARRAY[16000])::vector, repeat(i::bit(8)::text, 8000)::bit(64000)
FROM generate_series(1, 5) i;
CREATE INDEX ON flat_wide USING gpuflat (v);
CREATE INDEX ON flat_wide USING gpuflat (b);
INSERT INTO flat_wide SELECT i, array_fill(i::real, ARRAY[16000])::vector, repeat(i::bit(8)::text, 8000)::bit(64000)
FROM generate_series(6, 12) i;
INSERT INTO flat_wide VALUES (13, NULL, NULL);
SELECT pg_temp.compare_scans('flat_wide', 'v <-> array_fill(6.4::real, ARRAY[16000])::vector');
SELECT pg_temp.compare_scans('flat_wide', 'b <~> repeat(''00001111'', 8000)::bit(64000)');
SELECT pg_temp.compare_scans('flat_wide', 'v <-> array_fill(6.4::real, ARRAY[16000])::vector', 'LIMIT 3');

-- one dimension, one bit
CREATE TABLE flat_narrow (id int, v vector(1), h halfvec(1), b bit(1));
INSERT INTO flat_narrow SELECT i, ARRAY[(i * 7919) % 1000]::real[]::vector, ARRAY[i % 100]::real[]::vector::halfvec, (i % 2)::bit
FROM generate_series(1, 20000) i;
CREATE INDEX ON flat_narrow USING gpuflat (v);
CREATE INDEX ON flat_narrow USING gpuflat (h);
CREATE INDEX ON flat_narrow USING gpuflat (b);
SELECT pg_temp.compare_scans('flat_narrow', 'v <-> ''[500.5]''');
SELECT pg_temp.compare_scans('flat_narrow', 'h <-> ''[50]''', 'LIMIT 777');
SELECT pg_temp.compare_scans('flat_narrow', 'b <~> B''1''');

-- inside a parallel worker
SET :parallel_mode = regress;
SET enable_seqscan = off;
SELECT id FROM flat_basic ORDER BY v <-> '[1,2,3,1,5]' LIMIT 5;
SELECT count(*) FROM (SELECT id FROM flat_basic ORDER BY b <~> B'0101010101010' OFFSET 0) x;
RESET enable_seqscan;
RESET :parallel_mode;

DROP TABLE flat_wide, flat_narrow, scalar_bits;
DROP FUNCTION flat_row(int);
DROP TABLE flat_basic;
