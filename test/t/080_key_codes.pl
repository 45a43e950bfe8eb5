# Codes of key columns against the operators that they stand for: for each type of a filter class, and each pair of types of a family, every strategy over
# pairs of values, among them the ends of each type, NULLs, changes of clocks, ties of prefixes and of rounded numbers. Needs a build with FAULTS=1.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

my $node = make_node('key_codes');

plan(skip_all => 'fault points are not built in') unless faults_enabled($node);

my $icu = $node->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_collation WHERE collname = 'en-x-icu'}) eq 't';

$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION key_probe("any", int, "any", int) RETURNS int LANGUAGE c AS '$libdir/vectorgpu', 'vectorgpu_key_probe';
SELECT setseed(0.42);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok';
ALTER TYPE mood ADD VALUE 'low' BEFORE 'sad';
CREATE DOMAIN small AS int CHECK (VALUE < 100000);
SQL
$node->safe_psql('postgres', q{CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)}) if $icu;

# Values by type: a query with one column.
my %values = (
	bool => q{VALUES (true), (false), (NULL)},
	'"char"' => q{SELECT i::"char" FROM generate_series(-128, 127, 15) i UNION VALUES ('a'::"char"), ('b'), (''), (NULL)},
	int2 => q{SELECT i::int2 FROM generate_series(-32768, 32767, 8191) i UNION SELECT i::int2 FROM generate_series(-3, 3) i UNION VALUES (32767::int2), (NULL)},
	int4 => q{SELECT i::int4 FROM generate_series(-2147483648, 2147483647, 536870912) i UNION SELECT i FROM generate_series(-3, 3) i
		UNION VALUES (2147483647), (32768), (-32769), (NULL)},
	int8 => q{SELECT i FROM generate_series(-3, 3) i UNION VALUES (9223372036854775807), (-9223372036854775808), (2147483648), (-2147483649), (32767), (32768),
		(-32768), (-32769), (2147483647), (-2147483648), (NULL)},
	oid => q{VALUES (0::oid), (1), (2147483647), (2147483648), (4294967295), (NULL)},
	float4 => q{SELECT x::float4 FROM (VALUES ('NaN'), ('-Infinity'), ('Infinity'), ('0'), ('-0'), ('1e-45'), ('-1e-45'), ('1.1754944e-38'), ('3.4028235e38'),
		('-3.4028235e38'), ('0.1'), ('0.2'), ('1'), ('-1'), ('16777216'), ('16777217'), (NULL)) v (x) UNION SELECT ((random() - .5) * 4)::float4 FROM generate_series(1, 20)},
	float8 => q{SELECT x::float8 FROM (VALUES ('NaN'), ('-Infinity'), ('Infinity'), ('0'), ('-0'), ('4.9e-324'), ('-4.9e-324'), ('1e-45'), ('1.4e-45'), ('7e-46'),
		('1.7976931348623157e308'), ('-1.7976931348623157e308'), ('3.4028234663852886e38'), ('3.5e38'), ('0.1'), ('0.10000000149011612'), ('0.2'), ('1'), ('-1'),
		('16777216'), ('16777217'), (NULL)) v (x) UNION SELECT (random() - .5) * 4 FROM generate_series(1, 20)},
	date => q{SELECT x::date FROM (VALUES ('infinity'), ('-infinity'), ('4713-01-01 BC'), ('5874897-12-31'), ('294276-12-31'), ('294277-01-01'), ('2000-01-01'),
		('1999-12-31'), ('2011-12-29'), ('2011-12-30'), ('2011-12-31'), ('2024-03-10'), ('2024-03-31'), ('2018-11-04'), ('1970-01-01'), (NULL)) v (x)},
	time => q{SELECT x::time FROM (VALUES ('00:00'), ('24:00'), ('12:34:56.789012'), ('23:59:59.999999'), ('00:00:00.000001'), (NULL)) v (x)},
	timestamp => q{SELECT x::timestamp FROM (VALUES ('infinity'), ('-infinity'), ('4713-01-01 BC'), ('294276-12-31 23:59:59.999999'), ('2000-01-01'),
		('1999-12-31 23:59:59.999999'), ('2011-12-30 12:00'), ('1970-01-01'), (NULL)) v (x)
		UNION SELECT timestamp '2024-03-10 00:30' + i * interval '30 min' FROM generate_series(0, 8) i UNION SELECT timestamp '2024-11-03 00:30' + i * interval '30 min' FROM generate_series(0, 8) i
		UNION SELECT timestamp '2011-12-29 23:30' + i * interval '6 h' FROM generate_series(0, 8) i UNION SELECT timestamp '2018-11-03 23:30' + i * interval '30 min' FROM generate_series(0, 5) i},
	timestamptz => q{SELECT x::timestamptz FROM (VALUES ('infinity'), ('-infinity'), ('4713-01-02 BC UTC'), ('294276-12-30 23:59:59.999999 UTC'), ('2000-01-01'),
		('1999-12-31 23:59:59.999999'), ('2011-12-30 12:00'), ('1970-01-01'), (NULL)) v (x)
		UNION SELECT timestamptz '2024-03-10 05:00 UTC' + i * interval '30 min' FROM generate_series(0, 8) i UNION SELECT timestamptz '2024-11-03 04:00 UTC' + i * interval '30 min' FROM generate_series(0, 8) i
		UNION SELECT timestamptz '2011-12-29 23:30 UTC' + i * interval '6 h' FROM generate_series(0, 8) i UNION SELECT timestamptz '2018-11-04 02:00 UTC' + i * interval '30 min' FROM generate_series(0, 5) i},
	numeric => q{SELECT x::numeric FROM (VALUES ('NaN'), ('Infinity'), ('-Infinity'), ('0'), ('0.000'), ('1e400'), ('-1e400'), ('1e399'), ('1e-400'), ('-1e-400'), ('1e-300'),
		('1e300'), ('0.1'), ('0.10'), ('0.1000000000000000001'), ('0.0999999999999999999'), ('0.100000000000000005551115123125782702'), ('999999999999999'),
		('999999999999998'), ('999999999999999.4'), ('9999999999999999'), ('9999999999999998'), ('99999999999999999'), ('100000000000000000'), ('19.99'), ('20'),
		('19.990000000000000000001'), ('-19.99'), ('1.7976931348623157e308'), ('1.7976931348623158e308'), ('1.8e308'), ('123456789.123456'), ('123456789.123457'), (NULL)) v (x)
		UNION SELECT round(((random() - .5) * 100)::numeric, 2) FROM generate_series(1, 10)},
	uuid => q{SELECT x::uuid FROM (VALUES ('00000000-0000-0000-0000-000000000000'), ('ffffffff-ffff-ffff-ffff-ffffffffffff'), ('00000000-0000-0000-ffff-ffffffffffff'),
		('00000000-0000-0001-0000-000000000000'), ('80000000-0000-0000-8000-000000000000'), ('7fffffff-ffff-ffff-8000-000000000000'),
		('7fffffff-ffff-ffff-8000-000000000001'), ('7fffffff-ffff-ffff-7fff-ffffffffffff'), ('ffffffff-ffff-ffff-0000-000000000000'), (NULL)) v (x)},
	text => q{SELECT x FROM (VALUES (''), ('a'), ('A'), ('ab'), ('b'), ('abcdefg'), ('abcdefgh'), ('abcdefgg'), ('abcdefghi'), ('abcdefgha'), ('abcdefgh '), ('ABCDEFGHI'),
		('é'), ('e'), ('Ééééé'), ('zzzzzzz'), ('zzzzzzzz'), (repeat('x', 100000)), (repeat('x', 100000) || 'y'), (E'\x01'), (E'a\x01'), ('a '), (NULL)) v (x)},
	bytea => q{SELECT x::bytea FROM (VALUES (''), ('\x00'), ('\x0000'), ('\x61'), ('\x6100'), ('\x61626364656667'), ('\x6162636465666700'), ('\x616263646566670000'),
		('\x6162636465666768'), ('\x616263646566676800'), ('\xffffffffffffffff'), ('\xffffffffffffff'), ('\xffffffffffffffffff'), (NULL)) v (x)},
	inet => q{SELECT x::inet FROM (VALUES ('0.0.0.0/0'), ('0.0.0.0'), ('10.0.0.1'), ('10.0.0.1/24'), ('10.0.0.0/24'), ('10.0.0.0/8'), ('255.255.255.255'), ('::'), ('::1'),
		('2001:db8::/32'), ('2001:db8::1/32'), ('::ffff:10.0.0.1'), (NULL)) v (x)},
	mood => q{SELECT unnest(enum_range(NULL::mood)) UNION SELECT NULL},
	small => q{VALUES (1::small), (-1), (99999), (NULL)});

