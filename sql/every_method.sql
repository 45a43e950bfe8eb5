-- SQL around an ordered scan, for every access method: each query is answered by index scans and by sequential scans, and the answers are
-- compared row by row. Scans look at all lists and rows, so that backend and worker give exact answers.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
SET gpuivf.probes = 65536;
SET gpugraph.search_width = 1000000;

-- Two tables of each access method, with many equal distances; rows that were built, inserted, aborted, deleted and updated.
CREATE FUNCTION method_value(method text, i int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 50 = 0 THEN NULL
		WHEN method = 'gpumatch' THEN array(SELECT 't' || (i * j) % 30 FROM generate_series(1, 1 + i % 9) j)::text
		ELSE format('[%s,%s,%s]', i * 7 % 10, i * 13 % 11, i * 29 % 7) END
$$;
CREATE FUNCTION method_table(tab text, method text, first int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	type text := CASE method WHEN 'gpumatch' THEN 'text[]' ELSE 'vector(3)' END;
	rows text := format('INSERT INTO %s SELECT %s + i, 0, method_value(%L, i)::%s FROM generate_series($1, $2) i', tab, first, method, type);
BEGIN
	EXECUTE format('CREATE TABLE %s (id int, n int, v %s)', tab, type);
	EXECUTE rows USING 1, 300;
	EXECUTE format('CREATE INDEX %1$s_v ON %1$s USING %2$s (v)', tab, method);
	EXECUTE rows USING 301, 360;
	BEGIN
		EXECUTE rows USING 1, 40;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	EXECUTE format('DELETE FROM %s WHERE id %% 11 = 5', tab);
	EXECUTE format('UPDATE %s SET v = method_value(%L, id + 1)::%s WHERE id %% 17 = 3', tab, method, type);
	EXECUTE format('UPDATE %s SET n = 1 WHERE id %% 19 = 2', tab);
END $$;
SELECT method_table('near_' || m, m, 0), method_table('more_' || m, m, 5000) FROM unnest('{gpuflat,gpuivf,gpugraph,gpumatch}'::text[]) m;

-- A query's text for an access method: %T and %U are its tables, %V is the type; DIST(a, 1) is the distance of a.v to the first value, NEAR(a, 1) is
-- an ordering by it (in the sequential scan with ties by ctid); {x|y} is x in the index scan and y in the sequential one.
CREATE FUNCTION method_query(query text, method text, by_index boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sets boolean := method = 'gpumatch';
	type text := CASE WHEN sets THEN 'text[]' ELSE 'vector' END;
	n int;
BEGIN
	query := regexp_replace(query, '\{([^|}]*)\|([^|}]*)\}', CASE WHEN by_index THEN '\1' ELSE '\2' END, 'g');
	query := replace(replace(replace(query, '%T', 'near_' || method), '%U', 'more_' || method), '%V', type);
	FOR n IN 1..3 LOOP
		query := regexp_replace(query, format('(NEAR|DIST)\((\w+), %s\)', n), format('\1(\2, ''%s''::%s)', CASE WHEN sets
			THEN (ARRAY['{t1,t2,t4,t6}', '{t3,t9,t12,t15,t18}', '{t0}'])[n] ELSE (ARRAY['[0,0,0]', '[5,5,3]', '[9.5,2.25,6]'])[n] END, type), 'g');
	END LOOP;
	query := regexp_replace(query, 'DIST\((\w+), ([^()]*)\)', '(\1.v OPERATOR \2)', 'g');
	query := regexp_replace(query, 'NEAR\((\w+), ([^()]*)\)', '(\1.v OPERATOR \2)' || CASE WHEN by_index THEN '' ELSE ', \1.ctid' END, 'g');
	RETURN replace(query, 'OPERATOR', CASE WHEN sets THEN '<#>' ELSE '<->' END);
END $$;

-- A query's rows by index scans, or by sequential ones; its changes are rolled back. The first element reports a wrong kind of scan.
CREATE FUNCTION method_answer(query text, method text, by_index boolean) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	rendered text := method_query(query, method, by_index);
	orders int := 0;
	wanted int := (SELECT count(*) FROM regexp_matches(regexp_replace(query, '\$q\$.*?\$q\$', '', 'g'), 'ORDER BY (NEAR|DIST)', 'g'));
	scans bigint;
	line text;
	r record;
	answer text[] := ARRAY[NULL];
BEGIN
	PERFORM set_config('enable_' || s, CASE WHEN (s = 'indexscan') = by_index THEN 'on' ELSE 'off' END, true) FROM unnest('{indexscan,seqscan,sort}'::text[]) s;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || rendered LOOP
		orders := orders + (line ~ '^ +Order By:')::int;
	END LOOP;
	scans := pg_stat_get_xact_numscans(format('near_%s_v', method)::regclass);
	BEGIN
		FOR r IN EXECUTE rendered LOOP
			answer := answer || r::text;
		END LOOP;
		RAISE SQLSTATE 'VGBCK';
	EXCEPTION WHEN SQLSTATE 'VGBCK' THEN
		scans := pg_stat_get_xact_numscans(format('near_%s_v', method)::regclass) - scans;
	END;
	IF by_index AND (orders < wanted OR scans = 0) THEN
		answer[1] := format('%s orders of %s, %s scans', orders, wanted, scans);
	ELSIF NOT by_index AND (orders > 0 OR scans > 0) THEN
		answer[1] := format('%s orders and %s scans of an index', orders, scans);
	END IF;
	RETURN answer;
END $$;

CREATE TABLE method_queries (n int GENERATED ALWAYS AS IDENTITY, about text, query text);
-- For each query, or each nth one, the number of rows of the answers, and rows that only one of them has.
CREATE FUNCTION method_answers(method text, every int DEFAULT 1) RETURNS TABLE (n int, about text, rows int, difference text) LANGUAGE plpgsql AS $$
DECLARE
	q record;
	by_index text[];
	by_seq text[];
BEGIN
	FOR q IN SELECT * FROM method_queries m WHERE m.n % every = 0 ORDER BY m.n LOOP
		by_index := method_answer(q.query, method, true);
		by_seq := method_answer(q.query, method, false);
		n := q.n;
		about := q.about;
		rows := cardinality(by_seq) - 1;
		difference := coalesce(by_index[1], by_seq[1]);
		IF difference IS NULL AND by_index IS DISTINCT FROM by_seq THEN
			difference := concat_ws(' ', 'DIFFERENT by index:', array(SELECT unnest(by_index) EXCEPT ALL SELECT unnest(by_seq)),
				'by sequential scan:', array(SELECT unnest(by_seq) EXCEPT ALL SELECT unnest(by_index)));
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;

-- A loop over a scan, in which errors of subtransactions end scans half way, and rows are inserted and rolled back.
CREATE FUNCTION loop_with_errors(tab text, outer_query text, inner_query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	s record;
	n int := 0;
BEGIN
	FOR r IN EXECUTE outer_query LOOP
		n := n + 1;
		BEGIN
			EXECUTE format('INSERT INTO %1$s SELECT %2$s, 0, v FROM %1$s WHERE id = $1', tab, 9000 + n) USING r.id;
			FOR s IN EXECUTE inner_query USING r.id, r.v LOOP
				RETURN NEXT format('%s: %s at %s', r.id, s.id, s.d);
				PERFORM 1 / ((n + s.id) % 4);
			END LOOP;
			RETURN NEXT format('%s: all', r.id);
		EXCEPTION WHEN division_by_zero THEN
			FOR s IN EXECUTE inner_query USING r.id, r.v LOOP
				RETURN NEXT format('%s after an error: %s at %s', r.id, s.id, s.d);
			END LOOP;
		END;
	END LOOP;
END $$;
-- A cursor that is read forwards and backwards, with another scan in between.
CREATE FUNCTION by_cursor(query text, between_query text, value text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	id int;
	other int;
BEGIN
	OPEN c SCROLL FOR EXECUTE query USING value;
	FOR i IN 1..9 LOOP
		FETCH c INTO id;
		RETURN NEXT format('%s: %s', i, id);
		EXECUTE between_query INTO other USING value, i;
		RETURN NEXT format('between: %s', other);
	END LOOP;
	MOVE BACKWARD 5 FROM c;
	FETCH c INTO id;
	RETURN NEXT format('back: %s', id);
	MOVE FORWARD ALL FROM c;
	FETCH PRIOR FROM c INTO id;
	RETURN NEXT format('last: %s', id);
	CLOSE c;
END $$;
-- A prepared statement with one generic plan for any value and limit.
CREATE FUNCTION by_generic_plan(type text, query text, vals text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	val text;
	line text;
	generic boolean := false;
	r record;
BEGIN
	EXECUTE format('PREPARE near_generic(%s, int) AS %s', type, query);
	-- not in parallel workers, whose scans this session does not count
	PERFORM set_config('plan_cache_mode', 'force_generic_plan', true), set_config('max_parallel_workers_per_gather', '0', true);
	FOREACH val IN ARRAY vals LOOP
		FOR n IN 0..8 BY 4 LOOP
			FOR r IN EXECUTE format('EXECUTE near_generic(%L, %s)', val, n) LOOP
				RETURN NEXT format('%s, %s: %s', val, n, r);
			END LOOP;
		END LOOP;
	END LOOP;
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) EXECUTE near_generic(%L, 1)', vals[1]) LOOP
		generic := generic OR line ~ (CASE current_setting('enable_indexscan') WHEN 'on' THEN 'Order By' ELSE 'Sort Key' END || ':.*\$1');
	END LOOP;
	IF NOT generic THEN
		RAISE 'no generic plan';
	END IF;
	DEALLOCATE near_generic;
END $$;

INSERT INTO method_queries (about, query) VALUES
('order, limit, offset', 'SELECT id, DIST(a, 1) FROM %T a ORDER BY NEAR(a, 1) LIMIT 30 OFFSET 5'),
('whole table', 'SELECT id, DIST(a, 2) FROM %T a ORDER BY NEAR(a, 2)'),
('UNION ALL of two scans', '(SELECT id, DIST(a, 1) FROM %T a ORDER BY NEAR(a, 1) LIMIT 17) UNION ALL (SELECT id, DIST(a, 2) FROM %U a ORDER BY NEAR(a, 2) LIMIT 9)'),
('UNION ALL of one index twice', 'SELECT min(id), max(id), count(*), d FROM ((SELECT id, DIST(a, 1) AS d FROM %T a ORDER BY NEAR(a, 1) LIMIT 17)
	UNION ALL (SELECT id, DIST(b, 3) FROM %T b WHERE n = 0 ORDER BY NEAR(b, 3) LIMIT 40)) s GROUP BY d ORDER BY d'),
('merged scans of two tables', 'SELECT * FROM (SELECT id, DIST(u, 1) AS d FROM (SELECT id, v FROM %T UNION ALL SELECT id, v FROM %U) u
	ORDER BY DIST(u, 1) FETCH FIRST 15 ROWS WITH TIES) s ORDER BY d, id'),
('WITH MATERIALIZED', 'WITH near AS MATERIALIZED (SELECT id, DIST(a, 1) AS d FROM %T a ORDER BY NEAR(a, 1) LIMIT 25)
	SELECT x.id, x.d, (SELECT min(y.id) FROM near y WHERE y.id > x.id) FROM near x'),
('WITH NOT MATERIALIZED', 'WITH near AS NOT MATERIALIZED (SELECT id, DIST(a, 2) AS d FROM %T a ORDER BY NEAR(a, 2) LIMIT 25)
	SELECT x.id, x.d, (SELECT min(y.id) FROM near y WHERE y.id > x.id) FROM near x'),
('WITH that changes rows', 'WITH gone AS (DELETE FROM %T WHERE id IN (SELECT id FROM %T a ORDER BY NEAR(a, 1) LIMIT 12) RETURNING id),
	changed AS (UPDATE %T t SET n = 5 FROM (SELECT id FROM %T b ORDER BY NEAR(b, 2) LIMIT 12) s WHERE s.id = t.id RETURNING t.id)
	SELECT 1, id FROM gone UNION ALL SELECT 2, id FROM changed ORDER BY 1, 2'),
('FOR UPDATE', 'SELECT id, DIST(a, 1) FROM %T a ORDER BY NEAR(a, 1) LIMIT 20 FOR UPDATE'),
('FOR NO KEY UPDATE SKIP LOCKED', 'SELECT id FROM %T a WHERE n = 0 ORDER BY NEAR(a, 3) LIMIT 20 FOR NO KEY UPDATE SKIP LOCKED'),
('LATERAL', 'SELECT p.id, b.* FROM (SELECT id, v FROM %T WHERE id % 23 = 1 OR id = 50) p CROSS JOIN LATERAL
	(SELECT string_agg(s::text, '' '') FROM (SELECT b.id, DIST(b, p.v) FROM %T b WHERE b.id <> p.id ORDER BY NEAR(b, p.v) LIMIT 4) s) b ORDER BY p.id'),
('LEFT JOIN LATERAL, another table', 'SELECT p.id, b.* FROM (SELECT id, v FROM %T a ORDER BY NEAR(a, 2) LIMIT 8) p LEFT JOIN LATERAL
	(SELECT min(s.id) AS first, max(s.id) AS last, max(s.d) FROM (SELECT b.id, DIST(b, p.v) AS d FROM %U b WHERE b.id % 2 = p.id % 2 ORDER BY NEAR(b, p.v) LIMIT 3) s) b ON b.last > 5200'),
('NOT EXISTS', 'SELECT o.id FROM %T o WHERE NOT EXISTS (SELECT FROM (SELECT a.id FROM %T a ORDER BY NEAR(a, 1) LIMIT 200) near WHERE near.id = o.id) ORDER BY o.id'),
('NOT EXISTS, correlated', 'SELECT o.id FROM %T o WHERE o.id % 9 = 2 AND NOT EXISTS
	(SELECT FROM (SELECT b.id FROM %T b WHERE b.id <> o.id ORDER BY NEAR(b, o.v) LIMIT 3) near WHERE near.id % 3 = o.id % 3) ORDER BY o.id'),
('NOT IN, EXCEPT', 'SELECT id FROM %T WHERE id NOT IN (SELECT id FROM %T a ORDER BY NEAR(a, 2) LIMIT 100) EXCEPT (SELECT id FROM %T a ORDER BY NEAR(a, 3) LIMIT 100) ORDER BY 1'),
('scalar and ARRAY subqueries', 'SELECT p.id, (SELECT b.id FROM %T b WHERE b.id > p.id ORDER BY NEAR(b, p.v) LIMIT 1),
	ARRAY(SELECT b.id FROM %U b ORDER BY NEAR(b, p.v) LIMIT 3) FROM %T p WHERE p.id % 31 = 7 ORDER BY p.id'),
('window', 'SELECT id, d, rank() OVER (ORDER BY d), lag(id) OVER (ORDER BY d) FROM (SELECT id, DIST(a, 1) AS d FROM %T a ORDER BY NEAR(a, 1) LIMIT 20) s'),
('loop with errors', 'SELECT loop_with_errors(''%T'', $q$SELECT id, v::text FROM %T a ORDER BY NEAR(a, 1) LIMIT 12$q$,
	$q$SELECT id, d FROM (SELECT b.id, DIST(b, $2::%V) AS d FROM %T b WHERE b.id <> $1 ORDER BY DIST(b, $2::%V) FETCH FIRST 3 ROWS WITH TIES) s ORDER BY d, id$q$)'),
('cursor in a function', 'SELECT s.id, f FROM (SELECT id, v FROM %T a ORDER BY NEAR(a, 3) LIMIT 3) s,
	by_cursor($q$SELECT id FROM %T a ORDER BY NEAR(a, $1::%V)$q$, $q$SELECT id FROM %T a WHERE id > $2 ORDER BY NEAR(a, $1::%V) OFFSET $2 LIMIT 1$q$, s.v::text) f'),
('generic plan', 'SELECT by_generic_plan(''%V'', $q$SELECT id, DIST(a, $1) FROM %T a ORDER BY NEAR(a, $1) LIMIT $2$q$,
	(SELECT array_agg(v::text ORDER BY id) FROM %T WHERE id IN (7, 77, 100, 177)))');

SELECT * FROM method_answers('gpuflat');
SELECT * FROM method_answers('gpuivf');
SELECT * FROM method_answers('gpugraph');
SELECT * FROM method_answers('gpumatch');
-- some queries again after merges
SELECT segments_after > 0 AS merged FROM unnest('{gpuflat,gpuivf,gpugraph,gpumatch}'::text[]) m, vectorgpu_merge(('near_' || m || '_v')::regclass);
SELECT count(*) AS compared, array_agg(concat_ws(' ', m, n, difference)) FILTER (WHERE difference IS NOT NULL) AS different
FROM unnest('{gpuflat,gpuivf,gpugraph,gpumatch}'::text[]) m, method_answers(m, 3);

-- the comparison detects different queries, and a query that no index answers
DELETE FROM method_queries;
INSERT INTO method_queries (about, query) VALUES
('other values', 'SELECT id FROM %T a ORDER BY NEAR(a, {1|2}) LIMIT 9'),
('one row more', 'SELECT id FROM %T a ORDER BY NEAR(a, 1) LIMIT {9|10}'),
('another order', 'SELECT id FROM (SELECT id, DIST(a, 1) AS d FROM %T a ORDER BY NEAR(a, 1) LIMIT 9) s ORDER BY id {ASC|DESC}'),
('no index', 'SELECT id FROM %T a ORDER BY DIST(a, 1) + id LIMIT 9');
SELECT m AS method, n, about, rows, left(difference, 9) AS difference FROM unnest('{gpuflat,gpuivf,gpugraph,gpumatch}'::text[]) m, method_answers(m);

DROP TABLE method_queries, near_gpuflat, near_gpuivf, near_gpugraph, near_gpumatch, more_gpuflat, more_gpuivf, more_gpugraph, more_gpumatch;
DROP FUNCTION method_value, method_table, method_query, method_answer, method_answers, loop_with_errors, by_cursor, by_generic_plan;
