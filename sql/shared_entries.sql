-- Updates of another column: rows share the entry of the version before (docs/indexes.md). Searches and the check are right in every state.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
CREATE FUNCTION shared_value(i int, dims int) RETURNS float4[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(((i * 7919 + j * 104729 + i * j * 31) % 1000)::float4 / 1000 ORDER BY j) FROM generate_series(1, dims) j $$;

-- The rows in order, by the index and without it.
CREATE FUNCTION shared_agrees(relation text, distance text, tail text DEFAULT '') RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT md5(string_agg(id || '' '' || n || '' '' || coalesce(d::text, ''''), '','' ORDER BY d, id, n)) FROM (SELECT id, n, %1$s AS d FROM %2$I ORDER BY %1$s %3$s) s', distance, relation, tail);
	by_index text;
	by_table text;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	EXECUTE query INTO by_index;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_sort = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE query INTO by_table;
	SET LOCAL enable_indexscan = on;
	RETURN by_index = by_table;
END $$;

-- Updates that leave the vector as it is add a few pages to the index, not the vectors.
CREATE FUNCTION shared_course(method text, type text, class text, options text, distance text) RETURNS TABLE (step text, agrees boolean, small boolean, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	fresh bigint;
BEGIN
	EXECUTE format('CREATE TABLE shared_t (id int PRIMARY KEY, n int, v %s) WITH (autovacuum_enabled = off)', type);
	EXECUTE format('INSERT INTO shared_t SELECT i, 0, CASE WHEN i %% 50 = 0 THEN NULL ELSE %s END FROM generate_series(1, 400) i',
		CASE WHEN type ~ '^bit' THEN '(SELECT string_agg((round(x))::int::text, '''') FROM unnest(shared_value(i, 256)) x)::bit(256)' ELSE format('shared_value(i, 48)::%s', type) END);
	INSERT INTO shared_t SELECT 1000 + id, 0, v FROM shared_t WHERE id <= 20;
	CREATE INDEX shared_n ON shared_t (n);
	EXECUTE format('CREATE INDEX shared_v ON shared_t USING %s (v %s) %s', method, class, options);
	fresh := pg_relation_size('shared_v');
	FOR i IN 1 .. 3 LOOP
		UPDATE shared_t SET n = n + 1;
	END LOOP;
	RETURN QUERY SELECT 'three updates', shared_agrees('shared_t', distance), pg_relation_size('shared_v') < fresh + 160 * 1024, (vectorgpu_check('shared_v', true)).rows;
	BEGIN
		UPDATE shared_t SET n = n + 1 WHERE id % 2 = 0;
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	RETURN QUERY SELECT 'an aborted one', shared_agrees('shared_t', distance), NULL::boolean, (vectorgpu_check('shared_v', true)).rows;
	-- Rows of the delta, whose entries are shared too; rows that get another vector; deleted ones.
	INSERT INTO shared_t SELECT 2000 + id, 0, v FROM shared_t WHERE id BETWEEN 100 AND 160;
	UPDATE shared_t SET n = n + 1 WHERE id > 2000;
	UPDATE shared_t SET n = n + 1 WHERE id > 2000;
	UPDATE shared_t SET n = n + 1, v = (SELECT v FROM shared_t WHERE id = 7) WHERE id IN (8, 9, 2101);
	UPDATE shared_t SET n = n + 1 WHERE id < 12;
	DELETE FROM shared_t WHERE id % 7 = 0;
	RETURN QUERY SELECT 'mixed', shared_agrees('shared_t', distance), NULL::boolean, (vectorgpu_check('shared_v', true)).rows;
	PERFORM vectorgpu_merge('shared_v');
	UPDATE shared_t SET n = n + 1 WHERE id % 3 = 0;
	RETURN QUERY SELECT 'merged', shared_agrees('shared_t', distance), NULL::boolean, (vectorgpu_check('shared_v', true)).rows;
END $$;

-- VACUUM is not allowed in a function.
SELECT * FROM shared_course('gpuflat', 'vector(48)', 'vector_l2_ops', '', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$);
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows, null_rows, dead_rows FROM vectorgpu_check('shared_v', true);
UPDATE shared_t SET n = n + 1;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
-- An index scan in the order of TIDs, and one of NULL rows.
SET enable_seqscan = off;
SELECT count(*) = (SELECT count(id + 0) FROM shared_t), count(DISTINCT id) = count(*) FROM (SELECT id FROM shared_t ORDER BY v <-> (SELECT NULL::vector)) s;
-- The rows that the view counts are entries and what shares them.
SELECT rows = (SELECT rows + null_rows FROM vectorgpu_check('shared_v')), format_version FROM vectorgpu_indexes WHERE index_name = 'shared_v';
RESET enable_seqscan;
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
-- TIDs of removed rows are used again.
INSERT INTO shared_t SELECT 3000 + i, 0, shared_value(i + 500, 48)::vector FROM generate_series(1, 300) i;
UPDATE shared_t SET n = n + 1;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
-- HOT updates lead to a version that no index entry names; the next update finds the root of its chain.
DROP INDEX shared_n;
UPDATE shared_t SET n = n + 1 WHERE id % 4 = 0;
CREATE INDEX shared_n ON shared_t (n);
SELECT delta_rows AS delta_before FROM vectorgpu_indexes WHERE index_name = 'shared_v' \gset
UPDATE shared_t SET n = n + 1 WHERE id % 4 = 0 AND v IS NOT NULL;
SELECT delta_rows - :delta_before AS new_entries FROM vectorgpu_indexes WHERE index_name = 'shared_v';
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
-- Other ways to update: ON CONFLICT, a WITH query, MERGE, a trigger that changes the vector without saying so.
SELECT delta_rows AS delta_before FROM vectorgpu_indexes WHERE index_name = 'shared_v' \gset
INSERT INTO shared_t SELECT id, 0, NULL FROM shared_t WHERE id BETWEEN 101 AND 110 AND id % 7 > 0 ON CONFLICT (id) DO UPDATE SET n = shared_t.n + 1;
WITH u AS (UPDATE shared_t SET n = n + 1 WHERE id BETWEEN 201 AND 205 RETURNING id) SELECT count(*) > 0 FROM u;
MERGE INTO shared_t USING (SELECT 211 AS id) s ON s.id = shared_t.id WHEN MATCHED THEN UPDATE SET n = n + 1;
SELECT delta_rows - :delta_before AS new_entries FROM vectorgpu_indexes WHERE index_name = 'shared_v';
CREATE FUNCTION shared_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.v := old.v + old.v; RETURN new; END $$;
CREATE TRIGGER shared_trigger BEFORE UPDATE ON shared_t FOR EACH ROW WHEN (new.id BETWEEN 301 AND 310) EXECUTE FUNCTION shared_trigger();
UPDATE shared_t SET n = n + 1 WHERE id BETWEEN 295 AND 315;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
REINDEX INDEX shared_v;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$) FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;

SELECT * FROM shared_course('gpuivf', 'halfvec(48)', 'halfvec_cosine_ops', '', $$v <=> (SELECT array_fill(0.4::float4, ARRAY[48])::halfvec)$$);
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <=> (SELECT array_fill(0.4::float4, ARRAY[48])::halfvec)$$), rows, null_rows FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;
SELECT * FROM shared_course('gpugraph', 'vector(48)', 'vector_ip_ops', '', $$v <#> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$);
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <#> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$), rows, null_rows FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;
SELECT * FROM shared_course('gpugraph', 'bit(256)', 'bit_hamming_ops', '', $$v <~> (SELECT v FROM shared_t WHERE id = 5)$$);
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <~> (SELECT v FROM shared_t WHERE id = 5)$$), rows, null_rows FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;
-- Segments without full vectors take them from the table, by the version that an entry names: rows have entries of their own.
SELECT step, agrees, small, rows FROM shared_course('gpuivf', 'vector(48)', 'vector_l2_ops', 'WITH (storage = ''sq8'', refine = ''fp16'')', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$);
VACUUM shared_t;
SELECT rows, null_rows FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;
SELECT step, agrees, rows FROM shared_course('gpuivf', 'vector(48)', 'vector_l2_ops', 'WITH (storage = ''sq8'', refine = ''none'')', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[48])::vector)$$);
VACUUM shared_t;
SELECT rows, null_rows FROM vectorgpu_check('shared_v', true);
DROP TABLE shared_t;