# Compare all values of one type with constants of another. most_maybe: the greatest share of answers that codes leave open.
sub compare_types
{
	my ($type, $constant_type, $name, %opt) = @_;
	my $collate = $opt{collate} ? qq{COLLATE "$opt{collate}"} : '';
	my $setting = $opt{zone} ? "SET TimeZone = '$opt{zone}';" : '';
	my $result = $node->safe_psql('postgres', <<SQL);
$setting
WITH a (x) AS MATERIALIZED (SELECT x $collate FROM ($values{$type}) v (x)), b (y) AS MATERIALIZED (SELECT y $collate FROM ($values{$constant_type}) v (y)),
	answers AS (SELECT x, y, s, key_probe(x, s, y, 0) AS p,
		CASE s WHEN 1 THEN x < y WHEN 2 THEN x <= y WHEN 3 THEN x = y WHEN 4 THEN x >= y WHEN 5 THEN x > y ELSE x <> y END AS truth
		FROM a, b, generate_series(1, 6) s),
	wrong AS (SELECT * FROM answers WHERE p = 0 AND truth OR p >= 2 AND truth IS NOT TRUE)
SELECT (SELECT count(*) FROM wrong), count(*) FILTER (WHERE p = 1) <= count(*) * $opt{most_maybe}, count(*) > 50, count(*) FILTER (WHERE p >= 2) > 0,
	count(*) FILTER (WHERE p = 2) > 0, (SELECT concat_ws(' ', left(x::text, 40), s, left(y::text, 40), p, truth) FROM wrong LIMIT 1)
	FROM answers;
SQL
	my $rechecks = $opt{rechecks} ? 't' : 'f';
	is($result, "0|t|t|t|$rechecks|", "$name: no answer by codes is wrong");
}

