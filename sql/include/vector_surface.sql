-- included by vector_type and halfvec_type: what both types have in common; :type is the type. No statement
-- here may fail: psql would put this file's path into the message

-- text format
SELECT :type '[1,2,3]', :type '[-1,-2.5,+3]', :type '[1.,.5,1e2,1E-2,00.25]', :type '[0x10,0X.8p1]';
SELECT :type E' \t\n\r\x0b\f[ \t\n\r\x0b\f1 \t\n\r\x0b\f, \t\n\r\x0b\f2 \t\n\r\x0b\f] \t\n\r\x0b\f';
SELECT :type '[0,-0]', :type '[1e-50,-1e-50]';
SELECT :type '[0.0999755859375]', :type '[1234.5]', :type '[00000000000000000000000000000001]';
SELECT (:type '[1,2,3]')::text, length((SELECT ('[' || string_agg('1.5', ',') || ']')::text:::type FROM generate_series(1, 16000))::text);
SELECT ARRAY[:type '[1,2]', :type '[3,4]'], '{"[1,2]",NULL}':::type[];

-- type modifier
CREATE TABLE t (v :type(3), w :type);
SELECT attname, format_type(atttypid, atttypmod), attstorage FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum;
INSERT INTO t VALUES ('[1,2,3]', '[1]'), ('[4,5,6]', '[1,2]'), (NULL, NULL) RETURNING *;
DELETE FROM t WHERE vector_dims(w) = 1;
ALTER TABLE t ALTER w TYPE :type(2);
SELECT * FROM t ORDER BY v NULLS LAST;
DROP TABLE t;
SELECT pg_typeof(:type '[1]'), (:type '[1,2]'):::type(2);

-- arithmetic
SELECT :type '[1,2,3]' + '[4,5,6]', :type '[1,2,3]' - '[4,5,6]', :type '[1,2,3]' * '[4,5,6]', :type '[1,2,3]' || '[4,5]';
SELECT :type '[0,-0]' * '[-1,1]', :type '[1]' - '[1]';
SELECT vector_dims(:type '[1]' || (SELECT array_agg(1):::type FROM generate_series(1, 15999)));

-- comparison: element by element, then the shorter first
SELECT a, b, a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge, a > b AS gt
FROM (VALUES (:type '[1,2,3]', :type '[1,2,3]'), ('[1,2,3]', '[1,2]'), ('[1,2]', '[1,2,3]'), ('[2]', '[1,9]'), ('[-1]', '[1]'),
	('[0]', '[-0]'), (NULL, '[1]')) AS pairs (a, b);

-- functions
SELECT vector_dims(:type '[1,2,3]'), l2_normalize(:type '[3,0,-4]'), l2_normalize(:type '[0,-0]'), l2_normalize(:type '[0.0001,0]');
SELECT binary_quantize(:type '[1,0,-1]'), binary_quantize(:type '[0.5,-0,-0.5,1,1,1,1,-1,1,2]'), pg_typeof(binary_quantize(:type '[1]'));
SELECT start, count, subvector(:type '[1,2,3,4,5]', start, count)
FROM (VALUES (1, 3), (3, 2), (-1, 3), (3, 9), (5, 1), (3, 2147483647), (-2147483644, 2147483647)) AS parts (start, count);

-- distances: functions and operators are the same
SELECT name, l2, l2 = (a <-> b) AS same_l2, ip, ip = -(a <#> b) AS same_ip, cosine, cosine IS NOT DISTINCT FROM (a <=> b) AS same_cosine,
	l1, l1 = (a <+> b) AS same_l1
FROM (SELECT *, l2_distance(a, b) AS l2, inner_product(a, b) AS ip, cosine_distance(a, b) AS cosine, l1_distance(a, b) AS l1
	FROM (VALUES ('equal', :type '[1,2,3]', :type '[1,2,3]'), ('axes', '[3,0]', '[0,4]'), ('opposite', '[1,1]', '[-1,-1]'),
		('scaled', '[1,2]', '[2,4]'), ('zero', '[1,2]', '[0,0]'), ('both zero', '[0,0]', '[-0,0]'),
		('nine', '[1,1,1,1,1,1,1,1,1]', '[1,1,1,1,1,1,1,4,5]')) AS pairs (name, a, b)) AS distances;
SELECT :type '[1,2]' <-> NULL AS l2, NULL <=> :type '[1,2]' AS cosine;
SELECT n, a <-> b AS l2, a <#> b AS ip, a <+> b AS l1, round((a <=> b)::numeric, 6) AS cosine
FROM (SELECT n, (SELECT array_agg(i % 7):::type FROM generate_series(1, n) i) AS a,
	(SELECT array_agg(i % 5):::type FROM generate_series(1, n) i) AS b
	FROM unnest(ARRAY[1, 7, 8, 15, 16, 17, 31, 33, 127, 128, 784, 16000]) n) AS pairs
ORDER BY n;

-- values move between inline, compressed-never and out-of-line storage unchanged
CREATE TABLE t (id int, v :type);
INSERT INTO t SELECT n, (SELECT array_agg((i * n) % 13):::type FROM generate_series(1, n) i) FROM unnest(ARRAY[1, 30, 200, 2000, 16000]) n;
SELECT id, vector_dims(v), v = (SELECT array_agg((i * id) % 13):::type FROM generate_series(1, id) i) AS same, pg_column_compression(v) FROM t ORDER BY id;
SELECT a.id, b.id, a.v < b.v AS lt FROM t a, t b WHERE a.id < b.id ORDER BY a.id, b.id;
DROP TABLE t;
