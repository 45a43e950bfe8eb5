# matchrow and matchquery survive their server: dump and restore, COPY in both forms, other encodings; match counts and edit distances
# in databases of every encoding of a server; the operators beside those of pg_trgm and intarray.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuTest;

my $node = make_node('match_values');
my $folder = PostgreSQL::Test::Utils::tempdir();

# --- every kind of value, dumped in one time zone and restored in another ---

$node->safe_psql('postgres', <<'SQL');
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE rows (id int, r matchrow, q matchquery, w text DEFAULT 'x', g matchrow GENERATED ALWAYS AS (matchrow(id, w)) STORED);
INSERT INTO rows (id, r, q) VALUES
	(1, matchrow(1, 2.50, 0.1::float8, 1e300::float8, 'NaN'::numeric, '-Infinity'::float8, 9007199254740993, 1e-200, ('1.' || repeat('7', 1500))::numeric),
		matchquery(ARRAY[1, 2], '[0.1,0.2)'::numrange, 0.1::float8, '(,)'::numrange, '(5,]', '{[1,2],(3,)}'::nummultirange)),
	(2, matchrow('', '"', '\', E'\t\n', 'é', NULL, 'sad'::mood, 'null', '(a,b)'), matchquery(ARRAY['é', '"', ''], NULL, '{}'::text[], 'happy'::mood)),
	(3, matchrow('2020-02-29'::date, 'infinity'::date, '2020-02-29 12:34:56.789+02'::timestamptz, '0044-03-15 BC'::timestamp, '24:00'::time, true, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid),
		matchquery('[2020-01-01,)'::daterange, '(,2020-01-01 00:00+05]'::tstzrange, '[2020-01-01 10:00,2020-01-02)'::tsrange, false, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid)),
	(4, matchrow(VARIADIC '{}'::int[]), matchquery(VARIADIC '{}'::int[])), (5, NULL, NULL),
	(6, matchrow(repeat('long ', 100000)), matchquery(ARRAY(SELECT generate_series(1, 50000))));
CREATE INDEX rows_r ON rows USING hash (r);
CREATE TABLE random_rows AS SELECT n AS id, matchrow(n, (n * 0.37)::float8, n / 7.0, md5(n::text), timestamptz '2020-01-01 00:00+00' + n * interval '1 hour 0.001 s', date '1500-01-01' + n * 11) AS r
	FROM generate_series(1, 3000) n;
ALTER DATABASE postgres SET TimeZone = 'Asia/Kathmandu';
SQL
my $dump = "$folder/dump.sql";
$node->command_ok([ 'pg_dump', '--file', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->safe_psql('postgres', q{ALTER DATABASE restored SET TimeZone = 'America/Caracas'; ALTER DATABASE restored SET DateStyle = 'SQL, DMY'});
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restore');
my $checksum = q{SELECT md5(string_agg(concat_ws('|', id, matchrow_send(r), matchquery_send(q), matchrow_send(g)), ',' ORDER BY id)) FROM rows};
is($node->safe_psql('restored', $checksum), $node->safe_psql('postgres', $checksum), 'values are the same bytes after dump and restore');
my $random = q{SELECT md5(string_agg(matchrow_send(r)::text, ',' ORDER BY id)) FROM random_rows};
is($node->safe_psql('restored', $random), $node->safe_psql('postgres', $random), 'so are random ones');

for my $format ('text', 'binary')
{
	is($node->safe_psql('postgres', <<SQL), '0', "COPY, format $format");
COPY (SELECT id, r, q FROM rows) TO '$folder/copy.$format' (FORMAT $format);
CREATE TEMP TABLE copied (id int, r matchrow, q matchquery);
COPY copied FROM '$folder/copy.$format' (FORMAT $format);
SELECT count(*) FROM rows o FULL JOIN copied c USING (id) WHERE o.r IS DISTINCT FROM c.r OR o.q IS DISTINCT FROM c.q;
SQL
}

# --- bytes that no server has sent are refused ---

# The file of COPY BINARY with one column.
sub binary_copy
{
	my ($file, $value) = @_;

	open my $out, '>:raw', $file or die "$file: $!";
	print $out "PGCOPY\n\xff\r\n\0", pack('NN', 0, 0), pack('nN', 1, length $value), $value, pack('n', 0xffff);
	close $out;
	return;
}

my $one = pack('H*', 'bff0000000000000');
my %bad = (
	'another version' => [ 'matchrow', "\x02" . pack('n', 0) ],
	'an attribute too few' => [ 'matchrow', "\x01" . pack('n', 1) ],
	'bytes left over' => [ 'matchrow', "\x01" . pack('n', 0) . 'x' ],
	'an unknown kind' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 9, 0) ],
	'a length beyond the message' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 2, 0x7fffffff) ],
	'a negative length' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 2, 0xffffffff) ],
	'a number that is none' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 1, 8) . "\xff" x 8 ],
	'a short number' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 1, 3) . 'abc' ],
	'a string with a zero' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 2, 1) . "\0" ],
	'a string of no encoding' => [ 'matchrow', "\x01" . pack('nCCN', 1, 1, 2, 1) . "\xff" ],
	'a boolean of 2' => [ 'matchrow', "\x01" . pack('nCCNC', 1, 1, 3, 1, 2) ],
	'a date out of range' => [ 'matchrow', "\x01" . pack('nCCNN', 1, 1, 4, 4, 0xfffffff0) ],
	'a time beyond a day' => [ 'matchrow', "\x01" . pack('nCCNNN', 1, 1, 7, 8, 0x80000100, 0) ],
	'too many attributes' => [ 'matchrow', "\x01" . pack('n', 5000) ],
	'a flag of 3' => [ 'matchquery', "\x01" . pack('nC', 1, 3) ],
	'a negative number of slices' => [ 'matchquery', "\x01" . pack('nCN', 1, 1, 0xffffffff) ],
	'too few slices' => [ 'matchquery', "\x01" . pack('nCN', 1, 1, 1000000) ],
	'a range of strings' => [ 'matchquery', "\x01" . pack('nCNCCCC', 1, 1, 1, 1, 2, 0, 0) ],
	'bounds of two kinds' => [ 'matchquery', "\x01" . pack('nCNCCCCN', 1, 1, 1, 1, 4, 1, 1, 8) . $one . "\0" ],
	'reversed bounds' => [ 'matchquery', "\x01" . pack('nCNCCCCN', 1, 1, 1, 1, 1, 1, 1, 8) . pack('H*', 'c000000000000000') . pack('CCN', 1, 1, 8) . $one ]);
