-- Relational match count: types matchrow and matchquery
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- Zhou et al., figure 1, example II.1 and the counts of example III.1: 1 <= A <= 2, 1 <= B <= 1, 2 <= C <= 3
CREATE TABLE figure_1 (object text, a int, b int, c int);
INSERT INTO figure_1 VALUES ('O1', 1, 2, 1), ('O2', 2, 1, 2), ('O3', 1, 3, 3);
SELECT object, matchrow(a, b, c), match_count(matchrow(a, b, c), matchquery(int4range(1, 2, '[]'), int4range(1, 1, '[]'), int4range(2, 3, '[]'))),
	matchrow(a, b, c) <#> matchquery(int4range(1, 2, '[]'), 1, ARRAY[2, 3]) AS distance
FROM figure_1 ORDER BY distance, object;
-- top-1 is O2 with count 3
SELECT object FROM figure_1 ORDER BY matchrow(a, b, c) <#> '([1,2],1,[2,3])' LIMIT 1;
DROP TABLE figure_1;

-- every kind of value and its text form
SELECT matchrow(1::int2, 2::int4, 3::int8, 4.50::numeric, 5.25::float4, 0.1::float8, 'text'::text, 'varchar'::varchar, 'char '::char(8), 'name'::name, 'c'::"char", 'unknown');
SELECT matchrow(true, false, NULL, '2020-02-29'::date, '2020-02-29 12:34:56.789'::timestamp, '2020-02-29 12:34:56.789+02'::timestamptz, '23:59:59.999999'::time, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid);
SELECT matchrow('infinity'::date, '-infinity'::date, 'infinity'::timestamp, '-infinity'::timestamptz, '0044-03-15 BC'::date, '4713-01-01 BC'::date, '4714-11-24 00:00:00 BC'::timestamp, '294276-12-31 23:59:59.999999'::timestamptz, '5874897-12-31'::date, '24:00'::time, '00:00'::time);
SELECT matchrow('NaN'::float8, 'Infinity'::float8, '-Infinity'::float4, 'NaN'::numeric, 'Infinity'::numeric, '-0'::float8, 0.000, 1e-20, 1e100, 1e100::float8, 2::numeric ^ 60, -9223372036854775808, 9223372036854775807, 5e-324::float8);
SELECT matchrow(''), matchrow('"quoted" and \back'), matchrow(E'tab\tline\n'), matchrow('(a,b)'), matchrow(NULL), matchrow(VARIADIC '{}'::int[]), matchrow(VARIADIC NULL::int[]), matchrow(VARIADIC ARRAY[1, NULL, 3]);
-- one string is an argument, not the type's text form; a cast is the text form
SELECT matchrow('(1)'), matchrow('a'::text), matchrow('a'::varchar), matchrow('a'::char(3)), matchrow('a'::name), matchquery('[1,2]'), matchquery('a'::text), matchquery(NULL), matchrow(NULL::text);
SELECT '(1)'::matchrow, '("a")'::text::matchrow, '([1,2])'::varchar::matchquery, '(1)'::char(9)::matchquery, '(2)'::name::matchrow, CAST('(3)'::name AS matchquery);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN years AS int CHECK (VALUE >= 0);
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN word AS text;
SELECT matchrow('happy'::mood, 7::years, 'sad'::feeling), matchrow('w'::word), matchquery('sad'::feeling);

-- equality: strings of all types, enum values by label, numbers by value across all types; kinds never match each other
SELECT match_count(matchrow('a'::text, 'a'::varchar, 'a'::char(5), 'a'::name, 'a'::"char", 'a'), matchquery('a'::char(3), 'a'::name, 'a', 'a'::varchar, 'a', 'a'::"char")) AS strings,
	match_count(matchrow('ok'::mood, 'ok'), matchquery('ok', 'ok'::feeling)) AS labels,
	match_count(matchrow(1::int2, 1::int8, 1.0, 1.00::float8, 1::real), matchquery(1.000, 1::real, 1::int2, 1::int8, 1::numeric)) AS numbers,
	match_count(matchrow(1, '1', true, '2000-01-01'::date, '2000-01-01'::timestamp), matchquery('1', 1, 't', '2000-01-01'::timestamp, '2000-01-01'::date)) AS kinds;
