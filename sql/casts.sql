-- casts between vector, halfvec and arrays: explicit, by assignment, implicit
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file

SELECT castsource::regtype, casttarget::regtype, castfunc::regprocedure, castcontext
FROM pg_cast WHERE 'vector'::regtype IN (castsource, casttarget) OR 'halfvec'::regtype IN (castsource, casttarget)
ORDER BY castsource::regtype::text COLLATE "C", casttarget::regtype::text COLLATE "C";

-- arrays
SELECT ARRAY[1,2,3]::vector, ARRAY[1.5,-2]::vector, '{1,2}'::real[]::vector(2), '{1,2}'::double precision[]::vector, '{1e-50,-1e-50}'::double precision[]::vector;
SELECT ARRAY[1,2,3]::halfvec, ARRAY[1.5,-2]::halfvec, '{1,2}'::real[]::halfvec(2), '{1,2}'::double precision[]::halfvec, '{1e-8,-1e-8}'::real[]::halfvec;
SELECT '[2:3]={1,2}'::int[]::vector AS other_bounds, ARRAY[2147483647]::vector, ARRAY[0.1::float8]::vector, ARRAY[0.1]::halfvec;
SELECT '[1,2.5,-0]'::vector::real[], '[1,2.5,-0]'::halfvec::real[], pg_typeof('[1]'::vector::real[]), array_dims('[1,2,3]'::vector::real[]);
SELECT '[0.1]'::vector::real[]::double precision[], '[1,2]'::vector::real[]::int[];
SELECT array_to_vector(ARRAY[1,2], 2, false), array_to_halfvec(ARRAY[1,2]::numeric[], -1, true), vector_to_float4('[1]', 1, false), halfvec_to_float4('[1]', 1, false);

-- one to the other
SELECT '[1,2,3]'::vector::halfvec, '[1,2,3]'::halfvec::vector, '[0.1,1e-8,65519]'::vector::halfvec(3), '[0.1]'::halfvec::vector(1);
SELECT vector('[1,2]'::vector, 2, true), halfvec('[1,2]'::halfvec, -1, false), vector_to_halfvec('[1]', 1, true), halfvec_to_vector('[1]', -1, true);

-- implicit: a vector where real[] or halfvec is expected, but not vice versa
CREATE FUNCTION pg_temp.reals(real[]) RETURNS real[] LANGUAGE sql AS 'SELECT $1';
SELECT pg_temp.reals('[1,2.5]'::vector);
SELECT pg_temp.reals('[1,2.5]'::halfvec);
SELECT halfvec_l2_squared_distance('[1]'::vector, '[3]'::halfvec);
SELECT vector_norm('[3,4]'::halfvec);
SELECT vector_norm(ARRAY[3,4]);
SELECT '[1]'::vector <-> '[2]'::halfvec;

-- assignment
CREATE TABLE t (v vector(2), h halfvec(2), r real[]);
INSERT INTO t VALUES (ARRAY[1,2], ARRAY[1.5,2.5], '[1,2]'::vector), ('{3,4}'::real[], '{3,4}'::double precision[], '[3,4]'::halfvec),
	('[5,6]'::halfvec, '[5,6]'::vector, NULL), (ARRAY[7.5,8], ARRAY[7,8], NULL);
SELECT * FROM t ORDER BY v;
INSERT INTO t (v) VALUES (ARRAY[1,2,3]);
INSERT INTO t (h) VALUES ('[1,2,3]'::vector);
DROP TABLE t;

-- a cast to fewer dimensions is refused with a hint; a cast to more dimensions, and an assignment, are refused too
SELECT '[1,2,3]'::vector(2);
SELECT '[1,2,3]'::halfvec(2);
SELECT '[1,2,3]'::vector::halfvec(2);
SELECT '[1,2]'::vector(3);
SELECT ARRAY[1,2,3]::vector(2);
SELECT subvector('[1,2,3]'::vector, 1, 2)::vector(2), subvector('[1,2,3]'::halfvec, 1, 2)::halfvec(2);

-- with a halfvec operand a vector column is cast to halfvec, the implicit cast: its index does not serve that operator
CREATE TABLE t (v vector(2));
CREATE INDEX t_v ON t USING gpuflat (v);
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT * FROM t ORDER BY v <-> '[1,2]'::halfvec$$);
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY v <-> '[1,2]'::halfvec::vector;
CREATE INDEX t_h ON t USING gpuflat ((v::halfvec(2)));
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY v::halfvec(2) <-> '[1,2]'::halfvec;
RESET enable_seqscan;
DROP TABLE t;

-- arrays still compare as arrays
SELECT ARRAY[1,2,3] = ARRAY[1,2,3], ARRAY[1,2] || ARRAY[3];
