-- The first rows of each partition of a join's row numbers by distance, as searches of an index: which, and with the same rows
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE items (id int PRIMARY KEY, k int, v vector(4)) WITH (autovacuum_enabled = off);
INSERT INTO items SELECT i, i % 7, CASE WHEN i % 50 > 0 THEN
	(SELECT array_agg((hashint4(i * 4 + d) & 255)::float4) FROM generate_series(1, 4) d)::vector END FROM generate_series(1, 1000) i;
CREATE TABLE questions (id int PRIMARY KEY, again int, k int NOT NULL, v vector(4)) WITH (autovacuum_enabled = off);
INSERT INTO questions SELECT i, i, i % 7, CASE WHEN i % 25 > 0 THEN
	(SELECT array_agg((hashint4(-i * 4 - d) & 255)::float4) FROM generate_series(1, 4) d)::vector END FROM generate_series(1, 100) i;
CREATE UNIQUE INDEX ON questions (again);
CREATE INDEX items_v ON items USING gpuflat (v vector_l2_ops, k);
ANALYZE items, questions;
CREATE TABLE parts (id int, part int, v vector(4), PRIMARY KEY (part, id)) PARTITION BY LIST (part);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT id, id % 2 + 1, v FROM items;
CREATE INDEX ON parts USING gpuflat (v vector_l2_ops);
ANALYZE parts;
CREATE VIEW ranked AS SELECT q.id, t.id AS item, t.v <-> q.v AS distance,
		row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
	FROM questions q, items t;
CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM ranked;

-- with the setting off the rows are the same
CREATE FUNCTION compare(query text, OUT rows int, OUT same bool, OUT searched bool) LANGUAGE plpgsql AS $$
DECLARE
	sorted text[];
	found text[];
BEGIN
	SET LOCAL vectorgpu.read_ahead = off;
	EXECUTE format('SELECT array_agg(x::text ORDER BY x::text) FROM (%s) x', query) INTO sorted;
	SET LOCAL vectorgpu.read_ahead = on;
	EXECUTE format('SELECT array_agg(x::text ORDER BY x::text) FROM (%s) x', query) INTO found;
	rows := coalesce(cardinality(found), 0);
	same := sorted IS NOT DISTINCT FROM found;
	searched := EXISTS (SELECT FROM pg_temp.plan(query) p WHERE p ~ 'Order By: \((\w+\.)?v <-> ');
END $$;
SELECT n, c.* FROM unnest(ARRAY[
	'SELECT * FROM ranked WHERE n <= 3',
	'SELECT * FROM ranked r WHERE 4 > n AND r.id > 10',
	'SELECT * FROM ranked WHERE n = 2 AND distance > 10',
	'SELECT * FROM ranked WHERE n BETWEEN 2 AND 3::bigint',
	'SELECT * FROM ranked WHERE n < 3::smallint AND n < 10',
	'SELECT * FROM ranked WHERE n <= 0',
	'SELECT * FROM ranked WHERE n < -5',
	'SELECT q.v, r.item FROM questions q JOIN ranked r ON r.id = q.id AND r.n <= 2',
	'WITH r AS (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q, items t) SELECT * FROM r WHERE n <= 2',
	'SELECT * FROM (SELECT t AS item, t.ctid, q.again, row_number() OVER w AS n FROM items t CROSS JOIN questions q
		WINDOW w AS (PARTITION BY q.id ORDER BY q.v <-> t.v, t.id)) s WHERE n <= 2',
	'SELECT * FROM (SELECT t.id, row_number() OVER w AS n FROM questions q JOIN items t ON t.k = q.k AND t.id <> q.id
		WHERE q.again > 50 AND t.id > 5 WINDOW w AS (PARTITION BY q.id, q.k ORDER BY t.v <-> q.v, t.id)) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, t.part, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q, parts t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, q.part, t.id AS item, row_number() OVER (PARTITION BY q.part, q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM parts q, items t WHERE q.id < 50) s WHERE n <= 2',
	'SELECT count(*) FROM (SELECT * FROM ranked WHERE n <= 3) s WHERE id = 7']) WITH ORDINALITY u (query, n), compare(query) c;
-- others: no key of the row, another order, other windows and joins, a bound that is none, a barrier
SELECT n, c.* FROM unnest(ARRAY[
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.again ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.k ORDER BY t.v <-> q.v, t.id, q.id) AS n
		FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.part ORDER BY t.v <-> q.v, t.id, q.id) AS n
		FROM parts q, items t WHERE q.id < 9) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v DESC, t.id) AS n
		FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v NULLS FIRST, t.id) AS n
		FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, rank() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v) AS n FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER w AS n, count(*) OVER w AS c FROM questions q, items t
		WINDOW w AS (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id)) s WHERE n <= 2',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q LEFT JOIN items t ON t.k = q.k) s WHERE n <= 2',
	'SELECT DISTINCT n FROM (SELECT DISTINCT q.id, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q, items t) s WHERE n <= 2',
	'SELECT * FROM ranked WHERE n <= 2 OR id = 3',
	'SELECT * FROM ranked WHERE n >= 1000',
	'SELECT * FROM ranked WHERE n <= (SELECT 2)',
	'SELECT q.id, r.item FROM questions q LEFT JOIN ranked r ON r.id = q.id AND r.n <= 2',
	'SELECT * FROM guarded WHERE n <= 2',
	'WITH r AS (SELECT * FROM ranked) SELECT * FROM r WHERE n <= 2',
	'WITH r AS (SELECT * FROM ranked) SELECT a.id, b.item FROM r a, r b WHERE a.n <= 2 AND b.n = 1 AND a.id = b.id',
	'SELECT * FROM (SELECT q.id, t.id AS item, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v, t.id) AS n
		FROM questions q, items t LIMIT 100000) s WHERE n <= 2']) WITH ORDINALITY u (query, n), compare(query) c;

-- privileges and row security are those of the query as written
CREATE ROLE regress_ranked;
GRANT SELECT ON questions TO regress_ranked;
GRANT SELECT (id, v) ON items TO regress_ranked;
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON items FOR SELECT TO regress_ranked USING (k = 3);
SET ROLE regress_ranked;
SELECT count(*), min(k), max(k) FROM (SELECT t.id % 7 AS k, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v) AS n
		FROM questions q, items t) s WHERE n <= 2;
SELECT count(*) FROM (SELECT t.k, row_number() OVER (PARTITION BY q.id ORDER BY t.v <-> q.v) AS n FROM questions q, items t) s WHERE n <= 2;
SELECT count(*) FROM ranked WHERE n <= 2;
RESET ROLE;
REVOKE SELECT ON questions FROM regress_ranked;
GRANT SELECT ON ranked TO regress_ranked;
SET ROLE regress_ranked;
SELECT count(*), count(DISTINCT item % 7) > 1 AS as_its_owner FROM ranked WHERE n <= 2;
RESET ROLE;
REVOKE ALL ON questions, items, ranked FROM regress_ranked;
DROP POLICY few ON items;
DROP ROLE regress_ranked;

-- prepared, and in a function that is called again after the key has gone
PREPARE ranks AS SELECT count(*), sum(item) FROM ranked WHERE n <= 2;
SET plan_cache_mode = force_generic_plan;
EXECUTE ranks;
ALTER TABLE questions DROP CONSTRAINT questions_pkey;
EXECUTE ranks;
SELECT searched FROM compare('SELECT * FROM ranked WHERE n <= 2');
DROP TABLE items, questions, parts CASCADE;
