-- Random rows and conditions of 088_bitmap_scans.pl: a table with indexes of several kinds, and the comparison of scans by their bitmaps with sequential
-- scans. Pages are nearly empty, so that a small work_mem makes bitmaps lossy, and the row versions of some updates stay on the page.
CREATE TABLE w (id int, a int, b int, n int, day date, r int4range, j jsonb, pad text, ia int[], v vector(8)) WITH (fillfactor = 15, autovacuum_enabled = off);
CREATE INDEX w_a ON w (a);
CREATE INDEX w_b ON w (b) WHERE b < 40;
CREATE INDEX w_day ON w USING brin (day) WITH (pages_per_range = 8);
CREATE INDEX w_r ON w USING gist (r);
CREATE INDEX w_j ON w USING gin (j);
CREATE FUNCTION roll(n int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT floor(random() * $1)::int';
CREATE FUNCTION add_rows(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO w SELECT i, CASE WHEN random() < .95 THEN roll(60) END, roll(50), roll(1000), date '2026-01-01' + i / 8, int4range(roll(900), 900 + roll(100)),
		jsonb_build_object('k', roll(40), 'tags', jsonb_build_array('t' || roll(30), 't' || roll(200))), repeat('x', 300), ARRAY(SELECT roll(40) FROM generate_series(1, 4)),
		CASE WHEN random() < .95 THEN (SELECT array_agg(random() + 0 * x * i) FROM generate_series(1, 8) x)::vector(8) END
	FROM generate_series(first, last) i
$$;
-- A condition. form 0: with constants; 1: sub-selects that are computed once; 2: stable functions.
CREATE FUNCTION value_of(text, text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE roll(3) WHEN 0 THEN $1 WHEN 1 THEN format('(SELECT %s::%s)', $1, $2) ELSE format('(%s::%s + 0 * length(current_user))', $1, $2) END
$$;
CREATE FUNCTION leaf() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT CASE roll(12)
		WHEN 0 THEN format('a = %s', value_of(roll(60)::text, 'int')) WHEN 1 THEN format('a IN (%s, %s, NULL)', roll(60), roll(60)) WHEN 2 THEN format('a BETWEEN %s AND %s', x, x + roll(5))
		WHEN 3 THEN format('b = %s', roll(40)) WHEN 4 THEN format('b < 40 AND b > %s', 35 + roll(6)) WHEN 5 THEN format('day BETWEEN %L AND %L', date '2026-01-01' + x * 4, date '2026-01-01' + x * 4 + roll(20))
		WHEN 6 THEN format('r @> %s', value_of(roll(60)::text, 'int')) WHEN 7 THEN format('j @> ''{"k": %s}''', roll(41)) WHEN 8 THEN format('j @> ''{"tags": ["t%s"]}''', roll(200))
		WHEN 9 THEN format('j ->> ''k'' = ''%s''', roll(40)) WHEN 10 THEN format('n < %s', roll(1200)) ELSE 'a IS NULL' END
	FROM (SELECT roll(60) AS x) s
$$;
CREATE FUNCTION tree(depth int) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF depth = 0 OR random() < .3 THEN
		RETURN leaf();
	END IF;
	RETURN format('(%s)', (SELECT string_agg(tree(depth - 1), CASE WHEN roll(2) = 0 THEN ' AND ' ELSE ' OR ' END) FROM generate_series(1, 2)));
END
$$;
-- Compare n scans with sequential ones. exact: rows and distances are those of a sequential scan whatever the share that passes; else only the number and the conditions.
CREATE FUNCTION try_bitmaps(n int, distance text, exact bool, OUT n_filtered int, OUT n_lossy int, OUT n_rows bigint, OUT wrong text[]) LANGUAGE plpgsql
SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
	conditions text;
	query text;
	sql text;
	plan text;
	line text;
	k bigint;
	ids bigint[];
	distances text[];
	seq_ids bigint[];
	seq_distances text[];
	all_ids bigint[];
	total bigint := (SELECT count(*) FROM w);
	good bool;
BEGIN
	n_filtered := 0; n_lossy := 0; n_rows := 0; wrong := '{}';
	FOR i IN 1 .. n LOOP
		conditions := tree(2) || CASE WHEN roll(4) = 0 THEN ' AND v IS NOT NULL' ELSE '' END;
		query := format(distance, CASE WHEN distance LIKE '%<->%' THEN quote_literal((SELECT array_agg(random()) FROM generate_series(1, 8))::vector(8))
			ELSE quote_literal(ARRAY(SELECT roll(40) FROM generate_series(1, 4))) END);
		k := (ARRAY[1, 10, 100, NULL])[1 + roll(4)];
		sql := format('SELECT array_agg(id ORDER BY n), array_agg(d ORDER BY n) FROM (SELECT id, d::text, row_number() OVER () AS n FROM (SELECT id, %s AS d FROM w WHERE %s ORDER BY %s LIMIT %s) s) s',
			query, conditions, query, coalesce(k::text, 'ALL'));
		PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true);
		EXECUTE sql INTO seq_ids, seq_distances;
		EXECUTE format('SELECT coalesce(array_agg(id), ''{}'') FROM w WHERE %s', conditions) INTO all_ids;
		PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || sql LOOP
			plan := plan || line || E'\n';
		END LOOP;
		EXECUTE sql INTO ids, distances;
		CONTINUE WHEN plan !~ 'Bitmap';
		n_filtered := n_filtered + 1;
		IF plan ~ 'w_day' OR i % 4 = 0 THEN
			FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || sql LOOP
				n_lossy := n_lossy + (line ~ 'Removed by Index Recheck: [1-9]')::int;
			END LOOP;
		END IF;
		n_rows := n_rows + coalesce(cardinality(ids), 0);
		good := cardinality(ids) IS NOT DISTINCT FROM cardinality(seq_ids) AND coalesce(all_ids @> ids, true) AND (k IS NOT NULL OR coalesce(ids @> seq_ids, true))
			AND (SELECT count(DISTINCT x) = count(*) FROM unnest(ids) x);
		IF exact OR cardinality(all_ids) <= total / 12 THEN
			good := good AND distances IS NOT DISTINCT FROM seq_distances;
		END IF;
		IF NOT good THEN
			wrong := wrong || format(E'%s\n%s rows, %s by sequential scan\n%s', sql, cardinality(ids), cardinality(seq_ids), left(plan, 1500));
		END IF;
	END LOOP;
END
$$;
