-- Joins by nearest rows: what is read ahead, with the same rows; vectorgpu_join: rows, arguments and privileges
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker_min_size = 0;
SET max_parallel_workers_per_gather = 0;
SET enable_sort = off;

CREATE TABLE items (id int PRIMARY KEY, k int, v vector(4)) WITH (autovacuum_enabled = off);
INSERT INTO items SELECT i, i % 7, CASE WHEN i % 50 > 0 THEN
	(SELECT array_agg((hashint4(i * 4 + d) & 255)::float4) FROM generate_series(1, 4) d)::vector END FROM generate_series(1, 400) i;
CREATE TABLE queries (id int PRIMARY KEY, k int, v vector(4), n int) WITH (autovacuum_enabled = off);
INSERT INTO queries SELECT i, i % 7, CASE WHEN i % 25 > 0 THEN
	(SELECT array_agg((hashint4(-i * 4 - d) & 255)::float4) FROM generate_series(1, 4) d)::vector END, i FROM generate_series(1, 100) i;
CREATE INDEX items_v ON items USING gpuflat (v vector_l2_ops, k);
ANALYZE items, queries;

-- plans
SET vectorgpu.worker = on;
SELECT * FROM pg_temp.plan('SELECT q.id, s.* FROM queries q, LATERAL (SELECT t.id, t.v <-> q.v AS d FROM items t ORDER BY t.v <-> q.v LIMIT 3) s');
SELECT * FROM pg_temp.plan('SELECT q.id, s.* FROM queries q LEFT JOIN LATERAL (SELECT t.id, t.v <-> q.v AS d FROM items t WHERE t.k IN (1, 2) ORDER BY t.v <-> q.v LIMIT 3) s ON s.d < 100');
SELECT * FROM pg_temp.plan('SELECT a.id, b.id FROM queries a JOIN items b ON a.v <-> b.v < 3');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id, r.id FROM queries q, LATERAL (SELECT * FROM items t ORDER BY t.v <-> q.v LIMIT 2) s, LATERAL (SELECT * FROM items t ORDER BY t.v <-> s.v LIMIT 2) r');
-- no plans: few rows, volatile values and conditions, locks, changes, other values than of the outer side
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM (SELECT * FROM queries LIMIT 2) q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM (SELECT *, random() FROM queries OFFSET 0) q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s WHERE random() >= 0');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s FOR UPDATE OF q');
SELECT * FROM pg_temp.plan('UPDATE queries r SET n = s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s WHERE r.id = q.id');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id, q.k FROM items t ORDER BY t.v <-> ''[1,2,3,4]'' LIMIT 3) s');
SELECT n, query FROM unnest(ARRAY[
	'SELECT q.id, s.id FROM (SELECT * FROM queries FOR UPDATE SKIP LOCKED) q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s',
	'WITH w AS MATERIALIZED (SELECT * FROM queries FOR SHARE) SELECT q.id, s.id FROM w q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s',
	'SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s WHERE (SELECT q.k + random()) >= 0',
	'SELECT s.id, q.r FROM (SELECT v, (SELECT x.id FROM queries x WHERE x.k = y.k FOR UPDATE LIMIT 1) AS r FROM queries y OFFSET 0) q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s',
	'SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) s WHERE q.k = (SELECT x.k FROM queries x WHERE x.id = q.id FOR UPDATE)']) WITH ORDINALITY u (query, n)
	WHERE EXISTS (SELECT FROM pg_temp.plan(query) p WHERE p ~ 'Read Ahead');
-- sub-selects in the select list as joins; not where a plan may compute them for fewer rows
SELECT * FROM pg_temp.plan('SELECT q.id, (SELECT t.id FROM items t WHERE t.id <> q.id ORDER BY t.v <-> q.v LIMIT 1) AS near, (SELECT 1) FROM queries q ORDER BY q.n');
SELECT * FROM pg_temp.plan('INSERT INTO queries SELECT q.id, (SELECT t.id FROM items t ORDER BY q.v <-> t.v LIMIT 1), v FROM queries q');
SELECT n, query FROM unnest(ARRAY[
	'SELECT q.id, (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q ORDER BY q.n LIMIT 3',
	'SELECT q.k, (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q GROUP BY q.k, q.v',
	'SELECT DISTINCT (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q',
	'SELECT CASE WHEN q.k = 1 THEN (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) END FROM queries q',
	'SELECT (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1 OFFSET 1) FROM queries q',
	'SELECT (SELECT t.id + random()::int FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q',
	'SELECT (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q, queries r',
	'DECLARE c CURSOR FOR SELECT (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q']) WITH ORDINALITY u (query, n)
	WHERE EXISTS (SELECT FROM pg_temp.plan(query) p WHERE p ~ 'Left Join|Read Ahead');
