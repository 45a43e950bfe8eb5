# Real data (VECTORGPU_DATA; unset: skipped) through gpumatch: Adult as sets of tokens and as tuples with ranges, the
# descriptions of Debian's packages as arrays and as tsvector, the word list with real misspellings by edit distance. The index answers as the sequential scan does, rows and counts,
# and its counts are those of the published ground truth for every query. Queries are answered by the backend and by the worker in turn.
# VECTORGPU_LONG=1: more queries against the scan.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

require_data(qw(adult.csv debian-descriptions.tsv words.txt));

my $compared = $ENV{VECTORGPU_LONG} ? 1000 : 25; # queries of each kind that the sequential scan answers as well
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = make_node('match', conf => "fsync = off\nshared_buffers = 512MB\nmaintenance_work_mem = 64MB\nmax_wal_size = 4GB\nautovacuum = off\n"
	  . "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.inline_load_size = 1GB\nvectorgpu.worker_timeout = 600s\n");

chmod 0755, $folder;
ok(wait_worker($node), 'the worker is ready') if -x worker_file($node);

# Rows of an .ivecs file as array literals.
sub ivecs
{
	my ($name) = @_;
	my @values = unpack 'l<*', read_data("$name.ivecs");
	my @rows;

	for (my $at = 0; $at < @values; $at += 1 + $values[$at])
	{
		push @rows, '{' . join(',', @values[ $at + 1 .. $at + $values[$at] ]) . '}';
	}
	return \@rows;
}

sub copy_rows
{
	my ($table, $rows) = @_;
	my $file = "$folder/$table.txt";

	append_to_file($file, join('', map { "$_\n" } @$rows));
	chmod 0644, $file;
	$node->safe_psql('postgres', "COPY $table FROM '$file'");
	unlink $file;
	return;
}

sub numbered
{
	my ($rows) = @_;
	my $n = 0;

	return [ map { $n++ . "\t$_" } @$rows ];
}

# agree(table, value, query expression over queries q, number of queries): the difference, or ''.
# truth(…): queries whose hundred best counts are not those of column counts.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION agree(tab text, value text, queries text, query text, n int, k int) RETURNS text LANGUAGE plpgsql
SET enable_sort = on SET enable_bitmapscan = off AS $$
DECLARE
	body text := format('SELECT string_agg(id || '':'' || d, '','' ORDER BY n) FROM (SELECT id, d, row_number() OVER () n FROM '
		'(SELECT id, %1$s <#> $1 AS d FROM %2$s ORDER BY %1$s <#> $1 %%s LIMIT %3$s) a) b', value, tab, k);
	q record;
	by_index text;
	by_seq text;
BEGIN
	FOR q IN EXECUTE format('SELECT id, %s AS query FROM %s WHERE id < %s', query, queries, n) LOOP
		PERFORM set_config('vectorgpu.worker', CASE WHEN q.id % 2 = 1 THEN 'on' ELSE 'off' END, true);
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
		EXECUTE format(body, '') INTO by_index USING q.query;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format(body, ', ctid') INTO by_seq USING q.query;
		IF by_index IS DISTINCT FROM by_seq THEN
			RETURN format('query %s: %s instead of %s', q.id, left(by_index, 300), left(by_seq, 300));
		END IF;
	END LOOP;
	RETURN '';
END $$;
CREATE FUNCTION truth(tab text, value text, queries text, query text) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
	body text := format('SELECT array_agg(-d::int ORDER BY n) FROM (SELECT d, row_number() OVER () n FROM '
		'(SELECT %1$s <#> $1 AS d FROM %2$s ORDER BY %1$s <#> $1 LIMIT 100) a) b', value, tab);
	plan text;
	q record;
	found int[];
	wrong int := 0;
	seen int := 0;
BEGIN
	FOR q IN EXECUTE format('SELECT id, counts, %s AS query FROM %s ORDER BY id', query, queries) LOOP
		IF seen = 0 THEN
			EXECUTE 'EXPLAIN (FORMAT JSON) ' || body INTO plan USING q.query;
			IF plan !~ 'Index Scan' THEN RETURN 'no index scan'; END IF;
		END IF;
		PERFORM set_config('vectorgpu.worker', CASE WHEN q.id % 2 = 1 THEN 'on' ELSE 'off' END, true);
		EXECUTE body INTO found USING q.query;
		seen := seen + 1;
		wrong := wrong + (found IS DISTINCT FROM q.counts)::int;
	END LOOP;
	RETURN format('%s queries, %s wrong', seen, wrong);
