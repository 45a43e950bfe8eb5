-- included by tests: what PostgreSQL's versions say in different words
-- The plan of a query. From 17 on a parameter $0 is called (InitPlan 1).col1; 18 adds Disabled and Index Searches, and fractions of rows.
CREATE FUNCTION pg_temp.plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
		CONTINUE WHEN line ~ '^ *(Disabled: true|Index Searches: \d+)$';
		line := regexp_replace(line, '(InitPlan \d+) \(returns \$\d+\)$', '\1');
		line := regexp_replace(line, '\(InitPlan 1\)\.col1', '$0', 'g');
		RETURN NEXT regexp_replace(line, '( rows=\d+)\.00 ', '\1 ');
	END LOOP;
END $$;
-- What EXPLAIN (FORMAT JSON) says of the first scan of ours: from 18 on in its node of the plan.
CREATE FUNCTION pg_temp.first_scan(plan json) RETURNS json LANGUAGE sql AS $$
	SELECT coalesce(plan #> '{0,Vectorgpu Scans,0}', jsonb_path_query_first(plan::jsonb, '$.**."Vectorgpu Scan"')::json)
$$;
-- force_parallel_mode until 15
SELECT name AS parallel_mode FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \gset
