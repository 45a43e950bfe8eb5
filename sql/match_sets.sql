-- Match count of sets and documents: int4[], int8[], text[], uuid[], tsvector
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- set semantics: duplicates count once, NULL elements match nothing, order and shape do not matter
SELECT a, b, match_count(a, b), a <#> b AS distance, b <#> a AS commuted
FROM (VALUES ('{1,2,3}'::int4[], '{2,3,4}'::int4[]), ('{1,1,1,2}', '{1,1}'), ('{}', '{1}'), ('{}', '{}'), ('{NULL}', '{NULL}'),
	('{1,NULL,3}', '{3,NULL}'), ('{{1,2},{3,4}}', '{4,3,9}'), ('[5:7]={1,2,3}', '{1,2,3}'),
	('{2147483647,-2147483648,0,-1}', '{-1,-2147483648,2147483647}'), ('{1}', NULL)) AS pairs (a, b);
SELECT a, b, match_count(a, b), a <#> b AS distance
FROM (VALUES ('{9223372036854775807,-9223372036854775808,5}'::int8[], '{-9223372036854775808,5,5,6}'::int8[]), ('{}', '{}'),
	('{1,2,NULL}', '{NULL,2}')) AS pairs (a, b);
SELECT a, b, match_count(a, b), a <#> b AS distance
FROM (VALUES ('{red,green,blue}'::text[], '{blue,red,black}'::text[]), ('{"",a}', '{""}'), ('{a,NULL}', '{NULL}'), ('{a,A}', '{A,á}'),
	('{ab,abc}', '{a,abcd}')) AS pairs (a, b);
SELECT a, b, match_count(a, b), a <#> b AS distance
FROM (VALUES ('{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'::uuid[],
	'{ffffffff-ffff-ffff-ffff-ffffffffffff,ffffffff-ffff-ffff-ffff-ffffffffffff}'::uuid[]), ('{}', '{}')) AS pairs (a, b);
SELECT a, b, match_count(a, b), a <#> b AS distance
FROM (VALUES ('a fat cat sat'::tsvector, 'fat cats sat a'::tsvector), ('', 'a'), ('a:1A fat:2 cat:3B', 'cat fat:7'), ('', '')) AS pairs (a, b);
SELECT match_count(to_tsvector('english', 'A generic inverted index framework for similarity search'),
	to_tsvector('english', 'inverted indexes, searched on many devices'));

-- never -0, and a count that is an integer
SELECT '{1}'::int4[] <#> '{2}' AS none, pg_typeof('{1}'::int4[] <#> '{2}'), pg_typeof(match_count('{1}'::int4[], '{2}'));

-- at least n; an n that every row reaches, and one that no row can reach
SELECT n, match_at_least('{1,2,3}'::int4[], '{2,3,4}', n) AS int4, match_at_least('{1,2,3}'::int8[], '{2,3,4}', n) AS int8,
	match_at_least('{a,b,c}'::text[], '{b,c,d}', n) AS text, match_at_least('a b c'::tsvector, 'b c d', n) AS tsvector
FROM unnest(ARRAY[-1, 0, 2, 3, 2147483647, NULL]) n;

-- the best first; a row that has nothing in common comes last, a NULL after it
CREATE TABLE shirts (id int, tags text[]);
INSERT INTO shirts VALUES (1, '{red,cotton}'), (2, '{blue}'), (3, '{red,silk,cotton}'), (4, '{}'), (5, NULL), (6, '{silk,silk,silk}');
SELECT id, tags, tags <#> '{silk,cotton,red}' AS distance FROM shirts ORDER BY tags <#> '{silk,cotton,red}', id;
SELECT id FROM shirts WHERE match_at_least(tags, '{silk,cotton}', 2);

