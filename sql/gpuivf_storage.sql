-- gpuivf: lists of codes (fp16, sq8, pq, OPQ), refined by full vectors, halves or the table
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file
\set file :srcdir '/sql/include/compare.sql'
\i :file

CREATE FUNCTION code_vector(i int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 97 = 0 THEN NULL
		WHEN i % 389 = 0 THEN array_fill(0::real, ARRAY[6])
		ELSE ARRAY[(i % 13) * 10 + (i * 7919) % 7, (i % 7) * 10 + (i * 104729) % 5, (i * 31) % 11, (i * 17) % 9 - 4,
			(i * 37) % 23, (i * 41) % 19] END::real[]
$$;
CREATE TABLE codes (id int, v vector(6), h halfvec(6));
INSERT INTO codes SELECT i, code_vector(i)::vector, code_vector(i)::vector::halfvec FROM generate_series(1, 3000) i;

CREATE FUNCTION pg_temp.ops(class text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE split_part(class, '_', 2) WHEN 'l2' THEN '<->' WHEN 'ip' THEN '<#>' WHEN 'cosine' THEN '<=>' ELSE '<+>' END
$$;
-- Every combination. With all lists answers are those of a sequential scan. With a part of them they are a part of these: in
-- order (strict), with the table's distances, and complete at any LIMIT (relaxed), since scans widen.
CREATE FUNCTION pg_temp.each_storage(classes text[], storages text[]) RETURNS TABLE (class text, storage text, result text)
LANGUAGE plpgsql AS $$
DECLARE
	query text;
	ids int[];
	distances float8[];
	right_ones int;
	truth float8[];
BEGIN
	FOREACH class IN ARRAY classes LOOP
		query := format('%s %s ''[50,30,5,1,7,9]''', left(class, 1), pg_temp.ops(class));
		FOREACH storage IN ARRAY storages LOOP
			EXECUTE format('CREATE INDEX codes_i ON codes USING gpuivf (%s %s) WITH (lists = 20, %s)', left(class, 1), class, storage);
			PERFORM vectorgpu_check('codes_i', true);
			PERFORM set_config('gpuivf.probes', '20', true);
			result := pg_temp.compare_scans('codes', query, 'LIMIT 10') || '; ' || pg_temp.compare_scans('codes', query, 'OFFSET 0');
			PERFORM set_config('gpuivf.probes', '5', true), set_config('enable_seqscan', 'off', true), set_config('vectorgpu.scan_order', 'strict', true);
			EXECUTE format('SELECT array_agg(id), array_agg(d), count(*) FILTER (WHERE same) FROM (SELECT id, d, '
				'd IS NOT DISTINCT FROM (SELECT %1$s FROM codes c WHERE c.id = s.id) AS same FROM '
				'(SELECT id, %1$s AS d FROM codes ORDER BY %1$s LIMIT 20) s) t', query)
				INTO ids, distances, right_ones;
			result := result || format('; %s rows, %s distances right, %s', cardinality(ids), right_ones,
				CASE WHEN distances = (SELECT array_agg(d ORDER BY d) FROM unnest(distances) d) THEN 'in order' ELSE 'NOT IN ORDER' END);
			PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'on', true), set_config('vectorgpu.scan_order', 'relaxed', true);
			EXECUTE format('SELECT array_agg(d ORDER BY d) FROM (SELECT %1$s AS d FROM codes ORDER BY %1$s LIMIT 20) s', query) INTO truth;
			PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
			IF (SELECT count(*) FROM unnest(distances) d WHERE d <= truth[20]) < 10 THEN
				result := result || '; FEW OF THE NEAREST';
			END IF;
			EXECUTE format('SELECT count(*) FROM (SELECT id FROM codes ORDER BY %s LIMIT 2500) s', query) INTO right_ones;
			result := result || '; LIMIT 2500: ' || right_ones;
			EXECUTE format('SELECT count(*) FROM (SELECT id FROM codes WHERE id %% 100 = 7 ORDER BY %s LIMIT 25) s', query) INTO right_ones;
			result := result || '; filtered: ' || right_ones;
			PERFORM set_config('enable_seqscan', 'on', true);
			DROP INDEX codes_i;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SET vectorgpu.scan_order = relaxed;
SELECT * FROM pg_temp.each_storage('{vector_l2_ops,vector_ip_ops,vector_cosine_ops}',
	'{storage=fp32,storage=fp16,"storage=fp16,refine=fp32",storage=sq8,"storage=sq8,refine=fp16","storage=sq8,refine=none",storage=pq,"storage=pq,refine=fp16","storage=pq,refine=none","storage=pq,pq_bits=4","storage=pq,pq_m=6,opq","storage=pq,pq_m=4,pq_bits=4,opq,refine=none","storage=rabitq,bits=1",storage=rabitq,"storage=rabitq,bits=8","storage=rabitq,bits=2,refine=fp16","storage=rabitq,bits=7,refine=none"}');
SELECT * FROM pg_temp.each_storage('{vector_l1_ops}', '{storage=fp16,storage=sq8,"storage=sq8,refine=none"}');
SELECT * FROM pg_temp.each_storage('{halfvec_l2_ops,halfvec_ip_ops,halfvec_cosine_ops}',
	'{storage=fp16,storage=sq8,"storage=sq8,refine=fp16","storage=sq8,refine=none",storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.each_storage('{halfvec_l1_ops}', '{storage=sq8,"storage=sq8,refine=none"}');
RESET vectorgpu.scan_order;

-- an index on an expression, without full vectors: values are computed from the table
CREATE INDEX codes_e ON codes USING gpuivf ((v::halfvec(6)) halfvec_l2_ops) WITH (lists = 20, storage = sq8, refine = none);
SET gpuivf.probes = 20;
SELECT pg_temp.compare_scans('codes', 'v::halfvec(6) <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
SET gpuivf.probes = 5;
SET enable_seqscan = off;
SELECT count(*), bool_and(d = expected) FROM (SELECT id, v::halfvec(6) <-> '[50,30,5,1,7,9]' AS d, l2_distance(v::halfvec, '[50,30,5,1,7,9]') AS expected
	FROM codes ORDER BY v::halfvec(6) <-> '[50,30,5,1,7,9]' LIMIT 50) s;
RESET enable_seqscan;
DROP INDEX codes_e;
-- ... beside key columns, some of them NULL
CREATE INDEX codes_e ON codes USING gpuivf ((v::halfvec(6)) halfvec_l2_ops, (NULLIF(id % 2, 0)), id, (NULLIF(id % 3, 0)))
	WITH (lists = 20, storage = sq8, refine = none);
SET gpuivf.probes = 20;
SELECT pg_temp.compare_scans('codes', 'v::halfvec(6) <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
DROP INDEX codes_e;

-- inserts, deletes, vacuum, merges, REINDEX
CREATE FUNCTION pg_temp.live(storages text[]) RETURNS TABLE (storage text, result text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH storage IN ARRAY storages LOOP
		CREATE TABLE live (id int, v vector(6));
		INSERT INTO live SELECT i, code_vector(i)::vector FROM generate_series(1, 1500) i;
		EXECUTE format('CREATE INDEX live_v ON live USING gpuivf (v) WITH (lists = 20, %s)', storage);
		INSERT INTO live SELECT i, code_vector(i)::vector FROM generate_series(1501, 2000) i;
		PERFORM set_config('gpuivf.probes', '20', true);
		result := 'with a delta: ' || pg_temp.compare_scans('live', 'v <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
		PERFORM vectorgpu_merge('live_v');
		PERFORM vectorgpu_check('live_v', true);
		result := result || '; merged: ' || pg_temp.compare_scans('live', 'v <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
		DELETE FROM live WHERE id % 3 = 0;
		UPDATE live SET v = code_vector(id + 1)::vector WHERE id % 3 = 1;
		result := result || '; changed: ' || pg_temp.compare_scans('live', 'v <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
		-- another kind of rows, and many: trained anew
		INSERT INTO live SELECT i, (SELECT array_agg(1000 + i * d % 50) FROM generate_series(1, 6) d)::real[]::vector FROM generate_series(2001, 4500) i;
		PERFORM vectorgpu_merge('live_v');
		PERFORM vectorgpu_check('live_v', true);
		result := result || '; trained anew: ' || pg_temp.compare_scans('live', 'v <-> ''[1010,1020,1030,1040,1000,1010]''', 'LIMIT 50');
		PERFORM set_config('gpuivf.probes', '5', true);
		PERFORM set_config('enable_seqscan', 'off', true);
		result := result || '; with few lists: ' || (SELECT count(*) FROM (SELECT 1 FROM live ORDER BY v <-> '[50,30,5,1,7,9]' LIMIT 3000) s);
		PERFORM set_config('enable_seqscan', 'on', true);
		REINDEX INDEX live_v;
		PERFORM vectorgpu_check('live_v', true);
		DROP TABLE live;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM pg_temp.live('{storage=fp16,storage=sq8,"storage=sq8,refine=fp16","storage=sq8,refine=none",storage=pq,"storage=pq,refine=fp16,pq_bits=4","storage=pq,refine=none","storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=1,refine=fp16","storage=rabitq,bits=8,refine=none"}');
CREATE INDEX codes_v ON codes USING gpuivf (v) WITH (lists = 20, storage = pq, refine = none);
DELETE FROM codes WHERE id % 3 = 0;
VACUUM codes;
SET gpuivf.probes = 20;
SELECT pg_temp.compare_scans('codes', 'v <-> ''[50,30,5,1,7,9]''', 'LIMIT 50');
SET gpuivf.probes = 5;
SET enable_seqscan = off;
SELECT count(*), min(id % 3) FROM (SELECT id FROM codes ORDER BY v <-> '[50,30,5,1,7,9]' LIMIT 1900) s;
RESET enable_seqscan;
REINDEX INDEX CONCURRENTLY codes_v;
SELECT rows, null_rows, dead_rows, delta_rows, heap_rows_checked FROM vectorgpu_check('codes_v', true);
DROP INDEX codes_v;

-- odd data: no row, one, NULL only, few, equal ones, one dimension, values that halves cannot hold
CREATE FUNCTION pg_temp.odd_codes(type text, rows text, storages text[]) RETURNS TABLE (storage text, result text) LANGUAGE plpgsql AS $$
DECLARE
	query text := format('v <-> (%L::%s)', '[' || repeat('1,', substring(type from '\d+')::int - 1) || '1]', type);
BEGIN
	FOREACH storage IN ARRAY storages LOOP
		EXECUTE format('CREATE TABLE odd (id int, v %s)', type);
		EXECUTE 'INSERT INTO odd ' || rows;
		EXECUTE format('CREATE INDEX odd_v ON odd USING gpuivf (v) WITH (lists = 10, %s)', storage);
		PERFORM set_config('gpuivf.probes', '10', true);
		result := pg_temp.compare_scans('odd', query);
		PERFORM vectorgpu_check('odd_v', true);
		EXECUTE 'INSERT INTO odd ' || rows;
		PERFORM vectorgpu_merge('odd_v');
		PERFORM vectorgpu_check('odd_v', true);
		result := result || '; merged: ' || pg_temp.compare_scans('odd', query);
		PERFORM set_config('gpuivf.probes', '2', true), set_config('enable_seqscan', 'off', true);
		EXECUTE format('SELECT %L || count(*) FROM (SELECT 1 FROM odd ORDER BY %s LIMIT 400) s', result || '; few lists: ', query) INTO result;
		PERFORM set_config('enable_seqscan', 'on', true);
		DROP TABLE odd;
		RETURN NEXT;
	END LOOP;
END $$;
SET client_min_messages = warning; -- of fewer lists
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT 1, NULL::vector WHERE false', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT 1, ''[1,2,3]''::vector', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT i, NULL FROM generate_series(1, 100) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT i, array[i, -i, i % 3]::vector FROM generate_series(1, 7) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT i, ''[1,2,3]''::vector FROM generate_series(1, 500) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(3)', 'SELECT i, array[i % 2, 1, 1]::vector FROM generate_series(1, 500) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
SELECT * FROM pg_temp.odd_codes('vector(1)', 'SELECT i, array[i]::vector FROM generate_series(1, 500) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
\set VERBOSITY terse
SELECT * FROM pg_temp.odd_codes('vector(2)', 'SELECT i, array[i * 1e30, 1 - i * 1e30]::vector FROM generate_series(1, 500) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
\set VERBOSITY default
SELECT * FROM pg_temp.odd_codes('halfvec(2)', 'SELECT i, array[i, 65504]::vector::halfvec FROM generate_series(1, 500) i', '{storage=fp16,storage=sq8,storage=pq,"storage=pq,refine=none,opq",storage=rabitq,"storage=rabitq,bits=3,refine=none"}');
RESET client_min_messages;
-- parts of unequal size are padded: 7 dimensions in 3, 5, 7 parts
SELECT * FROM pg_temp.odd_codes('vector(7)', 'SELECT i, (SELECT array_agg((i * d) % (7 + d)) FROM generate_series(1, 7) d)::real[]::vector FROM generate_series(1, 500) i',
	'{"storage=pq,pq_m=3","storage=pq,pq_m=5,refine=none","storage=pq,pq_m=7,pq_bits=4","storage=pq,pq_m=3,pq_bits=4,opq"}');

-- more than fits maintenance_work_mem
CREATE TABLE code_parts (id int, v vector(300));
INSERT INTO code_parts SELECT i, (SELECT array_agg((i * d) % 31 + i % 2 * 100) FROM generate_series(1, 300) d)::real[]::vector FROM generate_series(1, 3000) i;
SET maintenance_work_mem = '1MB';
CREATE INDEX code_parts_sq8 ON code_parts USING gpuivf (v) WITH (lists = 2, storage = sq8);
SELECT rows, heap_rows_checked FROM vectorgpu_check('code_parts_sq8', true);
CREATE INDEX code_parts_rabitq ON code_parts USING gpuivf (v) WITH (lists = 40, storage = rabitq, bits = 5);
SELECT rows, heap_rows_checked FROM vectorgpu_check('code_parts_rabitq', true);
CREATE INDEX code_parts_fp16 ON code_parts USING gpuivf (v) WITH (lists = 40, storage = fp16);
SELECT rows, heap_rows_checked FROM vectorgpu_check('code_parts_fp16', true);
-- too little memory to train a product quantiser; the amount needed depends on the CPU
\set VERBOSITY terse
CREATE INDEX ON code_parts USING gpuivf (v) WITH (lists = 40, storage = pq);
SET maintenance_work_mem = '4MB';
CREATE INDEX ON code_parts USING gpuivf (v) WITH (lists = 40, storage = pq, opq);
\set VERBOSITY default
CREATE INDEX code_parts_pq ON code_parts USING gpuivf (v) WITH (lists = 40, storage = pq);
SELECT rows, heap_rows_checked FROM vectorgpu_check('code_parts_pq', true);
RESET maintenance_work_mem;

-- the view: number of lists, imbalance, and drift of rows since the training
CREATE TABLE drift (id int, v vector(2));
CREATE INDEX drift_v ON drift USING gpuivf (v) WITH (lists = 4, storage = sq8);
SELECT lists, list_imbalance, list_drift FROM vectorgpu_indexes WHERE index_name = 'drift_v';
INSERT INTO drift SELECT i, ARRAY[i % 4 * 1000 + i % 10, i % 7]::vector FROM generate_series(1, 4000) i;
REINDEX INDEX drift_v;
SELECT lists, round(list_imbalance::numeric, 4) AS imbalance, list_drift FROM vectorgpu_indexes WHERE index_name = 'drift_v';
-- a few rows between the lists: within 1.2
INSERT INTO drift SELECT i, ARRAY[i % 4 * 1000 + i % 20, i % 7]::vector FROM generate_series(1, 100) i;
SELECT segments_after FROM vectorgpu_merge('drift_v');
SELECT lists, list_drift > 1 AND list_drift <= 1.2 AS drifted FROM vectorgpu_indexes WHERE index_name = 'drift_v';
-- more of them: trained anew
INSERT INTO drift SELECT i, ARRAY[i % 4 * 1000 + 500 + i % 20, i % 7]::vector FROM generate_series(1, 1000) i;
SELECT segments_after FROM vectorgpu_merge('drift_v');
SELECT lists, list_drift FROM vectorgpu_indexes WHERE index_name = 'drift_v';
SELECT rows FROM vectorgpu_check('drift_v', true);
DROP TABLE drift;
-- without vectors a merge reads the table: rows are coded as in a fresh index; under an expression it decodes coarse codes
CREATE TABLE drift (id int, v vector(8));
INSERT INTO drift SELECT i, (SELECT array_agg(hashint4(i * 8 + d) & 255) FROM generate_series(1, 8) d)::real[]::vector FROM generate_series(1, 2000) i;
CREATE INDEX drift_v ON drift USING gpuivf (v) WITH (lists = 4, storage = pq, pq_m = 1, pq_bits = 4, refine = none);
CREATE INDEX drift_e ON drift USING gpuivf ((v::halfvec(8)) halfvec_l2_ops) WITH (lists = 4, storage = pq, pq_m = 1, pq_bits = 4, refine = none);
INSERT INTO drift SELECT id, v FROM drift WHERE id % 50 = 1;
SELECT vectorgpu_merge('drift_v') IS NOT NULL AS merged, vectorgpu_merge('drift_e') IS NOT NULL AS merged;
SELECT index_name, abs(list_drift - 1) < 0.02 AS as_they_are FROM vectorgpu_indexes WHERE index_name LIKE 'drift__' ORDER BY 1;
SELECT rows FROM vectorgpu_check('drift_v', true) UNION ALL SELECT rows FROM vectorgpu_check('drift_e', true);
DROP TABLE drift;

-- bad input
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = bf16);
CREATE INDEX ON codes USING gpuivf (v) WITH (refine = sq8);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = pq, pq_m = 7);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = pq, pq_m = -1);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = pq, pq_bits = 5);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = pq, pq_bits = 16);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = pq, opq = maybe);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = sq8, opq);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = sq8, pq_m = 2);
CREATE INDEX ON codes USING gpuivf (v) WITH (pq_bits = 4);
CREATE INDEX ON codes USING gpuivf (v) WITH (refine = fp16);
CREATE INDEX ON codes USING gpuivf (v vector_l1_ops) WITH (storage = pq);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = rabitq, bits = 9);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = rabitq, pq_bits = 4);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = sq8, bits = 4);
CREATE INDEX ON codes USING gpuivf (v vector_l1_ops) WITH (storage = rabitq);
-- options that change nothing
CREATE INDEX ON codes USING gpuivf (v) WITH (refine = none);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = fp32, refine = none);
CREATE INDEX ON codes USING gpuivf (v) WITH (storage = fp32, refine = fp32);
CREATE INDEX ON codes USING gpuivf (h) WITH (storage = fp16, refine = none);
CREATE INDEX ON codes USING gpuivf (h) WITH (storage = fp32);
CREATE INDEX ON codes USING gpuivf (h) WITH (storage = sq8, refine = fp32);
CREATE INDEX ON codes USING gpuivf (h halfvec_l1_ops) WITH (storage = pq);
CREATE TABLE code_wide (v vector(2049), b bit(8));
CREATE INDEX ON code_wide USING gpuivf (v) WITH (storage = pq, opq);
CREATE INDEX ON code_wide USING gpuivf (b bit_hamming_ops) WITH (storage = pq);
CREATE INDEX ON code_wide USING gpuivf (b bit_hamming_ops) WITH (storage = rabitq);
CREATE INDEX code_wide_v ON code_wide USING gpuivf (v) WITH (storage = pq);
-- changed parameters count from the next REINDEX on
ALTER INDEX code_wide_v SET (storage = sq8);
SELECT pg_temp.plan($$SELECT 1 FROM code_wide ORDER BY v <-> (SELECT v FROM code_wide LIMIT 1) LIMIT 1$$);
ALTER INDEX code_wide_v SET (storage = pq, opq);
REINDEX INDEX code_wide_v;
-- contradictory parameters are refused at once; those that the column does not allow, by the next REINDEX
CREATE INDEX codes_v ON codes USING gpuivf (v) WITH (storage = pq, pq_m = 3);
ALTER INDEX codes_v SET (storage = sq8);
ALTER INDEX codes_v RESET (storage);
ALTER INDEX codes_v SET (pq_bits = 5);
ALTER INDEX codes_v SET (storage = sq8, pq_m = 0, opq);
ALTER INDEX codes_v RESET (pq_m);
ALTER INDEX codes_v SET (storage = sq8);
ALTER INDEX codes_v SET (pq_m = 3);
ALTER INDEX codes_v SET (storage = pq, pq_m = 7);
REINDEX INDEX codes_v;
REINDEX INDEX CONCURRENTLY codes_v;
ALTER INDEX codes_v RESET (pq_m);
REINDEX INDEX codes_v;
SELECT reloptions FROM pg_class WHERE relname = 'codes_v';
CREATE TABLE code_partitions (id int, v vector(6)) PARTITION BY HASH (id);
CREATE INDEX ON code_partitions USING gpuivf (v) WITH (storage = sq8, pq_m = 3);
-- set by a release that did not check
CREATE INDEX codes_h ON codes USING gpuivf (h);
UPDATE pg_class SET reloptions = '{pq_bits=5}' WHERE relname = 'codes_h';
REINDEX INDEX codes_h;
UPDATE pg_class SET reloptions = '{storage=fp32}' WHERE relname = 'codes_h';
REINDEX INDEX codes_h;
DROP TABLE code_partitions;
DROP TABLE codes, code_parts, code_wide;
DROP FUNCTION code_vector;

