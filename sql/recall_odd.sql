-- Recall targets on rows that codes or edges distinguish badly: scans reach them by looking at more rows.
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
SET client_min_messages = warning;
SET vectorgpu.worker = off;
SELECT setseed(0.1);
-- recall for every target, and all rows with a target of 1
CREATE FUNCTION reached(index regclass, setting text, targets float[], k int DEFAULT 10) RETURNS TABLE (target float, reached bool)
LANGUAGE plpgsql AS $$
DECLARE
	found float;
BEGIN
	FOREACH target IN ARRAY targets LOOP
		PERFORM set_config(setting, target::text, true);
		SELECT r.recall_high INTO found FROM vectorgpu_recall(index, CASE WHEN k > 10 THEN 30 ELSE 100 END, k) r; -- of the confidence interval
		reached := found >= CASE WHEN target = 1 THEN 1 WHEN k > 10 THEN target - 0.06 ELSE target - 0.04 END; -- 30 queries vary more
		RETURN NEXT;
	END LOOP;
END $$;
-- one row far away: the codes of all others are equal
CREATE TABLE far_off AS SELECT i AS id, CASE WHEN i = 1 THEN array_fill(1e6::real, ARRAY[16]) ELSE
	(SELECT array_agg(random()::real) FROM generate_series(1, 16) WHERE i = i) END::vector(16) AS v FROM generate_series(1, 6000) i;
