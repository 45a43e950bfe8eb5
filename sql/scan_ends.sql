-- Where scans end: at a bound on the distance, at a LIMIT above, nowhere; pages by LIMIT and OFFSET; batches sized by the share that passes
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
LOAD 'vectorgpu';
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker_timeout = '2min';

-- Every fifth row is a copy, every fortieth has no value. Rows lie in groups of a hundred.
CREATE TABLE ends (id int PRIMARY KEY, grp int, v vector(6), bits bit(64), tags int[]) WITH (autovacuum_enabled = off);
INSERT INTO ends SELECT i, i % 10,
	CASE WHEN i % 40 > 0 THEN (SELECT array_agg(((hashint4(g * 100 + d) & 1023) + (hashint4(j * 7 + d) & 63)) / 64.0::real ORDER BY d) FROM generate_series(1, 6) d)::vector END,
	(hashint8(j)::bit(32) || hashint8(j * 3 + 1)::bit(32))::bit(64),
	(SELECT array_agg(DISTINCT (hashint4(g * 50 + d) & 255) + (hashint4(j + d * 31) & 15)) FROM generate_series(1, 8) d)
FROM (SELECT i, CASE WHEN i % 5 = 0 THEN i - 1 ELSE i END AS j FROM generate_series(1, 3000) i) r, LATERAL (SELECT j / 100 AS g) s;
CREATE INDEX ends_flat ON ends USING gpuflat (v);
CREATE INDEX ends_ivf ON ends USING gpuivf (v);
CREATE INDEX ends_graph ON ends USING gpugraph (v);
CREATE INDEX ends_bits ON ends USING gpugraph (bits bit_hamming_ops);
CREATE INDEX ends_tags ON ends USING gpumatch (tags);
CREATE INDEX ends_lsh ON ends USING gpumatch (v vector_lsh_l2_ops (hashes = 64, width = 4));
VACUUM ANALYZE ends;
CREATE TABLE methods (name text, distance text, query text);
INSERT INTO methods VALUES ('ends_flat', 'v <-> $q', (SELECT v::text FROM ends WHERE id = 777)), ('ends_ivf', 'v <-> $q', (SELECT v::text FROM ends WHERE id = 777)),
	('ends_graph', 'v <-> $q', (SELECT v::text FROM ends WHERE id = 777)), ('ends_bits', 'bits <~> $q', (SELECT bits::text FROM ends WHERE id = 777)),
	('ends_tags', 'tags <#> $q', (SELECT tags::text FROM ends WHERE id = 777)), ('ends_lsh', 'v <-> $q', (SELECT v::text FROM ends WHERE id = 777));

-- Leave the planner one index, or none.
CREATE FUNCTION only_index(index text) RETURNS void LANGUAGE sql AS $$
	UPDATE pg_index SET indisvalid = coalesce(indexrelid = to_regclass(index), false) WHERE indrelid = 'ends'::regclass AND NOT indisprimary;
	SELECT set_config('enable_seqscan', CASE WHEN index IS NULL THEN 'on' ELSE 'off' END, false), set_config('enable_sort', CASE WHEN index IS NULL THEN 'on' ELSE 'off' END, false);
$$;
CREATE FUNCTION scan_of(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) %s', query) INTO plan;
	RETURN pg_temp.first_scan(plan);
END $$;
CREATE FUNCTION ids_of(query text) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	ids int[];
BEGIN
	EXECUTE format('SELECT array_agg(id) FROM (%s) s', query) INTO ids;
	RETURN coalesce(ids, '{}');
END $$;
CREATE FUNCTION with_query(text, m methods) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT replace(replace($1, '$d', m.distance), '$q', quote_literal(m.query) || CASE m.name WHEN 'ends_bits' THEN '::bit(64)' WHEN 'ends_tags' THEN '::int[]' ELSE '::vector' END)
$$;

-- A bound on the distance ends the scan: the rows are those of a sequential scan, and the scan requests few. Recall targets of 1, so that no row may be missing.
SET gpuivf.recall_target = 1;
SET gpugraph.recall_target = 1;
CREATE FUNCTION bounded(condition text, OUT same boolean, OUT "asked for all" text) LANGUAGE plpgsql AS $$
DECLARE
	m methods;
	query text;
	answerer text;
	ids int[];
	asked int;
