# Real data (VECTORGPU_DATA; unset: skipped): match counts of Adult rows and of the words of Debian package descriptions, and edit
# distances of misspellings to a word list, are those of the published ground truth: the 100 best scores of each query. By sequential
# scan, as the reference for indexes. VECTORGPU_LONG=1: all 1,000 queries of each set.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

require_data(qw(adult.csv debian-descriptions.tsv words.txt));

my $queries = $ENV{VECTORGPU_LONG} ? 1000 : 12;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = make_node('match_data', conf => "fsync = off\nmax_wal_size = 4GB\nwork_mem = 64MB\n");

# The rows of an ivecs file: int32 length, then int32 values.
sub ivecs
{
	my ($name) = @_;
	my $bytes = read_data($name);
	my ($at, @rows) = (0);

	while ($at < length $bytes)
	{
		my $n = unpack 'V', substr $bytes, $at, 4;
		push @rows, [ unpack 'l<*', substr $bytes, $at + 4, 4 * $n ];
		$at += 4 + 4 * $n;
	}
	return @rows;
}

# Copies lines into a table.
sub copy_lines
{
	my ($table, $format, @lines) = @_;
	my $file = "$folder/$table";

	open my $out, '>:raw', $file or die "$file: $!";
	print $out map { "$_\n" } @lines;
	close $out;
	$node->safe_psql('postgres', "COPY $table FROM '$file' ($format)");
	return;
}

# ok if the 100 best scores of each query are those of the ground truth; `scores` is SQL that gives the best 100 of query $q.
sub compare_scores
{
	my ($what, $sql, $truth) = @_;
	my @wrong;

	for my $q (0 .. $queries - 1)
	{
		my $scores = $node->safe_psql('postgres', $sql =~ s/\$q/$q/gr);
		my $expected = join ',', @{ $truth->[$q] };

		push @wrong, "query $q: got $scores, expected $expected" if $scores ne $expected;
	}
	is(scalar @wrong, 0, "$what: the best 100 of $queries queries");
	diag($wrong[0]) if @wrong;
	return;
}

# --- Adult: 15 attributes, fnlwgt as the code of its interval ---

my @attributes = qw(age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain
	capital_loss hours_per_week native_country income);
my %number = map { $_ => 1 } qw(age fnlwgt education_num capital_gain capital_loss hours_per_week);
my @csv = split /\n/, read_data('adult.csv');
shift @csv;

sub adult_lines
{
	my ($rowids, $tokens) = @_;
	my @rows = split /\n/, read_data($rowids);
	my @interval = map { $_->[2] } ivecs($tokens);

	return map {
		my @values = split /,/, $csv[ $rows[$_] ];
		$values[2] = $interval[$_];
		join ',', $_, @values
	} 0 .. $#rows;
}

my $columns = join ', ', map { "$_ " . ($number{$_} ? 'int' : 'text') } @attributes;
my $names = join ', ', @attributes;
for my $table ('adult', 'adult_query')
{
	my $type = $table eq 'adult' ? 'row' : 'query';
	$node->safe_psql('postgres', "CREATE TABLE raw_$table (id int, $columns)");
	copy_lines("raw_$table", 'FORMAT csv', adult_lines($table eq 'adult' ? ('adult.base.rowids.txt', 'adult.base.ivecs')
		: ('adult.query.rowids.txt', 'adult.query.ivecs')));
	$node->safe_psql('postgres', "CREATE TABLE $table AS SELECT *, match$type($names) AS m FROM raw_$table");
}
my @truth = ivecs('adult.gt.counts.ivecs');
compare_scores('Adult, match counts', 'SELECT string_agg((-d)::text, \',\' ORDER BY d) FROM (SELECT m <#> (SELECT m FROM adult_query WHERE id = $q) AS d '
	. 'FROM adult ORDER BY d LIMIT 100) best', \@truth);

