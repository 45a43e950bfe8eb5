-- Edit distance of strings in characters, ordered n-grams, and the lower bound that they give
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SELECT a, b, edit_distance(a, b), a <~> b AS operator, b <~> a AS commuted
FROM (VALUES ('kitten', 'sitting'), ('', ''), ('', 'abc'), ('abc', ''), ('abc', 'abc'), ('flaw', 'lawn'), ('ab', 'ba'), ('Saturday', 'Sunday'),
	('abc', 'ABC'), (' a', 'a '), ('intention', 'execution'), ('a', NULL)) AS pairs (a, b);
SELECT pg_typeof('a'::text <~> 'b'), pg_typeof(edit_distance('a', 'b'));
-- characters of one to four bytes, not bytes; combining marks count separately
SELECT edit_distance('naïve', 'naive') AS two_bytes, edit_distance('日本語', '日本人') AS three_bytes, edit_distance('a😀b', 'ab') AS four_bytes, edit_distance(U&'e\0301', 'é') AS combining,
	edit_distance('ééé', 'eee') AS all_differ, edit_distance('Ω' || repeat('a', 100), repeat('a', 100)) AS one_wide, char_length('日本語') AS characters;
-- lengths around the 64 rows of a word, and long strings of known distance: n replaced, a piece moved, none common
SELECT n, edit_distance(repeat('a', n), repeat('b', n)) AS replaced, edit_distance(repeat('ab', n), 'x' || repeat('ab', n) || 'y') AS two_more, edit_distance(repeat('a', n), repeat('a', n + n / 2)) AS half_more,
	edit_distance(repeat('é', n) || 'q', 'q' || repeat('é', n)) AS moved
FROM unnest(ARRAY[1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 5000]) n;
-- other types of strings
SELECT 'abc'::varchar <~> 'abd'::varchar AS varchar, 'abc'::char(5) <~> 'abc'::text AS char, 'abc'::name <~> 'xbc'::text AS name, 'abc' <~> 'abd'::text AS literal;

-- Zhou et al., example V.1
SELECT * FROM ordered_grams('aabaab', 3);
SELECT * FROM ordered_grams('日本日本', 2);
SELECT n, count(gram), count(DISTINCT gram) AS distinct, max(occurrence) FROM generate_series(1, 7) n LEFT JOIN LATERAL ordered_grams('aaaaab', n) ON true GROUP BY n ORDER BY n;
SELECT count(*) FROM ordered_grams('');
SELECT count(*) FROM ordered_grams(NULL, 2);
-- lemma V.1: the common multiset; theorem V.1: the bound. n-grams longer than a string give none, and the bound is the difference of lengths
SELECT a, b, n, gram_match_count(a, b, n), edit_distance_bound(a, b, n), edit_distance(a, b)
FROM (VALUES ('aabaab', 'aabaab', 3), ('aabaab', 'aabbaab', 3), ('aabaab', 'aab', 3), ('ab', 'ba', 3), ('ab', 'abcdef', 3), ('', 'abc', 2), ('aaaa', 'aa', 1), ('GENIE', 'GENIUS', 2), ('été', 'ete', 1)) AS pairs (a, b, n);
SELECT gram_match_count('similarity', 'similar') AS default_n, edit_distance_bound('similarity', 'similar') AS bound;
SELECT ordered_grams('abc', 0);
SELECT gram_match_count('abc', 'abc', 17);
SELECT edit_distance_bound('abc', 'abc', -1);

-- the bound is never above the distance: strings of few letters, so that grams repeat; and it is not trivial
CREATE TABLE strings AS SELECT n AS id, string_agg(chr(97 + (abs(hashint4(n * 100 + i)) >> 5) % (1 + n % 4)), '' ORDER BY i) AS s
FROM generate_series(1, 120) n, generate_series(1, 1 + n % 17) i GROUP BY n;
SELECT count(*) AS pairs, count(*) FILTER (WHERE edit_distance_bound(x.s, y.s, n) > edit_distance(x.s, y.s)) AS above,
	count(*) FILTER (WHERE edit_distance_bound(x.s, y.s, n) < edit_distance_bound(y.s, x.s, n)) AS asymmetric,
	count(*) FILTER (WHERE edit_distance_bound(x.s, y.s, n) > abs(length(x.s) - length(y.s))) > 500 AS better_than_length,
	count(*) FILTER (WHERE edit_distance_bound(x.s, y.s, n) = edit_distance(x.s, y.s)) > 500 AS tight
FROM strings x, strings y, generate_series(1, 4) n WHERE x.id <= y.id;
-- a metric
SELECT count(*) AS triples, count(*) FILTER (WHERE edit_distance(x.s, z.s) > edit_distance(x.s, y.s) + edit_distance(y.s, z.s)) AS broken
FROM strings x, strings y, strings z WHERE x.id < 30 AND y.id < 30 AND z.id < 30;
-- the nearest in exact order
SELECT s, s <~> 'abcab' AS distance FROM strings ORDER BY s <~> 'abcab', id LIMIT 5;
DROP TABLE strings;

-- long computations can be cancelled
SET statement_timeout = '1s';
SELECT edit_distance(repeat('ab', 1000000), repeat('ba', 999999) || 'x');
RESET statement_timeout;
