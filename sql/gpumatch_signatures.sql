-- gpumatch by signatures: min-hash of sets, locality-sensitive hashes of vectors; candidates by counts, order by distance
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE TABLE sets (id int, a int[], t text[]);
INSERT INTO sets SELECT i, array_agg(DISTINCT (i / 20 * 7919 + (j * (1 + i % 20 / 7)) * 31) % 1000), array_agg(DISTINCT 'w' || (i / 20 * 17 + j * (1 + i % 20 / 7)) % 500)
FROM generate_series(1, 6000) i, generate_series(1, 20) j GROUP BY i;
INSERT INTO sets VALUES (-1, '{}', '{}'), (-2, NULL, NULL), (-3, '{NULL}', '{NULL}');
CREATE TABLE points (id int, v vector(16));
INSERT INTO points SELECT i, array_agg(((i / 30 * 7919 + d * 104729) % 1009) / 50.0 + ((i * 31 + d * 17) % 101) / 100.0)::real[]::vector FROM generate_series(1, 6000) i, generate_series(1, 16) d GROUP BY i;
INSERT INTO points VALUES (-1, array_fill(0::real, ARRAY[16])::vector), (-2, NULL);
CREATE INDEX sets_a ON sets USING gpumatch (a array_minhash_ops);
CREATE INDEX sets_t ON sets USING gpumatch (t array_minhash_ops (hashes = 128, seed = 7));
CREATE INDEX points_l2 ON points USING gpumatch (v vector_lsh_l2_ops (hashes = 100, width = 8));
CREATE INDEX points_l1 ON points USING gpumatch (v vector_lsh_l1_ops (hashes = 100, width = 20, buckets = 1000));
CREATE INDEX points_cosine ON points USING gpumatch (v vector_lsh_cosine_ops (hashes = 200));

-- recall(table, expression, k): the share of the exact answer's distances that the index returns, over some rows as queries;
-- the index's rows are in order and have the operator's distance (assertions of a debugging build compare it)
CREATE FUNCTION recall(tab text, col text, op text, k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	body text := format('SELECT array_agg(d ORDER BY n) FROM (SELECT d, row_number() OVER () n FROM (SELECT %1$s %2$s $1::%5$s AS d FROM %3$s ORDER BY %1$s %2$s $1::%5$s LIMIT %4$s) a) b', col, op, tab, k,
		CASE WHEN tab = 'points' THEN 'vector' WHEN col = 't' THEN 'text[]' ELSE 'int[]' END);
	q record;
	line text;
	plan text;
	by_index float8[];
	by_seq float8[];
	hits int := 0;
	total int := 0;
BEGIN
	FOR q IN EXECUTE format('SELECT %s::text AS value FROM %s WHERE id > 0 AND id %% 601 = 5', col, tab) LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true);
		EXECUTE body INTO by_index USING q.value;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE body INTO by_seq USING q.value;
		IF by_index IS DISTINCT FROM (SELECT array_agg(d ORDER BY d) FROM unnest(by_index) d) THEN RETURN 'not in order'; END IF;
		total := total + cardinality(by_seq);
		hits := hits + (SELECT count(*) FROM unnest(by_index) d WHERE d <= by_seq[cardinality(by_seq)]);
	END LOOP;
	PERFORM set_config('enable_indexscan', 'on', true);
	RETURN CASE WHEN hits >= 0.9 * total THEN 'at least 0.9' ELSE format('%s of %s', hits, total) END;
END $$;
SELECT recall('sets', 'a', '<%>', 10), recall('sets', 't', '<%>', 10);
SELECT recall('points', 'v', '<->', 10), recall('points', 'v', '<+>', 10), recall('points', 'v', '<=>', 10);

-- a scan continues to the end: every row comes once, under relaxed order
SET enable_seqscan = off;
SET enable_sort = off;
SET vectorgpu.scan_order = relaxed;
SELECT count(*), count(DISTINCT id), count(d) FROM (SELECT id, a <%> '{1,2,3}' AS d FROM sets ORDER BY a <%> '{1,2,3}') s;
SELECT count(*), count(DISTINCT id), count(d) FROM (SELECT id, v <-> array_fill(1, ARRAY[16])::vector AS d FROM points ORDER BY v <-> array_fill(1, ARRAY[16])::vector) s;
SELECT count(*), count(DISTINCT id), count(d) FROM (SELECT id, v <=> array_fill(1, ARRAY[16])::vector AS d FROM points ORDER BY v <=> array_fill(1, ARRAY[16])::vector) s;
RESET vectorgpu.scan_order;
EXPLAIN (COSTS OFF) SELECT id FROM points ORDER BY v <-> array_fill(1, ARRAY[16])::vector LIMIT 3;
SELECT id FROM points ORDER BY v <-> '[1,2,3]' LIMIT 1;
RESET enable_seqscan;
RESET enable_sort;

-- changes
INSERT INTO points SELECT id + 10000, v FROM points WHERE id % 20 = 3;
INSERT INTO sets SELECT id + 10000, a, t FROM sets WHERE id % 20 = 3;
DELETE FROM points WHERE id % 9 = 2;
DELETE FROM sets WHERE id % 9 = 2;
VACUUM points, sets;
SELECT recall('sets', 'a', '<%>', 10), recall('points', 'v', '<->', 10);
SELECT segments_after FROM vectorgpu_merge('points_l2');
SELECT segments_after FROM vectorgpu_merge('sets_a');
SELECT recall('sets', 'a', '<%>', 10), recall('points', 'v', '<->', 10);
SELECT c, k.rows, k.null_rows FROM (VALUES ('sets_a'), ('sets_t'), ('points_l2'), ('points_l1'), ('points_cosine')) v(c), vectorgpu_check(c::regclass, true) k;

-- errors
CREATE INDEX ON points USING gpumatch (v);
CREATE INDEX ON points USING gpumatch ((v::vector) vector_lsh_l2_ops);
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (hashes = 0));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (buckets = 1));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (width = 0));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l1_ops (width = 1e31));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (width = 'infinity'));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (width = 'nan'));
CREATE INDEX ON points USING gpumatch (v vector_lsh_l2_ops (n = 3));
-- options that change nothing
CREATE INDEX points_width ON points USING gpumatch (v vector_lsh_cosine_ops (hashes = 8, width = 2));
CREATE INDEX points_buckets ON points USING gpumatch (v vector_lsh_cosine_ops (hashes = 8, buckets = 9));
DROP INDEX points_width, points_buckets;
CREATE INDEX ON sets USING gpumatch (a array_minhash_ops (width = 3));
CREATE INDEX ON sets USING gpumatch ((a::float8[]) array_minhash_ops);
SELECT opcname, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'gpumatch' AND opcname NOT LIKE '%filter\_ops' ORDER BY opcname;
DROP TABLE sets, points;
DROP FUNCTION recall(text, text, text, int);