BEGIN
	same := true;
	"asked for all" := '';
	FOR m IN SELECT * FROM methods LOOP
		query := with_query('SELECT id FROM ends WHERE ' || condition || ' ORDER BY $d LIMIT 400', m);
		-- Matches: minus the number of shared elements.
		query := replace(query, '$x', CASE m.name WHEN 'ends_tags' THEN '-4.5' WHEN 'ends_bits' THEN '22.5' ELSE '1.4' END);
		PERFORM only_index(NULL);
		ids := ids_of(replace(query, ' LIMIT', ', ctid LIMIT'));
		PERFORM only_index(m.name);
		FOREACH answerer IN ARRAY '{off,on}'::text[] LOOP
			PERFORM set_config('vectorgpu.worker', answerer, true);
			same := same AND ids_of(query) = ids;
			asked := scan_of(query) ->> 'Rows Asked';
			IF asked IS NULL THEN "asked for all" := "asked for all" || ' NO INDEX'; END IF;
			IF asked >= 3000 THEN "asked for all" := "asked for all" || format(' %s %s', m.name, answerer); END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT c AS condition, b.* FROM unnest(ARRAY['$d < $x', '$d <= $x', '$x > $d', '$d BETWEEN -100 AND $x', '$d < $x::float4', '$d < $x::numeric', '$d < $x AND grp < 9',
	'1 - ($d) > 1 - $x', '($d) * -2 + 1 >= -2 * $x + 1', '3 / 4.0 * ($d) / 2 < 3 / 8.0 * $x', '- ($d) > - ($x)', '$d < (SELECT $x::float8)', '$d < $x + extract(epoch FROM now() - now())',
	-- these are no bounds
	'$d > $x', '$d <> 0', '1 - ($d) < 1 - $x', '($d) * 0 < $x', '$d < $x + random() * 0', '($d) ^ 2 < ($x) ^ 2 AND $d > -200', '$d < ''NaN''', '$d < grp + 0.5', '$d < ''Infinity''']) WITH ORDINALITY u (c, n), bounded(c) b ORDER BY n;
-- the query may be written twice, with the operands swapped; another query is no bound. One pass over the pages, or more
CREATE FUNCTION passes(query text) RETURNS float8 LANGUAGE plpgsql SET vectorgpu.worker = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
	before bigint := pg_stat_get_xact_blocks_fetched('ends_flat'::regclass);
BEGIN
	EXECUTE query;
	RETURN pg_stat_get_xact_blocks_fetched('ends_flat'::regclass) - before;
END $$;
SELECT only_index('ends_flat');
PREPARE bounded (vector, vector, float8) AS SELECT id FROM ends WHERE $1 <-> v < $3 ORDER BY v <-> $2 LIMIT 400;
PREPARE plain (vector) AS SELECT id FROM ends ORDER BY v <-> $1 LIMIT 400;
SELECT what, round((passes(replace(replace(q, '$q', quote_literal(m.query)), '$o', quote_literal('[1,2,3,4,5,6]'))) / passes(format('EXECUTE plain(%L)', m.query)))::numeric, 1) AS passes
FROM methods m, (VALUES (1, 'same query', 'EXECUTE bounded($q, $q, 1.4)'), (2, 'another query', 'EXECUTE bounded($o, $q, 5)'), (3, 'NULL', 'EXECUTE bounded($q, $q, NULL)'),
	(4, 'three bounds', 'SELECT count(*) FROM generate_series(1, 3) x, LATERAL (SELECT id FROM ends WHERE v <-> $q < x * 0.4 ORDER BY v <-> $q LIMIT 400) s'),
	(5, 'below a sub-select', 'SELECT count(*) FROM (SELECT id, v <-> $q AS d FROM ends ORDER BY v <-> $q) s WHERE d < 1.4')) t (n, what, q) WHERE name = 'ends_flat' ORDER BY n;
