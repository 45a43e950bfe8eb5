-- gpumatch over matchrow, and match_at_least as an index condition: index = sequential scan
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

-- the relation of the paper's figure 1, query Q1 of example II.1: counts 1, 3, 2
CREATE TABLE figure1 (id int, a int, b int, c int);
INSERT INTO figure1 VALUES (1, 1, 2, 1), (2, 2, 1, 2), (3, 1, 3, 3);
CREATE INDEX figure1_rows ON figure1 USING gpumatch (matchrow(a, b, c));
SET enable_seqscan = off;
SELECT id, -(matchrow(a, b, c) <#> matchquery('[1,2]'::int4range, '[1,1]'::int4range, '[2,3]'::int4range)) AS count
FROM figure1 ORDER BY matchrow(a, b, c) <#> matchquery('[1,2]'::int4range, '[1,1]'::int4range, '[2,3]'::int4range);
RESET enable_seqscan;

CREATE TABLE people (id int, age int, work text, income numeric, born date, score float8, member boolean);
CREATE FUNCTION person(i int) RETURNS people LANGUAGE sql IMMUTABLE AS $$
	SELECT i, (i * 7919) % 90, CASE WHEN i % 13 <> 0 THEN (ARRAY['Private', 'State', 'Self', 'None', ''])[1 + i % 5] END,
		CASE WHEN i % 17 <> 0 THEN (i * 31 % 1000)::numeric / 7 END, date '1950-01-01' + (i * 101) % 20000,
		CASE i % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' ELSE (i % 211) / 3.0 END, i % 3 = 0
$$;
INSERT INTO people SELECT (person(i)).* FROM generate_series(1, 3000) i;
INSERT INTO people VALUES (0);
CREATE INDEX people_rows ON people USING gpumatch (matchrow(age, work, income, born, score, member));
CREATE FUNCTION people_agree() RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
DECLARE
	query text;
	tail text;
BEGIN
	FOREACH query IN ARRAY ARRAY[
		'int4range(30,40), ''Private'', NULL, daterange(''1960-01-01'', ''1970-01-01''), NULL, true',
		'33, NULL, NULL, NULL, NULL, NULL',
		'ARRAY[1,2,3,50], ARRAY[''State'', ''Self'', NULL], numrange(10, 20), NULL, numrange(3, 5.5, ''[]''), false',
		'int4multirange(int4range(1,5), int4range(80,85)), '''', numrange(NULL, 50), daterange(NULL, NULL), numrange(60, NULL), NULL',
		'''empty''::int4range, ''Private'', 20, ''1960-01-01''::date, ''NaN''::float8, NULL',
		'NULL, NULL, NULL, NULL, NULL, NULL']
	LOOP
		FOREACH tail IN ARRAY ARRAY['', 'LIMIT 1', 'LIMIT 10', 'LIMIT 700', 'WHERE id % 7 = 0 LIMIT 20']
		LOOP
			line := pg_temp.compare_scans('people', format('matchrow(age, work, income, born, score, member) <#> matchquery(%s)', query), tail);
			IF line !~ '^index scan, \d+ rows, same$' OR tail = '' THEN
				line := format('%s %s: %s', query, tail, line);
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
	SELECT format('%s rows, %s NULL, %s in the delta, %s segments', k.rows, k.null_rows, k.delta_rows, k.segments) INTO line
	FROM vectorgpu_check('people_rows', true) k;
	RETURN NEXT;
END $$;
SELECT * FROM people_agree();
INSERT INTO people SELECT (person(i)).* FROM generate_series(3001, 3300) i;
DELETE FROM people WHERE id % 10 = 7;
VACUUM people;
SELECT * FROM people_agree();
SELECT segments_after FROM vectorgpu_merge('people_rows');
SELECT * FROM people_agree();

-- the plan, with a parameter as well
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM people
ORDER BY matchrow(age, work, income, born, score, member) <#> matchquery(int4range(30,40), 'Private', NULL, NULL, NULL, NULL) LIMIT 10;
PREPARE nearest(matchquery) AS SELECT array_agg(id) FROM (SELECT id FROM people ORDER BY matchrow(age, work, income, born, score, member) <#> $1 LIMIT 5) s;
EXECUTE nearest(matchquery(int4range(30,40), 'Private', NULL, NULL, NULL, NULL));
EXECUTE nearest(matchquery(NULL, 'Self', NULL, NULL, NULL, true));
-- fewer conditions than the rows have values
SELECT id FROM people ORDER BY matchrow(age, work, income, born, score, member) <#> matchquery(30, 'Private') LIMIT 3;
RESET enable_seqscan;

-- match_at_least
CREATE TABLE tagged (id int, tags text[], d tsvector);
INSERT INTO tagged SELECT i, array(SELECT 't' || (i * j) % 30 FROM generate_series(1, 1 + i % 9) j),
	array_to_tsvector(array(SELECT DISTINCT 't' || (i + j * 7) % 30 FROM generate_series(1, 1 + i % 9) j)) FROM generate_series(1, 4000) i;
INSERT INTO tagged VALUES (0);
INSERT INTO tagged VALUES (-1, '{}', '');
CREATE INDEX tagged_tags ON tagged USING gpumatch (tags);
CREATE INDEX tagged_d ON tagged USING gpumatch (d);
INSERT INTO tagged SELECT i, array(SELECT 't' || (i * j) % 30 FROM generate_series(1, 1 + i % 9) j), 't1 t2' FROM generate_series(4001, 4100) i;
CREATE FUNCTION same_rows(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text := '';
	line text;
	by_index int[];
	by_seq int[];
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT id FROM tagged WHERE ' || condition LOOP
		plan := plan || line || E'\n';
	END LOOP;
	EXECUTE 'SELECT array_agg(id ORDER BY id) FROM tagged WHERE ' || condition INTO by_index;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE 'SELECT array_agg(id ORDER BY id) FROM tagged WHERE ' || condition INTO by_seq;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
	RETURN format('%s, %s rows, %s', coalesce(substring(plan from 'Bitmap Index Scan on \w+|Index Scan using \w+'), 'no index'),
		coalesce(cardinality(by_seq), 0), CASE WHEN by_index IS NOT DISTINCT FROM by_seq THEN 'same' ELSE 'DIFFERENT' END);
END $$;
SELECT c, same_rows(c) FROM (VALUES ($$match_at_least(tags, '{t1,t2,t3,t4}', 3)$$), ($$match_at_least(tags, '{t1,t2,t3,t4}', 1)$$),
	($$match_at_least(tags, '{t1,t2}', 3)$$), ($$match_at_least(tags, '{t1,t2}', 0)$$), ($$match_at_least(tags, '{t1,t2}', -5)$$),
	($$match_at_least(tags, '{}', 1)$$), ($$match_at_least(tags, '{}', 0)$$), ($$match_at_least(tags, NULL, 1)$$), ($$match_at_least(tags, '{t1}', NULL)$$),
	($$match_at_least(d, 't1 t2 t8', 2)$$), ($$match_at_least(tags, '{t1,t2,t3,t4}', 2) AND match_at_least(tags, '{t4,t5,t6}', 2)$$),
	($$match_at_least(tags, '{t1,t2,t3,t4}', 2) AND match_at_least(d, 't8', 1)$$), ($$match_at_least(tags, '{t1,t2}', 2) OR match_at_least(tags, '{t9,t12}', 2)$$),
	($$NOT match_at_least(tags, '{t1,t2}', 1)$$), ($$match_at_least(tags, '{t1,t2,t3,t4}', 2) AND id % 2 = 0$$)) v(c);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM tagged WHERE match_at_least(tags, '{t1,t2}', 2);
EXPLAIN (COSTS OFF) SELECT id FROM people WHERE match_at_least(matchrow(age, work, income, born, score, member), matchquery(34, 'State', NULL, NULL, NULL, NULL), 2);
SELECT count(*) FROM people WHERE match_at_least(matchrow(age, work, income, born, score, member), matchquery(34, 'State', NULL, NULL, NULL, NULL), 2);
SET enable_bitmapscan = off;
SELECT count(*) FROM people WHERE match_at_least(matchrow(age, work, income, born, score, member), matchquery(34, 'State', NULL, NULL, NULL, NULL), 2);
-- a condition beside an order
SELECT id, tags <#> '{t1,t2,t7}' AS d FROM tagged WHERE match_at_least(tags, '{t1,t2}', 2) ORDER BY tags <#> '{t1,t2,t7}' LIMIT 3;
RESET enable_bitmapscan;
PREPARE least(text[], int) AS SELECT count(*) FROM tagged WHERE match_at_least(tags, $1, $2);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE least('{t1,t2,t3}', 2);
EXECUTE least('{t1,t2,t3}', 2);
EXECUTE least('{t1,t2,t3}', NULL);
RESET plan_cache_mode;
EXECUTE least('{t1,t2,t3}', 2);
-- a join
SELECT count(*) FROM (VALUES (ARRAY['t1','t2'], 2), (ARRAY['t5','t6','t7'], 2)) q(t, n) JOIN tagged ON match_at_least(tags, t, n);
RESET enable_seqscan;
-- bitmaps: more pages than fit work_mem, so that some pages are lossy; about three rows a page
CREATE TABLE wide (id int, n int, tags text[], filler text) WITH (fillfactor = 10);
ALTER TABLE wide ALTER filler SET STORAGE PLAIN;
INSERT INTO wide SELECT i, i * 7919 % 1000, array(SELECT 't' || (i * j) % 30 FROM generate_series(1, 1 + i % 9) j), repeat('x', 200) FROM generate_series(1, 7000) i;
CREATE INDEX wide_tags ON wide USING gpumatch (tags);
CREATE INDEX wide_n ON wide (n);
VACUUM ANALYZE wide;
SELECT pg_relation_size('wide') / current_setting('block_size')::int > 2000 AS pages;
-- The nodes of the bitmap scan's plan, lossy blocks or none; the answer against the sequential scan's. The options of EXPLAIN in this order: the part
-- used is the same with and without a worker, so that the test also runs with a worker that dies.
CREATE FUNCTION same_bitmap(condition text, locking text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id, ctid FROM wide WHERE %s %s', condition, locking);
	line text;
	nodes text[] := '{}';
	lossy boolean := false;
	by_bitmap text[];
	by_seq text[];
	differences bigint;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'on', true),
		set_config('max_parallel_workers_per_gather', '0', true); -- of a parallel worker's bitmap it is not shown
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF) ' || query LOOP
		nodes := nodes || substring(line from '(Bitmap Heap Scan|BitmapAnd|BitmapOr|Bitmap Index Scan on \w+|Seq Scan|Index Scan)');
		lossy := lossy OR coalesce(substring(line from 'Heap Blocks:.* lossy=(\d+)')::int > 0, false);
	END LOOP;
	EXECUTE format('SELECT array_agg(s::text) FROM (%s) s', query) INTO by_bitmap;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE format('SELECT array_agg(s::text) FROM (%s) s', query) INTO by_seq;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
	SELECT count(*) INTO differences FROM ((SELECT unnest(by_bitmap) EXCEPT ALL SELECT unnest(by_seq)) UNION ALL (SELECT unnest(by_seq) EXCEPT ALL SELECT unnest(by_bitmap))) s;
	RETURN format('%s; %s, %s rows, %s', array_to_string(array_remove(nodes, NULL), ', '), CASE WHEN lossy THEN 'lossy' ELSE 'exact' END, coalesce(cardinality(by_seq), 0),
		CASE WHEN differences > 0 OR cardinality(by_bitmap) IS DISTINCT FROM cardinality(by_seq) THEN 'DIFFERENT' ELSE 'same' END);
END $$;
-- The planner expects few rows for conditions with unknown bounds, so it combines two large bitmaps into one.
CREATE FUNCTION same_bitmaps() RETURNS TABLE (condition text, result text) LANGUAGE sql AS $$
	SELECT c, same_bitmap(c) FROM (VALUES ($q$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1)$q$), ($q$match_at_least(tags, '{t1,t2,t3,t4}', 3)$q$),
		($q$match_at_least(tags, '{t1,t2,t3,t4}', 2) AND n < 50$q$), ($q$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1) AND n BETWEEN (SELECT 0) AND (SELECT 600)$q$),
		($q$match_at_least(tags, '{t1,t2,t3,t4}', 2) OR match_at_least(tags, '{t9,t12,t15,t18}', 2)$q$),
		($q$match_at_least(tags, '{t0,t6,t12,t18}', 1) OR n BETWEEN 100 AND 400$q$),
		($q$(match_at_least(tags, '{t0,t6,t12,t18}', 1) OR match_at_least(tags, '{t3,t5,t7,t9}', 1)) AND n BETWEEN (SELECT 0) AND (SELECT 500)$q$)) v(c)
	UNION ALL SELECT 'FOR UPDATE: ' || c, same_bitmap(c, 'FOR UPDATE') FROM (VALUES ($q$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1)$q$),
		($q$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1) AND n BETWEEN (SELECT 0) AND (SELECT 600)$q$)) v(c)
