# Odd input of key columns: what is refused and how, 32 columns, labels of enums, time zones, collations, many, equal and no values in little memory, texts of a
# megabyte; row security and security barriers with operators and functions that leak.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

my $node = make_node('key_input');
my $icu = $node->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_collation WHERE collname = 'en-x-icu'}) eq 't';
my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;';
my $by_sequence = 'SET enable_indexscan = off; SET enable_bitmapscan = off;';
create_comparer($node);

# --- refused ---

$node->safe_psql('postgres', 'CREATE DOMAIN document AS json; CREATE TABLE odd (id int, v vector(3), w vector(3), j json, p point, d document, bx box[], i int, s text, b bit(3), x xml)');
for my $case (
	[ '(v vector_l2_ops, j)', '42704', qr/type json has no default operator class/ ],
	[ '(v vector_l2_ops, p)', '42704', qr/type point has no default operator class/ ],
	[ '(v vector_l2_ops, d)', '42704', qr/type document has no default operator class/ ],
	[ '(v vector_l2_ops, x)', '42704', qr/type xml has no default operator class/ ],
	[ '(v vector_l2_ops, bx)', '42883', qr/could not identify an extended hash function for type box.*hashes of their elements/s ],
	[ '(v vector_l2_ops, i array_filter_ops)', '42804', qr/does not accept data type integer/ ],
	[ '(v vector_l2_ops, w vector_l2_ops)', '0A000', qr/is not for conditions.*Only the first key column is searched by distance.*_filter_ops/s ],
	[ '(v vector_l2_ops, b)', '0A000', qr/is not for conditions/ ],
	[ '(i, v vector_l2_ops)', '0A000', qr/column "i" cannot be the first key column.*Operator classes for the first column/s ],
	[ '(i int4_filter_ops)', '0A000', qr/column "i" cannot be the first key column/ ],
	[ '(v vector_l2_ops) INCLUDE (i)', '0A000', qr/does not support included columns/ ],
	[ '(v vector_l2_ops, i DESC)', '0A000', qr/does not support ASC\/DESC/ ],
	[ '(v vector_l2_ops, i text_filter_ops)', '42804', qr/does not accept data type integer/ ],
	[ '(v vector_l2_ops, ' . join(', ', ('i') x 32) . ')', '54011', qr/cannot use more than 32 columns/ ])
{
	my ($columns, $expected, $message) = @$case;
	my ($state, $error) = psql_state($node, "CREATE INDEX ON odd USING gpuivf $columns");
	my $what = length $columns > 60 ? '33 columns' : $columns;

	is($state, $expected, "$what is refused");
	like($error, $message, "$what: why");
}
$node->safe_psql('postgres', "CREATE INDEX ON odd USING gpuivf (v vector_l2_ops, ((j->>'a')), (p[0]), (d->>'b'))");

# --- 32 columns ---

my @names = map { "c$_" } 1 .. 31;
$node->safe_psql('postgres', 'CREATE TABLE wide (id int, v vector(3), ' . join(', ', map { "$_ int" } @names) . ');'
	  . 'INSERT INTO wide SELECT i, array_fill(i::float4, ARRAY[3])::vector, ' . join(', ', map { "nullif(i % ($_ + 2), 1)" } 1 .. 31) . ' FROM generate_series(1, 400) i;'
	  . "CREATE INDEX wide_v ON wide USING gpuivf (v vector_l2_ops, " . join(', ', @names) . ');'
	  . 'INSERT INTO wide SELECT i, array_fill(i::float4, ARRAY[3])::vector, ' . join(', ', map { "nullif(i % ($_ + 2), 1)" } 1 .. 31) . ' FROM generate_series(401, 500) i');
for my $condition ('c31 = 2', 'c31 IS NULL', 'c1 = 2 AND c31 > 9 AND c17 < 8', join(' AND ', map { "$_ IS NOT NULL" } @names), join(' AND ', map { "$_ < 30" } @names))
{
	is($node->safe_psql('postgres', "SELECT compare_answers('wide', '<->', \$\$'[77,77,77]'::vector\$\$, NULL, \$\$$condition\$\$)"), '', '32 columns: ' . substr($condition, 0, 40));
}
check_index($node, 'wide_v', narrow => 0);

# --- enums, time zones, collations ---

sub same
{
	my ($name, $table, $setup, @conditions) = @_;
	my @wrong;

	for my $condition (@conditions)
	{
		my $sql = "SELECT string_agg(id::text, ',') FROM (SELECT id FROM $table WHERE $condition ORDER BY v <-> '[1,2,3]') s";
		my $found = $node->safe_psql('postgres', "$setup $by_index $sql");
		my $truth = $node->safe_psql('postgres', "$setup $by_sequence " . $sql =~ s/\) s$/, ctid) s/r);
		my $plan = $node->safe_psql('postgres', "$setup $by_index EXPLAIN (COSTS OFF) $sql");

		push @wrong, "$condition: $found instead of $truth" if $found ne $truth;
		push @wrong, "$condition: no index condition: $plan" if $plan !~ /Index Cond/;
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", @wrong), '', $name);
	return;
}