-- strings longer than a key are compared by all bytes; equal prefixes, and lengths around the limit
SELECT n, match_count(ARRAY[repeat('x', n) || 'a', repeat('x', n) || 'b'], ARRAY[repeat('x', n) || 'b', repeat('x', n) || 'c']) AS one,
	match_count(ARRAY[repeat('x', n)], ARRAY[repeat('x', n)]) AS same, match_count(ARRAY[repeat('x', n)], ARRAY[repeat('x', n + 1)]) AS other
FROM unnest(ARRAY[1, 990, 991, 992, 1022, 1023, 1024, 1025, 5000, 100000]) n;

-- sets of 100,000 elements, compressed and out of line, against each other and against small ones; counts known by construction
CREATE TABLE big (id int, a int4[], b int8[], c text[]);
INSERT INTO big SELECT k, array_agg(i * k), array_agg((i * k)::int8), array_agg((i * k)::text)
FROM generate_series(1, 3) k, generate_series(1, 100000) i GROUP BY k;
SELECT x.id, y.id, match_count(x.a, y.a), match_count(x.b, y.b), match_count(x.c, y.c)
FROM big x, big y ORDER BY 1, 2;
SELECT id, match_count(a, '{3,6,100002,300000,7}'), match_count('{3,6,100002,300000,7}', a) FROM big ORDER BY id;

-- the count equals that of a join over the distinct elements
CREATE TABLE sets AS SELECT n AS id, array_agg(CASE WHEN (h >> 8) % 11 = 0 THEN NULL ELSE h % 40 - 20 END) AS s
FROM generate_series(1, 60) n, LATERAL (SELECT abs(hashint4(n * 1000 + i)) AS h FROM generate_series(0, n % 25) i) hashes GROUP BY n;
CREATE FUNCTION counted(anyarray, anyarray) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT count(*) FROM (SELECT unnest($1) INTERSECT SELECT unnest($2)) AS common (e) WHERE e IS NOT NULL';
SELECT count(*) AS pairs, sum(match_count(x.s, y.s)) > 1000 AS some,
	count(*) FILTER (WHERE match_count(x.s, y.s) <> counted(x.s, y.s)) AS int4_wrong,
	count(*) FILTER (WHERE match_count(x.s::int8[], y.s::int8[]) <> counted(x.s, y.s)) AS int8_wrong,
	count(*) FILTER (WHERE match_count(x.s::text[], y.s::text[]) <> counted(x.s, y.s)) AS text_wrong,
	count(*) FILTER (WHERE match_count(array_to_tsvector(array_remove(x.s::text[], NULL)), array_to_tsvector(array_remove(y.s::text[], NULL)))
		<> counted(x.s, y.s)) AS tsvector_wrong,
	count(*) FILTER (WHERE match_count(x.u, y.u) <> counted(x.s, y.s)) AS uuid_wrong
FROM (SELECT s, ARRAY(SELECT lpad((e + 100)::text, 32, '0')::uuid FROM unnest(s) e) AS u FROM sets) x,
	(SELECT s, ARRAY(SELECT lpad((e + 100)::text, 32, '0')::uuid FROM unnest(s) e) AS u FROM sets) y;

-- a query that changes from row to row, in a prepared statement and in a function's loop
PREPARE common (int4[]) AS SELECT sum(match_count(s, $1)) FROM sets;
EXECUTE common ('{1,2,3}');
EXECUTE common ('{}');
EXECUTE common (NULL);
DO $$
DECLARE
	total int := 0;
BEGIN
	FOR i IN 1..5 LOOP
		total := total + match_count(ARRAY[1, 2, 3, 4], ARRAY[i, i + 1]);
	END LOOP;
	RAISE NOTICE 'total %', total;
END $$;

-- untyped literals are ambiguous, and the parser refuses other types
SELECT match_count('{1}', '{1}');
SELECT '{1}'::int4[] <#> '{1}'::text[];
SELECT '{1.5}'::float8[] <#> '{1.5}'::float8[];
DROP TABLE shirts, big, sets;
DROP FUNCTION counted;
