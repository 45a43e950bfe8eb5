# Key columns of gpumatch: for arrays, documents, tuples, texts and signatures, random conditions on columns of every width, beside an order, a search
# operator or neither: index scans answer as sequential scans do. Rows that were built, inserted, updated, deleted, vacuumed, merged; images of codes
# larger than a slot of the delta, behind values of every size and NULL; inserts that die; the worker. And gpumatch's classes in a dump of 0.2.0.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.inline_load_size = 1GB\nvectorgpu.auto_merge = off\nrestart_after_crash = on\n");

# table, type, the indexed value with its class, a value of i, operator and argument of n, a search operator's condition of n or ''
my @kinds = (
	[ 'ints', 'int[]', 'v', q{coalesce((SELECT array_agg((i * 7919 + j * j * 31) % 97) FROM generate_series(1, CASE WHEN i % 301 = 0 THEN 3000 ELSE i % 12 END) j), '{}')},
		q{'v <#> ''{' || (n * 31) % 97 || ',' || n % 97 || ',3,17}'''}, q{'match_at_least(v, ''{3,' || n % 97 || ',17}'', ' || 1 + n % 2 || ')'} ],
	[ 'words', 'text[]', 'v array_match_ops', q{array(SELECT 'word ' || (i * 7 + j * j) % 41 FROM generate_series(0, i % 7) j)},
		q{'v <#> ''{"word ' || n % 41 || '",word 3,"word 7"}'''}, q{'match_at_least(v, ''{"word 7","word ' || n % 41 || '"}''::text[], 1)'} ],
	[ 'documents', 'tsvector', 'v', q{to_tsvector('simple', 'foo' || i % 13 || ' bar' || i % 7 || ' baz' || i % 101)},
		q{'v <#> ''foo' || n % 13 || ' bar3 baz' || n % 101 || ''''}, q{'match_at_least(v, ''foo' || n % 13 || ' bar3'', 1)'} ],
	[ 'tuples', 'int', 'matchrow(v, state, big)', q{i % 50},
		q{'matchrow(v, state, big) <#> matchquery(int4range(' || n % 40 || ', 50), ''state ' || n % 5 || ''', int8range(100, 3000))'}, '' ],
	[ 'texts', 'text', 'v', q{left(md5((i % 400)::text), i % 20) || CASE WHEN i % 301 = 0 THEN repeat('x', 2000) ELSE '' END},
		q{'v <~> ''' || left(md5(n::text), 3 + n % 10) || ''''}, '' ],
	[ 'minhash', 'int[]', 'v array_minhash_ops (hashes = 24)', q{array(SELECT (i / 20 * 7919 + (j * (1 + i % 20 / 7)) * 31) % 1000 FROM generate_series(1, 20) j)},
		q{'v <%> ''' || array(SELECT (n * 7919 + j * 31) % 1000 FROM generate_series(1, 20) j)::text || ''''}, '' ],
	[ 'hashes', 'vector(4)', 'v vector_lsh_l2_ops (hashes = 24, width = 3)', q{ARRAY[sin(i * 7), cos(i * 3), i % 5, i % 3]::real[]::vector},
		q{'v <-> ''[' || (n % 7) / 7.0 || ',0.5,2,' || n % 3 || ']'''}, '' ]);
my $columns = 'tenant, at, state text_filter_ops, price, flag, u, big, f, labels array_filter_ops';

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE kinds (name text, q text, match text);
-- One of a list, or a random condition on a key column.
CREATE FUNCTION pick(list text[]) RETURNS text LANGUAGE sql AS 'SELECT list[1 + floor(random() * cardinality(list))::int]';
CREATE FUNCTION condition() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n int := floor(random() * 1000);
	op text := pick('{<,<=,=,>=,>,<>}');
BEGIN
	RETURN CASE floor(random() * 16)
		WHEN 0 THEN format('tenant %s %s', op, n % 21)
		WHEN 1 THEN format('tenant = %s', n % 25)
		WHEN 2 THEN format('tenant BETWEEN %s AND %s', n % 20, n % 20 + n % 4)
		WHEN 3 THEN format('%s IS %s NULL', pick('{tenant,at,state,price,flag,u,big,f,labels}'), pick('{"",NOT}'))
		WHEN 4 THEN format('at %s %L', op, timestamptz '2026-01-01' + n * interval '3 h')
		WHEN 5 THEN format('at >= %L AND at < %L', timestamptz '2026-01-01' + n * interval '3 h', timestamptz '2026-01-01' + (n + n % 90) * interval '3 h')
		WHEN 6 THEN format('state %s ''state %s''', op, n % 6)
		WHEN 7 THEN format('state = %L', pick('{state 3,s,"a very long name of a state, 2","a very long name of a state, 7"}'))
		WHEN 8 THEN format('price %s %s', op, round(n / 7.0, n % 4))
		WHEN 9 THEN format('flag %s %L', pick('{<,<=,>=,>}'), n % 2 = 0)
		WHEN 10 THEN format('u %s %L::uuid', op, md5((n % 50)::text))
		WHEN 11 THEN format('big %s %s', op, n * 4)
		WHEN 12 THEN format('f %s %L::float8', op, pick('{0,-Infinity,NaN,0.5,-0.25,Infinity}'))
		WHEN 13 THEN format('labels %s ''{label %s,label %s}''', pick('{&&,@>,<@}'), n % 31, n % 7)
		WHEN 14 THEN format('labels @> ''{label %s}''', n % 33)
		ELSE format('big = %s', n * 3) END;
END $$;
CREATE FUNCTION conditions() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(condition(), ' AND ') FROM generate_series(1, 1 + floor(random() * random() * 4)::int) i
$$;
CREATE FUNCTION ids(query text, by_index bool) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	result int[];
	line text;
	indexed bool := false;
BEGIN
	PERFORM set_config('enable_seqscan', (NOT by_index)::text, true), set_config('enable_indexscan', by_index::text, true), set_config('enable_sort', (NOT by_index)::text, true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		indexed := indexed OR line ~ '^ *Index Cond';
	END LOOP;
	IF indexed <> by_index THEN RETURN ARRAY[-1]; END IF;
	EXECUTE format('SELECT array_agg(id ORDER BY n) FROM (SELECT id, row_number() OVER () AS n FROM (%s) a) b', query) INTO result;
	RETURN coalesce(result, '{}');
END $$;
-- Compares some random queries of a table; returns those that differ. signatures: where a LIMIT may miss rows; count what it finds.
CREATE FUNCTION differences(kind text, rounds int, signatures bool DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	of kinds := (SELECT k FROM kinds k WHERE name = kind);
	query text;
	order_by text;
	tail text;
	shown text[] := '{}';
	found bigint := 0;
	wanted bigint := 0;
	by_index int[];
	by_seq int[];
BEGIN
	FOR i IN 1..rounds LOOP
		EXECUTE 'SELECT ' || of.q || ' FROM (SELECT floor(random() * 1000)::int) x (n)' INTO order_by;
		query := format('SELECT id FROM %s WHERE %s', kind, conditions());
		IF i % 7 = 1 THEN query := query || ' AND v IS NOT NULL'; END IF;
		IF i % 5 = 2 AND of.match <> '' THEN
			EXECUTE 'SELECT ' || of.match || ' FROM (SELECT floor(random() * 1000)::int) x (n)' INTO tail;
			query := query || ' AND ' || tail;
		END IF;
		IF i % 5 IN (2, 3) AND NOT signatures THEN -- no order
			by_index := (SELECT array_agg(x ORDER BY x) FROM unnest(ids(query, true)) x);
			by_seq := (SELECT array_agg(x ORDER BY x) FROM unnest(ids(query, false)) x);
		ELSE
			tail := (ARRAY['', 'LIMIT 1', 'LIMIT 10', 'LIMIT 150'])[1 + i % 4];
			by_index := ids(format('%s ORDER BY %s %s', query, order_by, tail), true);
			by_seq := ids(format('%s ORDER BY %s, ctid %s', query, order_by, tail), false);
			IF signatures AND tail <> '' AND cardinality(by_index) = cardinality(by_seq) THEN
				wanted := wanted + cardinality(by_seq);
				found := found + (SELECT count(*) FROM unnest(by_seq) x WHERE x = ANY (by_index));
				by_seq := by_index;
			END IF;
			query := format('%s ORDER BY %s %s', query, order_by, tail);
		END IF;
		IF by_index IS DISTINCT FROM by_seq THEN
			RETURN NEXT format('%s: %s instead of %s', query, left(by_index::text, 60), left(by_seq::text, 60));
		END IF;
	END LOOP;
	IF found < wanted * 0.8 THEN RETURN NEXT format('%s of %s', found, wanted); END IF;
END $$;
SQL
for my $kind (@kinds)
{
	my ($table, $type, $indexed, $value, $q, $match) = @$kind;

	$node->safe_psql('postgres', <<SQL);
INSERT INTO kinds VALUES ('$table', \$q\$$q\$q\$, \$q\$$match\$q\$);
CREATE TABLE $table (id int, v $type, tenant int, at timestamptz, state text, price numeric, flag bool, u uuid, big bigint, f float8, labels text[]);
CREATE FUNCTION add_$table(first int, last int) RETURNS void LANGUAGE sql AS \$f\$
	INSERT INTO $table SELECT i, CASE WHEN i % 23 <> 0 THEN $value END, CASE WHEN i % 19 <> 0 THEN (i * 31) % 20 END,
		CASE WHEN i % 29 <> 0 THEN timestamptz '2026-01-01' + i * interval '1 h' END,
		(ARRAY['state 1', 'state 2', 'state 3', 's', '', NULL, 'a very long name of a state, ' || i % 9])[1 + i % 7],
		CASE WHEN i % 31 <> 0 THEN round((i * 17 % 1000) / 7.0, i % 4) END, CASE i % 4 WHEN 0 THEN true WHEN 1 THEN NULL ELSE false END,
		CASE WHEN i % 37 <> 0 THEN md5((i % 50)::text)::uuid END, CASE WHEN i % 41 <> 0 THEN i END,
		(ARRAY[0, -0.25, 'NaN', 'Infinity', '-Infinity', sin(i), NULL]::float8[])[1 + (i / 3) % 7],
		CASE WHEN i % 43 <> 0 THEN ARRAY(SELECT 'label ' || (i * 13 + j * j) % 31 FROM generate_series(1, i % 6) j) END FROM generate_series(first, last) i
\$f\$;
SELECT add_$table(1, 2000);
CREATE INDEX ${table}_v ON $table USING gpumatch ($indexed, $columns);
ANALYZE $table;
SQL
}

my $sound = sub {
	my ($when, $rounds, $prefix) = @_;

	for my $kind (@kinds)
	{
		my $table = $kind->[0];
		my $signatures = $table =~ /minhash|hashes/ ? 'true' : 'false';

		is($node->safe_psql('postgres', ($prefix // 'SET vectorgpu.worker = off; ') . "SET enable_bitmapscan = off; SET timezone = 'UTC'; SELECT setseed(0.25); SELECT * FROM differences('$table', $rounds, $signatures)"), '', "$when: $table, both scans agree");
		check_index($node, "${table}_v", name => "$when: $table, check", narrow => 0);
	}
};
my $each = sub { my ($sql) = @_; $node->safe_psql('postgres', join(';', map { my $t = $_->[0]; $sql =~ s/%T/$t/gr } @kinds)); };

$sound->('built', 60);
$each->("SELECT add_%T(2001, 2400)");
$sound->('inserted', 40);
$each->("DELETE FROM %T WHERE id % 10 = 7; UPDATE %T SET tenant = (coalesce(tenant, 3) + 1) % 20 WHERE id % 11 = 3; UPDATE %T SET v = NULL WHERE id % 400 = 9 AND v IS NOT NULL; UPDATE %T SET f = 1 WHERE v IS NULL AND id % 2 = 0");
$sound->('changed', 30);
$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $_->[0]") for @kinds;
$sound->('vacuumed', 30);
$each->("SELECT add_%T(2401, 2700); SELECT vectorgpu_merge('%T_v'); SELECT add_%T(2701, 2800)");
$sound->('merged', 60);

SKIP:
{
	skip 'the worker is not installed', 15 unless -x $node->config_data('--pkglibdir') . '/vectorgpu_worker';
	ok(wait_worker($node), 'the worker is ready');
	$each->("SELECT vectorgpu_prewarm('%T_v')");
	$sound->('by the worker', 30, 'SET vectorgpu.worker = on; ');
}

# Rows whose codes take more slots than a page's end leaves: an insert that dies after a part of one, of NULL too, and the next one.
SKIP:
{
	skip 'the library was built without FAULTS=1', 1 if !faults_enabled($node);
	my $code = q{md5((i % 10)::text)::uuid};
	my $fail = sub {
		my ($fault, $value, $n) = @_;
		my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$fault'; INSERT INTO wide SELECT i, $value, $code FROM generate_series(1, $n) i");

		return $err;
	};
	my $wide = sub {
		my ($when) = @_;

		is($node->safe_psql('postgres', <<'SQL'), '', "$when: both scans agree");
SET enable_bitmapscan = off;
SELECT q FROM generate_series(0, 9) n, unnest(ARRAY['{3,5,7}', '{1}']) o, LATERAL (SELECT format('SELECT id FROM wide WHERE u = %L ORDER BY v <#> %L', md5(n::text), o) AS q) x
WHERE ids(q, true) IS DISTINCT FROM ids(q || ', ctid', false);
SQL
		check_index($node, 'wide_v', name => "$when: check", narrow => 0);
	};

	$node->safe_psql('postgres', "CREATE TABLE wide (id int, v int[], u uuid); CREATE INDEX wide_v ON wide USING gpumatch (v, u, u, u, u, u, u, u, u)");
	for my $value ('NULL::int[]', 'ARRAY[i % 5, i % 7]', '(SELECT array_agg(j * (1 + i % 3)) FROM generate_series(1, 2000) j)')
	{
		for my $action ('error', 'exit')
		{
			isnt($fail->("delta_value_part:1:$action", $value, 20000), '', "$value: an insert ends by $action after a part of a row");
			if ($action eq 'exit')
			{
				wait_for_restart($node) or die 'the server did not come back';
				# What the dead process wrote last may not have reached the log.
				$fail->('delta_value_part:1:error', $value, 20000);
			}
			like($fail->('delta_close_part:1:error', $value, 2), qr/fault point "delta_close_part"/, "$value, $action: the next one clears the part away");
			$node->safe_psql('postgres', "INSERT INTO wide SELECT i, NULL, $code FROM generate_series(1, 30) i; INSERT INTO wide SELECT i, ARRAY[i % 5, i % 7], $code FROM generate_series(31, 300) i");
			$wide->("$value, $action");
			$node->safe_psql('postgres', 'DELETE FROM wide WHERE id % 5 = 1');
			$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) wide');
			$wide->("$value, $action, vacuumed");
		}
		$node->safe_psql('postgres', "SELECT vectorgpu_merge('wide_v')");
		$wide->("$value, merged");
	}
}

# The classes of 0.2.0's indexes in a dump, and after an update: gpumatch has got classes for conditions, but no other default.
my %classes = (ai => '(i)', ab => '(b)', at => '(t)', au => '(u)', d => '(d)', c => '(c)', n => '(n)', o => '(o)', r => '(matchrow(c, k))', e => '((c || c))',
	g => q{(c text_gram_ops (n='2'))}, m => q{(i array_minhash_ops (hashes='24'))}, v1 => q{(v vector_lsh_l1_ops (width='4'))}, v2 => q{(v vector_lsh_l2_ops (width='4'))},
	vc => '(v vector_lsh_cosine_ops)');
my $classes = q{SELECT i.indexrelid::regclass, o.opcname, o.opcdefault, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0]
	WHERE i.indrelid = 'classes'::regclass ORDER BY i.indexrelid::regclass::text COLLATE "C"};
my $dump = $PostgreSQL::Test::Utils::tmp_check . '/classes.sql';
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->safe_psql('old', "CREATE EXTENSION vectorgpu VERSION '0.2.0'; CREATE DOMAIN note AS text; CREATE TABLE classes (k int, i int[], b bigint[], t text[], u uuid[], d tsvector, c text, n varchar, o note, v vector(3));"
	. "INSERT INTO classes SELECT i, ARRAY[i], ARRAY[i], ARRAY['t' || i], ARRAY[md5(i::text)::uuid], ('d' || i)::tsvector, 'c' || i, 'n' || i, 'o' || i, '[1,2,3]' FROM generate_series(1, 20) i;"
	. join(' ', map { "CREATE INDEX classes_$_ ON classes USING gpumatch $classes{$_};" } sort keys %classes));
my $before = $node->safe_psql('old', $classes);
is(scalar(split /\n/, $before), scalar keys %classes, 'indexes of each class of 0.2.0');
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('old') ], 'dumped');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restored');
isnt($node->safe_psql('restored', "SELECT extversion FROM pg_extension WHERE extname = 'vectorgpu'"), '0.2.0', 'into a later version');
is($node->safe_psql('restored', $classes), $before, 'with the same classes');
$node->safe_psql('old', 'ALTER EXTENSION vectorgpu UPDATE');
is($node->safe_psql('old', $classes), $before, 'which an update keeps');
$node->safe_psql('old', 'REINDEX TABLE classes');
check_index($node, 'classes_at', db => 'old', narrow => 0);

done_testing();
