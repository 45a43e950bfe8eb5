-- the type sparsevec: text and binary format, type modifier, operators, functions, casts, order, errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- text format
SELECT '{1:1,3:2.5}/5'::sparsevec, '{1:-1,2:+3,3:.5,4:1e2,5:00.25}/5'::sparsevec, '{ +7 : 0x10 }/ +9'::sparsevec;
SELECT E' \t\n\r\x0b\f{ \t\n1 \r: \x0b 2 \f, \t3\n:4 } \r/ \t5 \n'::sparsevec, '{}/3'::sparsevec, ' { } / 1000000000 '::sparsevec;
SELECT '{3:3,1:1,2:2}/3'::sparsevec AS sorted, '{1:0,2:-0,3:1,4:0e5}/4'::sparsevec AS zeros, '{9:0,1:0,1:1,0:0}/3'::sparsevec AS zeros_anywhere;
SELECT '{1000000000:1e-45,999999999:3.4028235e38}/1000000000'::sparsevec, '{1:0.1,2:16777217,3:1.23456789}/3'::sparsevec;
SELECT length(v::text), v::text::sparsevec = v AS same, pg_column_size(v)
FROM (SELECT ('{' || string_agg(i * 60000 || ':-1.2345678e-38', ',') || '}/1000000000')::sparsevec AS v FROM generate_series(1, 16000) i) s;
SELECT ARRAY['{1:1}/2'::sparsevec, '{}/2'], '{"{1:1,2:2}/2",NULL}'::sparsevec[];

-- type modifier
CREATE TABLE t (v sparsevec(3), w sparsevec);
SELECT attname, format_type(atttypid, atttypmod), attstorage FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum;
INSERT INTO t VALUES ('{1:1,3:3}/3', '{}/1'), ('{2:5}/3', '{1:1}/2'), (NULL, NULL) RETURNING *;
DELETE FROM t WHERE w = '{}/1';
ALTER TABLE t ALTER w TYPE sparsevec(2);
SELECT * FROM t ORDER BY v NULLS LAST;
DROP TABLE t;
SELECT pg_typeof('{1:1}/2'::sparsevec), '{1:1}/2'::sparsevec(2);
SELECT '{}/1000000000'::sparsevec(1000000000);

-- binary format
SELECT sparsevec_send('{1:1,3:-2.5}/5'), sparsevec_send('{}/1000000000');
\getenv builddir PG_ABS_BUILDDIR
\set folder :builddir '/results'
\cd :folder
CREATE TABLE t (id int, v sparsevec);
INSERT INTO t VALUES (1, '{1:1,3:-2.5}/5'), (2, NULL), (3, '{}/7'), (4, '{1:1e-45,1000000000:-3.4028235e38}/1000000000');
INSERT INTO t SELECT 5, array_agg(i % 3)::sparsevec FROM generate_series(1, 20000) i;
CREATE TABLE copied (LIKE t);
\copy t TO 'vectorgpu_sparse.bin' (FORMAT binary)
\copy copied FROM 'vectorgpu_sparse.bin' (FORMAT binary)
SELECT count(*), bool_and(t IS NOT DISTINCT FROM copied) AS same FROM t FULL JOIN copied USING (id);
SELECT * FROM copied WHERE id < 5 ORDER BY id;
DROP TABLE t, copied;

-- comparison: as of vectors, element by element, then the shorter first
SELECT a, b, a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge, a > b AS gt, sparsevec_cmp(a, b) AS cmp
FROM (VALUES ('{1:1,2:2,3:3}/3'::sparsevec, '{1:1,2:2,3:3}/3'::sparsevec), ('{1:1,2:2,3:3}/3', '{1:1,2:2}/2'), ('{}/2', '{}/3'), ('{1:2}/1', '{1:1,2:9}/2'),
	('{1:-1}/1', '{1:1}/1'), ('{2:1}/3', '{3:5}/3'), ('{2:-1}/3', '{3:5}/3'), ('{}/2', '{3:-1}/3'), ('{}/3', '{3:-1}/3'), (NULL, '{}/1')) AS pairs (a, b);