$node->safe_psql('postgres', 'CREATE TABLE received_row (v matchrow); CREATE TABLE received_query (v matchquery)');
for my $what (sort keys %bad)
{
	my ($type, $bytes) = @{ $bad{$what} };
	binary_copy("$folder/bad", $bytes);
	my ($status, $out, $err) = $node->psql('postgres', "COPY received_" . substr($type, 5) . " FROM '$folder/bad' (FORMAT binary)");
	ok($status != 0 && $err =~ /invalid binary value|invalid byte sequence|insufficient data|no data left|more than 4096|incorrect binary data/, "refused: $what")
		or diag($err);
}

# --- other encodings ---

for my $case (
	[ 'LATIN1', 'naïve', 'naive', 1 ], [ 'LATIN9', 'cœur €', 'coeur €', 2 ], [ 'WIN1251', 'слово', 'слава', 2 ], [ 'KOI8R', 'слово', 'слов', 1 ],
	[ 'EUC_JP', '日本語', '日本人', 1 ], [ 'EUC_KR', '한국어', '한글', 2 ], [ 'EUC_CN', '中文字', '中字', 1 ], [ 'EUC_TW', '中文', '文中', 2 ],
	[ 'UTF8', '日本語é', '日本人e', 2 ], [ 'SQL_ASCII', 'plain', 'plane', 2 ])
{
	my ($encoding, $a, $b, $distance) = @$case;
	my $db = lc "in_$encoding";
	my $length = do { my $copy = $a; utf8::decode($copy); length $copy };

	$node->safe_psql('postgres', "CREATE DATABASE $db ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	$node->safe_psql($db, 'CREATE EXTENSION vectorgpu');
	is($node->safe_psql($db, <<SQL), "$distance|$distance|1|t|t|$length|0", "$encoding: characters, matches, text form");
SET client_encoding = 'UTF8';
SELECT edit_distance('$a', '$b'), edit_distance('$b'::text, '$a'), match_count(ARRAY['$a', 'x'], ARRAY['$a', '$b']),
	matchrow('$a', 1)::text::matchrow = matchrow('$a', 1), match_count(matchrow('$a', 1), matchquery(ARRAY['$b', '$a'], 1)) = 2,
	(SELECT count(*) FROM ordered_grams('$a', 1)), greatest(edit_distance_bound('$a', '$b', 2) - edit_distance('$a', '$b'), 0);
SQL

	# the index's own characters: the order and the distances of a scan
	is($node->safe_psql($db, <<SQL), 'ok', "$encoding: the index by n-grams orders as a scan does");
SET client_encoding = 'UTF8';
CREATE TABLE words AS SELECT i AS id, repeat('$a', i % 3) || left('$b', i % 5) || i % 7 AS w FROM generate_series(1, 300) i;
CREATE INDEX words_w ON words USING gpumatch (w text_gram_ops (n = 2));
INSERT INTO words SELECT id + 300, w || '$a' FROM words WHERE id < 30;
SET enable_seqscan = off;
CREATE TEMP TABLE by_index AS SELECT row_number() OVER () AS n, * FROM (SELECT id, w <~> '$a$b' AS d FROM words ORDER BY w <~> '$a$b' LIMIT 200) x;
RESET enable_seqscan;
SET enable_indexscan = off;
CREATE TEMP TABLE by_scan AS SELECT row_number() OVER () AS n, * FROM (SELECT id, w <~> '$a$b' AS d FROM words ORDER BY w <~> '$a$b', ctid LIMIT 200) x;
SELECT CASE WHEN EXISTS ((TABLE by_index EXCEPT TABLE by_scan) UNION ALL (TABLE by_scan EXCEPT TABLE by_index)) THEN 'differ' ELSE 'ok' END;
DROP TABLE words;
SQL
	next if $encoding eq 'SQL_ASCII';

	# a value dumped in UTF8 is the same value in a database of another encoding, in both forms
	$node->safe_psql($db, "SET client_encoding = 'UTF8'; CREATE TABLE t AS SELECT matchrow('$a', '\"') AS r, matchquery(ARRAY['$a', '$b']) AS q");
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS moved (r matchrow, q matchquery); TRUNCATE moved');
	for my $format ('text', 'binary')
	{
		my $file = "$folder/$encoding.$format";
		$node->safe_psql($db, "SET client_encoding = 'UTF8'; COPY t TO '$file' (FORMAT $format, ENCODING 'UTF8')") if $format eq 'text';
		$node->safe_psql($db, "SET client_encoding = 'UTF8'; COPY t TO '$file' (FORMAT binary)") if $format eq 'binary';
		$node->safe_psql('postgres', "SET client_encoding = 'UTF8'; COPY moved FROM '$file' (FORMAT $format)");
	}
	is($node->safe_psql('postgres', "SET client_encoding = 'UTF8'; SELECT count(*) FROM moved WHERE r = matchrow('$a', '\"') AND q = matchquery(ARRAY['$b', '$a'])"), '2',
		"$encoding: moves to UTF8 in text and binary form");
}

# --- an index by n-grams that holds no texts, as release 0.1 built them ---

SKIP:
{
	skip 'the library was built without FAULTS=1', 1 if !faults_enabled($node);
	my $nearest = q{SELECT string_agg(w, ',') FROM (SELECT w FROM old_words ORDER BY w <~> 'word 17', ctid LIMIT 3) s};
	my $scan = q{SET enable_seqscan = off; SET enable_sort = off; SELECT w FROM old_words ORDER BY w <~> 'word 17' LIMIT 1};

	$node->safe_psql('postgres', q{CREATE TABLE old_words AS SELECT 'word ' || i AS w FROM generate_series(1, 500) i});
	my $faults = join ',', ("match_options:1:corrupt") x 2; # an item acts once, and a build looks at them twice
	$node->safe_psql('postgres', "SET vectorgpu.fault = '$faults'; CREATE INDEX old_index ON old_words USING gpumatch (w text_gram_ops)");
	is($node->safe_psql('postgres', $scan), 'word 17', 'the planner takes another way than the index of release 0.1');
	unlike($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS OFF) SELECT w FROM old_words ORDER BY w <~> 'word 17' LIMIT 1"), qr/Index Scan/, 'as EXPLAIN shows');
	check_index($node, 'old_index', name => 'the index of release 0.1 is whole');
	is($node->safe_psql('postgres', q{SELECT needs_reindex FROM vectorgpu_indexes WHERE index_name = 'old_index'}), 't', 'and said to need REINDEX');
	$node->safe_psql('postgres', q{INSERT INTO old_words SELECT 'word ' || i FROM generate_series(501, 600) i; DELETE FROM old_words WHERE w LIKE '%5'});
	check_index($node, 'old_index', name => 'with rows of this release');
	$node->safe_psql('postgres', 'VACUUM old_words');
	$node->safe_psql('postgres', q{SELECT vectorgpu_merge('old_index')});
	check_index($node, 'old_index', name => 'after vacuum and merge');
	is($node->safe_psql('postgres', $nearest), 'word 17,word 1,word 7', 'answers do not need it');
	like(($node->psql('postgres', q{SELECT vectorgpu_prewarm('old_index')}))[2], qr/release 0\.1/, 'the worker does not hold it');
	$node->safe_psql('postgres', 'REINDEX INDEX old_index');
	like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS OFF) SELECT w FROM old_words ORDER BY w <~> 'word 17' LIMIT 1"), qr/Index Scan/, 'rebuilt it is used');
	is($node->safe_psql('postgres', $scan), 'word 17', 'and finds the nearest');
	is($node->safe_psql('postgres', q{SELECT needs_reindex FROM vectorgpu_indexes WHERE index_name = 'old_index'}), 'f', 'and needs no REINDEX');
	check_faults_reached($node);
}