-- by exact value: a double has the value of its 53 bits, not of its text
SELECT match_count(matchrow(0.1::float8), matchquery(0.1)) AS decimal, match_count(matchrow(0.1::float8), matchquery(0.1::float8)) AS binary,
	match_count(matchrow(0.1::float8::numeric), matchquery(0.1)) AS cast_to_numeric, match_count(matchrow(0.1::real), matchquery(0.1::float8)) AS real,
	match_count(matchrow(0.1::float8), matchquery(0.1000000000000000055511151231257827021181583404541015625)) AS expansion,
	match_count(matchrow(9007199254740993), matchquery(9007199254740992::float8)) AS above_2_53, match_count(matchrow(9223372036854775807), matchquery(9223372036854775808::float8)) AS max,
	match_count(matchrow('NaN'::float8), matchquery('NaN'::numeric)) AS nan, match_count(matchrow('-0'::float8), matchquery(0)) AS zero;

-- ranges: bounds inclusive, exclusive, open; empty; over every kind that has ranges
SELECT q, match_count(matchrow(1), q) AS "1", match_count(matchrow(1.5), q) AS "1.5", match_count(matchrow(2::float8), q) AS "2", match_count(matchrow('Infinity'::float8), q) AS inf, match_count(matchrow('NaN'::numeric), q) AS nan
FROM (VALUES (matchquery('[1,2]'::numrange)), (matchquery('[1,2)'::numrange)), (matchquery('(1,2]'::numrange)), (matchquery('(1,2)'::numrange)),
	(matchquery('(,2)'::numrange)), (matchquery('[2,)'::numrange)), (matchquery('(,)'::numrange)), (matchquery('empty'::numrange)),
	(matchquery('[1,1]'::numrange)), (matchquery('[1,2]'::int4range)), (matchquery('(1,2)'::int8range)), (matchquery('[2,Infinity]'::numrange)), (matchquery('{[0,1],[1.2,1.4],(1.4,1.8),[7,8)}'::nummultirange)),
	(matchquery('{}'::nummultirange)), (matchquery(ARRAY[int4range(0, 2), int4range(2, 4), NULL, 'empty']))) AS queries (q);
SELECT matchrow('2020-01-15'::date) <#> matchquery('[2020-01-01,2020-02-01)'::daterange) AS date, matchrow('2020-01-15'::date) <#> matchquery('(,2020-01-15)'::daterange) AS before,
	matchrow('infinity'::date) <#> matchquery('[2020-01-01,)'::daterange) AS infinity, matchrow('infinity'::date) <#> matchquery('[2020-01-01,infinity)'::daterange) AS below_infinity,
	matchrow('2020-01-15 10:00'::timestamp) <#> matchquery('[2020-01-15 10:00,2020-01-15 10:00]'::tsrange) AS timestamp,
	matchrow('2020-01-15 10:00+00'::timestamptz) <#> matchquery('(2020-01-15 11:59+02,2020-01-15 12:01+02)'::tstzrange) AS timestamptz,
	matchrow('2020-01-15 10:00'::timestamp) <#> matchquery('[2020-01-15,2020-01-16]'::tstzrange) AS other_kind;