DEALLOCATE ALL;
-- rows without a value, and without a distance, are beyond any bound
SELECT only_index('ends_flat');
SELECT count(*), count(d) FROM (SELECT v <-> '[0,0,0,0,0,0]' AS d FROM ends WHERE v <-> '[0,0,0,0,0,0]' < 1e30 ORDER BY v <-> '[0,0,0,0,0,0]' LIMIT 5000) s;
-- PostgreSQL sorts NaN above all numbers, 1 - NaN too: a zero vector passes a condition that a row too far away does not
CREATE TABLE zeros (id int, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO zeros SELECT i, CASE WHEN i % 700 = 0 THEN '[0,0,0]'::vector WHEN i % 99 > 0 THEN ARRAY[hashint4(i) & 255, hashint4(i + 1) & 255, (hashint4(i + 2) & 255) + 1]::vector END FROM generate_series(1, 2000) i;
ANALYZE zeros;
CREATE FUNCTION with_nan(method text, condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT id FROM zeros WHERE ' || replace(condition, '$d', 'v <=> ''[1,2,3]''') || ' ORDER BY v <=> ''[1,2,3]'', id LIMIT 400';
	ids int[];
	found int[];
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
	ids := ids_of(query);
	EXECUTE format('CREATE INDEX zeros_v ON zeros USING %s (v vector_cosine_ops)', method);
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true);
	FOR i IN 1 .. 2 LOOP -- the second scan knows of the first
		found := ids_of(replace(query, ', id LIMIT', ' LIMIT'));
		IF (SELECT array_agg(u ORDER BY u) FROM unnest(found) u) IS DISTINCT FROM (SELECT array_agg(u ORDER BY u) FROM unnest(ids) u) THEN RETURN 'DIFFERENT'; END IF;
	END LOOP;
	DROP INDEX zeros_v;
	RETURN cardinality(ids);
END $$;
SET gpuivf.recall_target = 1;
SET gpugraph.recall_target = 1;
SELECT c AS condition, with_nan('gpuflat', c), with_nan('gpuivf', c), with_nan('gpugraph', c)
	FROM unnest(ARRAY['1 - ($d) > 0.995', '-($d) >= -0.002', '$d < 0.005', '1 - ($d) > 0.995 AND $d < 0.004', '1 - ($d) > 0.995 AND id > 1000', '1 - ($d) > ''Infinity''']) c;
DELETE FROM zeros WHERE id % 700 = 0;
SELECT with_nan('gpuflat', '1 - ($d) > 0.995'), with_nan('gpuivf', '1 - ($d) > 0.995');
-- such a row inserted later is found, also after a merge
CREATE INDEX zeros_v ON zeros USING gpuivf (v vector_cosine_ops);
SET enable_seqscan = off;
SET enable_sort = off;
SELECT count(*) FROM (SELECT id FROM zeros WHERE 1 - (v <=> '[1,2,3]') > 0.995 ORDER BY v <=> '[1,2,3]' LIMIT 400) s;
INSERT INTO zeros VALUES (9999, '[0,0,0]');
SELECT count(*), bool_or(id = 9999) AS late FROM (SELECT id FROM zeros WHERE 1 - (v <=> '[1,2,3]') > 0.995 ORDER BY v <=> '[1,2,3]' LIMIT 400) s;
SELECT vectorgpu_merge('zeros_v') IS NOT NULL AS merged;
SELECT count(*), bool_or(id = 9999) AS late FROM (SELECT id FROM zeros WHERE 1 - (v <=> '[1,2,3]') > 0.995 ORDER BY v <=> '[1,2,3]' LIMIT 400) s;
-- digits that small numbers do not have
SELECT only_index('ends_flat');
SELECT count(*) > 0 AS found FROM (SELECT id FROM ends WHERE (v <-> '[1,2,3,4,5,6]') * 1e-320::float8 <= 1e-318::float8 ORDER BY v <-> '[1,2,3,4,5,6]' LIMIT 5) s;
-- no row, no condition
CREATE TABLE none (v vector(3));
CREATE INDEX ON none USING gpuflat (v);
PREPARE divided (float8) AS SELECT v FROM none WHERE v <-> '[1,2,3]' < 1 / $1 ORDER BY v <-> '[1,2,3]' LIMIT 5;
SET plan_cache_mode = force_generic_plan;
EXECUTE divided(0);
RESET plan_cache_mode;
DEALLOCATE divided;
DROP TABLE zeros, none;
DROP FUNCTION with_nan;
RESET gpuivf.recall_target;
RESET gpugraph.recall_target;

