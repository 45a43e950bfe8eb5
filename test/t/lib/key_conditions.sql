-- Random rows and conditions of 081_key_conditions.pl and 087_filtered_scans.pl: a table with a column of each type of a filter class, constants, and the
-- comparison of scans. Needs a collation `tongue`, and an index on table k.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN small AS int CHECK (VALUE < 100000);
CREATE TABLE k (id bigint PRIMARY KEY, v vector(8), b bool, c "char", i2 int2, i4 int4, i8 int8, o oid, f4 float4, f8 float8, n numeric, dy date, t time, ts timestamp, tz timestamptz,
	s text COLLATE "C", l text COLLATE tongue, vc varchar COLLATE "C", u uuid, y bytea, e mood, a inet, dom small, m jsonb, ta text[] COLLATE "C", tl text[] COLLATE tongue, ia int4[]) WITH (fillfactor = 90);
CREATE TABLE facts (name text, type text, literal text);
CREATE FUNCTION pick(VARIADIC text[]) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT $1[1 + floor(random() * cardinality($1))::int]';
CREATE FUNCTION word() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN r < .4 THEN pick('a', 'A', 'ab', 'b', 'é', 'e', '', 'abc') WHEN r < .8 THEN 'abcde' || pick('f', 'F', 'é', '') || pick('g', 'h', '') || pick('h', ' ', '') || pick('x', 'y', '')
		ELSE repeat('x', pick('20', '3000')::int) || pick('1', '2', '3') END FROM (SELECT random() AS r) s