BEGIN;
DECLARE c CURSOR FOR SELECT q.id, (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1) FROM queries q;
FETCH 2 FROM c;
UPDATE queries SET n = -1 WHERE CURRENT OF c RETURNING id;
ROLLBACK;
-- vectors of an array
SELECT n, EXISTS (SELECT FROM pg_temp.plan('SELECT s.id FROM unnest(ARRAY[' || rtrim(repeat($$'[1,2,3,4]',$$, n), ',') || ']::vector[]) q (v), LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s') p WHERE p ~ 'Read Ahead') AS ahead
	FROM generate_series(2, 3) n;
-- parallel plans: each process reads its outer rows ahead
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM pg_temp.plan('SELECT count(s.id) FROM queries q, LATERAL (SELECT t.id FROM items t WHERE t.k = q.k ORDER BY t.v <-> q.v LIMIT 3) s');
SELECT * FROM pg_temp.plan('SELECT q.id, s.id FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT q.k + 1) s ON s.id > 3');
-- not with functions that other processes may not call, with temporary tables, values from further out, sub-selects
CREATE TEMP TABLE own_items AS SELECT * FROM items;
CREATE INDEX ON own_items USING gpuflat (v vector_l2_ops);
SELECT n, query FROM unnest(ARRAY[
	'SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id, pg_backend_pid() FROM items t ORDER BY t.v <-> q.v LIMIT 3) s',
	'SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM own_items t ORDER BY t.v <-> q.v LIMIT 3) s',
	'SELECT o.id, (SELECT sum(s.id) FROM queries q, LATERAL (SELECT t.id FROM items t WHERE t.k = o.k ORDER BY t.v <-> q.v LIMIT 3) s) FROM items o',
	'SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t WHERE t.k = (SELECT max(k) FROM items) ORDER BY t.v <-> q.v LIMIT 3) s',
	'INSERT INTO queries SELECT s.id + 1000 FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s']) WITH ORDINALITY u (query, n)
	WHERE (SELECT string_agg(p, ' ') ~ 'Read Ahead. +->  Parallel Seq Scan' FROM pg_temp.plan(query) p);
DROP TABLE own_items;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SET max_parallel_workers_per_gather = 0;
SET vectorgpu.worker = off;
SELECT count(*) FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s') p WHERE p ~ 'Read Ahead';
RESET vectorgpu.worker;
SET vectorgpu.read_ahead = off;
SELECT count(*) FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 3) s') p WHERE p ~ 'Read Ahead';
RESET vectorgpu.read_ahead;

-- the same rows
CREATE FUNCTION join_rows(query text, ahead bool) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	rows text[];
BEGIN
	PERFORM set_config('vectorgpu.read_ahead', ahead::text, true);
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', query) INTO rows;
	RETURN rows;
END $$;
SELECT n, cardinality(a) AS rows, a = b AS same FROM (SELECT n, join_rows(query, false) AS a, join_rows(query, true) AS b FROM unnest(ARRAY[
	'SELECT q.id, s.* FROM queries q, LATERAL (SELECT t.id, t.v <-> q.v AS d FROM items t ORDER BY t.v <-> q.v LIMIT 3) s',
	'SELECT q.id, s.* FROM queries q LEFT JOIN LATERAL (SELECT t.id, t.v <-> q.v AS d FROM items t WHERE t.k IN (1, 2) ORDER BY t.v <-> q.v LIMIT 3) s ON s.d < 100',
	'SELECT q.id, s.* FROM queries q, LATERAL (SELECT t.id, t.v <-> q.v AS d FROM items t WHERE t.k = q.k ORDER BY t.v <-> q.v LIMIT 3) s',
	'SELECT a.id, b.id FROM queries a JOIN items b ON a.v <-> b.v < 60',
	'SELECT q.id, s.id FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t WHERE q.k = 1 ORDER BY t.v <-> (CASE q.k WHEN 1 THEN q.v::text ELSE ''none'' END)::vector LIMIT 3) s ON true',
	'SELECT q.id, s.id, r.id FROM queries q, LATERAL (SELECT * FROM items t ORDER BY t.v <-> q.v LIMIT 2) s, LATERAL (SELECT * FROM items t ORDER BY t.v <-> s.v LIMIT 2) r',
	'SELECT q.id, (SELECT t.id FROM items t WHERE t.k = 9 ORDER BY t.v <-> q.v LIMIT 1), (SELECT t.id FROM items t WHERE t.id <> q.id ORDER BY t.v <-> q.v LIMIT 1) FROM queries q']) WITH ORDINALITY u (query, n)) s;