# --- beside other extensions with operators of these names or types ---

SKIP:
{
	my $available = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name IN ('pg_trgm', 'intarray', 'citext', 'fuzzystrmatch')});
	skip 'pg_trgm, intarray, citext or fuzzystrmatch is not installed', 4 if $available != 4;
	for my $order ('vectorgpu first', 'vectorgpu last')
	{
		my $db = $order =~ s/ /_/r;
		my @extensions = ('pg_trgm', 'intarray', 'citext', 'fuzzystrmatch');
		$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
		$node->safe_psql($db, "CREATE EXTENSION $_") for $order eq 'vectorgpu first' ? ('vectorgpu', @extensions) : (@extensions, 'vectorgpu');
		is($node->safe_psql($db, <<'SQL'), '3|-2|0.5|2|t|t|{2,3}|3', "$order: operators of both");
SELECT 'kitten' <~> 'sitting'::text, '{1,2,3}'::int4[] <#> '{2,3,4}', '{1,2,3}'::int4[] <%> '{2,3,4}', edit_distance('abc', 'xbx'), 'word' <% 'a word'::text,
	'{1,2}'::int4[] && '{2}', '{1,2,3}'::int4[] & '{2,3,4}', levenshtein('kitten', 'sitting');
SQL
		is($node->safe_psql($db, q{SELECT round((matchrow('a'::citext::text) <#> matchquery('a'))::numeric), 'Word'::citext <~> 'word'::citext, round(('abc'::text <-> 'abd')::numeric, 1)}), '-1|1|0.7',
			"$order: citext by its text, trigram distance");
	}
}

done_testing();
