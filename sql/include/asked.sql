-- included by tests of the plan node Vectorgpu Filtered Scan, after plan.sql: the plan of a condition, and whether its rows, to a LIMIT or all, are those
-- of a sequential scan
-- what is near; not a constant, which would fill the plans
CREATE FUNCTION q() RETURNS vector STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN array_fill(100, ARRAY[128])::vector; END $$;
CREATE FUNCTION rows_of(query text, by_index bool) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	ids int[];
BEGIN
	PERFORM set_config('enable_' || way, by_index::text, true) FROM unnest(ARRAY['indexscan', 'bitmapscan']) way;
	PERFORM set_config('enable_' || way, (NOT by_index)::text, true) FROM unnest(ARRAY['seqscan', 'sort']) way;
	EXECUTE format('SELECT array_agg(id ORDER BY d, id) FROM (%s) s', query) INTO ids;
	PERFORM set_config('enable_' || way, 'on', true) FROM unnest(ARRAY['indexscan', 'bitmapscan']) way;
	PERFORM set_config('enable_' || way, 'off', true) FROM unnest(ARRAY['seqscan', 'sort']) way;
	RETURN ids;
END $$;
CREATE FUNCTION asked_of(relation regclass, condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id, v <-> q() AS d FROM %s WHERE %s ORDER BY v <-> q()', relation, condition);
	line text;
BEGIN
	FOR line IN SELECT * FROM pg_temp.plan(query || ' LIMIT 5') p WHERE p !~ 'Limit|Order By' LOOP
		RETURN NEXT ltrim(line, ' ->');
	END LOOP;
	FOR line IN SELECT unnest(ARRAY[query, query || ' LIMIT 5']) LOOP
		IF rows_of(line, true) IS DISTINCT FROM rows_of(line, false) THEN
			RETURN NEXT format('WRONG: %s, %s', cardinality(rows_of(line, true)), cardinality(rows_of(line, false)));
		END IF;
	END LOOP;
	RETURN NEXT format('%s rows', coalesce(cardinality(rows_of(query, true)), 0));
END $$;