CREATE INDEX far_off_sq8 ON far_off USING gpuivf (v vector_l2_ops) WITH (storage = sq8);
SELECT * FROM reached('far_off_sq8', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
DROP INDEX far_off_sq8;
CREATE INDEX far_off_table ON far_off USING gpuivf (v vector_ip_ops) WITH (storage = sq8, refine = none);
SELECT * FROM reached('far_off_table', 'gpuivf.recall_target', '{0.95, 1}');
DROP INDEX far_off_table;
-- the same after a merge
DELETE FROM far_off WHERE id = 1;
CREATE INDEX far_off_later ON far_off USING gpuivf (v vector_l2_ops) WITH (storage = sq8);
INSERT INTO far_off SELECT i, CASE WHEN i = 1 THEN array_fill(1e6::real, ARRAY[16]) ELSE
	(SELECT array_agg(random()::real) FROM generate_series(1, 16) WHERE i = i) END::vector(16) FROM generate_series(1, 600) i;
SELECT vectorgpu_merge('far_off_later') IS NOT NULL AS merged;
SELECT * FROM reached('far_off_later', 'gpuivf.recall_target', '{0.95, 1}');
-- beyond the range of halves
CREATE TABLE large AS SELECT i AS id, (SELECT array_agg((100000 + random() * 1000000)::real) FROM generate_series(1, 8) WHERE i = i)::vector(8) AS v FROM generate_series(1, 4000) i;
CREATE INDEX large_fp16 ON large USING gpuivf (v vector_l2_ops) WITH (storage = fp16);
SELECT * FROM reached('large_fp16', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
DROP INDEX large_fp16;
CREATE INDEX large_halves ON large USING gpuivf (v vector_l2_ops) WITH (storage = sq8, refine = fp16);
SELECT * FROM reached('large_halves', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
-- halves too coarse to tell which rows are nearest: their error bounds select the rows read from the table
CREATE TABLE coarse AS SELECT i AS id, (SELECT array_agg((1000 + sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real) FROM generate_series(1, 16) WHERE i = i)::vector(16) AS v
	FROM generate_series(1, 6000) i;
CREATE INDEX coarse_pq ON coarse USING gpuivf (v vector_l2_ops) WITH (storage = pq, refine = fp16);
SELECT * FROM reached('coarse_pq', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
DROP INDEX coarse_pq;
CREATE INDEX coarse_sq8 ON coarse USING gpuivf (v vector_l1_ops) WITH (storage = sq8, refine = fp16);
SELECT * FROM reached('coarse_sq8', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
INSERT INTO coarse SELECT i, (SELECT array_agg((1000 + sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real) FROM generate_series(1, 16) WHERE i = i)::vector(16)
	FROM generate_series(1, 600) i;
SELECT vectorgpu_merge('coarse_sq8') IS NOT NULL AS merged;
SELECT * FROM reached('coarse_sq8', 'gpuivf.recall_target', '{0.95, 1}');
DROP INDEX coarse_sq8;
-- codes, too, if the rows lie in nearly one direction: then more lists find less, until all are searched by vectors
CREATE INDEX coarse_cosine ON coarse USING gpuivf (v vector_cosine_ops) WITH (storage = sq8);
SELECT * FROM reached('coarse_cosine', 'gpuivf.recall_target', '{0.5, 0.95, 0.99, 1}');
-- angles between rows that lie nearly in one direction
CREATE TABLE narrow AS SELECT i AS id, ARRAY[1, 1, i]::vector(3) AS v FROM generate_series(1, 1500) i;
CREATE INDEX narrow_sq8 ON narrow USING gpuivf (v vector_cosine_ops) WITH (storage = sq8);
SELECT * FROM reached('narrow_sq8', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
-- equal rows, any of which counts as found
CREATE TABLE equal_rows AS SELECT i AS id, (SELECT array_agg((50 + 50 * sin((i / 100) * j * 7.3))::real) FROM generate_series(1, 16) j)::vector(16) AS v FROM generate_series(0, 5999) i;
CREATE INDEX equal_sq8 ON equal_rows USING gpuivf (v vector_l2_ops) WITH (storage = sq8);
SELECT * FROM reached('equal_sq8', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
-- groups that few bits do not distinguish, with few edges between them
CREATE TABLE centres AS SELECT i, ARRAY(SELECT (sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real FROM generate_series(1, 32) WHERE i = i) AS m FROM generate_series(0, 59) i;
CREATE TABLE groups AS SELECT n.i AS id, ARRAY(SELECT (x + 0.6 * sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real FROM unnest(m) WITH ORDINALITY u(x, o)
	WHERE n.i = n.i ORDER BY o)::vector(32) AS v FROM generate_series(1, 6000) n(i) JOIN centres c ON c.i = n.i % 60;
CREATE INDEX groups_hashed ON groups USING gpugraph (v vector_l2_ops) WITH (hash_bits = 32, degree = 12);
SELECT * FROM reached('groups_hashed', 'gpugraph.recall_target', '{0.5, 0.95, 0.99, 1}');
DROP INDEX groups_hashed;
-- many rows by codes
CREATE TABLE evenly AS SELECT i AS id, ARRAY(SELECT random()::real FROM generate_series(1, 16) WHERE i = i)::vector(16) AS v FROM generate_series(1, 12000) i;
CREATE INDEX evenly_hashed ON evenly USING gpugraph (v vector_l2_ops) WITH (hash_bits = 512);
SELECT k, r.* FROM unnest('{10, 100, 300}'::int[]) k, reached('evenly_hashed', 'gpugraph.recall_target', '{0.8, 0.95}', k) r;
-- periodic rows: groups by turns, and every second row equal
CREATE TABLE turns AS SELECT n.i AS id, ARRAY(SELECT (x + 0.3 * sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real FROM unnest(m) WITH ORDINALITY u(x, o)
	WHERE n.i = n.i ORDER BY o)::vector(32) AS v FROM generate_series(1, 12000) n(i) JOIN centres c ON c.i = n.i % 50;
CREATE INDEX turns_lists ON turns USING gpuivf (v vector_l2_ops) WITH (lists = 100);
SELECT * FROM reached('turns_lists', 'gpuivf.recall_target', '{0.5, 0.95, 1}');
DROP INDEX turns_lists;
CREATE INDEX turns_graph ON turns USING gpugraph (v vector_l2_ops);
SELECT * FROM reached('turns_graph', 'gpugraph.recall_target', '{0.5, 0.95, 1}');
DROP INDEX turns_graph;
UPDATE turns SET v = array_fill(0.1::real, ARRAY[32])::vector(32) WHERE id % 2 = 0;
CREATE INDEX turns_graph ON turns USING gpugraph (v vector_ip_ops);
SELECT * FROM reached('turns_graph', 'gpugraph.recall_target', '{0.5, 0.95, 1}');
DROP TABLE turns;
-- short strings, many of them equally far
CREATE TABLE short AS SELECT i AS id, (random() * 4095)::int::bit(12) AS b FROM generate_series(1, 20000) i;
CREATE INDEX short_lists ON short USING gpuivf (b bit_hamming_ops);
SELECT k, r.* FROM unnest('{10, 100, 300}'::int[]) k, reached('short_lists', 'gpuivf.recall_target', '{0.8, 0.95}', k) r;
DROP INDEX short_lists;
CREATE INDEX short_graph ON short USING gpugraph (b bit_hamming_ops);
SELECT k, r.* FROM unnest('{10, 100, 300}'::int[]) k, reached('short_graph', 'gpugraph.recall_target', '{0.8, 0.95}', k) r;
DROP TABLE short;
-- strings of very different density, many of them empty: lists that are ranked last have near rows
CREATE TABLE dense AS SELECT i AS id, (SELECT string_agg((random() < s.p + 0 * j)::int::text, '') FROM generate_series(1, 200) j)::bit(200) AS b
	FROM (SELECT i, random() ^ 3 AS p FROM generate_series(1, 8000) i) s;
\set VERBOSITY terse
CREATE INDEX dense_lists ON dense USING gpuivf (b bit_jaccard_ops);
\set VERBOSITY default
SELECT * FROM reached('dense_lists', 'gpuivf.recall_target', '{0.8, 0.95}', 9);
DROP TABLE dense;
-- values that occur many times each: edges lead from a row to its copies, and seldom elsewhere
CREATE TABLE few AS SELECT i AS id, (random() * 255)::int::bit(8) AS b FROM generate_series(1, 8000) i;
CREATE INDEX few_graph ON few USING gpugraph (b bit_hamming_ops);
SELECT * FROM reached('few_graph', 'gpugraph.recall_target', '{0.6, 0.95, 1}');
DROP TABLE few;
CREATE TABLE lattice AS SELECT i AS id, ARRAY(SELECT floor(random() * 3)::real FROM generate_series(1, 5) WHERE i = i)::vector(5) AS v FROM generate_series(1, 8000) i;
CREATE INDEX lattice_graph ON lattice USING gpugraph (v vector_l2_ops);
SELECT * FROM reached('lattice_graph', 'gpugraph.recall_target', '{0.6, 0.95, 1}');
DROP TABLE lattice;
-- one row longer than all others: the nearest of every second query by inner product
CREATE TABLE one_long AS SELECT i AS id, CASE WHEN i = 1 THEN array_fill(1000::real, ARRAY[16]) ELSE
	ARRAY(SELECT (sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real FROM generate_series(1, 16) WHERE i = i) END::vector(16) AS v FROM generate_series(1, 8000) i;
CREATE INDEX one_long_graph ON one_long USING gpugraph (v vector_ip_ops);
SELECT k, r.* FROM unnest('{1, 10}'::int[]) k, reached('one_long_graph', 'gpugraph.recall_target', '{0.95, 1}', k) r;
DROP TABLE one_long;
DROP TABLE far_off, large, coarse, narrow, equal_rows, centres, groups, evenly;
DROP FUNCTION reached;