-- a volatile LIMIT, or a volatile sub-select by the outer row, is evaluated once for each outer row
CREATE SEQUENCE join_limits;
SET vectorgpu.worker = on;
SELECT count(*) AS ahead FROM pg_temp.plan('SELECT q.id, s.id FROM queries q, LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT nextval(''join_limits'')) s') p WHERE p ~ 'Read Ahead';
SELECT count(DISTINCT q.id) = nextval('join_limits') - 1 AS once FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1 + 0 * nextval('join_limits')) s ON true;
SELECT count(DISTINCT q.id) * 2 = nextval('join_limits') - 2 AS once FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT 1 OFFSET 0 * nextval('join_limits')) s ON true;
SELECT count(DISTINCT q.id) * 3 = nextval('join_limits') - 3 AS once FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t ORDER BY t.v <-> q.v LIMIT (SELECT 1 + 0 * q.k * nextval('join_limits'))) s ON true;
SELECT count(DISTINCT q.id) * 4 = nextval('join_limits') - 4 AS once FROM queries q LEFT JOIN LATERAL (SELECT t.id FROM items t WHERE t.k = (SELECT q.k + 0 * nextval('join_limits'))::int ORDER BY t.v <-> q.v LIMIT 1) s ON true;
RESET vectorgpu.worker;
DROP SEQUENCE join_limits;

-- vectorgpu_join
CREATE MATERIALIZED VIEW not_yet AS SELECT * FROM queries WITH NO DATA;
SELECT * FROM vectorgpu_join('items_v', 'not_yet', 'v', 1);
DROP MATERIALIZED VIEW not_yet;
CREATE FUNCTION join_compare(index regclass, k int, OUT rows int8, OUT wrong int8, OUT in_order bool) LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE got AS SELECT row_number() OVER () AS n, j.* FROM vectorgpu_join(index, 'queries', 'v', k) j;
	CREATE TEMP TABLE truth AS SELECT q.ctid AS query, s.* FROM queries q, LATERAL (
		SELECT t.ctid AS tid, row_number() OVER (ORDER BY t.v <-> q.v, t.ctid)::int AS rank, t.v <-> q.v AS distance FROM items t WHERE t.v IS NOT NULL) s
		WHERE q.v IS NOT NULL AND s.rank <= join_compare.k;
	SELECT count(*) INTO rows FROM got;
	SELECT count(*) INTO wrong FROM got g FULL JOIN truth t ON (g.query, g.tid, g.rank, g.distance) = (t.query, t.tid, t.rank, t.distance) WHERE g.n IS NULL OR t.rank IS NULL;
	SELECT bool_and(n = r) INTO in_order FROM (SELECT n, row_number() OVER (ORDER BY query, rank) AS r FROM got) x;
	DROP TABLE got, truth;
END
$$;
SELECT * FROM join_compare('items_v', 5);
SELECT * FROM join_compare('items_v', 1000);
-- rows of the delta and dead rows, of this transaction too
BEGIN;
DELETE FROM items WHERE id % 3 = 0;
INSERT INTO items SELECT 1000 + id, k, v FROM queries WHERE id % 2 = 0;
SELECT * FROM join_compare('items_v', 5);
SET LOCAL vectorgpu.worker = off;
SELECT * FROM join_compare('items_v', 5);
ROLLBACK;
CREATE INDEX items_graph ON items USING gpugraph (v vector_l2_ops);
SELECT * FROM join_compare('items_graph', 3);
DROP INDEX items_graph;
-- in the select list rows come as they are found
SELECT (vectorgpu_join('items_v', 'queries', 'v', 2)).* LIMIT 3;
BEGIN;
DECLARE c CURSOR FOR SELECT vectorgpu_join('items_v', 'queries', 'v', 2);
FETCH 1 FROM c;
INSERT INTO items SELECT 2000 + id, k, v FROM queries;
MOVE 190 IN c;
FETCH 2 FROM c;
ROLLBACK;
CREATE TABLE no_queries (v vector(4));
SELECT count(*) FROM vectorgpu_join('items_v', 'no_queries', 'v', 2);
CREATE MATERIALIZED VIEW some_queries AS SELECT * FROM queries WHERE id < 4;
SELECT query, rank FROM vectorgpu_join('items_v', 'some_queries', 'v', 1);

