-- gpuflat.recall_target: the setting, and that a target of 1 changes nothing. The rows that a smaller one may omit depend on the
-- engine; all engines search a table as small as this exactly.
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
LOAD 'vectorgpu';

SELECT name, setting, min_val, max_val, context FROM pg_settings WHERE name ~ '^gpuflat\.';
SET gpuflat.recall_target = 0;
SET gpuflat.recall_target = 1.01;
SET gpuflat.recall_target = 'NaN';
SET gpuflat.recall = 0.5;

CREATE TABLE rct (id int, v vector(4));
INSERT INTO rct SELECT i, ARRAY[i % 17, i % 23, i % 29, i % 31]::vector FROM generate_series(1, 2000) i;
CREATE INDEX rct_v ON rct USING gpuflat (v vector_l2_ops);
CREATE TABLE rct_exact AS SELECT id, v <-> '[3,5,7,11]' AS distance FROM rct ORDER BY v <-> '[3,5,7,11]', ctid LIMIT 100;
SET enable_seqscan = off;
SET vectorgpu.worker_min_size = 0;

-- The same rows at the same distances in the same order, at any target
CREATE FUNCTION rct_compare(target float8) RETURNS TABLE (n bigint, n_same bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpuflat.recall_target', target::text, true);
	RETURN QUERY SELECT count(*), count(*) FILTER (WHERE found.id = exact.id AND found.distance = exact.distance)
		FROM (SELECT row_number() OVER () AS place, s.* FROM (SELECT id, v <-> '[3,5,7,11]' AS distance FROM rct
			ORDER BY v <-> '[3,5,7,11]' LIMIT 100) s) found
		JOIN (SELECT row_number() OVER () AS place, s.* FROM rct_exact s) exact USING (place);
END $$;
SELECT target, (rct_compare(target)).* FROM unnest(ARRAY[1, 0.95, 0.5, 0.01]) target;

-- A scan continues until no rows remain
SET gpuflat.recall_target = 0.5;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM rct ORDER BY v <-> '[3,5,7,11]') s;
DELETE FROM rct WHERE id % 3 = 0;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM rct ORDER BY v <-> '[3,5,7,11]') s;

DROP FUNCTION rct_compare;
DROP TABLE rct, rct_exact;
