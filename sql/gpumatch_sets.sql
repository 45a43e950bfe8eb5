-- gpumatch over arrays and tsvector: index scan = sequential scan, in build, delta and after merges
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

SELECT opcname, opcdefault, opcintype::regtype, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'gpumatch' AND opcname NOT LIKE '%filter\_ops' ORDER BY opcname;

CREATE TABLE sets (id int, i4 int[], i8 bigint[], t text[], u uuid[], d tsvector);
CREATE FUNCTION set_row(i int) RETURNS sets LANGUAGE sql IMMUTABLE AS $$
	SELECT i, coalesce(a, '{}'), coalesce(a::bigint[], '{}'), coalesce(t, '{}'),
		array(SELECT md5(x)::uuid FROM unnest(t) x), array_to_tsvector(coalesce(t, '{}'))
	FROM (SELECT array_agg(k) AS a, array_agg('word' || k) AS t
		FROM (SELECT (i * 7919 + j * j * 31) % 97 - 40 AS k FROM generate_series(1, i % 12) j) e) r
$$;
INSERT INTO sets SELECT (set_row(i)).* FROM generate_series(1, 2000) i;
INSERT INTO sets VALUES (-2);
INSERT INTO sets VALUES (-1, '{}', '{}', '{}', '{}', ''), (-3, '{NULL,3,NULL}', '{NULL}', '{NULL,word3}', '{NULL}', 'word3'),
	(-4, '{3,3,3}', '{3,3}', '{word3,word3}', '{}', 'word3:1,2,3'), (-5, '{{1,2},{3,4}}', '[7:8]={1,2}', '{""}', '{}', '');
CREATE INDEX sets_i4 ON sets USING gpumatch (i4);
CREATE INDEX sets_i8 ON sets USING gpumatch (i8);
CREATE INDEX sets_t ON sets USING gpumatch (t array_match_ops);
CREATE INDEX sets_u ON sets USING gpumatch (u);
CREATE INDEX sets_d ON sets USING gpumatch (d);

CREATE FUNCTION agree() RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
DECLARE
	distance text;
	tail text;
BEGIN
	FOREACH distance IN ARRAY ARRAY['i4 <#> ''{1,2,3,4,5,6,7,8,9,10}''', 'i4 <#> ''{}''', 'i4 <#> ''{1000000}''', 'i4 <#> ''{-40,2,NULL,2,56}''',
			'i8 <#> ''{1,2,3,4,5,6,7,8,9,10}''', 't <#> ''{word1,word2,word3,word40,word-7,absent,""}''',
			'u <#> array(SELECT md5(''word'' || x)::uuid FROM generate_series(-10, 20) x)', 'd <#> ''word3 word30 word-3 word17 nothing''']
	LOOP
		FOREACH tail IN ARRAY ARRAY['', 'LIMIT 1', 'LIMIT 10', 'LIMIT 500', 'LIMIT 100000', 'OFFSET 1990', 'WHERE id % 7 = 0 LIMIT 20']
		LOOP
			line := pg_temp.compare_scans('sets', distance, tail);
			IF line !~ '^index scan, \d+ rows, same$' OR tail = '' THEN
				line := format('%s %s: %s', distance, tail, line);
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
	FOR line IN SELECT format('%s: %s rows, %s NULL, %s in the delta, %s segments', c, k.rows, k.null_rows, k.delta_rows, k.segments)
		FROM (VALUES ('sets_i4'), ('sets_i8'), ('sets_t'), ('sets_u'), ('sets_d')) v(c), vectorgpu_check(c::regclass, true) k
	LOOP
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM agree();

-- the delta beside the build; values of many pages
INSERT INTO sets SELECT (set_row(i)).* FROM generate_series(2001, 2300) i;
INSERT INTO sets SELECT 9000 + n, array_agg(i), array_agg(i::bigint), array_agg('word' || i), array_agg(md5('word' || i)::uuid),
	array_to_tsvector(array_agg('word' || i)) FROM (VALUES (1, 500), (2, 3000), (3, 20000)) v(n, m), generate_series(1, m) i GROUP BY n;
INSERT INTO sets VALUES (-6);
INSERT INTO sets VALUES (-7, '{}', '{}', '{}', '{}', '');
SELECT * FROM agree();

-- updates, deletes, vacuum
UPDATE sets SET i4 = i4 || 5 WHERE id % 50 = 0;
DELETE FROM sets WHERE id % 9 = 4;
VACUUM sets;
SELECT * FROM agree();

-- all in one segment
SELECT index_name, segments_after FROM (VALUES ('sets_i4'), ('sets_i8'), ('sets_t'), ('sets_u'), ('sets_d')) v(index_name), vectorgpu_merge(index_name::regclass);
SELECT * FROM agree();
REINDEX INDEX CONCURRENTLY sets_i4;
SELECT pg_temp.compare_scans('sets', 'i4 <#> ''{1,2,3}''', 'LIMIT 50');

