-- Vectorgpu Filtered Scan: conditions on key columns that core hands to no index in order: IN, OR, NOT, booleans; where it is planned, and what it answers
-- The worker is off, but the test is run with each of its modes: on 16 and 17 the quick suite has no other way, and plans depend on the version.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/asked.sql'
\i :file

SET max_parallel_workers_per_gather = 0;
SET vectorgpu.worker = off;
SET enable_seqscan = off;
SET enable_sort = off;
CREATE TYPE filtered_state AS ENUM ('draft', 'open', 'closed');
CREATE TABLE filtered (id int PRIMARY KEY, tenant int, active bool, price numeric(8, 2), label text COLLATE "C", day date, state filtered_state, tags int[], note text, v vector(128))
	WITH (autovacuum_enabled = off);
INSERT INTO filtered SELECT i, CASE WHEN i % 31 <> 0 THEN i % 30 END, CASE WHEN i % 41 <> 0 THEN i % 50 = 0 END, i % 97 / 4.0, 'label ' || i % 40, date '2026-01-01' + i % 60,
	(enum_range(NULL::filtered_state))[1 + i % 3], ARRAY[i % 9, i % 70], 'note ' || i % 7, (SELECT array_agg((hashint8extended(i * 128 + d, 1) & 1023)::real - 511.5) FROM generate_series(1, 128) d)::vector
	FROM generate_series(1, 4000) i;