-- Pages are one sequence: in ten pages of 20 no row comes twice, and none of LIMIT 200 is missing. Backend and worker give the same pages.
CREATE FUNCTION paged(index text, condition text, OUT twice int, OUT missing int, OUT alike boolean) LANGUAGE plpgsql AS $$
DECLARE
	m methods;
	query text;
	answerer text;
	pages int[] := '{}';
	before int[];
BEGIN
	SELECT * INTO m FROM methods WHERE name = index;
	query := with_query('SELECT id FROM ends ' || condition || ' ORDER BY $d LIMIT %s OFFSET %s', m);
	PERFORM only_index(index);
	twice := 0;
	missing := 0;
	FOREACH answerer IN ARRAY '{off,on}'::text[] LOOP
		before := pages;
		PERFORM set_config('vectorgpu.worker', answerer, true);
		pages := (SELECT array_agg(id ORDER BY p, n) FROM generate_series(0, 9) p, unnest(ids_of(format(query, 20, 20 * p))) WITH ORDINALITY u (id, n));
		twice := twice + cardinality(pages) - (SELECT count(DISTINCT id) FROM unnest(pages) id);
		missing := missing + (SELECT count(*) FROM unnest(ids_of(format(query, 200, 0))) id WHERE id <> ALL (pages));
	END LOOP;
	-- A GPU looks at all rows sooner than a search by a graph.
	alike := before = pages OR (index IN ('ends_graph', 'ends_bits') AND (SELECT engine = 'cuda' FROM vectorgpu_worker));
END $$;
SET gpuivf.recall_target = 0.8;
SET gpugraph.recall_target = 0.8;
SELECT name, condition, p.* FROM methods m, unnest(ARRAY['', 'WHERE grp < 5', 'WHERE grp = 3']) WITH ORDINALITY c (condition, n), paged(name, condition) p ORDER BY name, n;
-- with late rows too; with lists and widths that are set; with a delta, dead rows and a second segment
SET vectorgpu.scan_order = relaxed;
SELECT name, p.* FROM methods m, paged(name, '') p WHERE name IN ('ends_ivf', 'ends_graph', 'ends_lsh') ORDER BY name;
RESET vectorgpu.scan_order;
SET gpuivf.probes = 2;
SET gpugraph.search_width = 5;
SELECT name, p.* FROM methods m, paged(name, '') p WHERE name IN ('ends_ivf', 'ends_graph') ORDER BY name;
RESET gpuivf.probes;
RESET gpugraph.search_width;
-- without stable pages one search for all
SELECT only_index('ends_ivf');
SELECT scan_of(with_query('SELECT id FROM ends ORDER BY $d LIMIT 600', m)) ->> 'Rounds' AS stable FROM methods m WHERE name = 'ends_ivf';
SET vectorgpu.stable_pages = off;
SELECT scan_of(with_query('SELECT id FROM ends ORDER BY $d LIMIT 600', m)) ->> 'Rounds' AS otherwise FROM methods m WHERE name = 'ends_ivf';
RESET vectorgpu.stable_pages;
DELETE FROM ends WHERE id % 7 = 0;
INSERT INTO ends SELECT id + 10000, grp, v, bits, tags FROM ends WHERE id % 3 = 0;
SELECT name, p.* FROM methods m, paged(name, '') p ORDER BY name;
VACUUM ends;
INSERT INTO ends SELECT id + 20000, grp, v, bits, tags FROM ends WHERE id % 9 = 0;
SELECT name, p.* FROM methods m, paged(name, 'WHERE grp < 8') p ORDER BY name;
RESET gpuivf.recall_target;
RESET gpugraph.recall_target;

