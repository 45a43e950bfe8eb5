-- Rows that are copies of each other except for noise: other queries reach the recall target.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
CREATE TABLE centre (id int, x real[]);
INSERT INTO centre SELECT i, (SELECT array_agg(('x' || substring(md5(i || ' ' || d), 1, 6))::bit(24)::int) FROM generate_series(1, 10) d)::real[] FROM generate_series(1, 2300) i;
CREATE TABLE copies AS SELECT c.id * 8 + n AS id, (SELECT array_agg(e + ('x' || substring(md5(c.id || ' ' || n || ' ' || o), 1, 5))::bit(20)::int / 4.0 ORDER BY o)
	FROM unnest(x) WITH ORDINALITY u(e, o))::real[]::vector(10) AS v FROM centre c, generate_series(0, 7) n WHERE c.id <= 2000;
CREATE TABLE query AS SELECT id, x::vector(10) AS v FROM centre WHERE id > 2000;
VACUUM ANALYZE copies, query;
SET enable_indexscan = off;
CREATE TABLE truth AS SELECT q.id, max(b.d) AS tenth FROM query q, LATERAL (SELECT v <-> q.v AS d FROM copies ORDER BY d LIMIT 10) b GROUP BY q.id;
RESET enable_indexscan;
CREATE FUNCTION pg_temp.found(target text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	answer float8;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('gpuivf.recall_target', target, true), set_config('gpugraph.recall_target', target, true);
	SELECT count(*) / 3000.0 INTO answer FROM query q JOIN truth t USING (id), LATERAL (SELECT v <-> q.v AS d FROM copies ORDER BY v <-> q.v LIMIT 10) b WHERE b.d <= t.tenth;
	RETURN answer;
END $$;

-- recall of 300 queries, whose neighbours are one or two groups each
CREATE INDEX ON copies USING gpuivf (v);
SELECT target, pg_temp.found(target) BETWEEN target::float8 - 0.07 AND target::float8 + 0.07 AS holds FROM unnest('{0.8,0.9,0.95}'::text[]) target;
DROP INDEX copies_v_idx;
CREATE INDEX ON copies USING gpuivf (v) WITH (storage = pq, pq_m = 5);
SELECT target, pg_temp.found(target) BETWEEN target::float8 - 0.07 AND target::float8 + 0.07 AS holds FROM unnest('{0.8,0.9,0.95}'::text[]) target;
DROP INDEX copies_v_idx;
-- a graph finds at least as much
CREATE INDEX ON copies USING gpugraph (v) WITH (degree = 16);
SELECT target, pg_temp.found(target) >= target::float8 - 0.07 AS holds FROM unnest('{0.8,0.9,0.95}'::text[]) target;
DROP TABLE centre, copies, query, truth;