CREATE TABLE t AS SELECT i AS id, ARRAY(SELECT CASE WHEN hashint4(i * 10 + d) % 3 = 0 THEN 0 ELSE hashint4(i * 31 + d) % 3 END FROM generate_series(1, 1 + i % 4) d)::real[]::vector AS v
FROM generate_series(1, 150) i;
SELECT count(*) AS pairs, count(*) FILTER (WHERE sparsevec_cmp(a.v, b.v) = vector_cmp(a.v, b.v)) AS as_of_vectors, count(DISTINCT vector_cmp(a.v, b.v)) AS orders FROM t a, t b;

-- the btree operator class, joins, grouping
SELECT opcname, opcintype::regtype, opcdefault, amvalidate(pg_opclass.oid) FROM pg_opclass WHERE opcname = 'sparsevec_ops';
SELECT oprname, oprcom::regoper::text, oprnegate::regoper::text, oprrest, oprjoin, oprcanhash, oprcanmerge
FROM pg_operator WHERE oprleft = 'sparsevec'::regtype ORDER BY oprname COLLATE "C";
CREATE TABLE s AS SELECT id, v::sparsevec AS v FROM t;
CREATE INDEX s_v ON s (v);
ANALYZE s;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM s ORDER BY v DESC LIMIT 3;
SELECT count(*) = (SELECT count(*) FROM t WHERE v >= '[0,0]' AND v < '[1]') AS same FROM s WHERE v >= '{}/2' AND v < '{1:1}/1';
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT bool_and(s.v = t.v) AS same FROM (SELECT v, row_number() OVER (ORDER BY v, id) AS n FROM s) s JOIN (SELECT v::sparsevec, row_number() OVER (ORDER BY v, id) AS n FROM t) t USING (n);
SELECT (SELECT count(DISTINCT v) FROM s) = (SELECT count(DISTINCT v) FROM t) AS same;
DROP TABLE s, t;