for my $type (qw(bool "char" oid time uuid mood small))
{
	compare_types($type, $type, $type, most_maybe => 0);
}
for my $family ([qw(int2 int4 int8)], [qw(float4 float8)])
{
	for my $type (@$family)
	{
		compare_types($type, $_, "$type and $_", most_maybe => 0) for @$family;
	}
}
for my $zone ('UTC', 'America/New_York', 'Pacific/Apia', 'America/Sao_Paulo', 'Asia/Kathmandu')
{
	for my $type (qw(date timestamp timestamptz))
	{
		for my $constant_type (qw(date timestamp timestamptz))
		{
			# Only instants against clocks are open where a clock was changed.
			my $open = $type eq 'timestamp' && $constant_type eq 'timestamptz';

			compare_types($type, $constant_type, "$type and $constant_type in $zone", zone => $zone, most_maybe => $open ? 0.5 : 0, rechecks => $open);
		}
	}
}
compare_types('small', 'int8', 'a domain and int8', most_maybe => 0);
compare_types('numeric', 'numeric', 'numeric', most_maybe => 0.15, rechecks => 1);
compare_types('text', 'text', 'text in C', collate => 'C', most_maybe => 0.15, rechecks => 1);
compare_types('text', 'text', 'text in POSIX', collate => 'POSIX', most_maybe => 0.15, rechecks => 1);
compare_types('bytea', 'bytea', 'bytea', most_maybe => 0.2, rechecks => 1);
compare_types('inet', 'inet', 'inet', most_maybe => 0.7, rechecks => 1);
SKIP:
{
	skip 'no ICU', 2 unless $icu;
	compare_types('text', 'text', 'text in a language', collate => 'en-x-icu', most_maybe => 0.7, rechecks => 1);
	compare_types('text', 'text', 'text without case', collate => 'any_case', most_maybe => 0.85, rechecks => 1);
}