$$;
SELECT same_bitmap($$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1)$$);
SET work_mem = '64kB';
SELECT * FROM same_bitmaps();
-- rows' versions of lossy blocks: updated in place and elsewhere, deleted, a transaction's own, and those of one that is rolled back
UPDATE wide SET filler = 'y' WHERE id % 3 = 0;
DELETE FROM wide WHERE id % 7 = 1;
BEGIN;
UPDATE wide SET tags = tags || '{t1,t2,t3}' WHERE id % 5 = 2;
INSERT INTO wide SELECT i, i, '{t1,t2,t6}', 'z' FROM generate_series(1, 500) i;
SELECT result FROM same_bitmaps();
ROLLBACK;
SELECT same_bitmap($$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1)$$, 'FOR UPDATE');
-- a bitmap for each value of another table
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT t, (SELECT count(*) FROM wide WHERE match_at_least(tags, t, 1)) = (SELECT count(*) FROM wide WHERE tags && t) AS same
FROM (VALUES (ARRAY['t1','t2','t3','t4','t6','t8']), (ARRAY['t29']), (ARRAY['t0','t5','t10','t15','t20','t25'])) v(t);
RESET enable_seqscan;
RESET enable_indexscan;
-- the comparison detects a difference: another condition by bitmap
SELECT same_bitmap($$match_at_least(tags, '{t1,t2,t3,t4,t5,t6,t8,t10}', 1) AND (n < 500 OR current_setting('enable_bitmapscan') = 'on')$$);
RESET work_mem;
SELECT tags @# '\x00', id FROM tagged LIMIT 1;
SELECT ARRAY[1, 2] @# match_condition(ARRAY[2, 3], 1) AS one, ARRAY[1, 2] @# match_condition(ARRAY[2, 3], 2) AS two;
DROP FUNCTION person(int);
DROP TABLE figure1, people, tagged, wide;
DROP FUNCTION people_agree(), same_rows(text), same_bitmap(text, text), same_bitmaps();
