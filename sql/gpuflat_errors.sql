-- errors of gpuflat indexes
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE FUNCTION pg_temp.try(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	-- from 17 on names have a schema
	RETURN sqlstate || ' ' || replace(sqlerrm, 'public.', '') || coalesce(' / ' || nullif(hint, ''), '');
END $$;

CREATE TABLE flat_errors (id int, v vector(3), h halfvec(3), b bit(5), any_v vector, any_h halfvec, any_b bit varying,
	wide_b bit(64001), n int, sparse text);
INSERT INTO flat_errors VALUES (1, '[1,2,3]', '[1,2,3]', B'10101', '[1,2]', '[1,2]', B'101');

-- columns
SELECT command, pg_temp.try(format('CREATE INDEX ON flat_errors USING gpuflat (%s', command)) FROM unnest(ARRAY[
	'any_v)', 'any_h)', 'any_b bit_hamming_ops)', 'wide_b)', 'n)', 'sparse vector_l2_ops)', 'v bit_hamming_ops)', 'h vector_l2_ops)',
	'v, h)', 'v) INCLUDE (n)', 'v DESC)', 'v NULLS FIRST)', '(v::vector(4)))', '(any_v::vector(3)))', '(any_b::bit(5)))']) command;
SELECT pg_temp.try('CREATE UNIQUE INDEX ON flat_errors USING gpuflat (v)');
SELECT pg_temp.try('ALTER TABLE flat_errors ADD EXCLUDE USING gpuflat (v WITH =)');

-- storage parameters
SELECT pg_temp.try('CREATE INDEX ON flat_errors USING gpuflat (v) WITH (lists = 10)');
SELECT pg_temp.try('CREATE INDEX ON flat_errors USING gpuflat (v) WITH (fillfactor = 70)');

CREATE INDEX flat_errors_v ON flat_errors USING gpuflat (v);
CREATE INDEX flat_errors_h ON flat_errors USING gpuflat (h);
CREATE INDEX flat_errors_b ON flat_errors USING gpuflat (b);
SELECT pg_temp.try('ALTER INDEX flat_errors_v SET (lists = 10)');
SELECT pg_temp.try('CLUSTER flat_errors USING flat_errors_v');

-- queries of other dimensions: the operators' own errors
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM flat_errors ORDER BY v <-> '[1,2]';
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY v <-> ''[1,2]''');
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY h <-> ''[1,2,3,4]''');
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY b <~> B''1010''');
DROP INDEX flat_errors_v, flat_errors_h, flat_errors_b;
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY v <-> ''[1,2]''');
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY h <-> ''[1,2,3,4]''');
SELECT pg_temp.try('SELECT id FROM flat_errors ORDER BY b <~> B''1010''');
RESET enable_seqscan;

-- the column's type keeps values of other dimensions from the index, but varbit does not
CREATE TABLE flat_varbit (id int, b bit varying(5));
CREATE INDEX ON flat_varbit USING gpuflat (b bit_hamming_ops);
INSERT INTO flat_varbit VALUES (1, B'10101');
SELECT pg_temp.try('INSERT INTO flat_varbit VALUES (2, B''1010'')');
SELECT count(*) FROM flat_varbit;

-- operator classes that do not fit
CREATE FUNCTION flat_no_shape() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 77';
CREATE OPERATOR CLASS flat_bad_shape FOR TYPE vector USING gpuflat AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops, FUNCTION 1 flat_no_shape();
CREATE OPERATOR CLASS flat_bad_type FOR TYPE halfvec USING gpuflat AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops, FUNCTION 1 vector_l2_shape();
CREATE OPERATOR CLASS flat_no_function FOR TYPE vector USING gpuflat AS OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops;
CREATE OPERATOR CLASS flat_no_operator FOR TYPE vector USING gpuflat AS FUNCTION 1 vector_l2_shape();
CREATE OPERATOR CLASS flat_search FOR TYPE vector USING gpuflat AS OPERATOR 1 = (vector, vector), FUNCTION 1 vector_l2_shape();
CREATE OPERATOR CLASS flat_strategy FOR TYPE vector USING gpuflat AS
	OPERATOR 2 <-> (vector, vector) FOR ORDER BY float_ops, FUNCTION 1 vector_l2_shape();
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname LIKE 'flat\_%' ORDER BY opcname COLLATE "C";
SELECT pg_temp.try('CREATE INDEX ON flat_errors USING gpuflat (v flat_bad_shape)');

-- parameters
SELECT pg_temp.try('SET vectorgpu.simd = ''mmx''');
SELECT pg_temp.try('SET vectorgpu.no_such_parameter = 1');

DROP OPERATOR FAMILY flat_bad_shape USING gpuflat;
DROP OPERATOR FAMILY flat_bad_type USING gpuflat;
DROP OPERATOR FAMILY flat_no_function USING gpuflat;
DROP OPERATOR FAMILY flat_no_operator USING gpuflat;
DROP OPERATOR FAMILY flat_search USING gpuflat;
DROP OPERATOR FAMILY flat_strategy USING gpuflat;
DROP FUNCTION flat_no_shape();
DROP TABLE flat_errors, flat_varbit;