# --- arrays as values ---

# By element type: a query of elements, few of them, so that rows have some in common.
my %elements = (
	int4 => q{SELECT i * 715827882 FROM generate_series(-3, 3) i UNION VALUES (1), (2), (NULL)},
	int8 => q{SELECT i FROM generate_series(-2, 4) i UNION VALUES (9223372036854775807), (-9223372036854775808), (NULL)},
	float8 => q{SELECT x::float8 FROM (VALUES ('0'), ('-0'), ('NaN'), ('-NaN'), ('Infinity'), ('1'), (NULL)) v (x)},
	numeric => q{SELECT x::numeric FROM (VALUES ('0'), ('0.00'), ('1'), ('1.0'), ('1.10'), ('1.1'), ('NaN'), ('1e30'), (NULL)) v (x)},
	text => q{SELECT x FROM (VALUES (''), ('a'), ('A'), ('b'), ('B'), ('é'), ('É'), (repeat('x', 300)), (repeat('X', 300)), (NULL)) v (x)},
	varchar => q{SELECT x::varchar FROM (VALUES (''), ('a'), ('A'), ('a '), ('null'), (NULL)) v (x)},
	bpchar => q{SELECT x::bpchar FROM (VALUES (''), ('a'), ('A'), ('a '), ('a  '), (NULL)) v (x)},
	uuid => q{SELECT md5(i::text)::uuid FROM generate_series(1, 7) i UNION VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (NULL)},
	mood => q{SELECT unnest(enum_range(NULL::mood)) UNION SELECT NULL},
	small => q{VALUES (1::small), (-1), (99999), (NULL)},
	int4range => q{SELECT int4range(i, i + 3) FROM generate_series(1, 4) i UNION VALUES ('empty'::int4range), (NULL)});

# Random arrays of 0 to 30 elements, of up to three dimensions, with NULLs, toasted and not: both sides are stored values.
sub compare_signatures
{
	my ($type, $name, %opt) = @_;
	my $collate = $opt{collate} ? qq{COLLATE "$opt{collate}"} : '';
	my $result = $node->safe_psql('postgres', <<SQL);
CREATE TEMP TABLE arrays (n int, x $type\[\] $collate);
INSERT INTO arrays SELECT n, ARRAY(SELECT x FROM (SELECT x FROM ($elements{$type}) v (x), generate_series(1, 4) WHERE x IS NOT NULL OR n % 3 = 0 ORDER BY random()) e LIMIT (ARRAY[0, 1, 1, 2, 3, 7, 30])[1 + n % 7])
	FROM generate_series(1, 42) n;
INSERT INTO arrays SELECT 100 + n, ARRAY[ARRAY[one, one], ARRAY[one, NULL]] FROM arrays, LATERAL (SELECT x[1] AS one) s WHERE cardinality(x) = 1;
INSERT INTO arrays SELECT 200 + n, ARRAY[ARRAY[x[1:2]], ARRAY[x[1:2]]] FROM arrays WHERE cardinality(x) = 7;
INSERT INTO arrays VALUES (300, '{}'), (301, '{NULL}'), (302, NULL), (303, '{NULL,NULL}');
INSERT INTO arrays SELECT 400 + n, array_cat(x, x) FROM arrays WHERE cardinality(x) = 2;
WITH answers AS MATERIALIZED (SELECT a.x, s, b.x AS y, b.has_null, key_probe(a.x, s, b.x, 0) AS p, CASE s WHEN 3 THEN a.x = b.x WHEN 7 THEN a.x && b.x WHEN 8 THEN a.x @> b.x ELSE a.x <@ b.x END AS truth
		FROM arrays a, (SELECT x, EXISTS (SELECT FROM unnest(x) e WHERE e IS NULL) AS has_null FROM arrays WHERE n % 3 <> 1 OR n >= 300 OFFSET 0) b, (VALUES (3), (7), (8), (9)) s (s)),
	wrong AS (SELECT * FROM answers WHERE p = 0 AND truth OR p >= 2 AND truth IS NOT TRUE)
SELECT (SELECT count(*) FROM wrong), count(*) FILTER (WHERE p = 1 AND truth IS NOT TRUE) < count(*) * 0.15, count(*) FILTER (WHERE p = 1 AND truth) > 200,
	bool_and(p = CASE WHEN x IS NULL THEN 0 ELSE 3 END) FILTER (WHERE s = 8 AND y = '{}'), bool_and(p = 0) FILTER (WHERE s = 7 AND y = '{}' OR s = 8 AND has_null),
	(SELECT concat_ws(' ', left(x::text, 40), s, left(y::text, 40), p, truth) FROM wrong LIMIT 1) FROM answers;
SQL
	is($result, '0|t|t|t|t|', "$name: no answer by signatures is wrong");
}