$node->safe_psql('postgres', <<SQL);
CREATE TYPE mood AS ENUM ('b', 'd');
CREATE TABLE e (id int, v vector(3), m mood, ts timestamp, tz timestamptz, day date);
SET TimeZone = 'America/New_York';
INSERT INTO e SELECT i, ARRAY[i, i % 7, 1]::vector, (enum_range(NULL::mood))[1 + i % 2], timestamp '2024-03-09' + i * interval '1 h', timestamptz '2024-03-09' + i * interval '1 h', date '2024-03-09' + i / 24 FROM generate_series(1, 200) i;
CREATE INDEX e_v ON e USING gpuivf (v vector_l2_ops, m, ts, tz, day);
SQL
for my $label ('a', 'c')
{
	$node->safe_psql('postgres', "ALTER TYPE mood ADD VALUE '$label' BEFORE '" . chr(1 + ord $label) . "'");
	$node->safe_psql('postgres', "INSERT INTO e SELECT 1000 + i, ARRAY[i, 3, i]::vector, '$label', timestamp '2024-03-10 02:30', '2024-03-10 07:00 UTC', '2024-03-10' FROM generate_series(1, 10) i");
	same("enum with '$label' added before another", 'e', '', map { my $op = $_; map { "m $op '$_'" } 'b', 'd', $label } '<', '<=', '=', '>=', '>', '<>');
}
for my $zone ('UTC', 'America/New_York', 'Pacific/Apia', 'Asia/Kathmandu')
{
	same("built in New York, asked in $zone", 'e', "SET TimeZone = '$zone';", "ts < timestamptz '2024-03-10 03:00'", "tz >= timestamp '2024-03-10 02:30'", "day = timestamptz '2024-03-10'", "tz > date '2024-03-12'",
		"ts = timestamptz '2024-03-10 07:30 UTC'", "ts BETWEEN date '2024-03-10' AND timestamptz '2024-03-10 08:00 UTC'");
}

my @texts = ('a', 'A', 'ab', 'abc', 'abcdefgh', 'abcdefghi', 'ABCDEFGH', 'b', 'B', 'é', 'É', 'e', 'z', '', 'abd', 'aBC');
my $texts = join ', ', map { "'$_'" } @texts;
$node->safe_psql('postgres', 'CREATE COLLATION tongue ' . ($icu ? q{(provider = icu, locale = 'und')} : 'FROM "C"') . ';'
	  . 'CREATE COLLATION any_case ' . ($icu ? q{(provider = icu, locale = 'und-u-ks-level2', deterministic = false)} : 'FROM "C"'));
my %collations = ('"C"' => [ "LIKE 'abc%'", "LIKE 'abcdefgh_'", "LIKE 'é%'" ], '"POSIX"' => [], tongue => [], any_case => []);
for my $collation (sort keys %collations)
{
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS w; CREATE TABLE w (id int, v vector(3), s text COLLATE $collation); CREATE INDEX w_v ON w USING gpuivf (v vector_l2_ops, s);"
		  . "INSERT INTO w SELECT i, ARRAY[i, i % 5, 2]::vector, (ARRAY[$texts])[1 + i % " . @texts . "] FROM generate_series(1, 160) i; SELECT vectorgpu_merge('w_v');"
		  . "INSERT INTO w SELECT i, ARRAY[i, i % 5, 2]::vector, (ARRAY[$texts])[1 + i % " . @texts . '] FROM generate_series(161, 200) i');
	same("collation $collation", 'w', '', (map { my $op = $_; map { "s $op '$_'" } 'a', 'ABC', 'abcdefgh', 'abcdefg', 'É', '' } '<', '<=', '=', '>=', '>', '<>'), map { "s $_" } @{ $collations{$collation} });
	is($node->safe_psql('postgres', "$by_index SELECT count(*) FROM (SELECT FROM w WHERE s = 'Abc' ORDER BY v <-> '[1,1,1]') s"), $node->safe_psql('postgres', q{SELECT count(*) FROM w WHERE lower(s COLLATE "C") = 'abc'}),
		'texts that differ in case are equal')
	  if $icu && $collation eq 'any_case';
}
my ($state) = psql_state($node, "$by_index SELECT id FROM w WHERE s COLLATE \"C\" < 'b' ORDER BY v <-> '[1,1,1]' LIMIT 3");
is($state, '00000', 'a condition under another collation than the index has');