-- bad input
SELECT vectorgpu_join('items_v', 'queries', 'v', 0);
SELECT vectorgpu_join('items_v', 'queries', 'v', 10001);
SELECT count(*) FROM vectorgpu_join(NULL, 'queries', 'v', 1);
SELECT vectorgpu_join('items', 'queries', 'v', 1);
SELECT vectorgpu_join('items_pkey', 'queries', 'v', 1);
SELECT vectorgpu_join('items_v', 0, 'v', 1);
SELECT vectorgpu_join('items_v', 'items_v', 'v', 1);
SELECT vectorgpu_join('items_v', 'queries', 'n', 1);
SELECT vectorgpu_join('items_v', 'queries', 'w', 1);
CREATE VIEW query_view AS SELECT * FROM queries;
SELECT vectorgpu_join('items_v', 'query_view', 'v', 1);
CREATE TABLE short_queries AS SELECT '[1,2,3]'::vector AS v, '[1,2,3,4]'::halfvec AS h;
SELECT vectorgpu_join('items_v', 'short_queries', 'v', 1);
SELECT vectorgpu_join('items_v', 'short_queries', 'h', 1);
CREATE INDEX items_part ON items USING gpuflat (v vector_l2_ops) WHERE k = 1;
SELECT vectorgpu_join('items_part', 'queries', 'v', 1);
DROP INDEX items_part;
CREATE TABLE parts (v vector(4)) PARTITION BY RANGE (v);
CREATE INDEX parts_v ON parts USING gpuflat (v vector_l2_ops);
SELECT vectorgpu_join('parts_v', 'queries', 'v', 1);
SELECT vectorgpu_join('items_v', 'parts', 'v', 1);
CREATE TABLE sets (a int4[]);
CREATE INDEX sets_a ON sets USING gpumatch (a);
SELECT vectorgpu_join('sets_a', 'queries', 'v', 1);
CREATE TABLE sparse (s sparsevec(4));
CREATE INDEX sparse_s ON sparse USING gpuflat (s sparsevec_l2_ops);
SELECT vectorgpu_join('sparse_s', 'sparse', 's', 1);

-- k rows where the index has them, though most rows are dead and the search misses many
CREATE TABLE dying (id int, v vector(4)) WITH (autovacuum_enabled = off);
INSERT INTO dying SELECT i, (SELECT array_agg((hashint4(i * 4 + d) & 255)::float4) FROM generate_series(1, 4) d)::vector FROM generate_series(1, 4000) i;
CREATE TABLE asking AS SELECT id, v FROM dying WHERE id <= 20;
CREATE INDEX dying_v ON dying USING gpuivf (v vector_l2_ops);
DELETE FROM dying WHERE id % 100 < 97;
SET gpuivf.recall_target = 0.5;
SELECT k, worker, count(*), min(n), max(n) FROM (VALUES (100), (200)) a (k), (VALUES ('off'), ('on')) w (worker),
	LATERAL (SELECT set_config('vectorgpu.worker', worker, false) OFFSET 0) c,
	LATERAL (SELECT query, count(*) AS n FROM vectorgpu_join('dying_v', 'asking', 'v', k) GROUP BY query) s GROUP BY k, worker ORDER BY k, worker;
RESET gpuivf.recall_target;
RESET vectorgpu.worker;
DROP TABLE dying, asking;

-- privileges: EXECUTE, SELECT on both tables, no row security
CREATE ROLE vg_join_reader;
GRANT SELECT ON items TO vg_join_reader;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
GRANT EXECUTE ON FUNCTION vectorgpu_join TO vg_join_reader;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
GRANT SELECT ON queries TO vg_join_reader;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
ALTER TABLE queries ENABLE ROW LEVEL SECURITY;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
ALTER TABLE queries DISABLE ROW LEVEL SECURITY;
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
ALTER TABLE items DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON items FROM vg_join_reader;
SET ROLE vg_join_reader;
SELECT count(*) FROM vectorgpu_join('items_v', 'queries', 'v', 1);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION vectorgpu_join FROM vg_join_reader;
SET client_min_messages = warning;
DROP TABLE items, queries, no_queries, short_queries, parts, sets, sparse CASCADE;
DROP ROLE vg_join_reader;
