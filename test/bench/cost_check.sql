-- How far the planner's cost of an index scan is from the truth. For each of several plans: its cost for each
-- millisecond of processor time, divided by the same for a sequential scan of the same table (1 = as good as core's own
-- estimate; the aim is 0.5 to 2; "sequential" is a sequential scan that computes the distances). Times are the best of several runs, tables and indexes cached. Linux only (/proc).
--   psql -X -f test/bench/cost_check.sql            [-v rows=200000] [-v dims=128] [-v runs=5] [-v method=gpuflat] [-v from=TABLE]
-- method: gpuivf, gpugraph; these want real data, of a table with vectors of so many dimensions in its column v: of random ones every
-- search looks at nearly all. Where a condition is on an expression the planner does not know how many rows pass.
\set ON_ERROR_STOP on
\if :{?rows}
\else
	\set rows 200000
\endif
\if :{?dims}
\else
	\set dims 128
\endif
\if :{?runs}
\else
	\set runs 5
\endif
\if :{?method}
\else
	\set method gpuflat
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vectorgpu;
LOAD 'vectorgpu';
SET vectorgpu.worker = off; -- its time is not this process's
SET max_parallel_workers_per_gather = 0;
SET jit = off;

\if :{?from}
CREATE TEMP TABLE source AS SELECT i AS id, i % 10 AS grp, v FROM (SELECT row_number() OVER () AS i, v FROM (SELECT v FROM :from LIMIT :rows) t) n;
\else
CREATE TEMP TABLE source AS SELECT i AS id, i % 10 AS grp,
	(SELECT array_agg(random())::real[]::vector FROM generate_series(1, :dims) WHERE i > 0) AS v
FROM generate_series(1, :rows) i;
\endif
CREATE TABLE cost_large (id int, grp int, v vector(:dims));
INSERT INTO cost_large SELECT * FROM source;
CREATE TABLE cost_small (LIKE cost_large);
INSERT INTO cost_small SELECT * FROM source LIMIT 1000;
DROP TABLE source;
CREATE INDEX cost_large_v ON cost_large USING :method (v);
CREATE INDEX cost_large_p ON cost_large USING :method (v) WHERE grp < 10;
CREATE INDEX cost_large_3 ON cost_large USING :method (v) WHERE grp = 3;
CREATE INDEX cost_small_v ON cost_small USING :method (v);
VACUUM ANALYZE cost_large, cost_small;

-- Milliseconds of processor time that this backend has used: other load on the machine does not count.
CREATE FUNCTION pg_temp.cpu_ms() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e6
$$;

CREATE FUNCTION pg_temp.run(command text, times int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	start float8 := pg_temp.cpu_ms();
BEGIN
	FOR i IN 1 .. times LOOP
		EXECUTE command;
	END LOOP;
	RETURN (pg_temp.cpu_ms() - start) / times;
END $$;

-- A query's cost and the time that it runs, planning and explaining not counted.
CREATE FUNCTION pg_temp.explain_best(query text, times int, n_runs int, OUT cost float8, OUT ms float8) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	cost := (plan -> 0 -> 'Plan' ->> 'Total Cost')::float8;
	PERFORM pg_temp.run('EXPLAIN (ANALYZE, TIMING OFF) ' || query, 1); -- fills the cache
	FOR run IN 1 .. n_runs LOOP
		ms := least(ms, pg_temp.run('EXPLAIN (ANALYZE, TIMING OFF) ' || query, times) - pg_temp.run('EXPLAIN ' || query, times));
	END LOOP;
END $$;

CREATE FUNCTION pg_temp.cost_check(tab text, query text, by_index boolean, times int, n_runs int, OUT cost float8, OUT ms float8, OUT ratio float8)
LANGUAGE plpgsql AS $$
DECLARE
	base_cost float8;
	base_ms float8;
BEGIN
	SET LOCAL enable_seqscan = on;
	SELECT b.cost, b.ms INTO base_cost, base_ms
	FROM pg_temp.explain_best('SELECT id FROM ' || tab, greatest(times, 5), n_runs) b;
	PERFORM set_config('enable_seqscan', CASE WHEN by_index THEN 'off' ELSE 'on' END, true);
	SET LOCAL enable_sort = off;
	SELECT b.cost, b.ms INTO cost, ms FROM pg_temp.explain_best(query, times, n_runs) b;
	ratio := cost / nullif(ms, 0) / (base_cost / nullif(base_ms, 0));
END $$;

SELECT v AS q FROM cost_large WHERE id = 77 \gset
\pset format unaligned
SELECT name, round(cost::numeric, 1) AS cost, round(ms::numeric, 3) AS ms, round(ratio::numeric, 2) AS ratio
FROM (VALUES
	('limit', 'cost_large', 20, format('SELECT id FROM cost_large ORDER BY v <-> %L LIMIT 10', :'q')),
	('limit 1000', 'cost_large', 10, format('SELECT id FROM cost_large ORDER BY v <-> %L LIMIT 1000', :'q')),
	('filter by a column', 'cost_large', 10, format('SELECT id FROM cost_large WHERE id <= %s / 10 ORDER BY v <-> %L LIMIT 10', :rows, :'q')),
	('small table', 'cost_small', 300, format('SELECT id FROM cost_small ORDER BY v <-> %L LIMIT 10', :'q')),
	('no limit', 'cost_large', 1, format('SELECT id FROM cost_large ORDER BY v <-> %L', :'q')),
	('no order by', 'cost_large', 10, 'SELECT id FROM cost_large WHERE grp < 10'),
	('filter', 'cost_large', 20, format('SELECT id FROM cost_large WHERE grp %% 10 = 3 ORDER BY v <-> %L LIMIT 10', :'q')),
	('partial', 'cost_large', 100, format('SELECT id FROM cost_large WHERE grp = 3 ORDER BY v <-> %L LIMIT 10', :'q')),
	('partial, no limit', 'cost_large', 100, format('SELECT id FROM cost_large WHERE grp = 3 ORDER BY v <-> %L', :'q')),
	('partial, no order by', 'cost_large', 100, 'SELECT id FROM cost_large WHERE grp = 3'),
	('sequential', 'cost_large', 10, format('SELECT v <-> %L FROM cost_large', :'q')),
	('lateral', 'cost_large', 1, format('SELECT n.id FROM generate_series(1, 20) g, LATERAL '
		'(SELECT id FROM cost_large ORDER BY v <-> array_fill(g / 20.0::real, ARRAY[%s])::vector LIMIT 10) n', :dims))
	) p(name, tab, times, query),
	LATERAL pg_temp.cost_check(tab, query, name <> 'sequential', times, :runs);
DROP TABLE cost_large, cost_small;
