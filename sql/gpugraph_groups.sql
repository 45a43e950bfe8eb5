-- Rows in groups apart from each other, as embeddings are: the graph finds every group, fresh, after a merge and after half of the
-- rows have gone. Queries are no rows; the law is the same.
SET vectorgpu.worker = off;
SET client_min_messages = warning;
CREATE FUNCTION number(key int8, seed int8) RETURNS float8 LANGUAGE sql IMMUTABLE AS
$$SELECT ((hashint8extended(key, seed) & 65535) + (hashint8extended(key, seed + 1) & 65535) - 65535) / 65536.0$$;
CREATE FUNCTION in_group(g int, i int) RETURNS vector LANGUAGE sql IMMUTABLE AS
$$SELECT array_agg(number(g * 16 + d, 1) * 10 + number(i * 16::int8 + d, 7))::real[]::vector FROM generate_series(1, 16) d$$;
CREATE TABLE grouped (id int, g int, v vector(16)) WITH (autovacuum_enabled = off);
-- 150 groups of 60 to 120 rows, more than a graph has entry points by clusters; those after 200 come later
INSERT INTO grouped SELECT g * 10000 + i, g, in_group(g, g * 10000 + i)
	FROM generate_series(1, 150) g, LATERAL generate_series(1, (60 * power(2, (g - 1) / 149.0))::int) i;
CREATE INDEX grouped_i ON grouped USING gpugraph (v vector_l2_ops);
ANALYZE grouped;
CREATE TABLE asked (id int, v vector(16));
INSERT INTO asked SELECT g, in_group(g, -g) FROM generate_series(1, 150, 3) g;
INSERT INTO asked SELECT g, in_group(g, -g) FROM generate_series(201, 220) g;
-- The share of the 10 nearest that the index finds of the queries up to `most`; by distance, since ids of equally near rows are free
CREATE FUNCTION recall(most int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	q record;
	kth float8;
	n int;
	found int := 0;
	wanted int := 0;
BEGIN
	FOR q IN SELECT id, v FROM asked WHERE id <= most ORDER BY id LOOP
		SET LOCAL enable_indexscan = off;
		SELECT max(d) INTO kth FROM (SELECT v <-> q.v AS d FROM grouped ORDER BY 1 LIMIT 10) s;
		RESET enable_indexscan;
		SET LOCAL enable_seqscan = off;
		SELECT count(*) INTO n FROM (SELECT v <-> q.v AS d FROM grouped ORDER BY v <-> q.v LIMIT 10) s WHERE d <= kth;
		RESET enable_seqscan;
		found := found + n;
		wanted := wanted + 10;
	END LOOP;
	RETURN round(found::numeric / wanted, 3);
END $$;
-- Whether one of these scans looked at all rows
CREATE FUNCTION exhaustive(most int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	q record;
	line text;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR q IN SELECT v FROM asked WHERE id <= most LOOP
		FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id FROM grouped ORDER BY v <-> %L LIMIT 10', q.v) LOOP
			IF line ~ 'Exhaustive: [1-9]' THEN
				RETURN true;
			END IF;
		END LOOP;
	END LOOP;
	RETURN false;
END $$;
SELECT recall(200) >= 0.93 AS fresh, exhaustive(200) AS all_rows;
-- New groups wait in the delta, where all rows are looked at, and a merge inserts them into the graph
INSERT INTO grouped SELECT g * 10000 + i, g, in_group(g, g * 10000 + i) FROM generate_series(201, 220) g, generate_series(1, 70) i;
SELECT recall(300) >= 0.93 AS in_the_delta;
SELECT count(vectorgpu_merge('grouped_i')) AS merged;
SELECT delta_rows FROM vectorgpu_indexes WHERE index_name = 'grouped_i';
SELECT recall(300) >= 0.93 AS inserted, exhaustive(300) AS all_rows;
DELETE FROM grouped WHERE id % 2 = 0;
VACUUM grouped;
SELECT count(vectorgpu_merge('grouped_i')) AS merged;
SELECT recall(300) >= 0.93 AS half;
SELECT vectorgpu_check('grouped_i') IS NOT NULL AS checked;
DROP TABLE grouped, asked;
DROP FUNCTION recall(int), exhaustive(int), in_group(int, int), number(int8, int8);
