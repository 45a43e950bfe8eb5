-- Shapes of query in docs/queries.md: which of them use an index, and their rows; orders that follow from a distance
-- Asks no worker: run once, and not in all three ways.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

SET max_parallel_workers_per_gather = 0;
SET vectorgpu.worker = off;
-- The scans and sorts of a plan, the outermost first. Core's index scan and Vectorgpu Filtered Scan are both called index.
CREATE FUNCTION pg_temp.shape(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	nodes text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		CASE
			WHEN line ~ 'Vectorgpu Filtered Scan|Index Scan using \w+_by_\w+' THEN nodes := nodes || ', index';
			WHEN line ~ 'Incremental Sort' THEN nodes := nodes || ', incremental sort';
			WHEN line ~ '->  Sort|^Sort$' THEN nodes := nodes || ', sort';
			WHEN line ~ 'Seq Scan on chunks' THEN nodes := nodes || ', all rows';
			ELSE
		END CASE;
	END LOOP;
	RETURN substr(nodes, 3);
END $$;
-- the first column of a query's rows, in their order
CREATE FUNCTION pg_temp.column_of(query text, by_index bool) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	line text;
	rows text[] := '{}';
BEGIN
	PERFORM set_config(setting, by_index::text, true) FROM unnest(ARRAY['enable_indexscan', 'vectorgpu.enable_derived_order']) setting;
	PERFORM set_config(setting, (NOT by_index)::text, true) FROM unnest(ARRAY['enable_seqscan', 'enable_sort', 'enable_bitmapscan']) setting;
	FOR line IN EXECUTE query LOOP
		rows := rows || coalesce(line, 'NULL');
	END LOOP;
	PERFORM set_config(setting, 'on', true) FROM unnest(ARRAY['enable_indexscan', 'vectorgpu.enable_derived_order', 'enable_seqscan', 'enable_sort', 'enable_bitmapscan']) setting;
	RETURN rows;
END $$;
-- the plan of a query, and whether its rows are those of a plan without the index
CREATE FUNCTION pg_temp.asked(query text, OUT plan text, OUT rows int, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	found text[] := pg_temp.column_of(query, true);
BEGIN
	plan := pg_temp.shape(query);
	rows := cardinality(found);
	same := found = pg_temp.column_of(query, false);
END $$;

CREATE TABLE documents (id int PRIMARY KEY, author int, title text);
INSERT INTO documents SELECT i, i % 40, 'title ' || i FROM generate_series(1, 2000) i;
CREATE TABLE chunks (id int PRIMARY KEY, document int NOT NULL, part int, body text, embedding vector(3));
INSERT INTO chunks SELECT i, 1 + i % 2000, i / 2000, 'text ' || i, ARRAY[sin(i), cos(i), i % 101]::real[]::vector FROM generate_series(1, 20000) i;
CREATE INDEX chunks_by_l2 ON chunks USING gpuflat (embedding vector_l2_ops);
CREATE INDEX chunks_by_cosine ON chunks USING gpuflat (embedding vector_cosine_ops);
CREATE INDEX chunks_by_ip ON chunks USING gpuflat (embedding vector_ip_ops);
CREATE INDEX ON chunks (document);
ANALYZE documents, chunks;

-- orders that follow from a distance
CREATE TABLE orders (n int GENERATED ALWAYS AS IDENTITY, key text);
INSERT INTO orders (key) VALUES
	('1 - (embedding <=> $q) DESC'), ('1 - (embedding <=> $q) DESC NULLS LAST'), ('-(embedding <#> $q) DESC'), ('(embedding <#> $q) * -1 DESC'), ('-1 * (embedding <#> $q) DESC'),
	('inner_product(embedding, $q) DESC'), ('-inner_product($q, embedding)'), ('cosine_distance(embedding, $q)'), ('l2_distance($q, embedding)'), ('1 - cosine_distance(embedding, $q) DESC'),
	('1 / (1 + (embedding <-> $q)) DESC'), ('-1 / (1 + (embedding <-> $q))'), ('1 / (0.5 * (embedding <=> $q) + 1) DESC'), ('sqrt(embedding <-> $q)'), ('(1 - (embedding <=> $q)) / 2 + 0.5 DESC'),
	('(embedding <-> $q) / 10 - 3'), ('(1 - (embedding <=> $q))::real DESC'), ('round((1 - (embedding <=> $q))::numeric, 3) DESC'), ('100 * (1 - (embedding <=> $q)) DESC'),
	('embedding <-> $q NULLS FIRST'), ('embedding <-> $q, id'), ('1 - (embedding <=> $q) DESC, id DESC'),
-- and those that do not
	('embedding <-> $q DESC'), ('1 - (embedding <=> $q)'), ('inner_product(embedding, $q)'), ('1 / (embedding <-> $q) DESC'), ('1 / (sqrt(2 + (embedding <-> $q)) - 1.9) DESC'), ('1 / (1 - (embedding <=> $q))'), ('0 * (embedding <-> $q)'), ('exp(-(embedding <-> $q)) DESC'),
	('abs(embedding <#> $q)'), ('(embedding <-> $q) + random()'), ('(embedding <-> $q) + part'), ('sqrt(embedding <#> $q)'), ('(embedding <-> $q) * ''inf'''), ('(embedding <-> $q)::text'), ('l1_distance(embedding, $q)');
SELECT key, pg_temp.shape(format('SELECT id FROM chunks ORDER BY %s LIMIT 10', replace(key, '$q', '''[0.1,0.9,40]'''))) AS plan FROM orders ORDER BY n;
SET vectorgpu.enable_derived_order = off;
SELECT DISTINCT pg_temp.shape(format('SELECT id FROM chunks ORDER BY %s LIMIT 10', replace(key, '$q', '''[0.1,0.9,40]'''))) AS plan FROM orders WHERE key !~ '<-> .q, id';
RESET vectorgpu.enable_derived_order;
EXPLAIN (COSTS OFF) SELECT id, 1 - (embedding <=> '[0.1,0.9,40]') AS similarity FROM chunks WHERE part < 8 ORDER BY similarity DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM chunks ORDER BY (embedding <#> '[0.1,0.9,40]') * -1 DESC NULLS LAST LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM chunks ORDER BY 1 / (1 + (embedding <-> '[0.1,0.9,40]')) DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM chunks WHERE embedding IS NOT NULL ORDER BY 1 - (embedding <=> '[0.1,0.9,40]') DESC LIMIT 10;

-- NULL, NaN, zero vectors, infinite sums, duplicates: the order is that of a sort
CREATE FUNCTION pg_temp.random_vectors(n int) RETURNS TABLE (id int, g int, v vector) LANGUAGE sql AS $$
	SELECT i, i % 5, CASE WHEN i % 7 = 0 THEN NULL WHEN i % 11 = 0 THEN '[0,0]' WHEN i % 13 = 0 THEN '[3e38,-3e38]' WHEN i % 17 = 0 THEN '[3e38,3e38]' WHEN i % 19 = 0 THEN '[1e-44,1e-44]'
		ELSE ARRAY[hashint4extended(i % 20, 1) % 100, hashint4extended(i % 20, 2) % 100]::real[]::vector END
	FROM generate_series(1, n) i
$$;
-- queries, how many of them have an index, and those whose rows come in another order than a sort's; a second key tells equal rows apart
CREATE FUNCTION pg_temp.wrong_orders(relation regclass, operators text[], OUT queries int, OUT by_index int, OUT wrong text[]) LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	queries := 0;
	by_index := 0;
	wrong := '{}';
	FOR query IN
		SELECT format('SELECT ROW(%s)::text FROM %s %s ORDER BY %s %s', regexp_replace(key, ' (DESC|NULLS \w+)', '', 'g'), relation, condition, key, tail)
		FROM unnest(operators) operator, unnest(ARRAY['''[1,2]''', '''[0,0]''', '''[3e38,3e38]''', '(SELECT NULL::vector)']) q, format('(v %s %s)', operator, q) d,
			unnest(ARRAY[d, d || ' NULLS FIRST', '1 - ' || d || ' DESC', '1 - ' || d || ' DESC NULLS LAST', d || ' / 3 + 1, id', '-2 * ' || d || ' DESC, id']) key,
			unnest(ARRAY['', 'WHERE v IS NOT NULL', 'WHERE g IN (1, 3)', 'WHERE 1 - ' || d || ' > -0.5']) condition, unnest(ARRAY['', 'LIMIT 12 OFFSET 3']) tail
	LOOP
		PERFORM set_config(setting, 'off', true) FROM unnest(ARRAY['enable_seqscan', 'enable_sort', 'enable_bitmapscan']) setting;
		queries := queries + 1;
		by_index := by_index + (pg_temp.shape(query) ~ 'index')::int;
		IF pg_temp.column_of(query, true) IS DISTINCT FROM pg_temp.column_of(query, false) THEN
			wrong := wrong || query;
		END IF;
	END LOOP;
END $$;
CREATE TABLE numbers (id int, g int, v vector(2));
INSERT INTO numbers SELECT * FROM pg_temp.random_vectors(60);
CREATE INDEX numbers_by_l2 ON numbers USING gpuflat (v vector_l2_ops, g);
CREATE INDEX numbers_by_cosine ON numbers USING gpuflat (v vector_cosine_ops, g);
CREATE INDEX numbers_by_ip ON numbers USING gpuflat (v vector_ip_ops, g);
SELECT * FROM pg_temp.wrong_orders('numbers', '{<->,<=>,<#>}');
-- the one class of gpumatch whose distance can be NaN
DROP INDEX numbers_by_cosine;
CREATE INDEX numbers_by_lsh ON numbers USING gpumatch (v vector_lsh_cosine_ops, g);
SELECT * FROM pg_temp.wrong_orders('numbers', '{<=>}');
DROP INDEX numbers_by_lsh;
CREATE INDEX numbers_by_cosine ON numbers USING gpuflat (v vector_cosine_ops, g);
-- rows of the delta, others dead
INSERT INTO numbers SELECT id + 100, g, v FROM pg_temp.random_vectors(30);
DELETE FROM numbers WHERE id % 4 = 1;
SELECT * FROM pg_temp.wrong_orders('numbers', '{<=>}');
-- what a scan has found of NaN is remembered until the index changes
DELETE FROM numbers WHERE v <=> '[1,2]' = 'NaN' OR v <#> '[1,2]' IN ('inf', '-inf', 'NaN');
VACUUM numbers;
SELECT * FROM pg_temp.wrong_orders('numbers', '{<#>}');
INSERT INTO numbers VALUES (200, 1, '[0,0]'), (201, 1, '[3e38,-3e38]');
SELECT * FROM pg_temp.wrong_orders('numbers', '{<=>}');
REINDEX TABLE numbers;
SELECT * FROM pg_temp.wrong_orders('numbers', '{<=>}');
DROP TABLE numbers;

-- approximate access methods: the rows are those by distance, and what has none comes first
CREATE TABLE points (id int PRIMARY KEY, v vector(8));
INSERT INTO points SELECT i, ARRAY(SELECT hashint4extended(i, d) % 1000 FROM generate_series(1, 8) d)::real[]::vector FROM generate_series(1, 3000) i;
CREATE FUNCTION pg_temp.same_as_by_distance(OUT shape text, OUT same bool, OUT first_rows text[]) LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT id FROM points WHERE v IS NOT NULL ORDER BY 1 - (v <=> ''[1,2,3,4,5,6,7,8]'') DESC LIMIT 20';
BEGIN
	shape := pg_temp.shape(query);
	same := pg_temp.column_of(query, true) = pg_temp.column_of('SELECT id FROM points ORDER BY v <=> ''[1,2,3,4,5,6,7,8]'' LIMIT 20', true);
	INSERT INTO points VALUES (4001, NULL), (4002, array_fill(0, ARRAY[8])::vector);
	first_rows := (pg_temp.column_of(replace(query, 'WHERE v IS NOT NULL', ''), true))[1:2];
	DELETE FROM points WHERE id > 4000;
END $$;
CREATE INDEX points_by_cosine ON points USING gpuivf (v vector_cosine_ops) WITH (lists = 30);
SELECT * FROM pg_temp.same_as_by_distance();
DROP INDEX points_by_cosine;
CREATE INDEX points_by_cosine ON points USING gpugraph (v vector_cosine_ops);
SELECT * FROM pg_temp.same_as_by_distance();
DROP INDEX points_by_cosine;
CREATE INDEX points_by_cosine ON points USING gpumatch (v vector_lsh_cosine_ops);
SELECT * FROM pg_temp.same_as_by_distance();
INSERT INTO points SELECT i, array_fill(0, ARRAY[8])::vector FROM generate_series(3001, 3060) i;
SELECT cardinality(pg_temp.column_of(query, true)) AS by_index, cardinality(pg_temp.column_of(query, false)) AS by_sort FROM unnest(ARRAY[
	'SELECT id FROM points ORDER BY 1 - (v <=> ''[1,2,3,4,5,6,7,8]'') DESC', 'SELECT id FROM points WHERE v IS NOT NULL ORDER BY 1 - (v <=> ''[0,0,0,0,0,0,0,0]'') DESC',
	'SELECT id FROM points WHERE 1 - (v <=> ''[1,2,3,4,5,6,7,8]'') > 0.8 ORDER BY v <=> ''[1,2,3,4,5,6,7,8]''']) query;
-- few rows are expected to meet the condition, and half of them do: the look for NaN does not go by steps, and nothing is left out
CREATE TABLE halves (id int, k int, v vector(8)) WITH (autovacuum_enabled = off);
INSERT INTO halves SELECT id, (id % 20 = 0)::int, v FROM points WHERE id <= 3000;
ANALYZE halves;
TRUNCATE halves;
INSERT INTO halves SELECT id, id % 2, v FROM points WHERE id <= 3000;
CREATE INDEX halves_by_cosine ON halves USING gpugraph (v vector_cosine_ops, k);
CREATE FUNCTION pg_temp.explained(query text) RETURNS TABLE (line text) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	RETURN QUERY EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query;
END $$;
SELECT bool_or(line ~ 'Filtered Scan.*rows=20') AS by_index, bool_or(line ~ 'First Rows: NULL, NaN') AS nan_first, bool_or(line ~ 'Rows Left Out') AS leaves_out
FROM pg_temp.explained('SELECT id FROM halves WHERE k IN (1) ORDER BY 1 - (v <=> ''[1,2,3,4,5,6,7,8]'') DESC LIMIT 20');
DROP TABLE points, halves;

-- partitions, prepared statements, cursors, LATERAL
CREATE TABLE parts (id int, v vector(2)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000);
INSERT INTO parts SELECT i, CASE WHEN i % 400 = 0 THEN '[0,0]' WHEN i % 500 <> 0 THEN ARRAY[i, i * i % 1009]::real[]::vector END FROM generate_series(1, 1999) i;
CREATE INDEX parts_by_cosine ON parts USING gpuflat (v vector_cosine_ops);
ANALYZE parts;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id, 1 - (v <=> '[1,2]') AS similarity FROM parts ORDER BY similarity DESC LIMIT 10;
SELECT id, (1 - (v <=> '[1,2]'))::real AS similarity FROM parts ORDER BY 1 - (v <=> '[1,2]') DESC, id LIMIT 10;
SELECT id, (1 - (v <=> '[1,2]'))::real AS similarity FROM parts ORDER BY 1 - (v <=> '[1,2]') DESC NULLS LAST, id LIMIT 8;
RESET enable_seqscan;
PREPARE nearest(vector, int) AS SELECT id FROM chunks ORDER BY 1 - (embedding <=> $1) DESC LIMIT $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE nearest('[1,2,3]', 3);
EXECUTE nearest('[1,2,3]', 3);
EXECUTE nearest(NULL, 0);
RESET plan_cache_mode;
BEGIN;
DECLARE near CURSOR FOR SELECT id FROM chunks ORDER BY inner_product(embedding, '[1,2,3]') DESC;
FETCH 2 FROM near;
FETCH 2 FROM near;
COMMIT;
SELECT d.id, near.id, near.similarity FROM (VALUES (1, vector '[1,2,3]'), (2, NULL), (3, '[0,0,0]'), (4, '[3,2,1]')) d(id, q), LATERAL (
	SELECT c.id, round((1 - (c.embedding <=> d.q))::numeric, 6) AS similarity FROM chunks c WHERE c.id < 19000 ORDER BY 1 - (c.embedding <=> d.q) DESC, c.id LIMIT 1) near;

-- the shapes of docs/queries.md
CREATE TABLE shapes (n int GENERATED ALWAYS AS IDENTITY, shape text, query text);
INSERT INTO shapes (shape, query) VALUES
	('alias', 'SELECT id, embedding <-> $q AS distance FROM chunks ORDER BY distance LIMIT 10'),
	('similarity selected', 'SELECT id, 1 - (embedding <=> $q) AS similarity FROM chunks ORDER BY embedding <=> $q LIMIT 10'),
	('OFFSET, WITH TIES', 'SELECT id FROM chunks ORDER BY embedding <-> $q OFFSET 5 FETCH FIRST 10 ROWS WITH TIES'),
	('threshold of similarity', 'SELECT id FROM chunks WHERE 1 - (embedding <=> $q) > 0.999 ORDER BY 1 - (embedding <=> $q) DESC, id LIMIT 10'),
	('sub-select', 'SELECT id FROM (SELECT id, inner_product(embedding, $q) AS score FROM chunks) s ORDER BY score DESC LIMIT 10'),
	('join', 'SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document ORDER BY 1 - (c.embedding <=> $q) DESC, c.id LIMIT 10'),
	('query of a table', 'SELECT id FROM chunks ORDER BY embedding <-> (SELECT embedding FROM chunks WHERE id = 7), id LIMIT 10'),
	('IN, many pass', 'SELECT id FROM chunks WHERE document IN (SELECT id FROM documents WHERE author < 30) ORDER BY embedding <-> $q LIMIT 10'),
	('EXISTS, many pass', 'SELECT id FROM chunks c WHERE EXISTS (SELECT FROM documents d WHERE d.id = c.document AND author < 30) ORDER BY 1 - (embedding <=> $q) DESC, id LIMIT 10'),
	('NOT EXISTS', 'SELECT id FROM chunks c WHERE NOT EXISTS (SELECT FROM documents d WHERE d.id = c.document AND author > 30) ORDER BY embedding <-> $q LIMIT 10'),
	('NOT IN', 'SELECT id FROM chunks WHERE document NOT IN (SELECT id FROM documents WHERE author > 30) ORDER BY embedding <-> $q LIMIT 10'),
	('IN, few pass', 'SELECT id FROM chunks WHERE document IN (SELECT id FROM documents WHERE id < 10) ORDER BY embedding <-> $q LIMIT 10'),
	('array of keys', 'SELECT id FROM chunks WHERE document = ANY (ARRAY(SELECT id FROM documents WHERE author = 7)) ORDER BY embedding <-> $q LIMIT 10'),
	('groups, bounded', 'SELECT id, document FROM (SELECT DISTINCT ON (document) document, id, distance FROM (SELECT document, id, embedding <-> $q AS distance FROM chunks ORDER BY distance LIMIT 91) near ORDER BY document, distance) best ORDER BY distance LIMIT 10'),
	('groups, one after the other', 'WITH RECURSIVE best AS ((SELECT ARRAY[document] AS seen, id FROM chunks ORDER BY embedding <-> $q LIMIT 1) UNION ALL SELECT seen || c.document, c.id FROM best CROSS JOIN LATERAL (SELECT document, id FROM chunks WHERE document <> ALL (seen) ORDER BY embedding <-> $q LIMIT 1) c WHERE cardinality(seen) < 10) SELECT id FROM best'),
	('groups, some', 'SELECT near.id FROM documents d CROSS JOIN LATERAL (SELECT c.id FROM chunks c WHERE c.document = d.id ORDER BY c.embedding <-> $q LIMIT 1) near WHERE d.author = 7 AND d.id < 400 ORDER BY d.id'),
	('min()', 'SELECT min(embedding <-> $q) FROM chunks'),
	('max() of similarity', 'SELECT max(1 - (embedding <=> $q)) FROM chunks'),
	('window', 'SELECT id, row_number() OVER (ORDER BY 1 - (embedding <=> $q) DESC, id) FROM chunks LIMIT 10');
SELECT shape, plan, rows, same FROM shapes, LATERAL pg_temp.asked(replace(query, '$q', '''[0.1,0.9,40]''')) ORDER BY n;
-- with the document as a key column, and no btree on it
DROP INDEX chunks_document_idx;
CREATE INDEX chunks_by_document ON chunks USING gpuflat (embedding vector_l2_ops, document);
SELECT shape, plan, rows, same FROM shapes, LATERAL pg_temp.asked(replace(query, '$q', '''[0.1,0.9,40]''')) WHERE shape ~ 'pass|array|some' ORDER BY n;

DROP TABLE documents, chunks, orders, shapes, parts;
