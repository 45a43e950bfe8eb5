-- included by tests: runs a kNN query by index scan and by sequential scan and compares ids, order and the distances' bits
CREATE FUNCTION pg_temp.compare_scans(tab text, distance text, tail text DEFAULT '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	q text := format('SELECT id, %1$s AS d FROM %2$s %3$s ORDER BY %1$s', distance, tab,
		CASE WHEN tail ~ '^WHERE' THEN regexp_replace(tail, 'LIMIT.*$|OFFSET.*$', '') ELSE '' END);
	cut text := coalesce(substring(tail from 'LIMIT.*$'), substring(tail from 'OFFSET.*$'), '');
	line text;
	indexed boolean := false;
	ids int[];
	distances bytea[];
	seq_ids int[];
	seq_distances bytea[];
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q || ' ' || cut LOOP
		indexed := indexed OR line ~ 'Index Scan using|Vectorgpu Filtered Scan';
	END LOOP;
	EXECUTE format('SELECT array_agg(id), array_agg(float8send(d)) FROM (%s %s) x', q, cut) INTO ids, distances;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
	EXECUTE format('SELECT array_agg(id), array_agg(float8send(d)) FROM (%s, tableoid, ctid %s) x', q, cut)
		INTO seq_ids, seq_distances;
	PERFORM set_config('enable_indexscan', 'on', true);
	RETURN format('%s, %s rows, %s', CASE WHEN indexed THEN 'index scan' ELSE 'NO INDEX SCAN' END,
		coalesce(cardinality(ids), 0),
		CASE WHEN ids IS DISTINCT FROM seq_ids OR distances IS DISTINCT FROM seq_distances THEN 'DIFFERENT'
			ELSE 'same' END);
END $$;
