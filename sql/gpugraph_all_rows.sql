-- gpugraph looks at all rows if that is cheaper than a search by the graph: sooner for short rows and more edges, later for long rows
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file
\set file :srcdir '/sql/include/plan.sql'
\i :file

SET vectorgpu.stable_pages = off; -- a search is as wide as LIMIT says
-- half of the strings nearly equal
CREATE TABLE near_bits (id int, b bit(1024)) WITH (autovacuum_enabled = off);
INSERT INTO near_bits SELECT i, CASE WHEN i % 2 = 0 THEN set_bit(set_bit(repeat('0110', 256)::bit(1024), i % 1024, 1), i * 7 % 1021, 0)
	ELSE (SELECT string_agg(('x' || md5(i || ' ' || d))::bit(128)::text, '' ORDER BY d)::bit(1024) FROM generate_series(1, 8) d) END
	FROM generate_series(1, 3000) i;
CREATE TABLE near_vectors (id int, v vector(128), long_v vector(400)) WITH (autovacuum_enabled = off);
INSERT INTO near_vectors SELECT i, v::vector, (v || v || v || v[:16])::vector
	FROM (SELECT i, (SELECT array_agg(sin(i % 50 * d) * 10 + sin(i * d)) FROM generate_series(1, 128) d)::real[] AS v
		FROM generate_series(1, 2000) i) s;
CREATE INDEX near_bits_b ON near_bits USING gpugraph (b);
CREATE INDEX near_v ON near_vectors USING gpugraph (v vector_l2_ops);
CREATE INDEX near_long ON near_vectors USING gpugraph (long_v vector_l2_ops);
ANALYZE near_bits, near_vectors; -- from 18 on CREATE INDEX does not count the rows of a table without autovacuum

-- How a scan looked at rows: by a search and its width, or at all of them
CREATE FUNCTION pg_temp.looks(tab text, distance text, wanted int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	scan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT id FROM %s ORDER BY %s LIMIT %s', tab, distance, wanted) INTO plan;
	scan := pg_temp.first_scan(plan);
	RETURN CASE WHEN (scan ->> 'Exhaustive')::int > 0 THEN 'all rows' ELSE 'width ' || (scan ->> 'Most Search Width') END;
END $$;
SELECT 'b <~> ' || quote_literal(b) AS by_bits FROM near_bits WHERE id = 3 \gset
SELECT 'v <-> ' || quote_literal(v) AS by_vector, 'long_v <-> ' || quote_literal(long_v) AS by_long FROM near_vectors WHERE id = 3 \gset
SET enable_seqscan = off;
SET max_parallel_workers_per_gather = 0; -- what a parallel worker scans is not counted
SET vectorgpu.worker = off; -- a GPU chooses by what it takes itself
SET gpugraph.recall_target = 0.1; -- the narrowest search finds so much: as wide as LIMIT
SELECT k, pg_temp.looks('near_bits', :'by_bits', k) AS bits, pg_temp.looks('near_vectors', :'by_vector', k) AS vectors,
	pg_temp.looks('near_vectors', :'by_long', k) AS long_vectors
	FROM unnest('{12,40,45,100,130}'::int[]) k;

-- the planner's cost of such a wide search equals that of a look at all rows
CREATE FUNCTION pg_temp.costs_all(tab text, distance text, wanted int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	all_rows json;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM %s ORDER BY %s LIMIT %s', tab, distance, wanted) INTO plan;
	PERFORM set_config('gpugraph.recall_target', '1', true);
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT id FROM %s ORDER BY %s LIMIT %s', tab, distance, wanted) INTO all_rows;
	PERFORM set_config('gpugraph.recall_target', '0.1', true);
	RETURN plan #>> '{0,Plan,Startup Cost}' = all_rows #>> '{0,Plan,Startup Cost}';
END $$;
SELECT k, pg_temp.costs_all('near_bits', :'by_bits', k) AS bits, pg_temp.costs_all('near_vectors', :'by_vector', k) AS vectors,
	pg_temp.costs_all('near_vectors', :'by_long', k) AS long_vectors
	FROM unnest('{12,40,45,100,130}'::int[]) k;

-- the worker searches the same way
SET vectorgpu.worker_min_size = 0;
SET vectorgpu.worker = on;
SELECT vectorgpu_prewarm('near_bits_b') > 0 AS warm;
SELECT pg_temp.looks('near_bits', :'by_bits', 40);
SET vectorgpu.worker = off;

-- a width that is set is used
SET gpugraph.search_width = 60;
SELECT pg_temp.looks('near_bits', :'by_bits', 12), pg_temp.looks('near_vectors', :'by_vector', 45);
RESET gpugraph.search_width;

-- fewer edges: a search is cheaper
DROP INDEX near_bits_b;
CREATE INDEX near_bits_b ON near_bits USING gpugraph (b) WITH (degree = 8);
SELECT k, pg_temp.looks('near_bits', :'by_bits', k) FROM unnest('{40,100}'::int[]) k;
DROP TABLE near_bits, near_vectors;
