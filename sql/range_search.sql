-- Range search: conditions that bound a distance, without ORDER BY and LIMIT: the rows are those of a sequential scan, for every access method; where it is planned
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker_min_size = 0;
SET max_parallel_workers_per_gather = 0;

-- Every fifth row is a copy, every fortieth has no value, every 97th is zero: its cosine distance is NaN.
CREATE TABLE ranges (id int PRIMARY KEY, k int, v vector(6), h halfvec(6), b bit(48), s sparsevec(40)) WITH (autovacuum_enabled = off);
INSERT INTO ranges (id, k, v) SELECT i, i % 20, CASE WHEN i % 40 = 0 THEN NULL WHEN i % 97 = 0 THEN '[0,0,0,0,0,0]'
	ELSE (SELECT array_agg(((hashint4(j * 7 + d) & 1023) - 511) / 256.0::real ORDER BY d) FROM generate_series(1, 6) d)::vector END
	FROM (SELECT i, CASE WHEN i % 5 = 0 THEN i - 1 ELSE i END AS j FROM generate_series(1, 1200) i) r;
UPDATE ranges SET h = v, s = ('{' || (SELECT string_agg(1 + (id * e) % 40 || ':' || (v::real[])[e], ',') FROM (SELECT DISTINCT ON ((id * e) % 40) e FROM generate_series(1, 6) e) t) || '}/40')::sparsevec,
	b = (hashint8(id / 2)::bit(32) || hashint8(id / 2 * 3 + 1)::bit(16))::bit(48);
CREATE TABLE range_classes (am text, col text, class text, op text);
INSERT INTO range_classes SELECT am, col, col_type || '_' || name || '_ops', op
	FROM unnest('{gpuflat,gpuivf,gpugraph}'::text[]) am, (VALUES ('v', 'vector'), ('h', 'halfvec'), ('s', 'sparsevec'), ('b', 'bit')) c (col, col_type),
		(VALUES ('l2', '<->'), ('ip', '<#>'), ('cosine', '<=>'), ('l1', '<+>'), ('hamming', '<~>'), ('jaccard', '<%>')) m (name, op)
	WHERE EXISTS (SELECT FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod WHERE amname = am AND opcname = col_type || '_' || name || '_ops');

-- The rows of a query by this plan, which must have the scan, or by a sequential scan.
CREATE FUNCTION range_ids(query text, by_index bool, search text DEFAULT 'exact') RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	ids text[];
	plan json;
BEGIN
	PERFORM set_config('enable_seqscan', (NOT by_index)::text, true), set_config('enable_bitmapscan', 'off', true),
		set_config('vectorgpu.range_search', CASE WHEN by_index THEN search ELSE 'off' END, true);
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	IF by_index AND plan::text !~ 'Vectorgpu Filtered Scan|One-Time Filter' THEN RETURN ARRAY['not planned']; END IF;
	EXECUTE format('SELECT array_agg(x::text ORDER BY x::text) FROM (%s) x', query) INTO ids;
	RETURN coalesce(ids, '{}');