-- ranges of user-defined types
CREATE TYPE floatrange AS RANGE (SUBTYPE = float8);
CREATE TYPE timerange AS RANGE (SUBTYPE = time);
CREATE TYPE uuidrange AS RANGE (SUBTYPE = uuid);
CREATE TYPE agerange AS RANGE (SUBTYPE = years);
SELECT matchrow(0.1::float8, '10:00'::time, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 30) <#> matchquery('[0.1,0.2]'::floatrange, timerange('09:00', '10:00', '[]'),
	'[a,b]'::text, agerange(29, 31)) AS distance,
	matchrow('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid) <#> matchquery(uuidrange('a0000000-0000-0000-0000-000000000000', NULL)) AS uuid;

-- arrays: any element; NULL elements are ignored, an empty one matches nothing, NULL is no condition
SELECT q, match_count(matchrow(2, 'b'), q) FROM (VALUES (matchquery(ARRAY[1, 2, 2, NULL], ARRAY['a', 'b'])), (matchquery('{}'::int[], NULL)), (matchquery(NULL, 'b')),
	(matchquery(NULL, NULL)), (matchquery(ARRAY[[1, 2], [3, 4]], ARRAY[NULL]::text[])), (matchquery(2)), (matchquery(VARIADIC ARRAY[2, 3])), (matchquery(2, 'b', 'c', 'd')), (matchquery(VARIADIC '{}'::text[]))) AS queries (q);
-- a row and a query of different lengths: surplus attributes match nothing
SELECT match_count(matchrow(1, 2), matchquery(1, 2, 3)) AS longer_query, match_count(matchrow(1, 2, 3), matchquery(1, 2)) AS longer_row, match_count(matchrow(VARIADIC '{}'::int[]), matchquery(1)) AS empty_row;
SELECT match_at_least(matchrow(1, 'x'), matchquery(1, 'y'), 1) AS one, match_at_least(matchrow(1, 'x'), matchquery(1, 'y'), 2) AS two;

-- a query is normalized: slices united and in order
SELECT matchquery(ARRAY[3, 1, 2, 1]), matchquery(ARRAY['(1,2]'::numrange, '[0,1]', '[5,6)', '[6,6]']), matchquery('{[1,3),[5,7)}'::int4multirange), matchquery(ARRAY['b', 'a', '', 'b']),
	matchquery('[2020-01-01,2020-01-31]'::daterange), matchquery('(,)'::tstzrange), matchquery('(,2020-01-01 12:00:00.5]'::tsrange), matchquery('{[1,2],(2,3]}'::nummultirange);
SELECT '([1,2],null,{"x",5,true,[7,9)},{},date [2020-01-01,),number (,), timestamptz 2020-01-01 00:00:00Z,{(,1],(1,)},{[5,),""})'::matchquery;
SELECT '( [ 1 , 2 ] , NULL , { "x" , 5 } , date   2020-01-01,time 12:00:00.25 , uuid A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11)'::matchquery, ' ( ) '::matchquery, '(1.50,"a\"b\\", True ,null)'::matchrow;

-- text output and input give the same value, for all values above
SELECT count(*) AS rows, count(*) FILTER (WHERE r::text::matchrow = r) AS same, count(DISTINCT r) AS distinct
FROM (VALUES (matchrow(0.1::float8, 0.1, 1e300::float8, 1e300, 'NaN'::float8, '-Infinity'::numeric, -0.5, -1e-30, 123456789012345678901234567890, 9007199254740993)),
	(matchrow('infinity'::date, '-infinity'::timestamp, '0001-12-31 BC'::date, '4714-11-24 00:00:00 BC'::timestamptz, '294276-12-31 23:59:59.999999'::timestamp, '24:00'::time)),
	(matchrow('', '"', '\', ',', 'null', 'true', '1', E'\n', 'é', ' x ')), (matchrow(true, NULL, false)), (matchrow(VARIADIC '{}'::int[])), (matchrow(NULL))) AS rows (r);
SELECT count(*) AS rows, count(*) FILTER (WHERE q::text::matchquery = q) AS same
FROM (VALUES (matchquery('[0.1,0.2)'::floatrange, '(0.1,0.2]'::numrange, '(,)'::numrange, '(,Infinity]'::numrange, '[NaN,NaN]'::numrange, 'empty'::numrange)),
	(matchquery('[2020-01-01,infinity)'::daterange, '(,)'::daterange, '(-infinity,infinity]'::tsrange, timerange('10:00', '24:00', '(]'), uuidrange(NULL, NULL))),
	(matchquery(ARRAY['b', '', 'a"\'], ARRAY[true, false], true, NULL, '{}'::text[], 0.5::float8)), (matchquery(VARIADIC '{}'::int[]))) AS queries (q);
-- settings do not affect the stored or shown form
SET TimeZone = 'Pacific/Chatham';
SET DateStyle = 'German, DMY';
SET extra_float_digits = -15;
SET IntervalStyle = 'sql_standard';
SELECT matchrow('2020-02-29 12:34:56.789+02'::timestamptz, make_date(2020, 2, 3), make_timestamp(2020, 2, 3, 4, 5, 6.7), 0.1::float8),
	matchquery(tstzrange('2020-02-29 12:34:56+02', NULL)), '(timestamptz 2020-02-29 10:34:56.789Z,date 2020-02-03,timestamp 2020-02-03T04:05:06.7,0.1f)'::matchrow
		= matchrow('2020-02-29 12:34:56.789+02'::timestamptz, make_date(2020, 2, 3), make_timestamp(2020, 2, 3, 4, 5, 6.7), 0.1::float8) AS same;
RESET TimeZone;
RESET DateStyle;
RESET extra_float_digits;
RESET IntervalStyle;

-- invalid arguments
SELECT matchrow(ARRAY[1, 2]);
SELECT matchrow(int4range(1, 2));
SELECT matchrow(1, '1 day'::interval);
SELECT matchrow('12:00+00'::timetz);
SELECT matchquery('{}'::jsonb);
SELECT matchquery('[1]'::vector);
SELECT matchquery(1, ARRAY['1 day'::interval]);
SELECT matchquery(ROW(1, 2));
CREATE TYPE textrange AS RANGE (SUBTYPE = text);
CREATE TYPE moodrange AS RANGE (SUBTYPE = mood);
SELECT matchquery(1, textrange('a', 'b'));
SELECT matchquery(moodrange('sad', 'ok'));
SELECT matchquery(textmultirange(textrange('a', 'b')));
SELECT matchquery(ARRAY[textrange('a', 'b')]);
CREATE FUNCTION backwards(int4, int4) RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS backwards_ops FOR TYPE int4 USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 backwards(int4, int4);
CREATE TYPE downrange AS RANGE (SUBTYPE = int4, SUBTYPE_OPCLASS = backwards_ops);
SELECT matchquery(downrange(5, 1));
SELECT matchquery(int4range(40, 30));
SELECT matchrow();
SELECT matchrow(('1.' || repeat('7', 2000))::numeric);
SELECT length(matchrow(('1.' || repeat('7', 1999))::numeric)::text);
SELECT matchrow(VARIADIC array_fill(1, ARRAY[4096])) <#> matchquery(VARIADIC array_fill(1, ARRAY[4096]));
SELECT matchrow(VARIADIC array_fill(1, ARRAY[4097]));
SELECT matchquery(VARIADIC array_fill(1, ARRAY[4097]));
SELECT matchrow(1) <#> matchrow(1);

-- malformed text
SELECT ''::matchrow;
SELECT '1,2'::matchrow;
SELECT '(1,2'::matchrow;
SELECT '(1,,2)'::matchrow;
SELECT '(1,)'::matchrow;
SELECT '(1) x'::matchrow;
SELECT '(abc)'::matchrow;
SELECT '("abc)'::matchrow;
SELECT '("abc\'::matchrow;
SELECT '([1,2])'::matchrow;
SELECT '({1})'::matchrow;
SELECT '(date today)'::matchrow;
SELECT '(date 2021-02-29)'::matchrow;
SELECT '(date 0000-01-01)'::matchrow;
SELECT '(date 5874898-01-01)'::matchrow;
SELECT '(timestamp 2020-01-01 24:00:00)'::matchrow;
SELECT '(timestamp 294277-01-01 00:00:00)'::matchrow;
SELECT '(timestamptz 2020-01-01 00:00:00)'::matchrow;
SELECT '(time 24:00:01)'::matchrow;
SELECT '(uuid 1234)'::matchrow;
SELECT '(text "x")'::matchrow;
SELECT '(1e300000)'::matchrow;
SELECT '(1e400f)'::matchrow;
SELECT '([2,1])'::matchquery;
SELECT '([1;2])'::matchquery;
SELECT '([1,2)'::matchquery;
SELECT '({1,2)'::matchquery;
SELECT '({1,,2})'::matchquery;
SELECT '({null})'::matchquery;
SELECT '(["a","b"])'::matchquery;
SELECT '(text ["a","b"])'::matchquery;
SELECT '(colour [1,2])'::matchquery;
SELECT '(date [2020-01-01,5])'::matchquery;

-- comparison, hashing, sorting
CREATE TABLE rows (id int, r matchrow);
INSERT INTO rows VALUES (1, matchrow(1, 'b')), (2, matchrow(1, 'a')), (3, matchrow(1, NULL)), (4, matchrow(0.5, 'z')), (5, matchrow(1)), (6, matchrow(1.0, 'a')), (7, NULL), (8, matchrow('x', 'a'));
SELECT id, r FROM rows ORDER BY r, id;
SELECT r, count(*) FROM rows GROUP BY r ORDER BY r;
SELECT count(*) FROM rows x JOIN rows y ON x.r = y.r;
SELECT matchrow(1, 2) = matchrow(1.0, 2::float8) AS eq, matchrow(1) <> matchrow('1') AS ne, matchrow(1) < matchrow(2) AS lt, matchrow(2) <= matchrow(2) AS le, matchrow(2) > matchrow(10) AS gt, matchrow(1, 2) >= matchrow(1) AS ge;
SELECT matchquery(ARRAY[2, 1]) = matchquery(ARRAY[1, 2, 1]) AS eq, matchquery('[1,1]'::numrange) = matchquery(1) AS point, matchquery('{}'::int[]) = matchquery(NULL) AS empty_is_not_null, matchquery(1) <> matchquery(1::float8) AS ne;
CREATE UNIQUE INDEX ON rows (r);
DELETE FROM rows WHERE id = 6;
CREATE UNIQUE INDEX rows_r ON rows (r);
CREATE INDEX rows_hash ON rows USING hash (r);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM rows WHERE r = '(1,"a")';
SELECT id FROM rows WHERE r = '(1,"a")';
RESET enable_seqscan;
CREATE TABLE by_hash (r matchrow) PARTITION BY HASH (r);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_hash SELECT matchrow(n, 'x') FROM generate_series(1, 100) n;
SELECT count(*), count(*) FILTER (WHERE tableoid = 'by_hash_0'::regclass) BETWEEN 20 AND 80 AS spread FROM by_hash;

-- immutable: an expression index and a generated column are possible; a large row is compressed and stored out of line
CREATE TABLE people (age int, work text, pay float8, since date, r matchrow GENERATED ALWAYS AS (matchrow(age, work, pay, since)) STORED);
INSERT INTO people VALUES (39, 'State-gov', 77516.5, '2020-01-01'), (50, 'Private', NULL, '2019-06-01'), (38, repeat('Private ', 100000), 1e300, 'infinity');
CREATE INDEX ON people (matchrow(age, left(work, 20)));
SELECT left(r::text, 60) AS r, length(r::text), r <#> matchquery(int4range(30, 40), 'State-gov', '[1,)'::numrange, '[2020-01-01,)'::daterange) AS distance FROM people ORDER BY distance;

-- binary form: output and input
CREATE FUNCTION sent(matchrow) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT matchrow_send($1)';
SELECT sent(matchrow(1, 'ab', NULL, true, '2000-01-02'::date)), matchquery_send(matchquery(ARRAY[1, 2], NULL, '[1,2)'::numrange, '(,)'::daterange));
DROP TABLE rows, by_hash, people;
DROP FUNCTION sent;
DROP TYPE floatrange, timerange, uuidrange, agerange, textrange, moodrange, downrange;
DROP OPERATOR FAMILY backwards_ops USING btree;
DROP FUNCTION backwards(int4, int4);
DROP DOMAIN years, feeling, word;
DROP TYPE mood;
