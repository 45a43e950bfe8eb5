-- gpuflat over sparsevec: every operator class, rows of the build and of the delta, dead ones and merged ones, conditions, limits, errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

SELECT opcname, opcdefault, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'gpuflat' AND opcintype = 'sparsevec'::regtype ORDER BY opcname;

-- rows of 0 to 59 elements among 1,000, with many equal distances; every 50th is NULL
CREATE TABLE sparse (id int, k int, v sparsevec(1000)) WITH (autovacuum_enabled = off);
CREATE FUNCTION sparse_row(i int) RETURNS sparsevec LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 50 = 7 THEN NULL ELSE ('{' || coalesce(string_agg(d || ':' || value, ','), '') || '}/1000')::sparsevec END
	FROM (SELECT DISTINCT ON (d) 1 + (hashint4(i % 1500 * 100 + j) & 1023) % CASE WHEN j % 3 = 0 THEN 20 ELSE 1000 END AS d,
		(hashint4(i % 1500 * 7 + j) & 15) - 7.5 AS value FROM generate_series(1, i % 60) j) e
$$;
CREATE FUNCTION sparse_fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sparse SELECT i, i % 10, sparse_row(i) FROM generate_series(first, last) i
$$;
CREATE FUNCTION pg_temp.compare_all(tail text DEFAULT '') RETURNS TABLE (operator text, answer text) LANGUAGE sql AS $$
	SELECT o, string_agg(DISTINCT pg_temp.compare_scans('sparse', format('v %s %L', o, q), tail), ' / ')
	FROM unnest(ARRAY['<->', '<#>', '<=>', '<+>']) o, unnest(ARRAY[sparse_row(33)::text, sparse_row(119)::text, '{}/1000', '{3:2,17:-1.5,900:1e-3}/1000',
		'{1:3e38,2:-3e38,5:1e38}/1000', '{4:1e-30}/1000']) q GROUP BY o ORDER BY o
$$;
SELECT sparse_fill(1, 2000);
CREATE INDEX sparse_l2 ON sparse USING gpuflat (v, k);
CREATE INDEX sparse_ip ON sparse USING gpuflat (v sparsevec_ip_ops);
CREATE INDEX sparse_cosine ON sparse USING gpuflat (v sparsevec_cosine_ops);
CREATE INDEX sparse_l1 ON sparse USING gpuflat (v sparsevec_l1_ops);
SELECT pg_temp.plan($$SELECT id FROM sparse ORDER BY v <-> '{3:2}/1000' LIMIT 5$$);
SELECT * FROM pg_temp.compare_all();
SELECT sparse_fill(2001, 2900);
SELECT * FROM pg_temp.compare_all();
SELECT * FROM pg_temp.compare_all('LIMIT 40');
SELECT index_name, element, metric, dimensions, rows, null_rows, delta_rows, segments FROM vectorgpu_indexes WHERE table_name = 'sparse' ORDER BY index_name;

-- conditions: on a key column, NULL, the distance
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM sparse WHERE k = 3 ORDER BY v <-> '{3:2}/1000' LIMIT 5$$);
SELECT pg_temp.plan($$SELECT id FROM sparse WHERE v IS NOT NULL ORDER BY v <-> '{3:2}/1000'$$);
RESET enable_seqscan;
SELECT pg_temp.compare_scans('sparse', 'v <-> ''{3:2,5:1}/1000''', 'WHERE ' || w)
FROM unnest(ARRAY['k = 3', 'k IN (2, 5) LIMIT 30', 'k = 3 AND id < 100 LIMIT 5', 'id % 7 = 1 LIMIT 9', 'v IS NOT NULL', 'v <-> ''{3:2,5:1}/1000'' < 20',
	'v <-> ''{3:2,5:1}/1000'' < 30 LIMIT 400']) w;