compare_signatures($_, "arrays of $_") for qw(int4 int8 float8 numeric varchar bpchar uuid mood small int4range);
compare_signatures('text', 'arrays of text in C', collate => 'C');
SKIP:
{
	skip 'no ICU', 2 unless $icu;
	compare_signatures('text', 'arrays of text in a language', collate => 'en-x-icu');
	compare_signatures('text', 'arrays of text without case', collate => 'any_case');
	is($node->safe_psql('postgres', q{SELECT key_probe(x, 7, '{A}'::text[], 0), key_probe(x, 8, '{A}'::text[], 0) FROM (SELECT '{a}'::text[] COLLATE any_case) v (x)}), '1|1', 'equal texts have equal bits');
}
# What is left open that fails: by elements of a row, of 2,000 that have none of the 300 wanted ones. README.md of src/am/keys has the figures to expect.
my $open = $node->safe_psql('postgres', <<'SQL');
SELECT string_agg(n || ':' || f, ' ' ORDER BY n) FROM (SELECT n, count(*) FILTER (WHERE p = 1) AS f
	FROM (SELECT n, key_probe(ARRAY(SELECT i * 100 + j FROM generate_series(1, n) j), 8, ARRAY[-i], 0) AS p FROM generate_series(1, 2000) i, (VALUES (1), (5), (10), (20)) x (n)) y GROUP BY n) z;
SQL
note("open of 2000, by elements: $open");
my %open = map { split /:/ } split / /, $open;
ok($open{1} <= 2 && $open{5} <= 10 && $open{10} <= 30 && $open{20} <= 150 && $open{20} >= 60, 'few rows without the element are left open');

# --- arrays of constants: any element ---

# Five arrays of values of each type, with every strategy but <>, which no index uses.
sub compare_arrays
{
	my ($type, $constant_type, %opt) = @_;
	my $collate = $opt{collate} ? qq{COLLATE "$opt{collate}"} : '';
	my $result = $node->safe_psql('postgres', <<SQL);
WITH a (x) AS MATERIALIZED (SELECT x $collate FROM ($values{$type}) v (x)), b (y, n) AS MATERIALIZED (SELECT y $collate, row_number() OVER () FROM ($values{$constant_type}) v (y)),
	arrays (c) AS MATERIALIZED (SELECT array_agg(y) FROM b GROUP BY n % 4 UNION ALL SELECT array_agg(y) FROM b WHERE n = 1 UNION ALL SELECT array_remove(array_agg(y), NULL) FROM b),
	answers AS (SELECT x, c, s, key_probe(x, s, c, 3) AS p,
		CASE s WHEN 1 THEN x < ANY (c) WHEN 2 THEN x <= ANY (c) WHEN 3 THEN x = ANY (c) WHEN 4 THEN x >= ANY (c) ELSE x > ANY (c) END AS truth
		FROM a, arrays, generate_series(1, 5) s)
SELECT count(*) FILTER (WHERE p = 0 AND truth OR p >= 2 AND truth IS NOT TRUE), count(*) > 50, count(*) FILTER (WHERE p >= 2) > 0 FROM answers;
SQL
	is($result, '0|t|t', "$type and arrays of $constant_type: no answer by codes is wrong");
}

