-- gpugraph over bit strings: Hamming and Jaccard distance, answers of all rows and of few, ties, duplicates, wide rows, graphs of nearest rows, recall
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

-- strings near others, some twice, none and zeros among them
CREATE FUNCTION bit_row(i int, n int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL WHEN i % 89 = 0 THEN repeat('0', n)::bit varying
		ELSE (SELECT string_agg(CASE WHEN sin((i % 300) * 1.7 + d * 2.3) + 0.4 * sin(i % 2900 * 12.9898 + d * 78.233) > 0 THEN '1' ELSE '0' END, '' ORDER BY d)::bit varying
			FROM generate_series(1, n) d) END
$$;
CREATE TABLE bits (id int, b bit(70));
INSERT INTO bits SELECT i, bit_row(i, 70) FROM generate_series(1, 3000) i;

-- both classes: a search as wide as this looks at all rows and answers as a sequential scan; with few rows a search of the graph finds the nearest
CREATE FUNCTION pg_temp.each_class(widths int[], tails text[]) RETURNS TABLE (class text, width int, tail text, result text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH class IN ARRAY '{bit_hamming_ops,bit_jaccard_ops}'::text[] LOOP
		EXECUTE format('CREATE INDEX bits_i ON bits USING gpugraph (b %s) WITH (degree = 16)', class);
		FOREACH width IN ARRAY widths LOOP
			PERFORM set_config('gpugraph.search_width', width::text, false);
			FOREACH tail IN ARRAY tails LOOP
				result := pg_temp.compare_scans('bits', format('b %s %L', CASE class WHEN 'bit_hamming_ops' THEN '<~>' ELSE '<%>' END, bit_row(1234, 70)), tail);
				RETURN NEXT;
			END LOOP;
		END LOOP;
		PERFORM vectorgpu_check('bits_i', true);
		DROP INDEX bits_i;
	END LOOP;
END $$;
SELECT * FROM pg_temp.each_class('{1000000}', '{LIMIT 10,LIMIT 2000,OFFSET 0,WHERE id % 50 = 3 LIMIT 20}');
SELECT * FROM pg_temp.each_class('{200}', '{LIMIT 3}');

-- the default class and the planner
CREATE INDEX bits_b ON bits USING gpugraph (b);
CREATE INDEX bits_jaccard ON bits USING gpugraph (b bit_jaccard_ops) WITH (prune = rng);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM bits ORDER BY b <~> bit_row(5, 70) LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM bits ORDER BY b <%> bit_row(5, 70) LIMIT 5;
SELECT count(*), count(*) FILTER (WHERE b IS NULL) AS nulls FROM (SELECT b FROM bits ORDER BY b <~> NULL) s;
RESET enable_seqscan;
-- no bit is common with a string of zeros: all rows are equally far
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('bits', format('b <%%> %L', repeat('0', 70)), 'LIMIT 5'), pg_temp.compare_scans('bits', format('b <~> %L', repeat('0', 70)), 'LIMIT 5');

-- recall counts by distance, since many distances are equal
SET gpugraph.search_width = 0;
SELECT recall > 0.9 AS found FROM vectorgpu_recall('bits_b', 200);
SELECT recall > 0.9 AS found FROM vectorgpu_recall('bits_jaccard', 200);

-- inserts, vacuum, merges
INSERT INTO bits SELECT i, bit_row(i, 70) FROM generate_series(3001, 4000) i;
DELETE FROM bits WHERE id % 3 = 0;
VACUUM bits;
SET gpugraph.search_width = 300;
SELECT pg_temp.compare_scans('bits', format('b <~> %L', bit_row(500, 70)), 'LIMIT 5'), pg_temp.compare_scans('bits', format('b <%%> %L', bit_row(500, 70)), 'LIMIT 5');
SET gpugraph.search_width = 1000000;
SELECT pg_temp.compare_scans('bits', format('b <~> %L', bit_row(500, 70)), 'LIMIT 50');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('bits_b', true);
SELECT segments_after, rows_moved, rows_dropped FROM vectorgpu_merge('bits_b');
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('bits_b', true);
SELECT pg_temp.compare_scans('bits', format('b <~> %L', bit_row(500, 70)), '');
REINDEX INDEX CONCURRENTLY bits_jaccard;
SELECT pg_temp.compare_scans('bits', format('b <%%> %L', bit_row(500, 70)), 'LIMIT 50');
SELECT element, metric, dimensions, rows FROM vectorgpu_indexes WHERE index_name LIKE 'bits%' ORDER BY index_name;

-- nearest rows of each row, and a path, by the index's graph
SELECT count(*), bool_and(distance = (a.b <~> b.b)) AS right FROM vectorgpu_knn_graph('bits_b', 3) JOIN bits a ON a.ctid = source JOIN bits b ON b.ctid = target;
SELECT count(*) > 0 AS found FROM vectorgpu_path('bits_b', (SELECT ctid FROM bits WHERE id = 1), (SELECT ctid FROM bits WHERE id = 1001), 5);

-- a merge that inserts into the graph
CREATE TABLE bits_more (id int, b bit(40)) WITH (autovacuum_enabled = off);
INSERT INTO bits_more SELECT i, bit_row(i * 7 + 1, 40) FROM generate_series(1, 6000) i;
CREATE INDEX bits_more_b ON bits_more USING gpugraph (b) WITH (degree = 8);
INSERT INTO bits_more SELECT i, bit_row(i * 7 + 1, 40) FROM generate_series(6001, 6300) i;
SELECT segments_after, rows_moved FROM vectorgpu_merge('bits_more_b');
SELECT rows, heap_rows_checked FROM vectorgpu_check('bits_more_b', true);
SELECT pg_temp.compare_scans('bits_more', format('b <~> %L', bit_row(43, 40)), 'LIMIT 50');

-- few rows, no rows, one value, no value, few bits, many
CREATE FUNCTION pg_temp.odd_table(n int, rows text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text := '';
	class text;
	distance text;
BEGIN
	FOREACH class IN ARRAY '{bit_hamming_ops,bit_jaccard_ops}'::text[] LOOP
		distance := format('b %s %L', CASE class WHEN 'bit_hamming_ops' THEN '<~>' ELSE '<%>' END, '1' || repeat('0', n - 1));
		EXECUTE format('CREATE TABLE odd (id int, b bit(%s))', n);
		EXECUTE 'INSERT INTO odd ' || rows;
		EXECUTE format('CREATE INDEX odd_b ON odd USING gpugraph (b %s) %s', class, options);
		results := results || class || ': ' || pg_temp.compare_scans('odd', distance);
		PERFORM vectorgpu_check('odd_b', true);
		EXECUTE 'INSERT INTO odd ' || rows;
		PERFORM vectorgpu_merge('odd_b');
		PERFORM vectorgpu_check('odd_b', true);
		results := results || '; merged: ' || pg_temp.compare_scans('odd', distance) || ' ';
		DROP TABLE odd;
	END LOOP;
	RETURN results;
END $$;
SELECT pg_temp.odd_table(3, 'SELECT 1, NULL::bit WHERE false', '');
SELECT pg_temp.odd_table(3, 'SELECT 1, B''101''', 'WITH (degree = 256)');
SELECT pg_temp.odd_table(3, 'SELECT i, NULL FROM generate_series(1, 100) i', '');
SELECT pg_temp.odd_table(1, 'SELECT i, (i % 2)::bit FROM generate_series(1, 500) i', '');
SELECT pg_temp.odd_table(7, 'SELECT i, i::bit(7) FROM generate_series(1, 1000) i', 'WITH (prune = rng)');
SELECT pg_temp.odd_table(64, 'SELECT i, B''0''::bit(64) FROM generate_series(1, 500) i', 'WITH (degree = 5)');
SELECT pg_temp.odd_table(64000, 'SELECT i, repeat(i::bit(8)::text, 8000)::bit(64000) FROM generate_series(1, 40) i', '');

-- more equal rows than are compared pairwise: all are reachable, and found
CREATE TABLE bits_equal (id int, b bit(9));
INSERT INTO bits_equal SELECT i, B'101010101' FROM generate_series(1, 6000) i;
CREATE INDEX bits_equal_b ON bits_equal USING gpugraph (b);
SELECT rows, heap_rows_checked FROM vectorgpu_check('bits_equal_b', true);
SET gpugraph.search_width = 10;
SET enable_seqscan = off;
SELECT count(DISTINCT id) FROM (SELECT id FROM bits_equal ORDER BY b <~> B'101010101' LIMIT 10) s;
SELECT count(DISTINCT id) FROM (SELECT id FROM bits_equal ORDER BY b <~> B'101010101' LIMIT 6000) s;
RESET enable_seqscan;
RESET gpugraph.search_width;

-- errors: values of another length; codes, which need angles; types without a length; too many bits
CREATE TABLE bits_wrong (b bit(8), any_b bit varying, some_b bit varying(5), wide_b bit(64001), v vector(3));
CREATE INDEX ON bits_wrong USING gpugraph (b) WITH (hash_bits = 64);
CREATE INDEX bits_wrong_b ON bits_wrong USING gpugraph (b bit_jaccard_ops);
ALTER INDEX bits_wrong_b SET (hash_bits = 64); -- a storage parameter knows no operator class
REINDEX INDEX bits_wrong_b;
CREATE INDEX ON bits_wrong USING gpugraph (any_b bit_hamming_ops);
CREATE INDEX ON bits_wrong USING gpugraph (wide_b);
CREATE INDEX ON bits_wrong USING gpugraph (v bit_hamming_ops);
CREATE INDEX ON bits_wrong USING gpugraph (some_b bit_hamming_ops);
INSERT INTO bits_wrong (some_b) VALUES (B'10101');
INSERT INTO bits_wrong (some_b) VALUES (B'1010');
DROP TABLE bits, bits_more, bits_equal, bits_wrong;
DROP FUNCTION bit_row;