-- The end of the table was truncated: a merge and the check, which read values from the table, tolerate missing rows.
CREATE TABLE cut_off (id int, v vector(8));
INSERT INTO cut_off SELECT i, array_fill(i % 97, ARRAY[8])::vector FROM generate_series(1, 3000) i;
CREATE INDEX cut_off_v ON cut_off USING gpuivf (v vector_l2_ops) WITH (storage = 'pq', refine = 'none');
DELETE FROM cut_off WHERE id > 1000;
VACUUM cut_off;
INSERT INTO cut_off SELECT i, array_fill(i % 97, ARRAY[8])::vector FROM generate_series(3001, 3100) i;
SELECT pg_relation_size('cut_off') < 40 * 8192 AS truncated;
SELECT vectorgpu_check('cut_off_v', true) IS NOT NULL AS checked;
SELECT vectorgpu_merge('cut_off_v') IS NOT NULL AS merged;
SELECT vectorgpu_check('cut_off_v', true) IS NOT NULL AS checked;
SELECT count(*), sum(id) FROM (SELECT id FROM cut_off ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 2000) s;
DROP TABLE cut_off;

-- Queries far from all rows: very many rows are nearly as near as the nearest, with differences below the codes' precision. Codes find
-- no less than the vectors of the same lists. From 1e18 on all rows are equally far in float4: such a query only has to be answered.
CREATE TABLE far_curve (id int, v vector(4));
INSERT INTO far_curve SELECT i, ARRAY[sin(i), cos(i), sin(2 * i), cos(3 * i)]::real[]::vector FROM generate_series(1, 8000) i;
CREATE FUNCTION pg_temp.as_near(class text, operator text, query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	distance float8;
	result bigint;
BEGIN
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_seqscan = on;
	EXECUTE format('SELECT max(d) FROM (SELECT v %s %s AS d FROM far_curve ORDER BY 1 LIMIT 5) s', operator, query) INTO distance;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_seqscan = off;
	EXECUTE format('SELECT count(*) FROM (SELECT v %1$s %2$s AS d FROM far_curve ORDER BY v %1$s %2$s LIMIT 5) s WHERE d <= %3$L',
		operator, query, distance) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION pg_temp.far_queries(class text, operator text, storages text[]) RETURNS TABLE (storage text, as_near bigint[])
LANGUAGE plpgsql SET gpuivf.probes = 49 AS $$
BEGIN
	FOREACH storage IN ARRAY storages LOOP
		EXECUTE format('CREATE INDEX far_curve_v ON far_curve USING gpuivf (v %s) WITH (lists = 50, %s)', class, storage);
		SELECT array_agg(pg_temp.as_near(class, operator, format('array_fill(%s::real, ARRAY[4])::vector', far)) ORDER BY far) INTO as_near
		FROM unnest('{3,30,1000,1000000,1e18,1e25}'::float8[]) far;
		DROP INDEX far_curve_v;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM pg_temp.far_queries('vector_l2_ops', '<->', '{storage=fp32,storage=fp16,storage=sq8,"storage=sq8,refine=none","storage=sq8,refine=fp16",storage=pq,"storage=pq,pq_m=1,pq_bits=4",storage=rabitq,"storage=rabitq,bits=1"}');
SELECT * FROM pg_temp.far_queries('vector_l1_ops', '<+>', '{storage=fp32,storage=sq8}');
DROP TABLE far_curve;