# --- many, equal, no values; long texts ---

$node->safe_psql('postgres', <<SQL);
CREATE TABLE many (id int, v vector(3), own bigint, one int, none text, own_text text COLLATE "C");
INSERT INTO many SELECT i, ARRAY[i % 1000, i % 77, 1]::vector, i * 1000003::bigint % 1000000007, 5, NULL, 'value ' || i FROM generate_series(1, 60000) i;
SET maintenance_work_mem = '1MB';
CREATE INDEX many_v ON many USING gpuivf (v vector_l2_ops, own, one, none, own_text);
SQL
for my $condition ('own < 20000000', 'one = 5', 'one <> 5', 'none IS NULL', 'none IS NOT NULL', "own_text = 'value 777'", "own_text >= 'value 59990'")
{
	is($node->safe_psql('postgres', "SELECT compare_answers('many', '<->', \$\$'[7,7,7]'::vector\$\$, 20, \$\$$condition\$\$)"), '', "60,000 rows: $condition");
}
$node->safe_psql('postgres', <<SQL);
CREATE TABLE long (id int, v vector(3), s text COLLATE "C", y bytea);
CREATE INDEX long_v ON long USING gpuivf (v vector_l2_ops, s, y);
INSERT INTO long SELECT i, ARRAY[i, 1, 1]::vector, repeat(chr(97 + i % 3), 1000000) || i, decode(repeat('00', 1000000) || '0' || i % 10, 'hex') FROM generate_series(1, 12) i;
SELECT vectorgpu_merge('long_v');
INSERT INTO long SELECT i + 100, v, s, y FROM (SELECT id AS i, v, s, y FROM long) x;
SQL
same('texts of a megabyte', 'long', '', q{s = repeat('b', 1000000) || '4'}, q{s < repeat('b', 1000000)}, q{s > repeat('b', 1000000) || '4'}, q{s <> repeat('a', 1000000) || '3'}, q{y = decode(repeat('00', 1000000) || '04', 'hex')}, q{y > '\x00'});
check_index($node, 'long_v', narrow => 0);
cmp_ok($node->safe_psql('postgres', q{SELECT pg_relation_size('long_v')}), '<', 1_000_000, 'the index has codes, not texts');

# Arrays: large ones, of several dimensions, with bounds of their own, NULLs; constants of more elements than a program holds; elements that are equal in another
# collation; parameters, also NULL; a domain; an array type of a domain.
$node->safe_psql('postgres', <<SQL);
CREATE DOMAIN label AS text;
CREATE DOMAIN labels AS text[] CHECK (cardinality(VALUE) < 10);
CREATE TABLE sets (id int, v vector(3), i int[], t text[] COLLATE any_case, l label[], d labels, n varchar(10)[], f float8[]);
CREATE INDEX sets_v ON sets USING gpuivf (v vector_l2_ops, i, t, l, d, n, f, ((i)[1:2]));
CREATE FUNCTION add_sets(first int, last int) RETURNS void LANGUAGE sql AS \$f\$
	INSERT INTO sets SELECT i, ARRAY[i, 1, 1]::vector, CASE i % 10 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN '{NULL}' WHEN 3 THEN ARRAY(SELECT i * j FROM generate_series(1, 20000) j)
			WHEN 4 THEN ARRAY[ARRAY[ARRAY[i, 7], ARRAY[8, NULL]]] WHEN 5 THEN '[-3:-1]={7,8,9}' ELSE ARRAY[i % 4, i % 6] END,
		ARRAY[chr(97 + i % 26), chr(65 + i % 3), repeat('xY', 1000 * (i % 3))], ARRAY['l' || i % 5]::label[], ARRAY['l' || i % 5, 'm']::labels, ARRAY['n' || i % 5, ''], ARRAY[(ARRAY['NaN', '0', '-0', '1'])[1 + i % 4]]::float8[]
		FROM generate_series(first, last) i
