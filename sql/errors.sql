-- every error of the types: SQLSTATE, message, detail. The same statements run for vector and for halfvec: %1$s is the type
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE FUNCTION error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', SQLSTATE, message, nullif(detail, ''));
END $$;

\pset format unaligned
\pset tuples_only on

-- text input: syntax
SELECT format('%-12s %s', quote_nullable(literal), error_of(format('SELECT %L::%s', literal, type)))
FROM unnest(ARRAY['vector', 'halfvec']) type, unnest(ARRAY['', ' ', '1,2,3', '{1,2}', '[', '[ ', '[,', '[]', '[ ]', '[,]', '[1,]', '[,1]', '[1',
	'[1,', '[1,2,3', '[1a]', '[1,,3]', '[1, ,3]', '[1 2]', '[1;2]', '[hello,1]', '[--1]', '[1]9', '[1]]', '[1] x', '[1],', '[]9', '[[1]]', '[1e]', '[0x]',
	'[1,2']) literal;

-- text input: values
SELECT format('%-12s %s', literal, error_of(format('SELECT %L::%s', literal, type)))
FROM unnest(ARRAY['vector', 'halfvec']) type, unnest(ARRAY['[NaN,1]', '[nan(7)]', '[-nan]', '[Infinity,1]', '[-Infinity]', '[inf]', '[4e38,1]', '[-4e38]',
	'[1, +1e99999 ]', '[1e400]', '[65520,1]', '[-65520]', '[99999999999999999999]', '[3.4028235e38]', '[3.4028236e38]']) literal;

-- statements
SELECT format('%-70s %s', statement, error_of(statement))
FROM unnest(ARRAY['vector', 'halfvec']) type, LATERAL (SELECT format(template, type) AS statement FROM unnest(ARRAY[
	-- type modifier
	$$SELECT '[1,2,3]'::%1$s(2)$$, $$SELECT '{"[1,2,3]"}'::%1$s(2)[]$$, $$SELECT '[1]'::%1$s(3, 2)$$, $$SELECT '[1]'::%1$s('a')$$,
	$$SELECT '[1]'::%1$s(0)$$, $$SELECT '[1]'::%1$s(-1)$$, $$SELECT '[1]'::%1$s(16001)$$, $$SELECT '[1]'::%1$s(16000)$$,
	$$CREATE TEMP TABLE t (v %1$s(16001))$$,
	-- dimensions
	$$SELECT '[1,2]'::%1$s + '[3]'$$, $$SELECT '[1,2]'::%1$s - '[3]'$$, $$SELECT '[1,2]'::%1$s * '[3]'$$,
	$$SELECT '[1,2]'::%1$s <-> '[3]'$$, $$SELECT '[1,2]'::%1$s <#> '[3]'$$, $$SELECT '[1,2]'::%1$s <=> '[3]'$$, $$SELECT '[1,2]'::%1$s <+> '[3]'$$,
	$$SELECT l2_distance('[1,2]'::%1$s, '[3]')$$, $$SELECT inner_product('[1,2]'::%1$s, '[3]')$$, $$SELECT %1$s_l2_squared_distance('[1]', '[1,2,3]')$$,
	$$SELECT %1$s_spherical_distance('[1]', '[1,2,3]')$$,
	$$SELECT subvector('[1,2,3,4,5]'::%1$s, 1, 0)$$, $$SELECT subvector('[1,2,3]'::%1$s, 3, -1)$$, $$SELECT subvector('[1,2,3]'::%1$s, -1, 2)$$,
	$$SELECT subvector('[1,2,3]'::%1$s, 4, 1)$$, $$SELECT subvector('[1,2,3]'::%1$s, 2147483647, 2147483647)$$,
	$$SELECT subvector('[1,2,3]'::%1$s, -2147483648, -2147483648)$$,
	$$SELECT array_fill(0, ARRAY[16000])::%1$s || '[1]'$$, $$SELECT array_fill(0, ARRAY[16001])::%1$s$$,
	$$SELECT ('[0' || repeat(',0', 16000) || ']')::%1$s$$, $$SELECT ('[0' || repeat(',0', 16000))::%1$s$$,
	$$SELECT array_to_%1$s(array_fill(0, ARRAY[16001]), 16001, false)$$,
	-- range of results
	$$SELECT '[3e38]'::vector::%1$s + '[3e38]'$$, $$SELECT '[65504]'::%1$s * '[65504]' * '[65504]' * '[65504]' * '[65504]' * '[65504]' * '[65504]' * '[65504]' * '[65504]'$$,
	$$SELECT '[6e4]'::%1$s + '[6e4]'$$, $$SELECT '[-6e4]'::%1$s - '[6e4]'$$, $$SELECT '[1e-7]'::%1$s * '[1e-7]' * '[1e-7]' * '[1e-7]' * '[1e-7]' * '[1e-7]' * '[1e-7]'$$,
	$$SELECT sum(v) FROM unnest(ARRAY['[6e4]'::%1$s, '[6e4]']) v$$,
	-- arrays
	$$SELECT '{NULL}'::real[]::%1$s$$, $$SELECT '{1,NULL}'::int[]::%1$s$$, $$SELECT '{}'::real[]::%1$s$$, $$SELECT '{{1}}'::real[]::%1$s$$,
	$$SELECT '{NaN}'::real[]::%1$s$$, $$SELECT '{Infinity}'::real[]::%1$s$$, $$SELECT '{-Infinity}'::double precision[]::%1$s$$,
	$$SELECT '{NaN}'::numeric[]::%1$s$$, $$SELECT '{4e38}'::double precision[]::%1$s$$, $$SELECT '{4e38}'::numeric[]::%1$s$$,
	$$SELECT '{1e-50}'::numeric[]::%1$s$$, $$SELECT '{65520}'::real[]::%1$s$$, $$SELECT '{2147483647}'::int[]::%1$s$$, $$SELECT '{1,2,3}'::real[]::%1$s(2)$$,
	$$SELECT ARRAY['a']::%1$s$$,
	-- one type cast to the other
	$$SELECT '[65520]'::vector::%1$s$$, $$SELECT '[1,2,3]'::vector::%1$s(2)$$, $$SELECT '[1,2,3]'::halfvec::%1$s(2)$$, $$SELECT '[3e38]'::vector::%1$s$$,
	-- aggregates
	$$SELECT avg(v) FROM unnest(ARRAY['[1,2]'::%1$s, '[3]']) v$$, $$SELECT sum(v) FROM unnest(ARRAY['[1,2]'::%1$s, '[3]']) v$$,
	$$SELECT %1$s_avg('{1}')$$, $$SELECT %1$s_avg('{{2,2,4,6}}')$$, $$SELECT %1$s_avg('{NULL,2,4,6}')$$, $$SELECT %1$s_avg('{}')$$,
	$$SELECT %1$s_avg('{1,NaN}')$$, $$SELECT %1$s_avg('{1,1e300}')$$, $$SELECT %1$s_avg('{1,65520}')$$,
	$$SELECT %1$s_avg(array_agg(n)) FROM generate_series(1, 16002) n$$,
	$$SELECT %1$s_accum('{{0}}', '[1]')$$, $$SELECT %1$s_accum('{NULL}', '[1]')$$, $$SELECT %1$s_accum('{}', '[1]')$$, $$SELECT %1$s_accum('{0,0}', '[1,2,3]')$$,
	$$SELECT %1$s_combine('{1,2}', '{3,4,5}')$$, $$SELECT %1$s_combine('{{1,2}}', '{3,4}')$$, $$SELECT %1$s_combine('{1,2}', '{{3,4}}')$$,
	$$SELECT %1$s_combine('{NULL,2}', '{3,4}')$$, $$SELECT %1$s_combine('{}', '{0}')$$, $$SELECT %1$s_combine('{0}', '{}')$$,
	$$SELECT %1$s_combine('{1,1e308}', '{1,1e308}')$$,
	$$SELECT %1$s_combine('{0}', array_agg(n)) FROM generate_series(1, 16002) n$$,
	$$SELECT %1$s_combine(array_agg(n), '{0}') FROM generate_series(1, 16002) n$$]) template) statements;

