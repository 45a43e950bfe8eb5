-- IN (SELECT …) and EXISTS beside ORDER BY … LIMIT: the sub-select's keys as a list that a key column decides; rows are those of the join
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;

-- True if the plan has a list of a sub-select's keys in an index of ours.
CREATE FUNCTION pg_temp.is_listed(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	scan bool := false;
	listed bool := false;
BEGIN
	FOR line IN SELECT * FROM pg_temp.plan(query) LOOP
		scan := scan OR line ~ 'Vectorgpu Filtered Scan';
		listed := listed OR line ~ 'Index Cond: .*ANY \(\(?\$\d|Index Cond: .*ANY \(\(?\(InitPlan';
	END LOOP;
	RETURN scan AND listed;
END $$;

-- Rows: every seventh vector is NULL, others are zero, infinitely far, too small for a square, or copies; keys of four types, some NULL.
CREATE TABLE semi_rows (id int, i int, b bigint, n numeric(8, 2), t varchar(20), v vector(2));
INSERT INTO semi_rows SELECT r, nullif(r % 23, 5), nullif(r % 19, 4), nullif(r % 17, 3) / 4.0, 'key ' || nullif(r % 13, 2),
	CASE WHEN r % 7 = 0 THEN NULL WHEN r % 11 = 0 THEN '[0,0]' WHEN r % 13 = 0 THEN '[3e38,-3e38]' WHEN r % 17 = 0 THEN '[3e38,3e38]' WHEN r % 19 = 0 THEN '[1e-44,1e-44]'
		ELSE ARRAY[hashint4extended(r % 200, 1) % 100, hashint4extended(r % 200, 2) % 100]::real[]::vector END
	FROM generate_series(1, 600) r;
CREATE TABLE semi_keys (g int, i int, b bigint, n numeric(8, 2), t text);
INSERT INTO semi_keys SELECT r % 10, nullif(r * 7 % 31, 5), nullif(r * 5 % 29, 4), nullif(r * 3 % 23, 3) / 4.0, 'key ' || nullif(r * 11 % 19, 2) FROM generate_series(1, 200) r;
ANALYZE semi_keys;
-- Queries, how many of them have the list, and the first whose rows are not those of the join: random conditions, by one operator. 0 * k: drawn for each part anew.
CREATE FUNCTION pg_temp.compare(operator text, n_queries int, wanted int, OUT n_listed int, OUT n_rows int, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	condition text;
	query text;
	found text[];
	expected text[];
BEGIN
	n_listed := 0;
	n_rows := 0;
	FOR n IN 1..n_queries LOOP
		SELECT string_agg(replace(replace(replace(part, '$c', (ARRAY['i', 'b', 'n', 't'])[1 + floor(random() * 4)::int]), '$g', floor(random() * 11)::text), '$h', floor(random() * 8)::text),
				CASE WHEN random() < 0.15 THEN ' OR ' ELSE ' AND ' END)
			INTO condition
			FROM generate_series(1, 1 + floor(random() * 2.5)::int) k, LATERAL (SELECT (ARRAY[
				'r.$c IN (SELECT $c FROM semi_keys WHERE g < $h)', 'r.$c IN (SELECT s.$c FROM semi_keys s JOIN semi_keys o ON o.g = s.g AND o.i = $h)',
				'EXISTS (SELECT FROM semi_keys s WHERE s.$c = r.$c AND g = $g)', 'EXISTS (SELECT 1 FROM semi_keys s WHERE g IN ($g, $h) AND r.$c = s.$c)',
				'r.i IN (SELECT b FROM semi_keys WHERE g = $g)', 'r.b IN (SELECT i + 1 FROM semi_keys WHERE g = $g)', 'EXISTS (SELECT FROM semi_keys s WHERE r.i = s.b + $h AND g = $g)',
				'r.t IN (SELECT t::varchar(6) FROM semi_keys WHERE g = $g)', 'r.$c = ANY (SELECT DISTINCT $c FROM semi_keys WHERE g > $g)', 'r.$c IN (SELECT $c FROM semi_keys ORDER BY $c, g LIMIT $g)',
				'r.$c IN (SELECT max($c) FROM semi_keys GROUP BY g)', 'r.$c IN (SELECT $c FROM semi_keys WHERE g = $g UNION ALL SELECT $c FROM semi_keys WHERE g = $h)', 'r.i IN (SELECT NULL::int)',
				'r.i IN (WITH w AS (SELECT i FROM semi_keys WHERE g = $g) SELECT i FROM w)', 'EXISTS (SELECT FROM semi_keys s WHERE s.i = r.i AND s.b = r.b)', 'EXISTS (SELECT FROM semi_keys s WHERE s.i > r.i AND g = $g)',
				'r.i > ANY (SELECT i FROM semi_keys WHERE g = $g)', 'r.i NOT IN (SELECT i FROM semi_keys WHERE g = $g AND i > 0)', 'NOT EXISTS (SELECT FROM semi_keys s WHERE s.$c = r.$c AND g = $g)',
				'(r.i, r.b) IN (SELECT i, b FROM semi_keys)', 'r.i IN (SELECT i FROM semi_keys s WHERE s.b = r.b)', 'r.n IN (SELECT i FROM semi_keys WHERE g = $g)', 'r.v IS NOT NULL', 'r.i % 3 = 1'])[1 + floor(random() * 24 + 0 * k)::int] AS part) p;
		query := format('SELECT r.id, v %s %s AS d FROM semi_rows r WHERE %s ORDER BY d, id LIMIT %s', operator, (ARRAY['''[1,2]''', '''[0,0]''', '''[3e38,3e38]''', '(SELECT NULL::vector)'])[1 + floor(random() * 4)::int],
			condition, wanted);
		PERFORM set_config('vectorgpu.enable_semijoin_list', 'on', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
			set_config('enable_mergejoin', 'off', true), set_config('enable_nestloop', 'off', true), set_config('enable_sort', 'off', true);
		n_listed := n_listed + pg_temp.is_listed(query)::int;
		EXECUTE format('SELECT array_agg(s::text ORDER BY d, id) FROM (%s) s', query) INTO found;
		PERFORM set_config('vectorgpu.enable_semijoin_list', 'off', true), set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
			set_config('enable_nestloop', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT array_agg(s::text ORDER BY d, id) FROM (%s) s', query) INTO expected;
		PERFORM set_config('enable_indexscan', 'on', true);
		n_rows := n_rows + coalesce(cardinality(expected), 0);
		IF found IS DISTINCT FROM expected AND wrong IS NULL THEN
			wrong := format('%s: %s, not %s', query, found, expected);
		END IF;
	END LOOP;
END $$;
SELECT setseed(0.5);
CREATE INDEX semi_index ON semi_rows USING gpuflat (v vector_l2_ops, i, b, n, t);
ANALYZE semi_rows;
SELECT n_listed > 25 AS listed, n_rows > 300 AS rows, wrong FROM pg_temp.compare('<->', 250, 12);
DROP INDEX semi_index;
CREATE INDEX semi_index ON semi_rows USING gpuivf (v vector_cosine_ops, i, b, n, t);
SET gpuivf.recall_target = 1;
SELECT n_listed > 20 AS listed, n_rows > 200 AS rows, wrong FROM pg_temp.compare('<=>', 150, 12);
RESET gpuivf.recall_target;
DROP INDEX semi_index;
-- exact: more than half of the rows are wanted
CREATE INDEX semi_index ON semi_rows USING gpugraph (v vector_ip_ops, i, b, n, t);
SELECT n_listed > 40 AS listed, n_rows > 2000 AS rows, wrong FROM pg_temp.compare('<#>', 150, 400);
DROP TABLE semi_rows, semi_keys;

-- Plans, by cost
CREATE TABLE semi_docs (id int PRIMARY KEY, author int, label text) WITH (autovacuum_enabled = off);
INSERT INTO semi_docs SELECT i, i % 1000, repeat('label ', 20) || i FROM generate_series(1, 10000) i;
CREATE TABLE semi_chunks (id int PRIMARY KEY, doc int, label text, v vector(32)) WITH (autovacuum_enabled = off);
INSERT INTO semi_chunks SELECT i, 1 + i % 10000, repeat('label ', 20) || 1 + i % 10000, (SELECT array_agg((hashint8extended(i * 32 + d, 1) & 1023)::real - 511.5 ORDER BY d) FROM generate_series(1, 32) d)::vector FROM generate_series(1, 20000) i;
CREATE INDEX semi_flat ON semi_chunks USING gpuflat (v vector_l2_ops, doc, label);
ANALYZE semi_docs, semi_chunks;
CREATE FUNCTION semi_q() RETURNS vector STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN array_fill(100, ARRAY[32])::vector; END $$;
SELECT pg_temp.plan('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10');
SELECT pg_temp.plan('SELECT id FROM semi_chunks c WHERE EXISTS (SELECT FROM semi_docs d WHERE d.id = c.doc AND author < 5) AND id > 7 ORDER BY v <-> semi_q() LIMIT 10');
CREATE VIEW semi_view AS SELECT id, doc FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10;
CREATE TABLE semi_queries (queries text, n int GENERATED ALWAYS AS IDENTITY);
INSERT INTO semi_queries VALUES ('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10'), ('SELECT count(*) FROM semi_view'),
	('SELECT * FROM (SELECT id, doc FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10) s JOIN semi_docs d ON d.id = doc'),
	('WITH w AS MATERIALIZED (SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10) SELECT count(*) FROM w'),
	('(SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10) UNION ALL SELECT 1'),
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY 1 - (v <-> semi_q()) DESC NULLS LAST, id LIMIT 10'),
	('SELECT a, s.id FROM generate_series(1, 2) a, LATERAL (SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author = a) ORDER BY v <-> semi_q() LIMIT 10) s'),
-- never, or not by cost: many keys, wide ones, no LIMIT or order, volatile, locked, OR, NOT
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 800) ORDER BY v <-> semi_q() LIMIT 10'),
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q()'), ('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) LIMIT 10'),
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE random() < 0.01) ORDER BY v <-> semi_q() LIMIT 10'),
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10 FOR UPDATE'),
	('SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM (SELECT * FROM semi_docs WHERE author < 5 FOR SHARE) d) ORDER BY v <-> semi_q() LIMIT 10'),
	('SELECT id FROM semi_chunks WHERE id < 5 OR doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10'),
	('SELECT id FROM semi_chunks WHERE doc NOT IN (SELECT id FROM semi_docs WHERE author > 5) ORDER BY v <-> semi_q() LIMIT 10'),
	('SELECT id FROM semi_chunks c WHERE id IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10');
SELECT pg_temp.is_listed(queries) AS listed, queries FROM semi_queries ORDER BY n;
SET vectorgpu.enable_semijoin_list = off;
SELECT count(*) FILTER (WHERE pg_temp.is_listed(queries)) AS listed FROM semi_queries;
SELECT count(*) AS shown FROM pg_temp.plan('SELECT 1 FROM semi_chunks', 'COSTS OFF, SETTINGS') line WHERE line ~ 'vectorgpu.enable_semijoin_list = ''off''';
RESET vectorgpu.enable_semijoin_list;
-- memory: the keys have to fit
SET work_mem = '1MB';
SELECT pg_temp.is_listed('SELECT id FROM semi_chunks WHERE label IN (SELECT label FROM semi_docs WHERE author < 100) ORDER BY v <-> semi_q() LIMIT 10') AS listed;
SET work_mem = '64kB';
SELECT pg_temp.is_listed('SELECT id FROM semi_chunks WHERE label IN (SELECT label FROM semi_docs WHERE author < 100) ORDER BY v <-> semi_q() LIMIT 10') AS listed;
RESET work_mem;
-- rows expected of such lists, written by hand or not
CREATE FUNCTION semi_expected(query text, OUT rows float8, OUT good bool) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	rows := plan #>> '{0,Plan,Actual Rows}';
	good := (plan #>> '{0,Plan,Plan Rows}')::float8 BETWEEN rows / 1.5 AND rows * 1.5;
END $$;
SELECT authors, e.* FROM unnest('{1,5,50,500}'::int[]) authors, semi_expected(format('SELECT id FROM semi_chunks WHERE doc = ANY (ARRAY(SELECT id FROM semi_docs WHERE author < %s))', authors)) e;
-- generic plans; a sub-select without rows
PREPARE semi(int) AS SELECT count(*) FROM (SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author = $1) ORDER BY v <-> semi_q() LIMIT 15) s;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.is_listed('EXECUTE semi(3)');
EXECUTE semi(3);
EXECUTE semi(NULL);
EXECUTE semi(1000);
RESET plan_cache_mode;
-- an array of arrays would not be a list of keys
SELECT count(*) FROM (SELECT id FROM semi_chunks WHERE ARRAY[doc] IN (SELECT ARRAY[id, id] FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10) s;
-- partitions
CREATE TABLE semi_parts (id int, doc int, v vector(32)) PARTITION BY RANGE (id);
CREATE TABLE semi_parts_1 PARTITION OF semi_parts FOR VALUES FROM (0) TO (9000);
CREATE TABLE semi_parts_2 PARTITION OF semi_parts FOR VALUES FROM (9000) TO (90000);
INSERT INTO semi_parts SELECT id, doc, v FROM semi_chunks;
CREATE INDEX ON semi_parts USING gpuflat (v, doc);
ANALYZE semi_parts;
SELECT pg_temp.is_listed('SELECT id FROM semi_parts WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10') AS listed;
SELECT (SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM semi_parts WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10) s) =
	(SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY (v <-> semi_q()) ^ 2 LIMIT 10) s) AS same;
-- rights and policies of the sub-select's table
CREATE ROLE semi_reader;
GRANT SELECT ON semi_chunks TO semi_reader;
SET ROLE semi_reader;
SELECT id FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 5) ORDER BY v <-> semi_q() LIMIT 10;
RESET ROLE;
GRANT SELECT ON semi_docs TO semi_reader;
CREATE POLICY semi_even ON semi_docs USING (id % 2 = 0);
ALTER TABLE semi_docs ENABLE ROW LEVEL SECURITY;
SET ROLE semi_reader;
SELECT pg_temp.is_listed('SELECT doc FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 900) ORDER BY v <-> semi_q() LIMIT 10') AS listed;
SELECT count(*) AS rows, count(*) FILTER (WHERE doc % 2 = 1) AS hidden FROM (SELECT doc FROM semi_chunks WHERE doc IN (SELECT id FROM semi_docs WHERE author < 900) ORDER BY v <-> semi_q() LIMIT 10) s;
RESET ROLE;
REVOKE ALL ON semi_chunks, semi_docs FROM semi_reader;
DROP ROLE semi_reader;