-- a build of several runs, with parallel workers, equals one of a single run
CREATE TABLE many (id int, a int[]) WITH (autovacuum_enabled = off);
INSERT INTO many SELECT i, ARRAY[i % 7, i % 1000, i % 50000, i, i * 3 % 911] FROM generate_series(1, 60000) i;
SET maintenance_work_mem = '1MB';
CREATE INDEX many_a ON many USING gpumatch (a);
SELECT rows, segments FROM vectorgpu_check('many_a', true);
SELECT pg_temp.compare_scans('many', 'a <#> ''{3,17,30017,908,59999}''', 'LIMIT 100');
SET work_mem = '64kB';
SELECT pg_temp.compare_scans('many', 'a <#> ''{3,17,30017,908,59999}''', 'LIMIT 3000');
RESET work_mem;
SELECT pg_relation_size('many_a') AS one_run \gset
SET maintenance_work_mem = '256MB';
REINDEX INDEX many_a;
SELECT pg_relation_size('many_a') = :one_run AS same_size;
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
REINDEX INDEX many_a;
SELECT pg_relation_size('many_a') = :one_run AS same_size;
SELECT rows, segments FROM vectorgpu_check('many_a', true);
RESET maintenance_work_mem;
RESET max_parallel_maintenance_workers;
RESET min_parallel_table_scan_size;

-- expressions, predicates, domains, varchar; unlogged and temporary
CREATE DOMAIN tags AS text[];
CREATE UNLOGGED TABLE other (id int, s text, v varchar[], g tags);
INSERT INTO other SELECT i, 'a b c' || i % 10, ARRAY['x' || i % 5, 'y'], ARRAY['x' || i % 5, 'z'] FROM generate_series(1, 200) i;
CREATE INDEX ON other USING gpumatch (string_to_array(s, ' '));
CREATE INDEX ON other USING gpumatch (to_tsvector('simple', s)) WHERE id < 100;
CREATE INDEX ON other USING gpumatch (v);
CREATE INDEX ON other USING gpumatch ((v::text[]));
CREATE INDEX ON other USING gpumatch (g);
SELECT pg_temp.compare_scans('other', 'string_to_array(s, '' '') <#> ''{a,c3}''', 'LIMIT 30');
SELECT pg_temp.compare_scans('other', 'to_tsvector(''simple'', s) <#> ''a c3''', 'WHERE id < 100 LIMIT 30');
SELECT pg_temp.compare_scans('other', 'v::text[] <#> ''{x3,y}''', 'LIMIT 30');
SELECT pg_temp.compare_scans('other', 'g <#> ''{x3,y}''', 'LIMIT 30');
CREATE TEMP TABLE here (id int, a int[]);
CREATE INDEX ON here USING gpumatch (a);
SELECT pg_temp.compare_scans('here', 'a <#> ''{1}''');
INSERT INTO here SELECT i, ARRAY[i, i % 3] FROM generate_series(1, 100) i;
SELECT pg_temp.compare_scans('here', 'a <#> ''{1}''');

-- a scan without ORDER BY, and by the distance to NULL: rows in TID order
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM sets ORDER BY i4 <#> NULL) s;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- sets of 100,000 elements: in the build, in the delta and in a query
CREATE TABLE huge (id int, a int[]);
INSERT INTO huge SELECT n, array_agg(i * n) FROM generate_series(1, 2) n, generate_series(1, 100000) i GROUP BY n;
CREATE INDEX huge_a ON huge USING gpumatch (a);
INSERT INTO huge SELECT n, array_agg(i * n) FROM generate_series(3, 3) n, generate_series(1, 100000) i GROUP BY n;
SELECT pg_temp.compare_scans('huge', 'a <#> (SELECT array_agg(i) FROM generate_series(1, 100000) i)');
SELECT id, a <#> (SELECT array_agg(i) FROM generate_series(1, 100000) i) AS d FROM huge ORDER BY 2, 1;
SELECT segments_after FROM vectorgpu_merge('huge_a');
SELECT pg_temp.compare_scans('huge', 'a <#> (SELECT array_agg(i) FROM generate_series(1, 100000) i)');
SELECT rows, delta_rows FROM vectorgpu_check('huge_a', true);

-- what cannot be indexed
CREATE TABLE cannot (a smallint[], b float8[], i int, t text);
CREATE INDEX ON cannot USING gpumatch (a);
CREATE INDEX ON cannot USING gpumatch (b);
CREATE INDEX ON cannot USING gpumatch (i);
CREATE INDEX ON cannot USING gpumatch ((a::int[]), (a::bigint[]));
CREATE INDEX ON cannot USING gpumatch ((a::int[])) WITH (lists = 3);
\set VERBOSITY sqlstate
CREATE INDEX ON cannot USING gpumatch ((a::int[]) array_match_ops (n = 3));
\unset VERBOSITY
CREATE UNIQUE INDEX ON cannot USING gpumatch ((a::int[]));
DROP FUNCTION set_row(int);
DROP TABLE sets, many, other, cannot, huge;
DROP FUNCTION agree();
DROP DOMAIN tags;