# A count is the number of conditions that hold: equalities, ranges, lists, against expressions over the columns.
is($node->safe_psql('postgres', <<'SQL'), '0', 'Adult: counts of ranges and lists are those of expressions');
SELECT count(*) FROM adult a, adult_query q
WHERE q.id < 6 AND match_count(a.m, matchquery(int4range(q.age - 5, q.age + 5, '[]'), q.workclass, NULL, ARRAY[q.education, 'Bachelors', 'HS-grad'],
	numrange(q.education_num - 1.5, NULL), q.marital_status, NULL, NULL, ARRAY['White', 'Black'], q.sex, int8range(1, NULL),
	'{[0,0],[1500,2000)}'::nummultirange, int4range(q.hours_per_week - 10, q.hours_per_week), NULL, '>50K'))
	<> (abs(a.age - q.age) <= 5)::int + (a.workclass = q.workclass)::int + (a.education IN (q.education, 'Bachelors', 'HS-grad'))::int
	+ (a.education_num >= q.education_num - 1.5)::int + (a.marital_status = q.marital_status)::int + (a.race IN ('White', 'Black'))::int
	+ (a.sex = q.sex)::int + (a.capital_gain >= 1)::int + (a.capital_loss = 0 OR (a.capital_loss >= 1500 AND a.capital_loss < 2000))::int
	+ (a.hours_per_week >= q.hours_per_week - 10 AND a.hours_per_week < q.hours_per_week)::int + (a.income = '>50K')::int
SQL

# --- Debian package descriptions: distinct words ---

my %query_of = map { $_ => 1 } split /\n/, read_data('debian.query.ids.txt');
my @lines = split /\n/, read_data('debian-descriptions.tsv');
shift @lines;
$node->safe_psql('postgres', 'CREATE TABLE packages (id int, name text, section text, description text); CREATE TABLE query_ids (position serial, id int)');
copy_lines('packages', 'FORMAT text', map { s/\\/\\\\/gr } @lines);
$node->safe_psql('postgres', 'INSERT INTO query_ids (id) VALUES ' . join ',', map { "($_)" } split /\n/, read_data('debian.query.ids.txt'));
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE documents AS SELECT id, words, array_to_tsvector(words) AS lexemes, (SELECT position - 1 FROM query_ids WHERE query_ids.id = packages.id) AS query
FROM packages, LATERAL (SELECT ARRAY(SELECT (regexp_matches(lower(description), '[0-9a-z]+', 'g'))[1]) AS words) w;
SQL
@truth = ivecs('debian.gt.counts.ivecs');
for my $column ('words', 'lexemes')
{
	compare_scores("Debian descriptions, $column", "SELECT string_agg((-d)::text, ',' ORDER BY d) FROM (SELECT $column <#> (SELECT $column FROM documents "
		. 'WHERE query = $q) AS d FROM documents WHERE query IS NULL ORDER BY d LIMIT 100) best', \@truth);
}

# --- misspellings: edit distance, and its lower bound by common 3-grams ---

my @words = split /\n/, read_data('words.txt');
my @misspelled = map { (split /\t/)[0] } (split /\n/, read_data('misspellings.queries.tsv'))[ 1 .. 1000 ];
$node->safe_psql('postgres', 'CREATE TABLE words (word text); CREATE TABLE misspelled (id int, word text)');
copy_lines('words', 'FORMAT text', map { s/\\/\\\\/gr } @words);
copy_lines('misspelled', 'FORMAT text', map { "$_\t$misspelled[$_]" } 0 .. $#misspelled);
@truth = ivecs('misspellings.gt.dist.ivecs');
compare_scores('misspellings, edit distances', 'SELECT string_agg(d::text, \',\' ORDER BY d) FROM (SELECT word <~> (SELECT word FROM misspelled WHERE id = $q) AS d '
	. 'FROM words ORDER BY d LIMIT 100) best', \@truth);
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT word FROM words WHERE length(word) % 7 = 0) w, misspelled m WHERE id < 3 AND edit_distance_bound(w.word, m.word) > edit_distance(w.word, m.word)'),
	'0', 'the bound by 3-grams is never above the distance');

done_testing();
