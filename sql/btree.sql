-- the btree operator classes, and what the planner does with comparison and equality
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SELECT opcname, opcintype::regtype, opcdefault FROM pg_opclass JOIN pg_am ON pg_am.oid = opcmethod
WHERE amname = 'btree' AND opcname IN ('vector_ops', 'halfvec_ops') ORDER BY opcname;
SELECT amvalidate(pg_opclass.oid) FROM pg_opclass WHERE opcname IN ('vector_ops', 'halfvec_ops');
SELECT oprname, oprleft::regtype, oprcom::regoper::text, oprnegate::regoper::text, oprrest, oprjoin, oprcanhash, oprcanmerge
FROM pg_operator WHERE oprleft IN ('vector'::regtype, 'halfvec'::regtype) ORDER BY oprleft::regtype::text, oprname COLLATE "C";

CREATE TABLE t (id int, v vector(2), h halfvec(2));
INSERT INTO t SELECT i, ARRAY[i % 10, i % 7], ARRAY[i % 7, -(i % 10)] FROM generate_series(1, 1000) i;
INSERT INTO t VALUES (0, NULL, NULL);
CREATE INDEX t_v ON t (v);
CREATE INDEX t_h ON t USING btree (h halfvec_ops DESC);
ANALYZE t;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE v = '[3,4]';
SELECT count(*) FROM t WHERE v = '[3,4]';
SELECT count(*), min(v::text), max(v::text) FROM t WHERE v >= '[8,3]' AND v < '[9,1]';
SELECT count(*) FROM t WHERE h <= '[1,-5]';
SELECT count(*) FROM t WHERE h > '[1]' AND h <> '[6,0]';
EXPLAIN (COSTS OFF) SELECT h FROM t ORDER BY h DESC LIMIT 2;
SELECT DISTINCT h FROM t ORDER BY h DESC LIMIT 4;
SELECT v, count(*) FROM t GROUP BY v ORDER BY v LIMIT 3;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- merge join, unique index, estimates that follow the statistics
SET enable_nestloop = off;
SET enable_hashjoin = off;
SELECT count(*) FROM t a JOIN t b ON a.v = b.v WHERE a.id <= 10;
RESET enable_nestloop;
RESET enable_hashjoin;
CREATE TABLE u (v vector PRIMARY KEY);
INSERT INTO u VALUES ('[1,2]'), ('[1,2,0]');
INSERT INTO u VALUES ('[1.0,2]');
INSERT INTO u VALUES ('[1,2]') ON CONFLICT DO NOTHING;
CREATE FUNCTION estimated_rows(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT estimated_rows($$SELECT * FROM t WHERE v = '[3,4]'$$) BETWEEN 5 AND 30 AS equal,
	estimated_rows($$SELECT * FROM t WHERE v <> '[3,4]'$$) BETWEEN 950 AND 1001 AS not_equal,
	estimated_rows($$SELECT * FROM t WHERE v < '[1]'$$) BETWEEN 50 AND 400 AS less,
	estimated_rows($$SELECT * FROM t WHERE v >= '[9]'$$) BETWEEN 50 AND 400 AS greater;
DROP FUNCTION estimated_rows;
DROP TABLE t, u;