$$;
CREATE FUNCTION add_rows(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO k SELECT i,
		CASE WHEN random() < .95 THEN (SELECT array_agg(random() + i % 7 + 0 * j) FROM generate_series(1, 8) j)::vector(8) END,
		CASE WHEN random() < .9 THEN random() < .5 END,
		CASE WHEN random() < .9 THEN pick('a', 'b', 'c', E'\x7f')::"char" END,
		CASE WHEN random() < .9 THEN pick('-32768', '32767', '0', (random() * 20 - 10)::int::text, '5')::int2 END,
		CASE WHEN random() < .9 THEN pick('-2147483648', '2147483647', (i % 13)::text, (random() * 20 - 10)::int::text, (i / 10)::text)::int4 END,
		CASE WHEN random() < .9 THEN pick('-9223372036854775808', '9223372036854775807', '2147483648', (random() * 20 - 10)::int::text, (i / 10)::text)::int8 END,
		CASE WHEN random() < .9 THEN pick('0', '4294967295', '2147483648', (i % 20)::text)::oid END,
		CASE WHEN random() < .9 THEN pick('NaN', 'Infinity', '-Infinity', '-0', '0', '0.1', (random() * 10 - 5)::int::text)::float4 END,
		CASE WHEN random() < .9 THEN pick('NaN', 'Infinity', '-Infinity', '-0', '0', '0.1', '0.10000000149011612', (random() * 10 - 5)::int::text)::float8 END,
		CASE WHEN random() < .9 THEN pick('NaN', 'Infinity', '-Infinity', '0', '0.00', '0.1', '0.10000000000000000001', '1e30', '1e-30', (random() * 10)::numeric(6, 1)::text, (random() * 1000)::numeric(9, 2)::text)::numeric END,
		CASE WHEN random() < .9 THEN pick('infinity', '-infinity', '2024-03-10', '2024-03-11', (date '2024-01-01' + i % 400)::text)::date END,
		CASE WHEN random() < .9 THEN pick('00:00', '24:00', (time '00:00' + random() * interval '23 h')::text, (i % 24) || ':30')::time END,
		CASE WHEN random() < .9 THEN pick('infinity', '-infinity', (timestamp '2024-03-08' + i % 150 * interval '1 h')::text, (timestamp '2024-01-01' + i * interval '6 h')::text)::timestamp END,
		CASE WHEN random() < .9 THEN pick('infinity', '-infinity', (timestamptz '2024-03-08 00:00 UTC' + i % 150 * interval '1 h')::text, (timestamptz '2024-01-01 00:00 UTC' + i * interval '6 h')::text)::timestamptz END,
		CASE WHEN random() < .9 THEN word() END, CASE WHEN random() < .9 THEN word() END, CASE WHEN random() < .9 THEN word() END,
		CASE WHEN random() < .9 THEN pick('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-ffff-00000000000' || i % 10, md5((i % 100)::text))::uuid END,
		CASE WHEN random() < .9 THEN pick('\x', '\x00', '\x0000', '\x6162636465666768', '\x616263646566676800', '\x' || md5((i % 50)::text))::bytea END,
		CASE WHEN random() < .9 THEN (enum_range(NULL::mood))[1 + floor(random() * cardinality(enum_range(NULL::mood)))::int] END,
		CASE WHEN random() < .9 THEN pick('10.0.0.' || i % 20, '10.0.0.0/24', '10.0.0.0/8', '::1', '2001:db8::' || i % 5, '::ffff:10.0.0.1')::inet END,
		CASE WHEN random() < .9 THEN (random() * 50)::int END,
		CASE WHEN random() < .9 THEN jsonb_build_object('tenant', 'tenant ' || i % 25) END,
		CASE WHEN random() < .9 THEN ARRAY(SELECT CASE WHEN random() < .95 THEN word() END FROM generate_series(1, i % 5)) END,
		CASE WHEN random() < .9 THEN ARRAY(SELECT CASE WHEN random() < .95 THEN word() END FROM generate_series(1, i % 3)) END,
		CASE WHEN random() < .1 THEN ARRAY[ARRAY[i % 50, 7], ARRAY[8, NULL]] WHEN random() < .9 THEN ARRAY(SELECT floor(50 * random() * random())::int FROM generate_series(1, (ARRAY[0, 1, 1, 2, 5, 20])[1 + i % 6])) END
	FROM generate_series(first, last) i
$$;
-- Constants: values that rows have, and others between and beyond them; for the types of a family also those of the other types.
CREATE FUNCTION note_facts() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT * FROM (VALUES ('b', 'bool', 'b', '{}'), ('c', '"char"', 'c', '{}'), ('i2', 'int2', 'i2', '{1}'), ('i2', 'int4', 'i2', '{32768,-32769}'), ('i2', 'int8', 'i2', '{9223372036854775807,-32769}'),
		('i4', 'int2', 'least(greatest(i4, -5), 20)', '{-32768}'), ('i4', 'int4', 'i4', '{1000}'), ('i4', 'int8', 'i4', '{2147483648,-2147483649}'), ('i8', 'int2', 'least(greatest(i8, -5), 20)', '{}'), ('i8', 'int4', 'least(greatest(i8, -5), 20)', '{}'),
		('i8', 'int8', 'i8', '{2147483647}'), ('o', 'oid', 'o', '{21}'), ('f4', 'float4', 'f4', '{0.1}'), ('f4', 'float8', 'f4', '{0.1,0.10000000149011612,1e300}'), ('f8', 'float4', 'least(f8, 5)', '{0.1}'), ('f8', 'float8', 'f8', '{1e-300}'),
		('n', 'numeric', 'n', '{0.1000000000000000055511151231257827,500,1e-31}'), ('dy', 'date', 'dy', '{2024-02-30x}'), ('dy', 'timestamp', 'dy + interval ''1 min''', '{2024-03-10 00:00}'), ('dy', 'timestamptz', 'dy', '{2024-03-10 12:00 UTC}'),
		('t', 'time', 't', '{12:00}'), ('ts', 'date', 'ts', '{2024-03-10}'), ('ts', 'timestamp', 'ts', '{}'), ('ts', 'timestamptz', 'ts', '{2024-03-10 07:00 UTC}'), ('tz', 'date', 'tz', '{2024-03-10}'), ('tz', 'timestamp', 'tz', '{2024-03-10 02:30}'), ('tz', 'timestamptz', 'tz', '{}'),
		('s', 'text', 's', '{abcdefghi,zz}'), ('s', 'varchar', 's', '{}'), ('l', 'text', 'l', '{abcdefghi,AB}'), ('vc', 'varchar', 'vc', '{abcdefghi}'), ('vc', 'text', 'vc', '{abcdefg}'), ('u', 'uuid', 'u', '{80000000-0000-0000-0000-000000000000}'),
		('y', 'bytea', 'y', '{\\x61}'), ('e', 'mood', 'e', '{}'), ('a', 'inet', 'a', '{0.0.0.0/0}'), ('dom', 'small', 'dom', '{}'), ('dom', 'int8', 'dom', '{25}'), ('(m->>''tenant'')', 'text', 'm->>''tenant''', '{tenant 1000}'), ('(i4 % 10)', 'int4', 'i4 % 10', '{3}'),
		('ta', 'text[]', 'ta', '{"{}","{NULL}"}'), ('ta', 'text[]', 'ta[1:1]', '{"{a,NULL}","{a,b,abc}"}'), ('tl', 'text[]', 'tl[1:1]', '{"{é,a,A,b}"}'), ('ia', 'int4[]', 'ia', '{"{}"}'), ('ia', 'int4[]', 'ia[1:1]', '{"{1000}","{0,1,2,3,4,5,6,7,8,9}","{{3,4},{0,3}}"}'),
		('ia', 'int4[]', 'ia[2:4]', '{}'))
		x (name, type, value, more) LOOP
		EXECUTE format('INSERT INTO facts SELECT DISTINCT %L, %L, (%s)::%s::text FROM (SELECT * FROM k ORDER BY random() LIMIT 60) s WHERE (%s) IS NOT NULL', r.name, r.type, r.value, r.type, r.value);
		INSERT INTO facts SELECT r.name, r.type, x FROM unnest(r.more::text[]) x WHERE x NOT LIKE '%x' OR x LIKE '\\%';
	END LOOP;
END
$$;
-- A condition on one column. `form`: what stands for a constant: itself, a subquery, a parameter $n whose type and value are added to the lists.
CREATE FUNCTION condition(form int, INOUT types text[], INOUT literals text[], OUT condition text) LANGUAGE plpgsql AS $$
DECLARE
	f record;
	g record;
	constant text[] := '{}';
	r float8 := random();
	x record;
BEGIN
	SELECT * INTO f FROM facts ORDER BY random() LIMIT 1;
	SELECT * INTO g FROM facts WHERE name = f.name ORDER BY random() LIMIT 1;
	IF r < .06 THEN
		condition := f.name || pick(' IS NULL', ' IS NOT NULL');
		RETURN;
	ELSIF r < .1 THEN
		condition := pick('v IS NOT NULL', 'v IS NULL');
		RETURN;
	ELSIF r < .15 THEN
		condition := pick('s', 'vc') || ' LIKE ' || quote_literal(pick('ab%', 'abcdefgh%', 'x%', 'é%'));
		RETURN;
	END IF;
	FOR x IN SELECT * FROM (VALUES (f.type, f.literal), (g.type, g.literal)) x (type, literal) LOOP
		EXIT WHEN r < .8 AND cardinality(constant) = 1;
		IF form = 2 THEN
			types := types || x.type;
			literals := literals || CASE WHEN random() < .03 THEN 'NULL' ELSE quote_literal(x.literal) END;
			constant := constant || ('$' || cardinality(types));
		ELSE
			constant := constant || CASE form WHEN 1 THEN format('(SELECT %L::%s)', x.literal, x.type) ELSE format('%L::%s', x.literal, x.type) END;
		END IF;
	END LOOP;
	condition := CASE WHEN f.type LIKE '%[]' THEN concat_ws(' ', f.name, pick('&&', '&&', '@>', '@>', '<@', '='), constant[1]) || CASE WHEN r >= .8 THEN format(' AND %s %s %s', constant[2], pick('&&', '<@'), f.name) ELSE '' END
		WHEN r >= .8 THEN format('%s BETWEEN %s AND %s', f.name, constant[1], constant[2])
		ELSE concat_ws(' ', f.name, pick('=', '=', '<>', '<', '<=', '>=', '>'), constant[1]) END;
END
$$;
-- What no scan key says: lists with NULLs and without elements, IS DISTINCT FROM, booleans, tests of parameters, parts that no index decides.
CREATE FUNCTION other_condition(form int, INOUT types text[], INOUT literals text[], OUT condition text) LANGUAGE plpgsql AS $$
DECLARE
	f record;
	constants text[];
	list text;
	r float8 := random();
BEGIN
	IF r < .15 THEN
		condition := pick('b', 'NOT b', 'b IS TRUE', 'b IS NOT TRUE', 'b IS FALSE', 'b IS NOT FALSE', 'b IS UNKNOWN', 'b IS NOT UNKNOWN', 'b = true', 'b <> true');
		RETURN;
	ELSIF r < .2 THEN
		condition := pick('id % 3 = 1', 'id % 10 < 8 AND i4 > 0', 'i4::int8 + 1 > 5', 's LIKE ''%b%''');
		RETURN;
	ELSIF r < .25 THEN
		condition := pick('8 = ANY (ia)', '7 <> ALL (ia)', '3 = ANY (ia)', '''a'' = ANY (ta)', '''abcdefgh'' = ANY (tl)', 'NOT ia @> ''{7}''');
		RETURN;
	ELSIF r < .3 AND form = 2 THEN
		types := types || 'int4'::text;
		literals := literals || pick('NULL', '5', '0');
		condition := format(pick('$%s IS NULL', '$%s IS NOT NULL', '$%s > 3', 'NOT $%s > 3'), cardinality(types));
		RETURN;
	END IF;
	SELECT * INTO f FROM facts WHERE type NOT LIKE '%[]' ORDER BY random() LIMIT 1;
	constants := ARRAY(SELECT CASE WHEN random() < .07 THEN 'NULL' ELSE format('%L::%s', literal, f.type) END FROM facts WHERE name = f.name AND type = f.type ORDER BY random()
		LIMIT CASE WHEN r < .35 THEN 0 WHEN r < .5 THEN 1 WHEN r < .9 THEN 4 ELSE 40 END);
	IF r < .45 THEN
		condition := format('%s IS %s DISTINCT FROM %s', f.name, pick('', 'NOT'), coalesce(constants[1], 'NULL::' || f.type));
		RETURN;
	END IF;
	list := format('ARRAY[%s]::%s[]', array_to_string(constants, ', '), f.type);
	IF form = 2 THEN
		types := types || (f.type || '[]');
		literals := literals || CASE WHEN random() < .03 THEN 'NULL' ELSE list END;
		list := '$' || cardinality(types);
	ELSIF form = 0 AND constants <> '{}' THEN
		condition := format('%s %s (%s)', f.name, pick('IN', 'IN', 'NOT IN'), array_to_string(constants, ', '));
		RETURN;
	END IF;
	condition := format('%s %s (%s)', f.name, pick('= ANY', '= ANY', '<> ALL', '<> ALL', '< ANY', '> ALL', '<= ALL', '<> ANY', '= ALL'), list);
END
$$;
-- A random tree of conditions.
CREATE FUNCTION tree(form int, depth int, INOUT types text[], INOUT literals text[], OUT condition text) LANGUAGE plpgsql AS $$
DECLARE
	r float8 := random();
	parts text[] := '{}';
	c record;
BEGIN
	IF depth = 0 OR r < .2 THEN
		IF random() < .4 THEN
			c := condition(form, types, literals);
		ELSE
			c := other_condition(form, types, literals);
		END IF;
		types := c.types; literals := c.literals; condition := '(' || c.condition || ')';
		RETURN;
	ELSIF r < .3 THEN
		c := tree(form, depth - 1, types, literals);
		types := c.types; literals := c.literals; condition := format(pick('(NOT %s)', '(%s IS TRUE)', '(%s IS FALSE)', '(%s IS NOT TRUE)'), c.condition);
		RETURN;
	END IF;
	FOR i IN 1 .. pick('2', '2', '3')::int LOOP
		c := tree(form, depth - 1, types, literals);
		types := c.types; literals := c.literals; parts := parts || c.condition;
	END LOOP;
	condition := '(' || array_to_string(parts, CASE WHEN r < .75 THEN ' OR ' ELSE ' AND ' END) || ')';
END
$$;
-- Compare scans of n random conditions: what differs, and counts that show what was tried.
-- trees: they are trees, and scans by distance. distance: of the index's first column to a random %s.
CREATE FUNCTION try_conditions(n int, trees bool DEFAULT false, distance text DEFAULT 'v <-> %s', OUT n_tried int, OUT n_narrow int, OUT n_empty int, OUT n_conditions int, OUT n_bitmaps int,
	OUT n_filtered int, OUT n_rows bigint, OUT wrong text[]) LANGUAGE plpgsql
SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
	form int;
	way int;
	types text[];
	literals text[];
	c record;
	conditions text;
	query text;
	k bigint;
	prepare text;
	sql text;
	plan text;
	line text;
	ids bigint[];
	distances text[];
	seq_ids bigint[];
	seq_distances text[];
	total bigint := (SELECT count(*) FROM k);
BEGIN
	n_tried := 0; n_narrow := 0; n_empty := 0; n_conditions := 0; n_bitmaps := 0; n_filtered := 0; n_rows := 0; wrong := '{}';
	FOR i IN 1 .. n LOOP
		form := floor(random() * 3);
		way := CASE WHEN trees THEN 0 ELSE greatest(floor(random() * 6) - 3, 0) END; -- 0: by distance; 1: without order; 2: bitmap
		types := '{}'; literals := '{}'; conditions := NULL;
		FOR j IN 1 .. pick('1', '1', '1', '2', '2', '3')::int LOOP
			IF trees THEN
				c := tree(form, pick('1', '2', '3')::int, types, literals);
			ELSE
				c := condition(form, types, literals);
			END IF;
			types := c.types; literals := c.literals;
			conditions := concat_ws(' AND ', conditions, c.condition);
		END LOOP;
		query := format(distance, CASE WHEN distance LIKE '%<->%' THEN quote_literal((SELECT array_agg(random() * 8) FROM generate_series(1, 8))::vector(8))
			ELSE quote_literal(ARRAY(SELECT floor(50 * random() * random())::int FROM generate_series(1, 4))) END);
		k := pick('1', '10', '100', NULL)::bigint;
		sql := CASE way WHEN 0 THEN format('SELECT array_agg(id ORDER BY n), array_agg(d ORDER BY n) FROM (SELECT id, d::text, row_number() OVER () AS n FROM (SELECT id, %s AS d FROM k WHERE %s ORDER BY %s LIMIT %s) s) s',
				query, conditions, query, coalesce(k::text, 'ALL'))
			ELSE format('SELECT array_agg(id ORDER BY id), NULL::text[] FROM k WHERE %s', conditions) END;
		PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
		IF types <> '{}' THEN
			prepare := format('PREPARE ask(%s) AS %s', array_to_string(types, ', '), sql);
			EXECUTE prepare;
			sql := format('EXECUTE ask(%s)', array_to_string(literals, ', '));
		END IF;
		PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true);
		EXECUTE sql INTO seq_ids, seq_distances;
		PERFORM set_config('enable_indexscan', CASE WHEN way < 2 THEN 'on' ELSE 'off' END, true), set_config('enable_bitmapscan', CASE WHEN way = 2 THEN 'on' ELSE 'off' END, true),
			set_config('enable_seqscan', 'off', true), set_config('enable_sort', CASE WHEN way = 0 THEN 'off' ELSE 'on' END, true);
		IF types <> '{}' THEN
			DEALLOCATE ask; -- with the plan of the sequential scan
			EXECUTE prepare;
		END IF;
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || sql LOOP
			plan := plan || line || E'\n';
		END LOOP;
		EXECUTE sql INTO ids, distances;
		IF types <> '{}' THEN
			DEALLOCATE ask;
		END IF;
		n_tried := n_tried + 1;
		n_conditions := n_conditions + (plan ~ 'Index Cond')::int;
		n_filtered := n_filtered + (plan ~ 'Vectorgpu Filtered Scan')::int;
		n_bitmaps := n_bitmaps + (plan ~ 'Bitmap Index Scan')::int;
		n_rows := n_rows + coalesce(cardinality(ids), 0);
		n_empty := n_empty + (seq_ids IS NULL)::int;
		n_narrow := n_narrow + coalesce(cardinality(seq_ids) < total / 10, true)::int;
		IF distances IS DISTINCT FROM seq_distances OR cardinality(ids) IS DISTINCT FROM cardinality(seq_ids) OR (k IS NULL OR way > 0) AND NOT (ids @> seq_ids AND seq_ids @> ids)
			OR EXISTS (SELECT FROM unnest(ids, distances) x (id, d) WHERE d IS NOT NULL AND d IS DISTINCT FROM seq_distances[cardinality(seq_distances)] AND id <> ALL (seq_ids)) -- the last one may have equals
			OR (SELECT count(DISTINCT x) <> count(*) FROM unnest(ids) x) OR way = 0 AND plan !~ 'Index Scan using|Vectorgpu Filtered Scan' AND plan !~ 'One-Time Filter' THEN
			wrong := wrong || format(E'%s\n%s rows, %s by sequential scan\n%s', left(concat_ws(E'\n', CASE WHEN types <> '{}' THEN prepare END, sql), 900), cardinality(ids), cardinality(seq_ids), left(plan, 600));
		END IF;
	END LOOP;
END
$$;