-- bits
SELECT format('%-70s %s', statement, error_of(statement))
FROM unnest(ARRAY[$$SELECT hamming_distance('111', '00')$$, $$SELECT jaccard_distance('1111', '000')$$, $$SELECT B'111' <~> B'1111'$$,
	$$SELECT B'1' <%> B''$$, $$SELECT B'111' <~> '0000'::varbit(4)$$]) statement;

\pset format aligned
\pset tuples_only off

-- assignment to columns
CREATE TABLE t (id int, v vector(3), h halfvec(3));
INSERT INTO t (v) VALUES ('[1,2]');
INSERT INTO t (h) VALUES (ARRAY[1,2]);
INSERT INTO t VALUES (1, '[1,2,3]', '[1,2,3]');
UPDATE t SET v = v || '[4]';
ALTER TABLE t ALTER v TYPE vector(2);
COPY t FROM STDIN;
1	[1,2]	\N
\.
SELECT * FROM t;
DROP TABLE t;

-- Binary input: binary COPY writes a bytea as its own bytes, which are read as a value of the type. Messages are shown for
-- vector, the SQLSTATEs for halfvec.
\getenv builddir PG_ABS_BUILDDIR
\set folder :builddir '/results'
\cd :folder
\set VERBOSITY terse
CREATE TABLE sent (bytes bytea);
CREATE TABLE vectors (v vector(2));
CREATE TABLE halfvecs (h halfvec(2));
\set SHOW_CONTEXT never

-- no dimension; too many; one too many for the column; as many with the sign bit set
INSERT INTO sent VALUES ('\x00000000');
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse
UPDATE sent SET bytes = '\x3e8100003f800000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse
UPDATE sent SET bytes = '\x00030000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse
UPDATE sent SET bytes = '\xffff0000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse

-- the unused field
UPDATE sent SET bytes = '\x000200013f8000003f800000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse

-- NaN and infinity: quiet, signalling, negative
UPDATE sent SET bytes = '\x000200003f8000007fc00000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
UPDATE sent SET bytes = '\x000200003f800000ff800001';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
UPDATE sent SET bytes = '\x000200003f800000ff800000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
UPDATE sent SET bytes = '\x000200003c007e00';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse
UPDATE sent SET bytes = '\x000200003c00fc01';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse
UPDATE sent SET bytes = '\x000200003c00fc00';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse

-- too short, and too long
UPDATE sent SET bytes = '\x0002';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
UPDATE sent SET bytes = '\x000200003f800000';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
UPDATE sent SET bytes = '\x000200003f8000003f800000ff';
\copy sent TO 'vectorgpu_errors.bin' (FORMAT binary)
\copy vectors FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY sqlstate
\copy halfvecs FROM 'vectorgpu_errors.bin' (FORMAT binary)
\set VERBOSITY terse

-- no row was inserted
SELECT count(*) FROM (SELECT 1 FROM vectors UNION ALL SELECT 1 FROM halfvecs) AS rows;
DROP TABLE sent, vectors, halfvecs;
DROP FUNCTION error_of;