-- distances: functions and operators are the same
SELECT name, l2, l2 = (a <-> b) AS same_l2, ip, ip = -(a <#> b) AS same_ip, cosine, cosine IS NOT DISTINCT FROM (a <=> b) AS same_cosine,
	l1, l1 = (a <+> b) AS same_l1
FROM (SELECT *, l2_distance(a, b) AS l2, inner_product(a, b) AS ip, cosine_distance(a, b) AS cosine, l1_distance(a, b) AS l1
	FROM (VALUES ('equal', '{1:1,2:2,3:3}/9'::sparsevec, '{1:1,2:2,3:3}/9'::sparsevec), ('apart', '{1:3}/2', '{2:4}/2'), ('apart, the other way', '{2:4}/2', '{1:3}/2'),
		('opposite', '{1:1,9:1}/9', '{1:-1,9:-1}/9'), ('scaled', '{5:1,7:2}/7', '{5:2,7:4}/7'), ('zero', '{1:3,2:4}/2', '{}/2'), ('both zero', '{}/2', '{}/2'),
		('interleaved', '{1:1,3:3,5:5}/5', '{2:4,3:6,4:8}/5'), ('long', '{1:3e38}/1', '{1:3e38}/1'), ('long, opposite', '{1:3e38}/1', '{1:-3e38}/1'),
		('short', '{1:1e-30}/1', '{1:2e-30}/1')) AS pairs (name, a, b)) AS distances;
SELECT '{}/1'::sparsevec <-> NULL AS l2, sparsevec_l2_squared_distance('{1:1,2:2}/2', '{1:4,2:6}/2'), sparsevec_negative_inner_product('{1:1,2:2}/2', '{1:3,2:4}/2'),
	sparsevec_negative_inner_product('{}/1', '{1:1}/1'), inner_product('{}/1'::sparsevec, '{1:1}/1');
-- sums of whole numbers are exact: as of vectors
SELECT n, count(*), bool_and(a::sparsevec <-> b = a <-> b AND a::sparsevec <#> b = a <#> b AND a::sparsevec <+> b = a <+> b
	AND abs((a::sparsevec <=> b) - (a <=> b)) < 1e-6) AS as_of_vectors, min(a <#> b) AS least, max(a <#> b) AS most
FROM (SELECT n, ARRAY(SELECT CASE WHEN hashint4(i * 1000 + d) % 3 = 0 THEN hashint4(i + d) % 9 ELSE 0 END FROM generate_series(1, n) d)::vector AS a,
	ARRAY(SELECT CASE WHEN hashint4(i * 7777 + d) % 3 = 0 THEN hashint4(i * d) % 9 ELSE 0 END FROM generate_series(1, n) d)::vector AS b
	FROM generate_series(1, 30) i, unnest(ARRAY[5, 100, 1000]) n) pairs WHERE vector_norm(a) > 0 AND vector_norm(b) > 0 GROUP BY n ORDER BY n;
-- sums are rounded after each element, by ascending index
SELECT '{1:16777216,2:1,3:1}/3'::sparsevec <#> '{1:1,2:1,3:1}/3' AS large_first, '{1:1,2:1,3:16777216}/3'::sparsevec <#> '{1:1,2:1,3:1}/3' AS large_last,
	'{1:16777216,2:1,3:1}/3'::sparsevec <+> '{}/3' AS l1_large_first, '{2:1,3:1}/3'::sparsevec <+> '{1:16777216}/3' AS l1_of_both, '{1:1,2:1}/3'::sparsevec <+> '{3:16777216}/3' AS l1_large_last;

-- functions
SELECT l2_norm('{1:3,9:4}/9'::sparsevec), l2_norm('{}/9'::sparsevec), l2_norm('{1:3e37,2:4e37}/2'::sparsevec)::real, l2_norm('{1:1e-45}/1'::sparsevec)::real;
SELECT l2_normalize('{1:3,9:-4}/9'::sparsevec), l2_normalize('{}/9'::sparsevec), l2_normalize('{1:3e38}/2'::sparsevec), l2_normalize('{1:1e-45}/2'::sparsevec),
	l2_normalize('{1:1e-37,2:3e38}/2'::sparsevec) AS lost, l2_normalize('{2:3e37,4:3e-37,6:4e37,8:4e-37}/9'::sparsevec) AS lost_between;

-- casts
SELECT castsource::regtype, casttarget::regtype, castfunc::regprocedure, castcontext
FROM pg_cast WHERE 'sparsevec'::regtype IN (castsource, casttarget) ORDER BY castsource::regtype::text COLLATE "C", casttarget::regtype::text COLLATE "C";
SELECT ARRAY[1,0,-2,0]::sparsevec, ARRAY[0,1.5]::sparsevec(2), '{0,1.5,-0}'::real[]::sparsevec, '{1e-46,0.1}'::double precision[]::sparsevec, '[2:3]={0,7}'::int[]::sparsevec;
SELECT '[0,1.5,-0,3]'::vector::sparsevec, '[0,1.5,6e-8,-0]'::halfvec::sparsevec(4), '{2:1.5}/3'::sparsevec::vector(3), '{2:0.1,3:1e-8}/3'::sparsevec::halfvec, '{}/2'::sparsevec::vector;
SELECT array_fill(0, ARRAY[100000])::sparsevec, array_to_sparsevec(ARRAY[0,5], -1, true), sparsevec('{1:1}/1'::sparsevec, 1, false), vector_to_sparsevec('[1]', 1, true);
CREATE TABLE t (v vector(2), h halfvec(2), s sparsevec(2));
INSERT INTO t VALUES ('{1:1}/2'::sparsevec, '{2:2}/2'::sparsevec, '[0,3]'::vector), (NULL, NULL, '[4,0]'::halfvec), (NULL, NULL, ARRAY[5,0]) RETURNING *;
SELECT v <-> s AS of_vector, h <-> s AS of_halfvec, pg_typeof(l2_normalize(s)) FROM t LIMIT 1;
DROP TABLE t;

-- errors: SQLSTATE, message, detail
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
SELECT format('%-22s %s', quote_nullable(literal), error_of(format('SELECT %L::sparsevec', literal)))
FROM unnest(ARRAY['', ' ', '1', '[1]', '{', '{ ', '{:', '{,', '{}', '{}/', '{}/ ', '{}1', '{}/a', '{}/1a', '{}/1 1', '{:}/1', '{,}/1', '{1}/1', '{1,}/1', '{:1}/1', '{1:}/1', '{1: ,2:1}/2',
	'{1a:1}/1', '{1:1a}/1', '{1:1,}/1', '{1:1,,2:1}/2', '{1:1', '{1:1,', '{1:', '{1', '{1:1}', '{1:1}}/1', '{1.5:1}/2', '{1:1 2:1}/2', '{1:1;2:1}/2', '{hello:1}/1',
	'{1:NaN}/1', '{1:Infinity}/1', '{1:-inf}/1', '{1:4e38}/1', '{1:-4e38}/1', '{1:1e-46,2:1}/2', '{1:-1e-400}/1', '{1:1e400}/1',
	'{1:1,1:1}/2', '{1:1,2:1,1:2}/2', '{0:1}/1', '{-1:1}/1', '{2:1}/1', '{2147483647:1}/1', '{2147483648:1}/1', '{-2147483648:1}/1', '{-99999999999999999999:1}/1',
	'{}/0', '{}/-1', '{}/1000000001', '{}/2147483648', '{}/-2147483649', '{}/99999999999999999999']) literal;
SELECT format('%-70s %s', statement, error_of(statement)) FROM unnest(ARRAY[
	$$SELECT '{}/3'::sparsevec(2)$$, $$SELECT '{}/3'::sparsevec(4)$$, $$SELECT '{}/3'::sparsevec(3, 2)$$, $$SELECT '{}/3'::sparsevec('a')$$, $$SELECT '{}/3'::sparsevec(0)$$,
	$$SELECT '{}/3'::sparsevec(1000000001)$$, $$SELECT '{"{}/3"}'::sparsevec(2)[]$$, $$SELECT ('{' || repeat('1:0,', 16000) || '1:0}/3')::sparsevec$$,
	$$SELECT ('{' || repeat('1:0,', 15999) || '1:0}/3')::sparsevec$$,
	$$SELECT '{}/3'::sparsevec <-> '{}/2'$$, $$SELECT '{}/3'::sparsevec <#> '{}/2'$$, $$SELECT '{}/3'::sparsevec <=> '{}/2'$$, $$SELECT '{}/3'::sparsevec <+> '{}/2'$$,
	$$SELECT sparsevec_l2_squared_distance('{}/1', '{}/1000000000')$$,
	$$SELECT '{NULL}'::real[]::sparsevec$$, $$SELECT '{}'::real[]::sparsevec$$, $$SELECT '{{1}}'::real[]::sparsevec$$, $$SELECT '{NaN}'::real[]::sparsevec$$,
	$$SELECT '{0,Infinity}'::numeric[]::sparsevec$$, $$SELECT '{4e38}'::double precision[]::sparsevec$$, $$SELECT '{4e38}'::numeric[]::sparsevec$$, $$SELECT '{1,0}'::int[]::sparsevec(3)$$,
	$$SELECT array_agg(n)::sparsevec FROM generate_series(1, 16001) n$$, $$SELECT array_agg(n)::sparsevec(16001) FROM generate_series(0, 16000) n$$,
	$$SELECT '[1,2]'::vector::sparsevec(3)$$, $$SELECT '[1,2]'::halfvec::sparsevec(1)$$, $$SELECT '{}/3'::sparsevec::vector(2)$$, $$SELECT '{}/3'::sparsevec::halfvec(4)$$,
	$$SELECT '{}/16001'::sparsevec::vector$$, $$SELECT '{}/16001'::sparsevec::halfvec$$, $$SELECT '{1:65520}/1'::sparsevec::halfvec$$,
	$$SELECT '{1:1}/1'::sparsevec + '{1:1}/1'$$, $$SELECT sum('{1:1}/1'::sparsevec)$$, $$SELECT avg('{1:1}/1'::sparsevec)$$]) statement;
\pset format aligned
\pset tuples_only off
DROP FUNCTION error_of;
