-- vectorgpu_recall: the same counts as by SQL, for every access method; arguments and privileges
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE TABLE rec (id int, v vector(8)) WITH (autovacuum_enabled = off);
INSERT INTO rec SELECT i, (SELECT array_agg((hashint4(i * 8 + d) & 1023)::float4) FROM generate_series(1, 8) d)::vector
	FROM generate_series(1, 400) i;
CREATE INDEX rec_flat ON rec USING gpuflat (v vector_l2_ops);

-- exact: all of them; the sample is as large as the table, so that every row is a query
SELECT * FROM vectorgpu_recall('rec_flat', 1000, 5);
-- by default a hundred queries for ten rows
SELECT * FROM vectorgpu_recall('rec_flat');

-- the same by SQL: rows that the index returns (one more than requested, less the query's own) and that are as near as the
-- k-th nearest of the others
CREATE FUNCTION sql_found(k int) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
	n int8 := 0;
	one int8;
	q record;
	kth float8;
BEGIN
	FOR q IN SELECT id, v FROM rec ORDER BY id LOOP
		SET LOCAL enable_indexscan = off;
		SET LOCAL enable_seqscan = on;
		SELECT max(d) INTO kth FROM (SELECT v <-> q.v AS d FROM rec WHERE id <> q.id ORDER BY 1 LIMIT k) s;
		SET LOCAL enable_indexscan = on;
		SET LOCAL enable_seqscan = off;
		SELECT count(*) INTO one FROM (
			SELECT id, d FROM (SELECT id, v <-> q.v AS d FROM rec ORDER BY v <-> q.v LIMIT k + 1) a
			WHERE id <> q.id LIMIT k) b WHERE d <= kth;
		n := n + one;
	END LOOP;
	RETURN n;
END
$$;
SET plan_cache_mode = force_custom_plan;
SELECT sql_found(5) AS flat;
DROP INDEX rec_flat;

CREATE INDEX rec_ivf ON rec USING gpuivf (v vector_l2_ops) WITH (lists = 20);
SET gpuivf.probes = 1;
SELECT sample, k, found = sql_found(5) AS as_counted, wanted, found < wanted AS misses, recall = found::float8 / wanted AS share,
	recall_low < recall AND recall < recall_high AS between, recall_low > 0 AND recall_high < 1 AS inside
	FROM vectorgpu_recall('rec_ivf', 400, 5);
-- the 95 % interval of Wilson's score, computed by hand: with one row a query there is one trial fewer than queries, by their variance
SELECT r.found < r.wanted AS misses, abs(recall_low - (centre - spread) / scale) < 1e-12 AS low, abs(recall_high - (centre + spread) / scale) < 1e-12 AS high
	FROM vectorgpu_recall('rec_ivf', 400, 1) r, LATERAL (SELECT 1.959963984540054::float8 AS z, (r.wanted - 1)::float8 AS n, r.found::float8 / r.wanted AS p) a,
	LATERAL (SELECT p + z ^ 2 / (2 * n) AS centre, z * sqrt(p * (1 - p) / n + z ^ 2 / (4 * n ^ 2)) AS spread, 1 + z ^ 2 / n AS scale) b;
SELECT found AS found_1 FROM vectorgpu_recall('rec_ivf', 400, 5) \gset
SET gpuivf.probes = 3;
SELECT found = sql_found(5) AS as_counted, found > :found_1 AS more FROM vectorgpu_recall('rec_ivf', 400, 5);
SET gpuivf.probes = 20;
SELECT * FROM vectorgpu_recall('rec_ivf', 400, 5);
RESET gpuivf.probes;
DROP INDEX rec_ivf;

CREATE INDEX rec_graph ON rec USING gpugraph (v vector_l2_ops);
SET gpugraph.search_width = 5;
SELECT sample, found = sql_found(5) AS as_counted FROM vectorgpu_recall('rec_graph', 400, 5);
SET gpugraph.search_width = 400;
SELECT * FROM vectorgpu_recall('rec_graph', 400, 5);
RESET gpugraph.search_width;
DROP INDEX rec_graph;

-- versions of rows in one chain, dead rows, rows of the delta, NULL, a condition and an expression
CREATE INDEX rec_part ON rec USING gpuflat ((v::halfvec(8)) halfvec_ip_ops) WHERE id % 2 = 0;
UPDATE rec SET id = id WHERE id % 4 = 0;
DELETE FROM rec WHERE id > 380;
INSERT INTO rec SELECT 1000 + i, CASE WHEN i < 5 THEN array_fill(i, ARRAY[8])::vector END FROM generate_series(1, 10) i;
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('rec_part', 400, 7);

-- gpumatch: sets, tuples (a row as a query asks for each of its values), texts in exact order
CREATE TABLE recm (id int, a int[], r matchrow, s text, t tsvector) WITH (autovacuum_enabled = off);
INSERT INTO recm SELECT i, ARRAY[i % 7, 10 + i % 11, 30 + i % 13], matchrow(i % 7, 'x' || i % 5, i % 3 = 0, NULL), md5(i::text),
	to_tsvector('simple', 'a' || i % 7 || ' b' || i % 9) FROM generate_series(1, 200) i;
CREATE INDEX recm_a ON recm USING gpumatch (a);
CREATE INDEX recm_r ON recm USING gpumatch (r);
CREATE INDEX recm_s ON recm USING gpumatch (s text_gram_ops);
CREATE INDEX recm_t ON recm USING gpumatch (t);
CREATE INDEX recm_h ON recm USING gpumatch (a array_minhash_ops);
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('recm_a', 200, 6);
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('recm_r', 200, 6);
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('recm_s', 20, 6);
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('recm_t', 200, 6);
SELECT sample, k, wanted, recall > 0.5 AS many FROM vectorgpu_recall('recm_h', 200, 6);

-- no rows, one row, fewer rows than k
CREATE TABLE rec0 (b bit(16));
CREATE INDEX rec0_b ON rec0 USING gpuflat (b bit_hamming_ops);
SELECT * FROM vectorgpu_recall('rec0_b');
INSERT INTO rec0 VALUES (NULL), (B'1010101010101010');
SELECT * FROM vectorgpu_recall('rec0_b');
INSERT INTO rec0 SELECT i::bit(16) FROM generate_series(1, 3) i;
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('rec0_b');

-- NaN distances
CREATE TABLE rec1 (v vector(2));
INSERT INTO rec1 VALUES ('[0,0]'), ('[0,0]'), ('[1,0]'), ('[0,1]'), ('[1,1]');
CREATE INDEX rec1_v ON rec1 USING gpuflat (v vector_cosine_ops);
SELECT sample, k, found, wanted, recall FROM vectorgpu_recall('rec1_v', 10, 3);

-- arguments
SELECT vectorgpu_recall('rec_part', 0);
SELECT vectorgpu_recall('rec_part', 10001);
SELECT vectorgpu_recall('rec_part', 10, 0);
SELECT vectorgpu_recall('rec_part', 10, 10001);
SELECT vectorgpu_recall('rec_part', 2000, 10000);
SELECT vectorgpu_recall(NULL) IS NULL AS is_null, vectorgpu_recall('rec_part', NULL) IS NULL AS is_null;
SELECT vectorgpu_recall('rec');
SELECT vectorgpu_recall(0);
CREATE INDEX rec_id ON rec (id);
SELECT vectorgpu_recall('rec_id');

-- privileges: as for vectorgpu_check
CREATE ROLE vg_recall_reader;
CREATE ROLE vg_recall_monitor IN ROLE pg_stat_scan_tables;
SET SESSION AUTHORIZATION vg_recall_reader;
SELECT vectorgpu_recall('rec_part');
RESET SESSION AUTHORIZATION;
GRANT EXECUTE ON FUNCTION vectorgpu_recall TO vg_recall_reader;
SET SESSION AUTHORIZATION vg_recall_reader;
SELECT vectorgpu_recall('rec_part');
RESET SESSION AUTHORIZATION;
GRANT SELECT ON rec TO vg_recall_reader;
SET SESSION AUTHORIZATION vg_recall_reader;
SELECT found, wanted FROM vectorgpu_recall('rec_part', 10, 3);
RESET SESSION AUTHORIZATION;
ALTER TABLE rec ENABLE ROW LEVEL SECURITY;
SET SESSION AUTHORIZATION vg_recall_reader;
SELECT vectorgpu_recall('rec_part');
SET SESSION AUTHORIZATION vg_recall_monitor;
SELECT found, wanted FROM vectorgpu_recall('rec_part', 10, 3);
RESET SESSION AUTHORIZATION;
REVOKE EXECUTE ON FUNCTION vectorgpu_recall FROM vg_recall_reader;
REVOKE SELECT ON rec FROM vg_recall_reader;
DROP ROLE vg_recall_reader, vg_recall_monitor;
DROP FUNCTION sql_found;
DROP TABLE rec, recm, rec0, rec1;