END $$;
SQL

# Adult: fifteen tokens a row.
$node->safe_psql('postgres', 'CREATE TABLE adult_sets (id int, a int[]); CREATE TABLE adult_queries (id int, a int[], counts int[])');
copy_rows('adult_sets', numbered(ivecs('adult.base')));
my ($queries, $counts) = (ivecs('adult.query'), ivecs('adult.gt.counts'));
copy_rows('adult_queries', [ map { "$_\t$queries->[$_]\t$counts->[$_]" } 0 .. $#$queries ]);
$node->safe_psql('postgres', 'CREATE INDEX adult_sets_a ON adult_sets USING gpumatch (a); VACUUM ANALYZE adult_sets');
is($node->safe_psql('postgres', "SELECT truth('adult_sets', 'a', 'adult_queries', 'a')"), '1000 queries, 0 wrong', 'Adult, tokens: the published counts');
is($node->safe_psql('postgres', "SELECT agree('adult_sets', 'a', 'adult_queries', 'a', $compared, 100)"), '', 'Adult, tokens: both scans agree');

# Adult as a relation: ranges, lists and equalities.
my @lines = split /\n/, read_data('adult.csv');
my $header = shift @lines;
$node->safe_psql('postgres', 'CREATE TABLE adult (id serial, age int, workclass text, fnlwgt int, education text, education_num int, marital_status text, occupation text,'
	  . ' relationship text, race text, sex text, capital_gain int, capital_loss int, hours_per_week int, native_country text, income text)');
append_to_file("$folder/adult.csv", join('', map { "$_\n" } @lines));
chmod 0644, "$folder/adult.csv";
$node->safe_psql('postgres', "COPY adult ($header) FROM '$folder/adult.csv' CSV");
my $row = 'matchrow(age, workclass, fnlwgt, education, education_num, marital_status, occupation, relationship, race, sex, capital_gain, capital_loss, hours_per_week, native_country, income)';
$node->safe_psql('postgres', "CREATE INDEX adult_rows ON adult USING gpumatch ($row); VACUUM ANALYZE adult");
$node->safe_psql('postgres', 'CREATE TABLE tuple_queries AS SELECT id - 1 AS id, matchquery(int4range(age - 5, age + 5), workclass, int4range(fnlwgt - 50000, fnlwgt + 50000), ARRAY[education, \'Masters\'], NULL,'
	  . ' marital_status, occupation, NULL, race, sex, int4range(0, capital_gain, \'[]\'), int4range(NULL, capital_loss + 1), int4range(hours_per_week - 10, hours_per_week + 10), native_country, income) AS query FROM adult WHERE id <= 1000');
is($node->safe_psql('postgres', "SELECT agree('adult', '$row', 'tuple_queries', 'query', $compared, 50)"), '', 'Adult, tuples: both scans agree');
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM adult WHERE match_at_least($row, (SELECT query FROM tuple_queries WHERE id = 7), 9)) s"),
	$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM (SELECT id FROM adult WHERE match_at_least($row, (SELECT query FROM tuple_queries WHERE id = 7), 9)) s"),
	'Adult, tuples: match_at_least finds as many rows by the index');

