-- Jaccard distance of sets, min-hash signatures, locality-sensitive hashes of vectors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SELECT a, b, round((a <%> b)::numeric, 6) AS jaccard, a <%> b = b <%> a AS symmetric
FROM (VALUES ('{1,2,3}'::int4[], '{2,3,4}'::int4[]), ('{1,1,2}', '{2,1}'), ('{}', '{1}'), ('{}', '{}'), ('{NULL}', '{NULL}'), ('{1,NULL}', '{1}'), ('{1}', '{2}'), ('{1}', NULL)) AS pairs (a, b);
SELECT '{1,2}'::int8[] <%> '{2,3}' AS int8, '{a,b}'::text[] <%> '{b,c}' AS text, '{00000000-0000-0000-0000-000000000001}'::uuid[] <%> '{00000000-0000-0000-0000-000000000001}' AS uuid,
	array_jaccard_distance('{1,2}'::int4[], '{2,3}') AS function;

-- signatures are stored in indexes: these values must never change
SELECT minhash('{1,2,3}'::int4[], 4), minhash('{1,2,3}'::int4[], 4, 7), minhash('{1,2,3}'::int8[], 4), minhash('{a,b}'::text[], 4), minhash('{00000000-0000-0000-0000-000000000001}'::uuid[], 2);
SELECT lsh_l2('[1,2,3]', 8), lsh_l1('[1,2,3]', 8), lsh_cosine('[1,2,3]', 8), lsh_l2('[1,2,3]', hashes => 8, width => 0.5, buckets => 1000, seed => 3);
-- sets: order, duplicates and NULL do not matter; an empty set has none
SELECT minhash('{3,1,2,1,NULL}'::int4[], 8) = minhash('{1,2,3}'::int4[], 8) AS same, minhash('{}'::int4[]) AS empty, minhash('{NULL}'::text[]) AS null_only, cardinality(minhash('{1}'::int4[])) AS default_hashes;

-- agreement estimates similarity: 1,000 functions are within 0.08 of it with a probability of more than 0.9999
SELECT n, abs(signature_matches(minhash(a, 1000), minhash(b, 1000)) / 1000.0 - (1 - (a <%> b))) < 0.08 AS jaccard
FROM (SELECT n, ARRAY(SELECT generate_series(1, 100)) AS a, ARRAY(SELECT generate_series(1 + n, 100 + n)) AS b FROM unnest(ARRAY[0, 10, 30, 50, 80, 100]) n) AS sets;
SELECT d, abs(signature_matches(lsh_l1(a, 1000, 5, 100000), lsh_l1(b, 1000, 5, 100000)) / 1000.0 - exp(-l1_distance(a, b) / 5)) < 0.08 AS laplace,
	abs(signature_matches(lsh_cosine(a, 1000), lsh_cosine(b, 1000)) / 1000.0 - (1 - acos(1 - cosine_distance(a, b)) / pi())) < 0.08 AS cosine,
	signature_matches(lsh_l2(a, 1000, 5), lsh_l2(b, 1000, 5)) AS l2
FROM (SELECT d, '[1,2,3,4]'::vector AS a, format('[%s,%s,3,4]', 1 + d, 2 - d)::vector AS b FROM unnest(ARRAY[0.1, 0.5, 1, 2, 5]) d) AS vectors;
SELECT signature_matches('{1,2,3}', '{1,5,3}'), signature_matches('{}', '{1}'), signature_matches('{}', '{}');

-- number of functions: 237 for 0.06, 0.06 in section IV-B2
SELECT lsh_hashes(0.06, 0.06), lsh_hashes(0.1, 0.05), lsh_hashes(epsilon => 0.02, delta => 0.01);

SELECT minhash('{1}'::int4[], 0);
SELECT minhash('{1}'::int4[], 4097);
SELECT lsh_l2('[1]', -1);
SELECT lsh_l2('[1]', 8, 0);
SELECT lsh_l1('[1]', 8, 'NaN');
SELECT lsh_l1('[1]', 8, 1e31);
SELECT lsh_l1('[1]', 8, 1, 1);
SELECT lsh_hashes(0, 0.5);
SELECT lsh_hashes(0.5, 'NaN');
SELECT signature_matches('{1,2}', '{1}');
SELECT signature_matches('{1,NULL}', '{1,2}');