SELECT pg_temp.compare_scans('sparse', 'v <=> ''{3:2,5:1}/1000''', 'WHERE ' || w)
FROM unnest(ARRAY['v <=> ''{3:2,5:1}/1000'' < 0.9', 'NOT v <=> ''{3:2,5:1}/1000'' < 0.9']) w;
SET enable_seqscan = off;
SELECT count(*), count(v) FROM (SELECT v FROM sparse ORDER BY v <-> NULL) s;
SELECT count(*) FROM (SELECT id FROM sparse ORDER BY v <-> '{3:2}/1000' LIMIT 3000) s;
PREPARE near(sparsevec) AS SELECT count(*), min(v <#> $1) FROM (SELECT v FROM sparse ORDER BY v <#> $1 LIMIT 10) s;
EXECUTE near('{3:2,5:1}/1000');
EXECUTE near(NULL);
DEALLOCATE near;
RESET enable_seqscan;
RESET enable_sort;

-- updates, deletes, VACUUM, merges
UPDATE sparse SET k = k + 1 WHERE id % 13 = 1;
UPDATE sparse SET k = 77 WHERE id = 2033;
UPDATE sparse SET v = sparse_row(id + 3) WHERE id % 11 = 2;
DELETE FROM sparse WHERE id % 5 = 0;
SELECT * FROM pg_temp.compare_all('LIMIT 100');
VACUUM sparse;
SELECT sparse_fill(2901, 3100);
SELECT * FROM pg_temp.compare_all();
SELECT index_name, rows, dead_rows > 0 AS has_dead, delta_rows, segments FROM vectorgpu_indexes WHERE table_name = 'sparse' ORDER BY index_name;
SELECT index, rows, null_rows, heap_rows_checked, leaked_blocks
FROM unnest(ARRAY['sparse_l2', 'sparse_ip', 'sparse_cosine', 'sparse_l1']) index, vectorgpu_check(index::regclass, true);
SELECT regexp_replace(m::text, ',\d+,\d+\)$', ')') AS merged FROM (VALUES (vectorgpu_merge('sparse_l2')), (vectorgpu_merge('sparse_cosine'))) v (m);
SELECT * FROM pg_temp.compare_all();
SET enable_sort = off;
SELECT pg_temp.compare_scans('sparse', 'v <-> ''{3:2,5:1}/1000''', 'WHERE ' || w) FROM unnest(ARRAY['k = 3', 'k = 77']) w; -- a row of many is read by itself
-- none is compared that does not pass, whether those that pass are read one by one or with the others
CREATE FUNCTION pg_temp.compared(condition text, OUT way text, OUT compared int, OUT others int) LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id FROM sparse WHERE %s ORDER BY v <-> ''{3:2,5:1}/1000'' LIMIT 10', condition);
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	way := pg_temp.first_scan(plan) ->> 'Filter Way';
	compared := pg_temp.first_scan(plan) ->> 'Compared';
	EXECUTE format('SELECT $1 - count(v) FROM sparse WHERE %s', condition) INTO others USING compared;
END $$;
SET vectorgpu.worker = off;
SELECT w, c.* FROM unnest(ARRAY['k = 77', 'k = 0', 'k = 3', 'k < 8', 'k < 99']) w, pg_temp.compared(w) c;
RESET vectorgpu.worker;
RESET enable_sort;
SELECT index, segments, rows, null_rows, dead_rows, delta_rows, heap_rows_checked, leaked_blocks
FROM unnest(ARRAY['sparse_l2', 'sparse_cosine']) index, vectorgpu_check(index::regclass, true);
RESET enable_bitmapscan;
REINDEX INDEX sparse_ip;
CREATE INDEX CONCURRENTLY sparse_late ON sparse USING gpuflat (v sparsevec_ip_ops) WHERE id > 1000;
SELECT heap_rows_checked = (SELECT count(*) FROM sparse WHERE id > 1000) AS all_rows FROM vectorgpu_check('sparse_late', true);
SELECT sample, k, recall FROM vectorgpu_recall('sparse_l2', 20, 10);
SELECT pg_temp.compare_scans('sparse', 'v <#> ''{3:2,5:1}/1000''');
DROP TABLE sparse;

-- rows of 16,000 elements, of none, and of dimensions beyond a table of all elements; in segment and delta
CREATE TABLE sparse_wide (id int, v sparsevec);
INSERT INTO sparse_wide SELECT i, ('{' || string_agg(j * 62500 - i % 3 || ':' || 1 + (i + j) % 5, ',') || '}/1000000000')::sparsevec
FROM generate_series(1, 4) i, generate_series(1, 16000 - i) j GROUP BY i;
INSERT INTO sparse_wide VALUES (5, '{}/1000000000'), (6, '{1000000000:1}/1000000000'), (7, NULL);
CREATE INDEX ON sparse_wide USING gpuflat ((v::sparsevec(1000000000)) sparsevec_l2_ops);
INSERT INTO sparse_wide SELECT id + 10, v FROM sparse_wide;
SELECT pg_temp.compare_scans('sparse_wide', 'v::sparsevec(1000000000) <-> ''{62500:3,1000000000:7}/1000000000''');
SELECT pg_temp.compare_scans('sparse_wide', format('v::sparsevec(1000000000) <-> %L', (SELECT v FROM sparse_wide WHERE id = 3)));
SELECT rows, heap_rows_checked FROM vectorgpu_check('sparse_wide_v_idx', true);
DROP TABLE sparse_wide;

-- only empty vectors, no row, a temporary table, an unlogged one, and one filled by a parallel build
CREATE TABLE sparse_empty (id int, v sparsevec(3));
CREATE INDEX ON sparse_empty USING gpuflat (v);
SELECT pg_temp.compare_scans('sparse_empty', 'v <-> ''{1:1}/3''');
INSERT INTO sparse_empty SELECT i, '{}/3' FROM generate_series(1, 20) i;
SELECT regexp_replace(vectorgpu_merge('sparse_empty_v_idx')::text, ',\d+,\d+\)$', ')') AS merged;
SELECT pg_temp.compare_scans('sparse_empty', 'v <-> ''{1:1}/3''');
SELECT rows, heap_rows_checked FROM vectorgpu_check('sparse_empty_v_idx', true);
CREATE TEMP TABLE sparse_temp AS SELECT * FROM sparse_empty;
CREATE INDEX ON sparse_temp USING gpuflat (v sparsevec_l1_ops);
SELECT pg_temp.compare_scans('sparse_temp', 'v <+> ''{1:1}/3''');
DROP TABLE sparse_empty, sparse_temp;
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
CREATE UNLOGGED TABLE sparse_parallel AS SELECT i AS id, sparse_row(i)::sparsevec(1000) AS v FROM generate_series(1, 5000) i;
ALTER TABLE sparse_parallel SET (parallel_workers = 2);
CREATE INDEX ON sparse_parallel USING gpuflat (v);
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;
SELECT pg_temp.compare_scans('sparse_parallel', 'v <-> ''{3:2,5:1}/1000''', 'LIMIT 1000');
SELECT rows + null_rows AS rows, heap_rows_checked FROM vectorgpu_check('sparse_parallel_v_idx', true);
DROP TABLE sparse_parallel;

-- errors, and a column that loses its dimensions
CREATE FUNCTION pg_temp.try(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	-- from 17 on names have a schema
	RETURN sqlstate || ' ' || replace(sqlerrm, 'public.', '') || coalesce(' / ' || nullif(hint, ''), '');
END $$;
CREATE TABLE sparse_errors (id int, v sparsevec(3), any_v sparsevec, w vector(3));
INSERT INTO sparse_errors VALUES (1, '{1:1}/3', '{}/2', '[1,2,3]');
CREATE INDEX sparse_errors_v ON sparse_errors USING gpuflat (v);
SELECT command, pg_temp.try(command) FROM unnest(ARRAY[
	'CREATE INDEX ON sparse_errors USING gpuflat (any_v)', 'CREATE INDEX ON sparse_errors USING gpuflat ((any_v::sparsevec(3)))',
	'CREATE INDEX ON sparse_errors USING gpuivf (v)', 'CREATE INDEX ON sparse_errors USING gpugraph (v)', 'CREATE INDEX ON sparse_errors USING gpuflat (w sparsevec_l2_ops)',
	'CREATE INDEX ON sparse_errors USING gpuflat (v vector_l2_ops)', 'CREATE INDEX ON sparse_errors USING gpuflat (v) WITH (lists = 10)',
	'CREATE INDEX ON sparse_errors USING gpuflat (w, v)', 'SELECT vectorgpu_knn_graph(''sparse_errors_v'', 3)',
	'INSERT INTO sparse_errors (v) VALUES (''{}/4'')']) command;
SET enable_seqscan = off;
SELECT pg_temp.plan($$SELECT id FROM sparse_errors ORDER BY v <-> '{}/4'$$);
SELECT pg_temp.try($$SELECT id FROM sparse_errors ORDER BY v <-> '{}/4'$$);
ALTER TABLE sparse_errors ALTER v TYPE sparsevec;
SELECT pg_temp.try('INSERT INTO sparse_errors (v) VALUES (''{}/4'')'), pg_temp.try('INSERT INTO sparse_errors (id, v) VALUES (2, ''{2:2}/3'')');
SELECT id FROM sparse_errors ORDER BY v <-> '{2:3}/3';
SELECT rows, heap_rows_checked FROM vectorgpu_check('sparse_errors_v', true);
SELECT pg_temp.try('REINDEX TABLE sparse_errors');
RESET enable_seqscan;
DROP TABLE sparse_errors;

-- values that are none of the type, as a damaged table may have them
CREATE CAST (bytea AS sparsevec) WITHOUT FUNCTION;
CREATE TABLE sparse_damaged (name text, b bytea);
CREATE INDEX sparse_damaged_b ON sparse_damaged USING gpuflat ((b::sparsevec::sparsevec(3)));
CREATE FUNCTION pg_temp.say(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' ', sqlstate, sqlerrm, detail);
END $$;
SELECT name, pg_temp.say(format('INSERT INTO sparse_damaged VALUES (%L, %L)', name, bytes)),
	pg_temp.say(format('SET LOCAL enable_seqscan = off; SELECT name FROM sparse_damaged ORDER BY b::sparsevec::sparsevec(3) <-> %L::bytea::sparsevec', bytes)) AS query
FROM (VALUES ('right', '\x03000000 01000000 00000000 02000000 0000803f'::bytea), ('out of bounds', '\x03000000 01000000 00000000 03000000 0000803f'),
	('descending', '\x03000000 02000000 00000000 02000000 01000000 0000803f 0000803f'), ('twice', '\x03000000 02000000 00000000 02000000 02000000 0000803f 0000803f'),
	('NaN', '\x03000000 01000000 00000000 02000000 0000c07f'), ('zero', '\x03000000 01000000 00000000 02000000 00000000'),
	('longer', '\x03000000 01000000 00000000 02000000 0000803f 00000000'), ('shorter', '\x03000000 ff000000 00000000 02000000 0000803f'),
	('negative', '\x03000000 ffffffff 00000000 02000000 0000803f')) v (name, bytes);
SELECT rows FROM vectorgpu_check('sparse_damaged_b', true);
DROP TABLE sparse_damaged;
DROP CAST (bytea AS sparsevec);
DROP FUNCTION sparse_fill(int, int);
DROP FUNCTION sparse_row(int);