CREATE INDEX filtered_v ON filtered USING gpuflat (v vector_l2_ops, tenant, active, price, label, day, state, tags, (lower(note)));
ANALYZE filtered;
CREATE FUNCTION asked(condition text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT asked_of('filtered', condition) $$;

-- lists
SELECT asked('tenant IN (3, 7)');
SELECT asked('tenant = ANY (''{3,NULL,7}'')');
SELECT asked('tenant IN (3, NULL) AND price < 10');
SELECT asked('tenant NOT IN (3, NULL) AND state = ''open''');
SELECT asked('tenant NOT IN (3, 4) AND label = ''label 7''');
SELECT asked('tenant <> ALL (''{}'') AND label = ''label 7''');
SELECT asked('tenant = ANY (NULL::int[]) OR label = ''label 7''');
SELECT asked('tenant = ANY (ARRAY[3::bigint, 99999999999]) AND day IN (''2026-01-04'', timestamp ''2026-01-10'')');
SELECT asked('price IN (1.25, 2.50) AND state IN (''open'', ''draft'')');
SELECT asked('lower(note) IN (''note 3'', ''a note of more than seven bytes'') AND tenant > ANY (''{26,28}'')');
SELECT asked('69 = ANY (tags)');
-- OR, NOT, and both
SELECT asked('tenant = 3 OR label = ''label 7''');
SELECT asked('(tenant = 3 AND price > 20) OR (label LIKE ''label 1%'' AND day = ''2026-01-05'') OR tenant IS NULL');
SELECT asked('NOT (tenant <> 3 AND label <> ''label 7'')');
SELECT asked('tenant IS NOT DISTINCT FROM 3');
SELECT asked('tenant IS DISTINCT FROM 3 AND tenant IS DISTINCT FROM NULL AND (label = ''label 7'' OR tenant IS NULL)');
SELECT asked('(tenant = 3 OR tags @> ''{69}'') IS TRUE');
SELECT asked('(tenant <> 3 OR tenant < 5) IS FALSE');
-- booleans
SELECT asked('active IS NOT FALSE');
SELECT asked('active IS UNKNOWN');
SELECT asked('NOT active AND tenant IN (3, 7)');
SELECT asked('active OR tenant = 7');
-- core hands these to the index from 16 on
SELECT asked('active');
SELECT asked('active IS TRUE AND tenant > 10');
SELECT asked('NOT active AND label = ''label 7''');
-- a part that the index cannot decide
SELECT asked('(tenant = 3 AND id % 2 = 0) OR label = ''label 7''');
SELECT asked('tenant IN (3, 7) AND id % 2 = 0 AND v IS NOT NULL');
SELECT asked('tenant IN (3, 7) AND v <-> q() < 3500');
-- so with sub-selects there, and in the filter
SELECT rows_of(query, true) = rows_of(query, false) AS same, cardinality(rows_of(query, true)) AS rows, (SELECT count(*) FROM pg_temp.plan(query) p WHERE p ~ 'Vectorgpu Filtered Scan') AS plans
	FROM (SELECT 'SELECT f.id, v <-> q() AS d FROM filtered f WHERE ((tenant = 3 AND id % 100 IN (SELECT (id % 50)::int FROM filtered WHERE id < 500)) OR label = ''label 7'')
	AND (id > 3900 OR EXISTS (SELECT FROM filtered g WHERE g.id = f.id - 1 AND g.price > 3)) ORDER BY v <-> q()' AS query) s;
-- not by this plan
SELECT asked('tenant = 3 AND price < 20');
SELECT asked('tenant + 0 IN (3, 7)');
SELECT asked('tenant IN (3, 7) OR id = 5');
SELECT asked('tenant IN (3, 7) OR random() < 0');
SELECT asked('NOT tags @> ''{69}''');
SET vectorgpu.enable_filtered_scan = off;
SELECT asked('tenant IN (3, 7)');
RESET vectorgpu.enable_filtered_scan;

-- EXPLAIN (ANALYZE): the LIMIT reaches the scan; rows that the codes leave open are checked
SELECT * FROM pg_temp.plan('SELECT id, v <-> q() FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q() LIMIT 4', 'ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF') p
	WHERE p !~ 'Vectorgpu Scan using|Answered|Asked|Worker|Fallback|Engine';
SELECT * FROM pg_temp.plan('SELECT id FROM filtered WHERE (tags @> ''{3}'' OR tenant = 3) AND id > 10 ORDER BY v <-> q() LIMIT 4', 'ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF') p
	WHERE p !~ 'Vectorgpu Scan using|Answered|Asked|Worker|Fallback|Engine';
CREATE FUNCTION explained(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	result json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO result;
	RETURN result;
END $$;
SELECT plan #> '{0,Plan,Plans,0,Custom Plan Provider}' AS provider, plan #> '{0,Plan,Plans,0,Index Name}' AS index, plan #> '{0,Plan,Plans,0,Index Cond}' AS condition,
	pg_temp.first_scan(plan) -> 'Rows Asked' AS rows_asked, pg_temp.first_scan(plan) -> 'Passing Rows' AS passing
	FROM explained('SELECT id FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q() LIMIT 4') plan;

-- parameters of a generic plan: the sides of OR behind one that decides are not computed
SET plan_cache_mode = force_generic_plan;
PREPARE ask(int, int[], int) AS SELECT array_agg(id) FROM (SELECT id FROM filtered WHERE ($1 IS NULL OR tenant = $1) AND (tenant = ANY ($2) OR price = 10 / $3) AND label > 'label 3'
	ORDER BY v <-> q() LIMIT 5) s;
SELECT * FROM pg_temp.plan('EXECUTE ask(3, ''{3,4}'', 8)');
EXECUTE ask(3, '{3,4}', 8);
EXECUTE ask(NULL, '{3,4}', 8);
EXECUTE ask(NULL, '{NULL}', 8);
EXECUTE ask(4, NULL, 8);
EXECUTE ask(4, '{4}', 0);
PREPARE guarded(int) AS SELECT count(*) FROM (SELECT id FROM filtered WHERE tenant IN (3, 4) AND ($1 = 0 OR price < 10 / $1)
	ORDER BY v <-> q()) s;
EXECUTE guarded(0);
EXECUTE guarded(1);
RESET plan_cache_mode;
DEALLOCATE ALL;

-- more columns to sort by, subqueries that are computed once, LATERAL with a condition of the outer row
SELECT * FROM pg_temp.plan('SELECT id FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q(), id LIMIT 5');
SELECT * FROM pg_temp.plan('SELECT id FROM filtered WHERE tenant = ANY (ARRAY(SELECT 3 UNION ALL SELECT 7)) ORDER BY v <-> q() LIMIT 5') p WHERE p ~ 'Custom|Index:|Order';
SELECT * FROM pg_temp.plan('SELECT o.id, s.id FROM filtered o, LATERAL (SELECT id FROM filtered i WHERE i.tenant IN (o.tenant, o.tenant + 1) ORDER BY i.v <-> o.v LIMIT 2) s WHERE o.id < 4');
SELECT o.id, array_agg(s.id ORDER BY s.id) FROM filtered o, LATERAL (SELECT id FROM filtered i WHERE i.tenant IN (o.tenant, o.tenant + 1) ORDER BY i.v <-> o.v LIMIT 2) s WHERE o.id < 4 GROUP BY 1 ORDER BY 1;

-- cursors, changes of the rows found, locks
BEGIN;
DECLARE forth SCROLL CURSOR FOR SELECT id FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q();
FETCH 3 FROM forth;
FETCH BACKWARD 2 FROM forth;
MOVE ALL FROM forth;
FETCH LAST FROM forth;
DELETE FROM filtered WHERE id IN (SELECT id FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q() LIMIT 3);
UPDATE filtered SET tenant = 100 WHERE id = (SELECT id FROM filtered WHERE tenant IN (3, 7) ORDER BY v <-> q() LIMIT 1 FOR UPDATE);
SELECT asked('tenant IN (3, 7, 100)');
ROLLBACK;

-- partial indexes: a clause that the predicate implies is not checked, an index whose predicate is not implied not taken
CREATE INDEX filtered_part ON filtered USING gpuflat (v vector_l2_ops, tenant, label) WHERE price < 5;
DROP INDEX filtered_v;
SELECT asked('tenant IN (3, 7) AND price < 5');
SELECT asked('tenant IN (3, 7) AND price < 4');
SELECT asked('tenant IN (3, 7) AND price < 6');
DROP INDEX filtered_part;
CREATE INDEX filtered_v ON filtered USING gpuflat (v vector_l2_ops, tenant, active, price, label, tags);

-- row security, and views: a function that may leak sees no row that the policy hides; conditions that leak stay outside the index
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE ROLE regress_filtered;
GRANT SELECT ON filtered TO regress_filtered;
CREATE POLICY tenants ON filtered USING (tenant IN (3, 7) OR label = 'label 39');
ALTER TABLE filtered ENABLE ROW LEVEL SECURITY;
SET ROLE regress_filtered;
SELECT * FROM pg_temp.plan('SELECT id FROM filtered WHERE leak(id) AND price IN (1.25, 2.50) AND active IS NOT TRUE ORDER BY v <-> q() LIMIT 2');
SELECT count(*) > 0 AS some, bool_and(tenant IN (3, 7) OR label = 'label 39') AS allowed FROM (SELECT * FROM filtered WHERE price IN (1.25, 2.50) ORDER BY v <-> q()) s;
SELECT id FROM filtered WHERE leak(id) AND tenant NOT IN (3) ORDER BY v <-> q() LIMIT 2;
RESET ROLE;
ALTER TABLE filtered DISABLE ROW LEVEL SECURITY;
DROP POLICY tenants ON filtered;
CREATE VIEW few AS SELECT id AS key, label AS name, v AS place FROM filtered WHERE tenant IN (3, 7);
SELECT * FROM pg_temp.plan('SELECT key FROM few WHERE name IN (''label 3'', ''label 7'') ORDER BY place <-> q() LIMIT 2');
DROP VIEW few;

-- partitions and inheritance
CREATE TABLE parts (id int, tenant int, active bool, v vector(3)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE parts_2 (active bool, v vector(3), tenant int, id int);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (1000) TO (3000);
INSERT INTO parts SELECT i, i % 40, i % 3 = 0, ARRAY[sin(i), cos(i), i % 100]::real[]::vector FROM generate_series(1, 2500) i;
CREATE INDEX ON parts USING gpuflat (v vector_l2_ops, tenant, active);
ANALYZE parts;
SELECT * FROM pg_temp.plan('SELECT id FROM parts WHERE tenant IN (3, 7) ORDER BY v <-> ''[0,1,50]'' LIMIT 6');
SELECT id FROM parts WHERE tenant IN (3, 7) ORDER BY v <-> '[0,1,50]' LIMIT 6;
SELECT * FROM pg_temp.plan('SELECT id FROM parts WHERE tenant IN (3, 7) AND id > 1500 ORDER BY v <-> ''[0,1,50]'' LIMIT 6');
DROP TABLE parts;
DROP TABLE filtered;
DROP TYPE filtered_state;
DROP ROLE regress_filtered;
DROP FUNCTION rows_of(text, bool), asked_of(regclass, text), asked(text), explained(text), leak(int), q();
