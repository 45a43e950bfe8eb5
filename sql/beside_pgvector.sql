-- the extension beside another one that owns the same names: what pgvector puts into public is imitated here
SELECT current_database() AS database \gset
CREATE DATABASE vectorgpu_beside;
\c vectorgpu_beside

-- the other extension: a type named vector and distance operators on core's bit, with other results than ours
CREATE DOMAIN public.vector AS text;
CREATE FUNCTION public.hamming_distance(bit, bit) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT -1::float8';
CREATE FUNCTION public.jaccard_distance(bit, bit) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT -2::float8';
CREATE OPERATOR public.<~> (LEFTARG = bit, RIGHTARG = bit, FUNCTION = public.hamming_distance, COMMUTATOR = <~>);
CREATE OPERATOR public.<%> (LEFTARG = bit, RIGHTARG = bit, FUNCTION = public.jaccard_distance, COMMUTATOR = <%>);

-- it cannot be created in public: the error says why, and leaves nothing behind
\set SHOW_CONTEXT never
CREATE EXTENSION vectorgpu;
\unset SHOW_CONTEXT
SELECT count(*) FROM pg_extension WHERE extname = 'vectorgpu';

CREATE SCHEMA other;
CREATE EXTENSION vectorgpu SCHEMA other;
SELECT DISTINCT nspname FROM pg_depend JOIN pg_extension e ON refclassid = 'pg_extension'::regclass AND refobjid = e.oid
	JOIN pg_type t ON classid = 'pg_type'::regclass AND objid = t.oid JOIN pg_namespace n ON n.oid = typnamespace
WHERE extname = 'vectorgpu';

-- names resolve by search_path, both ways
SET search_path = public, other;
SELECT pg_typeof('[1]'::vector), B'101' <~> B'110' AS hamming, B'101' <%> B'110' AS jaccard, hamming_distance(B'101', B'110');
SET search_path = other, public;
SELECT pg_typeof('[1]'::vector), B'101' <~> B'110' AS hamming, round((B'101' <%> B'110')::numeric, 6) AS jaccard, hamming_distance(B'101', B'110');

-- with neither in the path, by qualified name
SET search_path = '';
SELECT B'101' OPERATOR(other.<~>) B'110' AS ours, B'101' OPERATOR(public.<~>) B'110' AS theirs, '[1,2]'::other.vector OPERATOR(other.<->) '[4,6]' AS l2;
SET search_path = public;

-- operators whose operands have our types need no search: halfvec is unique, and so is other.vector
CREATE TABLE t (v other.vector(2), h other.halfvec(2), theirs vector);
INSERT INTO t VALUES ('[3,4]', '[3,4]', 'x'), ('[1,2]', '[1,2]', 'y');
SELECT * FROM t ORDER BY v;
SELECT other.avg(v), other.sum(h) FROM t;
CREATE INDEX ON t (v);

-- it can move, and old objects follow
ALTER EXTENSION vectorgpu SET SCHEMA public;
CREATE SCHEMA elsewhere;
ALTER EXTENSION vectorgpu SET SCHEMA elsewhere;
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum;
SELECT theirs FROM t ORDER BY v OPERATOR(elsewhere.<->) '[1,2]';
DROP EXTENSION vectorgpu;
DROP EXTENSION vectorgpu CASCADE;
SELECT * FROM t ORDER BY theirs;

\c :database
DROP DATABASE vectorgpu_beside;
