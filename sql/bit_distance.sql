-- Hamming and Jaccard distance of bit and varbit
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SELECT a, b, hamming_distance(a, b), a <~> b AS hamming, jaccard_distance(a, b), a <%> b AS jaccard
FROM (VALUES (B'111', B'111'), ('111', '110'), ('111', '000'), ('000', '000'), ('1100', '1000'), ('1', '0'),
	('10101010101010101010', '01010101010101010101'), ('', '')) AS pairs (a, b);
SELECT B'111'::varbit(4) <~> B'110', B'1111'::varbit <%> '1100', hamming_distance('111', '100'), B'1' <~> NULL;

-- every length around machine words: bits differ at both ends
SELECT n, a <~> b AS hamming, round((a <%> b)::numeric, 6) AS jaccard, a <~> ~a AS all_differ
FROM (SELECT n, ('1' || repeat('01', (n - 2) / 2) || repeat('1', n % 2) || '0')::varbit AS a,
	('0' || repeat('01', (n - 2) / 2) || repeat('1', n % 2) || '1')::varbit AS b
	FROM unnest(ARRAY[2, 7, 8, 9, 31, 32, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 513, 1024, 64000]) n) AS pairs
ORDER BY n;

SELECT binary_quantize('[1,-1,1]'::vector) <~> binary_quantize('[1,1,1]'::vector) AS hamming,
	binary_quantize('[1,-1,1]'::halfvec)::bit(3) <%> binary_quantize('[1,1,1]'::halfvec)::bit(3) AS jaccard;

CREATE TABLE t (id int, b bit(8));
INSERT INTO t SELECT n, n::bit(8) FROM generate_series(0, 255) n;
SELECT id, b <~> B'10101010' AS distance FROM t ORDER BY distance, id LIMIT 5;
SELECT id, b <%> B'10101010' AS distance FROM t ORDER BY distance, id LIMIT 5;
DROP TABLE t;
