-- Recall targets of gpuivf for more rows than ten, and under conditions: rows in groups smaller than the LIMIT, whose other neighbours lie in many more lists.
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
SET client_min_messages = warning;
SET vectorgpu.worker = off;
SELECT setseed(0.3);
CREATE FUNCTION normal() RETURNS real LANGUAGE sql VOLATILE AS 'SELECT (sqrt(-2 * ln(1 - random())) * cos(6.2831853 * random()))::real';
CREATE TABLE centres AS SELECT c, ARRAY(SELECT 2 * normal() FROM generate_series(1, 16) WHERE c = c) AS m FROM generate_series(0, 199) c;
CREATE TABLE groups AS SELECT n.i AS id, hashint4(n.i) & 1023 AS part, ARRAY(SELECT (x + normal())::real FROM unnest(m) WITH ORDINALITY u(x, o) WHERE n.i = n.i ORDER BY o)::vector(16) AS v
	FROM generate_series(1, 12000) n(i) JOIN centres ON c = n.i % 200;
CREATE TABLE queries AS SELECT c AS id, ARRAY(SELECT (x + normal())::real FROM unnest(m) WITH ORDINALITY u(x, o) WHERE c = c ORDER BY o)::vector(16) AS v FROM centres WHERE c % 3 = 0;
-- distances of the rows that meet a condition, for each query
CREATE TABLE nearest (condition text, id int, d float[]);
-- the share of the k nearest of them that is found
CREATE FUNCTION found(condition text, k int) RETURNS float LANGUAGE plpgsql AS $$
DECLARE
	query record;
	n int;
	sum float := 0;
BEGIN
	FOR query IN SELECT v, d FROM queries JOIN nearest n USING (id) WHERE n.condition = found.condition ORDER BY id LOOP
		EXECUTE format('SELECT count(*) FROM (SELECT v <-> $1 AS d FROM groups WHERE %s ORDER BY v <-> $1 LIMIT %s) s WHERE d <= $2', condition, k) INTO n USING query.v, query.d[k];
		sum := sum + n::float / k;
	END LOOP;
	RETURN sum / (SELECT count(*) FROM queries);
END $$;
-- reached, with a margin of the queries' standard error, and not by a look at all rows
CREATE FUNCTION reached(targets float[], condition text, k int) RETURNS TABLE (target float, reached bool, exceeded bool) LANGUAGE plpgsql AS $$
DECLARE
	share float;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOREACH target IN ARRAY targets LOOP
		PERFORM set_config('gpuivf.recall_target', target::text, true);
		share := found(condition, k);
		reached := share >= target - 0.04;
		exceeded := share > target + (1 - target) * 0.9;
		RETURN NEXT;
	END LOOP;
END $$;
INSERT INTO nearest SELECT 'true', q.id, (SELECT array_agg(d) FROM (SELECT g.v <-> q.v AS d FROM groups g ORDER BY 1 LIMIT 1000) s) FROM queries q;
INSERT INTO nearest SELECT 'part < ' || p, q.id, (SELECT array_agg(d) FROM (SELECT g.v <-> q.v AS d FROM groups g WHERE part < p ORDER BY 1 LIMIT 10) s) FROM unnest('{102, 10}'::int[]) p, queries q;
CREATE INDEX groups_v ON groups USING gpuivf (v vector_l2_ops);
SELECT k, r.* FROM unnest('{10, 100, 300, 1000}'::int[]) k, reached('{0.8, 0.95}', 'true', k) r;
SELECT part, target, reached FROM unnest('{102, 10}'::int[]) part, reached('{0.8, 0.95}', 'part < ' || part, 10) r;
DROP INDEX groups_v;
CREATE INDEX groups_v ON groups USING gpuivf (v vector_l2_ops) WITH (storage = pq);
SELECT k, target, reached FROM unnest('{300, 1000}'::int[]) k, reached('{0.95}', 'true', k) r;
SELECT target, reached FROM reached('{0.95}', 'part < 10', 10);
-- after deletes: the hundred nearest lie in a range that had more rows when recall was measured
DROP INDEX groups_v;
CREATE INDEX groups_v ON groups USING gpuivf (v vector_l2_ops);
DELETE FROM groups WHERE hashint4(id + 1) & 1023 < 400;
INSERT INTO nearest SELECT 'true OR id > 0', q.id, (SELECT array_agg(d) FROM (SELECT g.v <-> q.v AS d FROM groups g ORDER BY 1 LIMIT 100) s) FROM queries q;
VACUUM groups;
SELECT * FROM reached('{0.8, 0.95}', 'true OR id > 0', 100);
SELECT vectorgpu_merge('groups_v') IS NOT NULL AS merged;
SELECT * FROM reached('{0.8, 0.95}', 'true OR id > 0', 100);
DROP TABLE groups, queries, centres, nearest;
DROP FUNCTION reached, found, normal;