# Descriptions: the words of a line, as an array and as a document.
my (@base, @query);
my %is_query = map { $_ => 1 } split /\n/, read_data('debian.query.ids.txt');
my $debian_counts = ivecs('debian.gt.counts');
for my $line (split /\n/, read_data('debian-descriptions.tsv'))
{
	my ($id, undef, undef, $text) = split /\t/, $line;
	next if $id !~ /^\d+$/;
	my %words = map { $_ => 1 } lc($text) =~ /[0-9a-z]+/g;
	my $array = '{' . join(',', map { "\"$_\"" } sort keys %words) . '}';    # quoted: null is a word
	if ($is_query{$id}) { push @query, scalar(@query) . "\t$array\t" . $debian_counts->[ scalar @query ] }
	else { push @base, scalar(@base) . "\t$array" }
}
$node->safe_psql('postgres', 'CREATE TABLE packages (id int, words text[], d tsvector GENERATED ALWAYS AS (array_to_tsvector(words)) STORED); CREATE TABLE package_queries (id int, words text[], counts int[])');
append_to_file("$folder/packages", join('', map { "$_\n" } @base));
chmod 0644, "$folder/packages";
$node->safe_psql('postgres', "COPY packages (id, words) FROM '$folder/packages'");
copy_rows('package_queries', \@query);
$node->safe_psql('postgres', 'CREATE INDEX packages_words ON packages USING gpumatch (words); CREATE INDEX packages_d ON packages USING gpumatch (d); VACUUM ANALYZE packages');
is($node->safe_psql('postgres', "SELECT truth('packages', 'words', 'package_queries', 'words')"), scalar(@query) . ' queries, 0 wrong', 'Debian, arrays: the published counts');
is($node->safe_psql('postgres', "SELECT truth('packages', 'd', 'package_queries', 'array_to_tsvector(words)')"), scalar(@query) . ' queries, 0 wrong', 'Debian, documents: the published counts');
is($node->safe_psql('postgres', "SELECT agree('packages', 'words', 'package_queries', 'words', $compared, 30)"), '', 'Debian, arrays: both scans agree');
is($node->safe_psql('postgres', "SELECT agree('packages', 'd', 'package_queries', 'array_to_tsvector(words)', $compared, 30)"), '', 'Debian, documents: both scans agree');

# The same after changes: rows in the delta, dead rows, a merge.
$node->safe_psql('postgres', 'INSERT INTO packages (id, words) SELECT id + 100000, words FROM packages WHERE id % 50 = 0; DELETE FROM packages WHERE id % 7 = 3; VACUUM (INDEX_CLEANUP on) packages');
is($node->safe_psql('postgres', "SELECT agree('packages', 'words', 'package_queries', 'words', 5, 300)"), '', 'Debian, arrays: both scans agree after changes');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('packages_words')");
is($node->safe_psql('postgres', "SELECT agree('packages', 'words', 'package_queries', 'words', 5, 300)"), '', 'Debian, arrays: both scans agree after a merge');

# The word list: the distances of the ten nearest words are the published ones, through the index; and the nearest as a scan has them.
my $words = read_data('words.txt');
my $n = 0;
append_to_file("$folder/words", join('', map { $n++ . "\t$_\n" } split /\n/, $words));
my $distances = ivecs('misspellings.gt.dist');
my @misspelt = map { (split /\t/)[0] } grep { !/^misspelling\t/ } split /\n/, read_data('misspellings.queries.tsv');
my $asked = $ENV{VECTORGPU_LONG} ? scalar @misspelt : 60;
append_to_file("$folder/misspelt", join('', map { "$_\t$misspelt[$_]\t$distances->[$_]\n" } 0 .. $asked - 1));
chmod 0644, "$folder/words", "$folder/misspelt";
$node->safe_psql('postgres', "CREATE TABLE words (id int, w text); CREATE TABLE misspelt (id int, q text, distances int[]); COPY words FROM '$folder/words'; COPY misspelt FROM '$folder/misspelt'");
for my $gram (3, 2)
{
	my $some = $asked;
	$node->safe_psql('postgres', "DROP INDEX IF EXISTS words_w; CREATE INDEX words_w ON words USING gpumatch (w text_gram_ops (n = $gram)); VACUUM ANALYZE words");
	like($node->safe_psql('postgres', "SET enable_seqscan = off; EXPLAIN SELECT w FROM words ORDER BY w <~> 'simetary' LIMIT 10"), qr/Index Scan using words_w/, "words are searched by the index, n = $gram");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET vectorgpu.worker = $_->[0]; SELECT count(*) FROM misspelt m WHERE id % 2 = $_->[1] AND id < $some AND (SELECT array_agg(d::int ORDER BY d) FROM (SELECT w <~> m.q AS d FROM words ORDER BY w <~> m.q LIMIT 10) x) IS DISTINCT FROM m.distances[1:10]"),
		0, "$some misspellings, n = $gram, worker $_->[0]: the published distances of the ten nearest words") for [ 'off', 0 ], [ 'on', 1 ];
}

cmp_ok(worker_stat($node, 'answered'), '>', 100, 'the worker has answered its share') if -x worker_file($node);
for my $index ('adult_sets_a', 'adult_rows', 'packages_words', 'packages_d', 'words_w')
{
	check_index($node, $index, name => "check of $index");
}

$node->stop;
done_testing();