\$f\$;
SELECT add_sets(1, 60), vectorgpu_merge('sets_v'), add_sets(61, 120);
SQL
my $many = q{ARRAY(SELECT 3 * j FROM generate_series(1, %d) j)};
same('arrays', 'sets', '', q{i @> '{7}'}, q{i @> '{7,8}'}, q{i && '{3,NULL}'}, q{i @> '{3,NULL}'}, q{i && '{}'}, q{i @> '{}'}, q{i <@ '{}'}, q{i <@ '{0,1,2,3,4,5,7,8,9}'}, q{i = '{}'}, q{i = '{NULL}'}, q{i = '{7,8,9}'}, q{i = '[-3:-1]={7,8,9}'},
	q{i @> '{{8,7},{34,7}}'}, q{'{1,9}' && i}, q{'{5}' <@ i}, q{i && '{1}' AND i @> '{1,3}' AND NOT i @> '{3,1}'}, (map { 'i && ' . sprintf $many, $_ } 100, 5000), (map { 'i @> ' . sprintf $many, $_ } 2, 6000),
	q{t @> '{Q}'}, q{t && '{z,XYXY}'}, q{t @> ARRAY[repeat('xy', 1000)]}, q{l @> '{l3}'}, q{d && '{l1,l2}'}, q{d @> '{m,l4}'}, q{n @> '{n2}'}, q{n = '{n2,""}'}, q{f @> '{0}'}, q{f && '{NaN}'}, q{(i)[1:2] && '{7}'},
	q{i && (SELECT '{5}'::int[])}, q{i @> (SELECT NULL::int[])}, q{t IS NULL}, q{i IS NULL AND l @> '{l0}'});
is($node->safe_psql('postgres', "$by_index PREPARE ask(int[]) AS SELECT count(*) FROM (SELECT FROM sets WHERE i @> \$1 ORDER BY v <-> '[1,2,3]') s; SET plan_cache_mode = force_generic_plan; EXECUTE ask('{7}'); EXECUTE ask(NULL); EXECUTE ask('{}')"),
	join("\n", map { $node->safe_psql('postgres', "SELECT count(*) FROM sets WHERE i @> $_") } "'{7}'", 'NULL', "'{}'"), 'arrays of parameters');
check_index($node, 'sets_v', narrow => 0);

# --- row security: what a condition of the user's own may see ---

$node->safe_psql('postgres', <<SQL);
CREATE ROLE tenant3 LOGIN;
CREATE TABLE rs (id int, v vector(3), tenant int, secret text COLLATE "C", owner text COLLATE "C");
INSERT INTO rs SELECT i, ARRAY[i, i % 7, 1]::vector, i % 10, 'secret ' || i, 'tenant' || i % 10 FROM generate_series(1, 500) i;
CREATE INDEX rs_v ON rs USING gpuivf (v vector_l2_ops, tenant, secret, owner);
ALTER TABLE rs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rs USING (owner = current_user::text);
GRANT SELECT ON rs TO tenant3;
GRANT CREATE ON SCHEMA public TO tenant3;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM rs WHERE tenant = 3;
GRANT SELECT ON barrier TO tenant3;
SET ROLE tenant3;
CREATE FUNCTION leaks(text, text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''seen %'', \$1; RETURN true; END';
CREATE OPERATOR <<< (LEFTARG = text, RIGHTARG = text, FUNCTION = leaks);
CREATE FUNCTION leaks(vector) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''seen %'', \$1; RETURN true; END';
SQL
for my $from ('rs', 'barrier')
{
	for my $condition ("secret <<< ''", 'leaks(v)', "secret <<< '' AND secret > 'secret 2'", "secret >= 'secret 1'")
	{
		my $query = "SELECT id FROM $from WHERE $condition ORDER BY v <-> '[250,3,1]' LIMIT 5";
		my ($rc, $out, $err) = $node->psql('postgres', "SET ROLE tenant3; $by_index $query");
		my @seen = $err =~ /seen (?:secret |\[)(\d+)/g;
		my $truth = $node->safe_psql('postgres', "SELECT id FROM rs WHERE tenant = 3 AND " . ($condition =~ /secret > 'secret 2'/ ? "secret > 'secret 2'" : 'true') . ($condition =~ />= 'secret 1'/ ? " AND secret >= 'secret 1'" : '') . " ORDER BY v <-> '[250,3,1]' LIMIT 5");
		my $plan = $node->safe_psql('postgres', "SET ROLE tenant3; $by_index EXPLAIN (COSTS OFF) $query");

		is($out, $truth, "$from, $condition: the rows");
		is(join(',', grep { $_ % 10 != 3 } @seen), '', "$from, $condition: nothing else is seen");
		cmp_ok(scalar @seen, '>', 0, "$from, $condition: the function was called") if $condition =~ /<<<|leaks/;
		my $hides = $from eq 'rs' ? 'owner = ' : 'tenant = 3'; # the view's owner sees all rows
		like($plan, qr/Index Scan using rs_v on rs.*Index Cond: .*$hides/s, "$from, $condition: what hides rows is an index condition");
	}
}
# An error that names a value of a row that the role may not see.
($state) = psql_state($node, "SET ROLE tenant3; $by_index SELECT id FROM rs WHERE 1 / (id - 4) > -5 ORDER BY v <-> '[4,4,1]' LIMIT 5");
is($state, '00000', 'no error of a row that is not visible');

$node->stop;
done_testing();
