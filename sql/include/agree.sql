-- included by tests of the storage: index_agrees(table, query) compares the rows of an ordered index scan with those of
-- a sort, one by one, and says how many there are
CREATE OR REPLACE FUNCTION index_agrees(tab regclass, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ordered text := format('SELECT id FROM %s ORDER BY v %s', tab, query);
	numbered text := 'SELECT array_agg(id ORDER BY n) FROM (SELECT id, row_number() OVER () AS n FROM (%s) s) t';
	line text;
	plan text := '';
	by_index bigint[];
	by_sort bigint[];
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
		set_config('enable_indexscan', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || ordered LOOP
		plan := plan || line || E'\n';
	END LOOP;
	EXECUTE format(numbered, ordered) INTO by_index;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true),
		set_config('enable_indexscan', 'off', true);
	EXECUTE format(numbered, ordered || ', ctid') INTO by_sort;
	PERFORM set_config('enable_indexscan', 'on', true);
	IF plan NOT LIKE 'Index Scan using%' THEN
		RETURN 'no index scan: ' || plan;
	ELSIF by_index IS DISTINCT FROM by_sort THEN
		RETURN format('%s rows by index, %s by sort, or others', cardinality(by_index), cardinality(by_sort));
	END IF;
	RETURN format('%s rows agree', coalesce(cardinality(by_sort), 0));
END
$$;