END $$;
-- Compare for one operator class. missed: share of the rows that the default misses, which has no others. Of the row at zero, in the middle of all, lists miss more.
CREATE FUNCTION range_compare(c range_classes, OUT n_queries int, OUT n_rows int, OUT missed float8, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	query text;
	query_id int;
	condition text;
	expected text[];
	found text[];
	approximate text[];
	n_near int := 0;
	n_found int := 0;
	least float8;
	radius float8;
	distance text;
BEGIN
	EXECUTE format('CREATE INDEX ranges_index ON ranges USING %s (%s %s, k)', c.am, c.col, c.class);
	EXECUTE 'ANALYZE ranges';
	n_queries := 0;
	n_rows := 0;
	FOREACH query_id IN ARRAY '{7,97}'::int[] LOOP
		EXECUTE format('SELECT quote_literal(%s) || ''::'' || pg_typeof(%1$s) FROM ranges WHERE id = $1', c.col) INTO query USING query_id;
		query := replace(query, '::bit', '::bit(48)');
		distance := format('%s %s %s', c.col, c.op, query);
		-- bounds at distances of rows
		FOR least, radius IN EXECUTE format('SELECT lag(d) OVER (ORDER BY d), d FROM (SELECT %s AS d, row_number() OVER (ORDER BY %1$s) AS n FROM ranges) s WHERE n IN (1, 3, 40, 300)', distance) LOOP
			CONTINUE WHEN least IS NULL;
			FOREACH condition IN ARRAY ARRAY['$d < $r', '$r >= $d', '$d BETWEEN $l AND $r', '$d < $r AND k IN (3, 4, NULL) AND $d > $l', '$d < $r::float4 AND id % 3 = 1'] LOOP
				condition := replace(replace(replace(condition, '$d', distance), '$r', quote_literal(radius) || '::float8'), '$l', quote_literal(least) || '::float8');
				condition := 'SELECT id FROM ranges WHERE ' || condition;
				expected := range_ids(condition, false);
				found := range_ids(condition, true);
				approximate := range_ids(condition, true, 'approximate');
				n_queries := n_queries + 1;
				n_rows := n_rows + cardinality(expected);
				IF query_id = 7 THEN
					n_near := n_near + cardinality(expected);
					n_found := n_found + cardinality(approximate);
				END IF;
				IF (found IS DISTINCT FROM expected OR NOT approximate <@ expected OR cardinality(approximate) > cardinality(expected)) AND wrong IS NULL THEN
					wrong := format('%s: %s and %s, not %s', condition, found::text, approximate::text, expected::text);
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	missed := 1 - n_found / n_near::float8;
	DROP INDEX ranges_index;
END $$;
SELECT am, class, n_queries, n_rows > 300 AS rows, missed <= CASE am WHEN 'gpuflat' THEN 0 ELSE 0.12 END AS found, wrong FROM range_classes c, range_compare(c) ORDER BY am, class;
-- bounds without a place among the distances; no query vector
CREATE INDEX ranges_flat ON ranges USING gpuflat (v vector_cosine_ops);
CREATE INDEX ranges_graph ON ranges USING gpugraph (v vector_l2_ops);
ANALYZE ranges;
SELECT condition, cardinality(range_ids(query, false)) AS rows, range_ids(query, true) = range_ids(query, false) AS same
	FROM unnest(ARRAY['v <=> $q < ''NaN''', 'v <=> $q < ''-Infinity''', 'v <=> $q <= ''Infinity''', 'v <-> $q < -1', 'v <-> $q < NULL', 'v <-> $q < ''NaN''',
		'v <-> $q < (SELECT 3::float8)', 'v <-> $q < (SELECT NULL::float8)', 'v <-> (SELECT NULL::vector) < 3', 'v <-> (SELECT v FROM ranges i WHERE i.id = 8) <= 3::float4',
		'v <=> ''[0,0,0,0,0,0]'' < 0.5', 'v <-> $q < 3 AND v <=> $q < 0.4', 'v <-> $q < 3 AND v <-> (SELECT v FROM ranges i WHERE i.id = 8) < 3']) condition,
		replace('SELECT id FROM ranges WHERE ' || condition, '$q', '''[1,2,-1,0.5,1,-2]''') query;
-- joins
SELECT condition, cardinality(range_ids(query, false)) AS rows, range_ids(query, true) = range_ids(query, false) AS same
	FROM unnest(ARRAY['q JOIN ranges r ON r.v <-> q.v < 1.5', 'q LEFT JOIN ranges r ON q.v <-> r.v <= 0.9 AND r.k <> q.k', 'q JOIN ranges r ON 0.3 > q.v <=> r.v AND r.k = q.k',
		'q, LATERAL (SELECT * FROM ranges r WHERE r.v <-> q.v < q.k / 10.0) r', 'q JOIN ranges p ON p.id = q.id + 1 JOIN ranges r ON r.v <-> q.v < p.k / 10.0']) condition,
	LATERAL (SELECT replace('SELECT q.id, r.id AS other FROM (SELECT * FROM ranges WHERE id < 60) ' || condition, '$', '') query) s
UNION ALL
SELECT condition, cardinality(range_ids(query, false)), range_ids(query, true) = range_ids(query, false)
	FROM unnest(ARRAY['EXISTS (SELECT FROM ranges r WHERE r.v <-> q.v < 1 AND r.id <> q.id)', 'NOT EXISTS (SELECT FROM ranges r WHERE r.v <-> q.v < 1 AND r.id <> q.id)',
		'(SELECT count(*) FROM ranges r WHERE r.v <-> q.v < 1.5) > 3']) condition,
	LATERAL (SELECT 'SELECT q.id FROM ranges q WHERE q.id < 60 AND ' || condition AS query) s;
DROP INDEX ranges_flat, ranges_graph;
-- infinite distances, inner products at NaN, zero vectors
CREATE TABLE range_wide (id int PRIMARY KEY, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO range_wide SELECT i, format('[%s,%s]', x[1 + i % 5], x[1 + i / 5 % 5])::vector FROM generate_series(0, 599) i, (SELECT '{3e38,-3e38,0,1,-2}'::text[] x) n;
SELECT count(*) FILTER (WHERE v <-> '[3e38,1]' = 'Infinity') > 50 AS infinite, count(*) FILTER (WHERE v <#> '[3e38,3e38]' = 'NaN') > 20 AS nan, count(*) FILTER (WHERE v <=> '[1,1]' = 'NaN') > 20 AS zero FROM range_wide;
CREATE FUNCTION range_wide_compare(c range_classes, OUT n_queries int, OUT n_rows int, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	expected text[];
	found text[];
BEGIN
	EXECUTE format('CREATE INDEX range_wide_index ON range_wide USING %s (v %s)', c.am, c.class);
	ANALYZE range_wide;
	n_queries := 0;
	n_rows := 0;
	FOR condition IN SELECT format('SELECT id FROM range_wide WHERE v %s %L %s %L', c.op, q, comparison, r)
		FROM unnest('{"[3e38,3e38]","[-3e38,1]","[1,2]","[0,0]"}'::text[]) q, unnest('{<,<=}'::text[]) comparison, unnest('{-Infinity,-1,0.5,3,3e38,Infinity,NaN}'::float8[]) r LOOP
		expected := range_ids(condition, false);
		found := range_ids(condition, true);
		n_queries := n_queries + 1;
		n_rows := n_rows + cardinality(expected);
		IF found IS DISTINCT FROM expected AND wrong IS NULL THEN
			wrong := format('%s: %s, not %s', condition, found::text, expected::text);
		END IF;
	END LOOP;
	DROP INDEX range_wide_index;
END $$;
SELECT am, class, n_queries, n_rows > 2000 AS rows, wrong FROM range_classes c, range_wide_compare(c) WHERE col = 'v' ORDER BY am, class;
-- below NaN are all numbers: any LIMIT is reached
CREATE INDEX range_wide_index ON range_wide USING gpugraph (v vector_cosine_ops);
SELECT cardinality(range_ids(query, false)) AS rows, cardinality(range_ids(query, true)) AS by_index
	FROM (SELECT 'SELECT id FROM range_wide WHERE v <=> ''[1,2]'' < ''NaN'' LIMIT 1000' AS query UNION ALL SELECT 'SELECT id FROM range_wide WHERE v <=> ''[1,2]'' <= ''NaN'' LIMIT 1000') q;

-- Plans. Few rows: the index, many: all rows.
CREATE TABLE range_far (id int PRIMARY KEY, grp int, v vector(32)) WITH (autovacuum_enabled = off);
INSERT INTO range_far SELECT i, i % 30, (SELECT array_agg((hashint8extended(i * 32 + d, 1) & 1023)::real - 511.5 ORDER BY d) FROM generate_series(1, 32) d)::vector FROM generate_series(1, 10000) i;
CREATE INDEX range_far_v ON range_far USING gpuflat (v vector_l2_ops, grp);
VACUUM ANALYZE range_far;
CREATE FUNCTION range_q() RETURNS vector STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT v FROM range_far WHERE id = 7); END $$;
CREATE FUNCTION range_shown(query text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT * FROM pg_temp.plan(query) $$;
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500');
SELECT v AS q FROM range_far WHERE id = 7 \gset
SELECT radius, (SELECT ltrim(line, ' ->') FROM range_shown(format('SELECT id FROM range_far WHERE v <-> %L < %s', :'q', radius)) line WHERE line ~ 'Scan') FROM unnest('{1300,1600,2100,2300,4000}'::int[]) radius;
SELECT range_shown('SELECT count(*) FROM range_far WHERE 1500 >= range_q() <-> v AND grp IN (3, 4)');
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() BETWEEN 1200 AND 1500 ORDER BY grp LIMIT 5');
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500 ORDER BY v <-> range_q()');
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500 ORDER BY v <-> range_q() LIMIT 5');
SELECT range_shown('DELETE FROM range_far WHERE v <-> range_q() < 1500');
SET vectorgpu.read_ahead = off; -- with or without the worker
SELECT range_shown('SELECT f.id, g.id FROM range_far f JOIN range_far g ON g.v <-> f.v < 1500 WHERE f.id < 5');
SELECT range_shown('SELECT id FROM range_far f WHERE id < 5 AND EXISTS (SELECT FROM range_far g WHERE f.v <-> g.v < 1500 AND g.id <> f.id)');
SELECT range_shown('SELECT id FROM range_far WHERE vectorgpu_within(v, range_q(), 1500) LIMIT 3');
-- never
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500 * random()');
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() > 1500');
SET vectorgpu.range_search = off;
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500');
RESET vectorgpu.range_search;
-- generic plans
PREPARE near(vector, float8) AS SELECT count(*) FROM range_far WHERE v <-> $1 < $2;
SET plan_cache_mode = force_generic_plan;
SELECT range_shown('EXECUTE near(NULL, NULL)');
EXECUTE near('[1,2]', NULL);
EXECUTE near(:'q', NULL);
EXECUTE near(:'q', 1500);
EXECUTE near(NULL, 1500);
EXECUTE near(:'q', 'Infinity');
RESET plan_cache_mode;
-- a query of other dimensions is an error of the scan, not of the planner
EXPLAIN (COSTS OFF) SELECT id FROM range_far WHERE v <-> '[1,2]' < 5;
SELECT id FROM range_far WHERE v <-> '[1,2]' < 5;
-- rows estimated, to those that there are
CREATE FUNCTION range_estimated(query text, OUT rows float8, OUT estimate float8) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
	rows := plan #>> '{0,Plan,Actual Rows}';
	estimate := plan #>> '{0,Plan,Plan Rows}';
END $$;
SELECT radius, least <= rows AND rows <= most AS rows, estimate BETWEEN rows / times AND rows * times AS good
	FROM (VALUES (1500, 2, 10, 10), (1700, 40, 120, 5), (1900, 400, 700, 3), (2100, 1800, 2800, 2), (2300, 4500, 6500, 1.5)) r (radius, least, most, times), range_estimated(format('SELECT id FROM range_far WHERE v <-> %L < %s', :'q', radius));
SELECT estimate BETWEEN rows / 5 AND rows * 5 AS good FROM range_estimated('SELECT FROM range_far f JOIN range_far g ON g.v <-> f.v < 1600 WHERE f.id < 50');
-- changes
BEGIN;
WITH gone AS (DELETE FROM range_far WHERE v <-> range_q() < 1600 RETURNING id) SELECT count(*) = (SELECT count(*) FROM range_far WHERE sqrt((v <-> range_q()) ^ 2) < 1600) AS same, count(*) > 10 AS some FROM gone;
SELECT count(*) FROM range_far WHERE v <-> :'q' < 1600;
UPDATE range_far SET v = :'q' WHERE v <-> :'q' BETWEEN 1650 AND 1700;
SELECT count(*) > 10 AS some, count(*) = count(*) FILTER (WHERE v = :'q') AS same FROM range_far WHERE v <-> :'q' < 1;
ROLLBACK;

-- What the table's owner has written is not called for a plan: other keys, expressions, predicates. Nor is what the query calls.
CREATE FUNCTION range_owned(a anyelement) RETURNS anyelement IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF current_setting('range.raises', true) = 'on' THEN RAISE 'called'; END IF; RETURN a; END $$;
CREATE FUNCTION range_planned(keys text, condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'CREATE INDEX range_owned_index ON range_wide USING gpuflat ' || keys;
	PERFORM set_config('range.raises', 'on', true);
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT id FROM range_wide WHERE ' || condition INTO plan;
	PERFORM set_config('range.raises', 'off', true);
	DROP INDEX range_owned_index;
	RETURN substring(plan::text FROM 'range_owned_index');
END $$;
DROP INDEX range_wide_index;
SET enable_seqscan = off;
SELECT keys, range_planned(keys, condition) FROM (VALUES ('(v vector_l2_ops, (range_owned(id)))', 'v <-> ''[1,2]'' < 1'), ('(v vector_l2_ops) WHERE range_owned(id) < 400', 'v <-> ''[1,2]'' < 1 AND range_owned(id) < 400'),
	('((range_owned(v)::vector(2)) vector_l2_ops)', 'range_owned(v)::vector(2) <-> ''[1,2]'' < 1'), ('(v vector_l2_ops) WHERE id < 400 AND v IS NOT NULL', 'v <-> ''[1,2]'' < 1 AND id < 400 AND v IS NOT NULL')) o (keys, condition);
RESET enable_seqscan;
CREATE FUNCTION range_loud() RETURNS vector STABLE LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'called'; RETURN range_q(); END $$;
EXPLAIN (COSTS OFF) SELECT id FROM range_far WHERE v <-> range_loud() < 1500;
-- Samples are kept: of many partitions, and of a column that is NULL. The second plan reads no table.
CREATE FUNCTION pg_temp.range_do(command text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; END $$;
CREATE TABLE range_many (id int, v vector(2)) PARTITION BY RANGE (id);
SELECT count(*) AS partitions FROM generate_series(0, 39) i, LATERAL (SELECT pg_temp.range_do(format('CREATE TABLE range_many_%s PARTITION OF range_many FOR VALUES FROM (%s) TO (%s) WITH (autovacuum_enabled = off)', i, i * 100, i * 100 + 100))) d;
INSERT INTO range_many SELECT i, format('[%s,%s]', i % 97, i % 89)::vector FROM generate_series(0, 3999) i;
CREATE INDEX ON range_many USING gpuflat (v);
CREATE TABLE range_null (id int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO range_null SELECT i, CASE WHEN i % 1000 = 0 THEN '[1,2]'::vector END FROM generate_series(1, 4000) i;
CREATE INDEX ON range_null USING gpuflat (v);
ANALYZE range_many, range_null;
CREATE FUNCTION range_plan_reads(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (BUFFERS, FORMAT JSON) ' || query INTO plan;
	EXECUTE 'EXPLAIN (BUFFERS, FORMAT JSON) ' || query INTO plan;
	RETURN (plan #>> '{0,Planning,Shared Hit Blocks}')::int + (plan #>> '{0,Planning,Shared Read Blocks}')::int;
END $$;
SELECT range_plan_reads('SELECT id FROM range_many WHERE v <-> ''[1,2]'' < 1') < 400 AS many, range_plan_reads('SELECT id FROM range_null WHERE v <-> ''[1,2]'' < 1') < 60 AS nulls;

-- An approximate index: all rows, or its recall target.
DROP INDEX range_far_v;
CREATE INDEX range_far_graph ON range_far USING gpugraph (v vector_l2_ops);
SET enable_seqscan = off;
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500');
SELECT count(*) AS n FROM range_far WHERE v <-> :'q' < 1700 \gset
SELECT :n BETWEEN count(*) * 0.9 AND count(*) AS found FROM range_far WHERE sqrt((v <-> range_q()) ^ 2) < 1700;
SET vectorgpu.worker = off;
CREATE FUNCTION range_passes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN format('%s of %s', pg_temp.first_scan(plan) ->> 'Exhaustive', pg_temp.first_scan(plan) ->> 'Rounds');
END $$;
SELECT query, range_passes(query) FROM unnest(ARRAY['SELECT id FROM range_far WHERE v <-> range_q() < 1500', 'SELECT id FROM range_far WHERE v <-> range_q() < 1500 LIMIT 3',
	'SELECT id FROM range_far WHERE v <-> range_q() < 2500']) query;
-- What a statement changes are all rows.
BEGIN;
SELECT range_shown('DELETE FROM range_far WHERE v <-> range_q() < 1500');
SELECT range_shown('WITH gone AS (DELETE FROM range_far WHERE id = 1) SELECT id FROM range_far WHERE v <-> range_q() < 1500');
SELECT range_passes('WITH gone AS (DELETE FROM range_far WHERE id = 1) SELECT id FROM range_far WHERE v <-> range_q() < 1500');
SELECT query, range_passes(query) FROM unnest(ARRAY['UPDATE range_far SET grp = 0 WHERE v <-> range_q() < 1500', 'UPDATE range_far SET grp = 0 WHERE id IN (SELECT id FROM range_far WHERE v <-> range_q() < 1500)',
	'WITH gone AS (DELETE FROM range_far WHERE v <-> range_q() < 1500 RETURNING id) SELECT * FROM gone']) query;
ROLLBACK;
SET vectorgpu.range_search = exact;
SELECT count(*) AS shown FROM pg_temp.plan('SELECT count(*) FROM range_far WHERE v <-> range_q() < 1700', 'COSTS OFF, SETTINGS') line WHERE line ~ 'vectorgpu.range_search = ''exact''';
SELECT range_shown('SELECT id FROM range_far WHERE v <-> range_q() < 1500');
SELECT range_passes('SELECT id FROM range_far WHERE v <-> range_q() < 1500');
RESET vectorgpu.worker;
SELECT count(*) = (SELECT count(*) FROM range_far WHERE v <-> :'q' < 1700) AS all FROM (SELECT FROM range_far WHERE v <-> :'q' < 1700 LIMIT 1000) s;
SELECT count(*) = (SELECT count(*) FROM range_far WHERE sqrt((v <-> range_q()) ^ 2) < 1700) AS all FROM range_far WHERE v <-> :'q' < 1700;
RESET vectorgpu.range_search;
RESET enable_seqscan;

-- partitions, policies
CREATE TABLE range_parted (id int, v vector(32)) PARTITION BY RANGE (id);
CREATE TABLE range_parted_1 PARTITION OF range_parted FOR VALUES FROM (0) TO (5000);
CREATE TABLE range_parted_2 PARTITION OF range_parted FOR VALUES FROM (5000) TO (20000);
INSERT INTO range_parted SELECT id, v FROM range_far;
CREATE INDEX ON range_parted USING gpuflat (v);
ANALYZE range_parted;
SELECT range_shown('SELECT id FROM range_parted WHERE v <-> range_q() < 1500');
SELECT rows BETWEEN 40 AND 120 AND estimate BETWEEN rows / 5 AND rows * 5 AS good FROM range_estimated(format('SELECT id FROM range_parted WHERE v <-> %L < 1700', :'q'));
SELECT range_shown('SELECT f.id, g.id FROM range_far f JOIN range_parted g ON g.v <-> f.v < 1500 WHERE f.id < 5');
CREATE ROLE range_reader;
GRANT SELECT ON range_parted_1, range_far TO range_reader;
CREATE POLICY odd ON range_parted_1 USING (id % 2 = 1);
ALTER TABLE range_parted_1 ENABLE ROW LEVEL SECURITY;
SET ROLE range_reader;
SET enable_seqscan = off;
SELECT range_shown('SELECT id FROM range_parted_1 WHERE v <-> range_q() < 1500');
SELECT count(*) > 5 AS some, count(*) FILTER (WHERE id % 2 = 0) AS hidden FROM range_parted_1 WHERE v <-> range_q() < 1700;
RESET enable_seqscan;
RESET ROLE;
REVOKE ALL ON range_parted_1, range_far FROM range_reader;
DROP ROLE range_reader;