-- Values in the TOAST table.
CREATE TABLE shared_t (id int PRIMARY KEY, n int, v vector(1200)) WITH (autovacuum_enabled = off);
ALTER TABLE shared_t ALTER v SET STORAGE external;
INSERT INTO shared_t SELECT i, 0, shared_value(i, 1200)::vector FROM generate_series(1, 60) i;
CREATE INDEX shared_n ON shared_t (n);
CREATE INDEX shared_v ON shared_t USING gpuflat (v);
SELECT pg_relation_size('shared_v') AS fresh \gset
UPDATE shared_t SET n = n + 1;
UPDATE shared_t SET n = n + 1;
SELECT pg_relation_size('shared_v') < :fresh + 160 * 1024 AS small, shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[1200])::vector)$$), rows FROM vectorgpu_check('shared_v', true);
VACUUM shared_t;
SELECT shared_agrees('shared_t', $$v <-> (SELECT array_fill(0.4::float4, ARRAY[1200])::vector)$$), rows FROM vectorgpu_check('shared_v', true);

-- The k-NN graph finds rows by what they share.
UPDATE shared_t SET n = n + 1;
SELECT count(*), count(DISTINCT source) FROM vectorgpu_knn_graph('shared_v', 2);
DROP TABLE shared_t;
DROP FUNCTION shared_value, shared_agrees, shared_course, shared_trigger;