-- What ends a scan: "rounds" if a LIMIT can, "exact" from the first row on if nothing can.
CREATE FUNCTION way(index text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	m methods;
	scan jsonb;
BEGIN
	SELECT * INTO m FROM methods WHERE name = index;
	PERFORM only_index(index);
	scan := scan_of(with_query(query, m));
	RETURN CASE WHEN scan IS NULL THEN 'NO SCAN' WHEN scan ->> 'Exhaustive' = scan ->> 'Rounds' THEN 'exact' ELSE 'rounds' END;
END $$;
CREATE TABLE taken (id int);
SET gpuivf.probes = 1;
SET gpugraph.search_width = 10;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT q AS query, way('ends_ivf', q) AS ends_ivf, way('ends_graph', q) AS ends_graph, way('ends_lsh', q) AS ends_lsh FROM unnest(ARRAY[
	'SELECT id FROM ends ORDER BY $d LIMIT 5',
	'SELECT id FROM ends WHERE grp = 3 ORDER BY $d LIMIT 5',
	'SELECT id FROM ends ORDER BY $d LIMIT 5 FOR UPDATE',
	'SELECT e.id FROM ends e JOIN generate_series(1, 9) g ON e.grp = g ORDER BY e.$d LIMIT 5',
	'SELECT s.id FROM (SELECT id FROM ends ORDER BY $d OFFSET 1) s LIMIT 5',
	'SELECT id, row_number() OVER () FROM (SELECT id FROM ends ORDER BY $d OFFSET 0) s LIMIT 5',
	'SELECT DISTINCT ON ($d) id FROM ends ORDER BY $d LIMIT 5',
	'SELECT * FROM (SELECT id, grp, $d AS d FROM ends ORDER BY $d OFFSET 0) s ORDER BY d, grp LIMIT 5',
	'WITH w AS MATERIALIZED (SELECT id FROM ends ORDER BY $d) SELECT id FROM w LIMIT 5',
	'(SELECT id FROM ends ORDER BY $d) UNION ALL SELECT 1 LIMIT 5',
	'SELECT count(*) FROM generate_series(1, 2) g, LATERAL (SELECT id FROM ends ORDER BY $d LIMIT g) s',
	-- nothing ends these scans
	'SELECT id FROM ends ORDER BY $d',
	'SELECT id FROM ends ORDER BY $d LIMIT ALL',
	'SELECT id FROM ends ORDER BY $d LIMIT NULL',
	'SELECT id FROM ends ORDER BY $d LIMIT (SELECT NULL::int)',
	'SELECT id FROM ends ORDER BY $d OFFSET 3',
	'SELECT id FROM (SELECT id, grp FROM ends ORDER BY $d OFFSET 0) s ORDER BY grp LIMIT 5',
	'SELECT count(*) FROM (SELECT id FROM ends ORDER BY $d OFFSET 0) s LIMIT 5',
	'SELECT grp, count(*) FROM (SELECT id, grp FROM ends ORDER BY $d OFFSET 0) s GROUP BY grp LIMIT 1',
	'SELECT ARRAY(SELECT id FROM ends ORDER BY $d) LIMIT 1',
	'WITH w AS (INSERT INTO taken SELECT id FROM ends ORDER BY $d) SELECT 1 LIMIT 1',
	'WITH w AS MATERIALIZED (SELECT id FROM ends ORDER BY $d) SELECT id FROM w UNION ALL (SELECT id FROM w LIMIT 5)']) WITH ORDINALITY u (q, n) ORDER BY n;
SET vectorgpu.scan_order = relaxed;
SELECT q AS query, way('ends_ivf', q) FROM unnest(ARRAY['SELECT id FROM ends ORDER BY $d', 'SELECT id FROM ends WHERE $d < 2 ORDER BY $d', 'SELECT id FROM ends WHERE $d < 2 ORDER BY $d LIMIT 5']) q;
SET vectorgpu.range_search = exact;
SELECT way('ends_ivf', 'SELECT id FROM ends WHERE $d < 2 ORDER BY $d');
RESET vectorgpu.scan_order;
SELECT way('ends_ivf', 'SELECT id FROM ends WHERE $d < 2 ORDER BY $d');
RESET vectorgpu.range_search;
-- a WITH with many references is analysed in acceptable time
SELECT way('ends_ivf', 'WITH w0 AS MATERIALIZED (SELECT id FROM ends ORDER BY $d)' || string_agg(format(', w%s AS MATERIALIZED (SELECT * FROM w%s UNION ALL SELECT * FROM w%s)', i, i - 1, i - 1), '' ORDER BY i) || ' SELECT * FROM w30 LIMIT 1')
	FROM generate_series(1, 30) i;
-- no row is missing: cursors, loops of PL/pgSQL, LIMIT NULL as a parameter
CREATE FUNCTION looped() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	r record;
	n bigint := 0;
BEGIN
	FOR r IN SELECT id FROM ends ORDER BY v <-> '[1,2,3,4,5,6]' LOOP
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
CREATE FUNCTION matching(n int) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT id FROM ends ORDER BY v <-> '[1,2,3,4,5,6]' LIMIT n;
END $$;
SET plan_cache_mode = force_generic_plan; -- a Limit that learns of its NULL as it runs
SELECT index, only_index(index) IS NULL AS set, looped() = all_rows AS looped, count(DISTINCT matching) = all_rows AS "LIMIT NULL"
	FROM unnest('{ends_ivf,ends_graph}'::text[]) index, (SELECT count(*) AS all_rows FROM ends) a, LATERAL matching(CASE index WHEN '' THEN 1 END) GROUP BY index, all_rows ORDER BY index;
RESET plan_cache_mode;
SELECT only_index('ends_ivf');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM ends ORDER BY v <-> '[1,2,3,4,5,6]';
MOVE 100 IN c;
MOVE ALL IN c;
CLOSE c;
COMMIT;
-- and the planner's cost includes it
EXPLAIN (COSTS OFF) SELECT id FROM ends ORDER BY v <-> '[1,2,3,4,5,6]' LIMIT 3;
RESET enable_seqscan;
RESET enable_sort;
EXPLAIN (COSTS OFF) SELECT id FROM ends ORDER BY v <-> '[1,2,3,4,5,6]';
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET gpuivf.probes;
RESET gpugraph.search_width;

-- Pages over partitions, whose scans share one LIMIT
CREATE TABLE parted (id int, v vector(6)) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES FROM (%s) TO (%s)', i, i * 500, i * 500 + 500) FROM generate_series(0, 5) i \gexec
INSERT INTO parted SELECT id, v FROM ends WHERE id < 3000;
CREATE INDEX ON parted USING gpuivf (v);
ANALYZE parted;
SET enable_seqscan = off;
SET enable_sort = off;
SET gpuivf.recall_target = 0.5;
SELECT count(*) = count(DISTINCT id) AS none_twice, array_agg(id ORDER BY p, n) = ids_of('SELECT id FROM parted ORDER BY v <-> ''[1,2,3,4,5,6]'' LIMIT 400') AS one_sequence
	FROM generate_series(0, 19) p, unnest(ids_of(format('SELECT id FROM parted ORDER BY v <-> ''[1,2,3,4,5,6]'' LIMIT 20 OFFSET %s', 20 * p))) WITH ORDINALITY u (id, n);
RESET gpuivf.recall_target;
DROP TABLE parted, taken;

-- The next batch is sized by the share that has passed: a scan that is one row short does not look at the whole table.
DROP TABLE ends;
DROP FUNCTION looped, matching, way;
CREATE TABLE ends (id int PRIMARY KEY, v vector(4)) WITH (autovacuum_enabled = off);
INSERT INTO ends SELECT i, (SELECT array_agg((hashint4(i * 4 + d) & 1023) / 64.0::real) FROM generate_series(1, 4) d)::vector FROM generate_series(1, 8000) i;
CREATE INDEX ends_flat ON ends USING gpuflat (v);
CREATE INDEX ends_ivf ON ends USING gpuivf (v) WITH (lists = 80);
CREATE INDEX ends_graph ON ends USING gpugraph (v);
VACUUM ANALYZE ends;
SET vectorgpu.worker = off;
CREATE FUNCTION effort(index text, query text, unfiltered text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n float8;
	base float8;
BEGIN
	PERFORM only_index(index);
	EXECUTE 'SELECT count(*) FROM (' || query || ') s' INTO n; -- dead rows are known from the second scan on
	IF n <> 100 THEN RETURN 'ROWS'; END IF;
	n := scan_of(query) ->> 'Compared';
	base := scan_of(unfiltered) ->> 'Compared';
	RETURN CASE WHEN n <= 1.3 * base THEN 'at most 1.3 x' WHEN n <= 3 * base THEN 'at most 3 x' ELSE format('%s x', round((n / base)::numeric, 1)) END;
END $$;
SELECT index, effort(index, 'SELECT id FROM ends WHERE id % 50 <> 3 ORDER BY v <-> ''[8,8,8,8]'' LIMIT 100', p.q) AS "98 of 100 pass",
	CASE WHEN index <> 'ends_graph' THEN effort(index, 'SELECT id FROM ends WHERE id % 2 = 0 ORDER BY v <-> ''[8,8,8,8]'' LIMIT 100', p.q) END AS "50 of 100" -- a graph looks at all rows then, which takes less for each
FROM unnest('{ends_flat,ends_ivf,ends_graph}'::text[]) index, (VALUES ('SELECT id FROM ends ORDER BY v <-> ''[8,8,8,8]'' LIMIT 100')) p (q);
CREATE TABLE base AS SELECT index, only_index(index) IS NULL AS set, (scan_of('SELECT id FROM ends ORDER BY v <-> ''[8,8,8,8]'' LIMIT 100') ->> 'Compared')::float8 AS n
FROM unnest('{ends_flat,ends_ivf,ends_graph}'::text[]) index;
-- dead rows count like a condition
DELETE FROM ends WHERE id % 50 = 3;
SELECT index, effort(index, p.q, p.q) <> 'ROWS' AS enough, (scan_of(p.q) ->> 'Compared')::float8 <= 1.3 * n AS "at most 1.3 x"
FROM base, (VALUES ('SELECT id FROM ends ORDER BY v <-> ''[8,8,8,8]'' LIMIT 100')) p (q);
DROP FUNCTION only_index, scan_of, ids_of, with_query, paged, passes, effort;
DROP TABLE ends, base, methods;

-- A search of a part of the rows leaves infinite distances to a look at all of them: those come by TID, and all before NULL.
\set file :srcdir '/sql/include/compare.sql'
\i :file
RESET vectorgpu.worker;
RESET enable_sort;
CREATE TABLE far (id int, v vector(2)) WITH (autovacuum_enabled = off);
INSERT INTO far SELECT i, CASE WHEN i % 10 > 0 THEN ARRAY[1 + (hashint4(i) & 1023), 1 + (hashint4(-i) & 1023)]::real[]::vector END FROM generate_series(1, 2000) i;
CREATE FUNCTION far_rows(method text) RETURNS TABLE (distance text, "limit" int, rows text) LANGUAGE plpgsql AS $$
BEGIN
	FOR distance IN SELECT unnest('{<->,<#>}'::text[]) LOOP
		EXECUTE format('CREATE INDEX far_index ON far USING ' || method, CASE distance WHEN '<->' THEN 'vector_l2_ops' ELSE 'vector_ip_ops' END);
		INSERT INTO far SELECT i, CASE WHEN i % 10 > 0 THEN '[1,1]'::vector END FROM generate_series(2001, 2020) i;
		RETURN QUERY SELECT distance, n, pg_temp.compare_scans('far', 'v ' || distance || ' ''[3e38,3e38]''', 'LIMIT ' || n) FROM unnest('{10,300,900,1818,1900}'::int[]) n;
		DROP INDEX far_index;
		DELETE FROM far WHERE id > 2000;
	END LOOP;
END $$;
SELECT * FROM far_rows('gpuivf (v %s) WITH (lists = 40)');
SELECT * FROM far_rows('gpugraph (v %s)');
SET vectorgpu.worker = off;
SELECT * FROM far_rows('gpuivf (v %s) WITH (lists = 40)');
SELECT * FROM far_rows('gpugraph (v %s)');
RESET vectorgpu.worker;
DROP TABLE far;
DROP FUNCTION far_rows;

-- A second key of the order lets the LIMIT through: with more than half of the rows wanted none is late.
CREATE TABLE near (id int PRIMARY KEY, v vector(3)) WITH (autovacuum_enabled = off);
INSERT INTO near SELECT i, ARRAY[(hashint4(i) & 1023) % 11 - 5, (hashint4(i * 3 + 1) & 1023) % 11 - 5, (hashint4(i * 7 + 2) & 1023) % 11 - 5]::real[]::vector
	FROM generate_series(1, 1500) i;
INSERT INTO near SELECT i, '[0,0,0]' FROM generate_series(1501, 1650) i;
CREATE INDEX ON near USING gpuivf (v vector_cosine_ops);
ANALYZE near;
SET vectorgpu.worker = off;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT n, (SELECT count(*) FROM (SELECT id FROM near ORDER BY v <=> '[-1,-1,0]', id LIMIT n) s) FROM unnest('{1000,1500,1650,5000}'::int[]) n;
SELECT count(*) FROM (SELECT id FROM near ORDER BY v <=> '[-1,-1,0]', id LIMIT 5000) s;
DROP TABLE near;