compare_arrays($_, $_) for qw(int4 float8 date numeric uuid bytea inet mood);
compare_arrays('int2', 'int8');
compare_arrays('text', 'text', collate => 'C');
is($node->safe_psql('postgres', q{SELECT key_probe(7000, 3, ARRAY(SELECT 2 * i FROM generate_series(1, 5000) i), 3), key_probe(7001, 3, ARRAY(SELECT 2 * i FROM generate_series(1, 5000) i), 3),
	key_probe(7001, 3, ARRAY(SELECT 2 * i FROM generate_series(1, 50000) i), 3), key_probe(7001, 3, '{}'::int[], 3), key_probe(7001, 3, NULL::int[], 3)}), '3|0|1|0|0',
	'a list too long for a program may pass every row; an empty one passes none');

# --- NULLs, and what is decided without a value ---

is($node->safe_psql('postgres', 'SELECT key_probe(NULL::int, 3, NULL::int, 1), key_probe(1, 3, NULL::int, 1), key_probe(NULL::int, 3, NULL::int, 2), key_probe(1, 3, NULL::int, 2)'),
	'3|0|0|3', 'IS NULL and IS NOT NULL');
is($node->safe_psql('postgres', q{SELECT key_probe('low'::mood, 1, 'sad'::mood, 0), key_probe('sad'::mood, 1, 'low'::mood, 0)}), '3|0', 'a label that was added has its place in the order');
$node->safe_psql('postgres', q{ALTER TYPE mood ADD VALUE 'lowest' BEFORE 'low'});
is($node->safe_psql('postgres', q{SELECT key_probe('lowest'::mood, 1, 'low'::mood, 0), key_probe('low'::mood, 5, 'lowest'::mood, 0)}), '3|3', 'so has one that was added later');

# --- the catalogs ---

is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE NOT amvalidate(c.oid)) FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE a.amname LIKE 'gpu%' AND c.opcname LIKE '%\_filter\_ops'}), '76|0', 'filter classes are valid');
is($node->safe_psql('postgres', q{SELECT a.amname, c.opcname FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE a.amname LIKE 'gpu%' AND c.opcname LIKE '%\_filter\_ops' AND NOT c.opcdefault ORDER BY c.opcname}), "gpumatch|array_filter_ops\ngpumatch|text_filter_ops", 'all but two are defaults');

my ($rc, $out, $err) = $node->psql('postgres', 'CREATE TABLE only_keys (i int, j json); CREATE INDEX ON only_keys USING gpugraph (i)');
like($err, qr/column "i" cannot be the first key column of gpugraph index.*Operator classes for the first column/s, 'a filter class cannot come first');
($rc, $out, $err) = $node->psql('postgres', <<'SQL');
CREATE OPERATOR FAMILY wrong_ops USING gpuflat;
CREATE OPERATOR CLASS wrong_ops FOR TYPE text USING gpuflat FAMILY wrong_ops AS OPERATOR 1 <, OPERATOR 7 <>, OPERATOR 2 < (text, name), FUNCTION 1 text_filter_shape(),
	FUNCTION 2 hashtextextended(text, bigint), FUNCTION 4 btint4cmp(int4, int4);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'wrong_ops';
SQL
is($out, 'f', 'a class with faults is not valid');
like($err, qr/$_/, "it $_") for 'lacks a hash function', 'lacks an equality operator', 'contains a support function with a wrong number', 'contains an operator with a wrong strategy number',
  'lacks a comparison function for an operator of two types';

($rc, $out, $err) = $node->psql('postgres', <<'SQL');
CREATE OPERATOR FAMILY wrong_array_ops USING gpuflat;
CREATE OPERATOR CLASS wrong_array_ops FOR TYPE anyarray USING gpuflat FAMILY wrong_array_ops AS OPERATOR 2 <=, OPERATOR 7 &&, FUNCTION 1 array_filter_shape();
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'wrong_array_ops';
SQL
is($out, 'f', 'nor is a class of arrays with an order');
like($err, qr/$_/, "it $_") for 'lacks an equality operator', 'contains an operator with a wrong strategy number';

done_testing();
