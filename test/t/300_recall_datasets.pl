# Real data (VECTORGPU_DATA; unset: skipped): on SIFT and Fashion-MNIST an index scan answers as the sequential scan, bit for
# bit in distances and in ids up to equal distances, at LIMIT 1, 10, 100, 1000 and without LIMIT; and has recall 1.0 against
# the published ground truth. Normal run: BIGANN 10k whole, Fashion-MNIST whole with few queries, a part of SIFT.
# VECTORGPU_LONG=1: all rows, 1,000 queries and 20 without LIMIT. VECTORGPU_SHARE=2of4: every fourth of the queries that are compared with a
# sequential scan, and of the other access methods and storages, so that four shares can run beside each other.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);
use VectorgpuTest;
use VectorgpuLoad;

require_data(map { ("$_.base.u8bin", "$_.query.u8bin", "$_.gt100.bin") } qw(fashion-mnist-784 sift-bsds-128));

my $long = $ENV{VECTORGPU_LONG};
my ($share, $shares) = ($ENV{VECTORGPU_SHARE} || '1of1') =~ /^(\d+)of(\d+)$/ or die "VECTORGPU_SHARE is not like 2of4";
my $mine = 'id % ' . $shares . ' = ' . ($share - 1);
my @sets = (
	{ name => 'bigann10k-128', rows => 10_000, queries => 100, whole => 2 },
	{ name => 'fashion-mnist-784', rows => 60_000, queries => 30, whole => 1 },
	{ name => 'sift-bsds-128', rows => $long ? 894_717 : 100_000, queries => 30, whole => 1 });
if ($long)
{
	@$_{ 'queries', 'whole' } = (1000, 20) for @sets[ 1, 2 ];
}
@sets = grep { defined data_path("$_->{name}.base.u8bin") } @sets;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = make_node('recall', conf => "fsync = off\nshared_buffers = 1GB\nmaintenance_work_mem = 256MB\nmax_wal_size = 4GB\nwork_mem = 64MB\n");
create_comparer($node);

# One sequential scan for the largest limit: the answer for a smaller one is its beginning.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION compare_limits(tab text, query vector, limits int[]) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = on SET enable_indexscan = on SET enable_sort = on SET enable_bitmapscan = off
AS $$
DECLARE
	body text := format('SELECT array_agg(id ORDER BY n), array_agg(encode(float8send(d), ''hex'') ORDER BY n) FROM '
		'(SELECT id, d, row_number() OVER () n FROM (SELECT id, v <-> %L::vector AS d FROM %s ORDER BY v <-> %L::vector LIMIT %%s) a) b', query, tab, query);
	seq_ids int[];
	seq_distances text[];
	ids int[];
	distances text[];
	k int;
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true);
	EXECUTE format(body, limits[cardinality(limits)]) INTO seq_ids, seq_distances;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	FOREACH k IN ARRAY limits LOOP
		EXECUTE format(body, k) INTO ids, distances;
		IF distances IS DISTINCT FROM seq_distances[1:k] THEN
			RETURN format('LIMIT %s: distances differ', k);
		END IF;
		-- Equal distances at the end may be cut differently.
		IF (SELECT array_agg(i ORDER BY d, i) FROM unnest(ids, distances) u(i, d) WHERE d <> distances[k])
			IS DISTINCT FROM (SELECT array_agg(i ORDER BY d, i) FROM unnest(seq_ids[1:k], seq_distances[1:k]) u(i, d) WHERE d <> distances[k])
			OR (SELECT count(DISTINCT i) FROM unnest(ids) i) <> k THEN
			RETURN format('LIMIT %s: ids differ', k);
		END IF;
	END LOOP;
	RETURN '';
END
$$;
SQL

# Loads the first rows of a .u8bin file into a table (id, category, v); returns the dimensions.
sub load_u8bin
{
	my ($table, $file, $rows) = @_;
	my @floats = map { pack 'f>', $_ } 0 .. 255;
	my $head;

	my $in = open_data($file);
	read($in, $head, 8) == 8 or die "$file is too short";
	my ($total, $dims) = unpack 'VV', $head;
	$rows = $total if $rows > $total;
	open my $out, '>:raw', "$folder/$table" or die "$folder/$table: $!";
	print $out "PGCOPY\n\xff\r\n\0", pack('NN', 0, 0);
	for my $id (0 .. $rows - 1)
	{
		my $row;
		read($in, $row, $dims) == $dims or die "$file is too short";
		print $out pack('nNNNnn', 2, 4, $id, 4 + 4 * $dims, $dims, 0), join('', @floats[ unpack 'C*', $row ]);
	}
	print $out pack('n', 0xffff);
	close $out or die "$folder/$table: $!";
	close $in;
	$node->safe_psql('postgres', "CREATE TABLE $table (id int, v vector($dims)); COPY $table FROM '$folder/$table' (FORMAT binary)", timeout => 1800);
	unlink "$folder/$table";
	return ($dims, $rows == $total);
}

# Ground truth of the first queries: [ids], [distances] each.
sub read_truth
{
	my ($file, $queries) = @_;
	my $bytes = read_data($file);
	my ($n, $k) = unpack 'VV', $bytes;
	my @truth;

	for my $q (0 .. $queries - 1)
	{
		push @truth, [ [ unpack "V$k", substr($bytes, 8 + 4 * $k * $q, 4 * $k) ], [ unpack "f<$k", substr($bytes, 8 + 4 * $k * $n + 4 * $k * $q, 4 * $k) ] ];
	}
	return @truth;
}

# Approximate access methods on the same rows, gpuivf with each storage: a search of all rows is exact, and a partial one reaches the recall
# target, on queries that the calibration has not seen. The exact index gives the truth, and is dropped afterwards.
my @storages = ('', 'storage = sq8', 'storage = pq, refine = none', 'storage = rabitq');
push @storages, 'storage = fp16', 'storage = sq8, refine = none', 'storage = pq', 'storage = pq, refine = fp16', 'storage = pq, pq_bits = 4',
  'storage = pq, opq, refine = none', 'storage = rabitq, bits = 1', 'storage = rabitq, bits = 2, refine = none'
  if $long;

# access method, setting that makes searches wide, storage parameters
my @methods = ((map { [ 'gpuivf', 'probes', $_ ] } @storages), map { [ 'gpugraph', 'search_width', $_ ] } '', 'codes = rabitq', $long ? 'codes = rabitq, bits = 1' : ());

sub approximate_recall
{
	my ($name, $queries) = @_;

	$node->safe_psql('postgres', <<'SQL', timeout => 3000);
SET enable_seqscan = off;
CREATE TABLE truth AS SELECT q.id AS query, max(b.d) AS tenth FROM query q, LATERAL (SELECT v <-> q.v AS d FROM base ORDER BY v <-> q.v LIMIT 10) b GROUP BY q.id;
DROP INDEX base_v;
SQL
	for my $method (map { $methods[$_] } grep { $_ % $shares == $share - 1 } 0 .. $#methods)
	{
		my ($am, $setting, $storage) = @$method;
		my $start = time;
		my $label = "$name: $am" . ($storage eq '' ? '' : ", $storage");

		$node->safe_psql('postgres', "SET maintenance_work_mem = '2GB'; CREATE INDEX base_a ON base USING $am (v vector_l2_ops)" . ($storage eq '' ? '' : " WITH ($storage)"), timeout => 3000);
		note(sprintf '%s: built in %.1f s, %s', $label, time - $start, $node->safe_psql('postgres', q{SELECT pg_size_pretty(pg_relation_size('base_a'))}));
		is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT id, compare_limits('base', v, '{1,10,100}') AS answer FROM query WHERE id < 3) s WHERE answer <> ''", timeout => 3000),
			'0', "$label: looking at all as the sequential scan");
		for my $target (0.8, 0.95, 0.99)
		{
			my $from = time;
			my ($recall, $error) = split /\|/, $node->safe_psql('postgres', "SET enable_seqscan = off; SET $am.$setting = 0; SET $am.recall_target = $target; "
				  . 'SELECT avg(found), stddev(found) / sqrt(count(*)) FROM (SELECT count(*) FILTER (WHERE b.d <= t.tenth) / 10.0 AS found FROM query q JOIN truth t ON t.query = q.id, LATERAL (SELECT v <-> q.v AS d FROM base ORDER BY v <-> q.v LIMIT 10) b GROUP BY q.id) s', timeout => 3000);
			# Few queries: three standard errors, or of 0.1 for each if all queries find as much.
			my $margin = 0.01 + 3 * max($error, 0.1 / sqrt $queries);
			# The first step is for 10 rows, and a graph's narrowest search is as wide: recall may exceed the target.
			cmp_ok($target - $recall, '<=', $margin, sprintf '%s, recall at 10 is %.3f for a target of %.2f', $label, $recall, $target);
			note(sprintf '%s: %.2f ms a query', $label, 1000 * (time - $from) / $queries);
		}
		check_index($node, 'base_a', name => "$label: check");
		$node->safe_psql('postgres', 'DROP INDEX base_a');
	}
	$node->safe_psql('postgres', 'DROP TABLE truth');
	return;
}

for my $set (@sets)
{
	my ($name, $queries) = @$set{ 'name', 'queries' };
	my $start = time;

	my ($dims, $all) = load_u8bin('base', "$name.base.u8bin", $set->{rows});
	load_u8bin('query', "$name.query.u8bin", $queries);
	$node->safe_psql('postgres', 'CREATE INDEX base_v ON base USING gpuflat (v vector_l2_ops)', timeout => 1800);
	note(sprintf '%s: %d rows, %d dimensions, loaded and indexed in %.1f s', $name, $set->{rows}, $dims, time - $start);
	check_index($node, 'base_v', name => "$name: check");

	my $limits = $dims > 500 || $set->{rows} > 1000 ? '{1,10,100,1000}' : '{1,10,100}';
	my $wrong = $node->safe_psql('postgres', "SELECT count(*), min(format('query %s: %s', id, answer)) FROM (SELECT id, compare_limits('base', v, '$limits') AS answer FROM query WHERE $mine) s WHERE answer <> ''", timeout => 3000);
	is($wrong, '0|', "$name: queries, $share of $shares shares of $queries, at LIMIT 1, 10, 100, 1000 as the sequential scan");
	$wrong = $node->safe_psql('postgres', "SET work_mem = '512MB'; SELECT count(*), min(answer) FROM (SELECT compare_answers('base', '<->', quote_literal(v) || '::vector') AS answer FROM query WHERE id < $set->{whole} AND $mine) s WHERE answer <> ''", timeout => 3000);
	is($wrong, '0|', "$name: of $set->{whole} without LIMIT as the sequential scan");

	if ($all)
	{
		my @truth = read_truth("$name.gt100.bin", $queries);
		my %found;
		for my $line (split /\n/, $node->safe_psql('postgres',
				'SET enable_seqscan = off; SET enable_sort = off; SELECT q.id, b.id, b.d FROM query q, LATERAL (SELECT id, v <-> q.v AS d FROM base ORDER BY v <-> q.v LIMIT 100) b', timeout => 3000))
		{
			my ($query, $id, $distance) = split /\|/, $line;
			push @{ $found{$query} }, [ $id, $distance ];
		}
		my ($hits, @outside) = (0);
		for my $query (0 .. $queries - 1)
		{
			my ($ids, $distances) = @{ $truth[$query] };
			my %true = map { $_ => 1 } @$ids;
			my $last = $distances->[99];

			for my $row (@{ $found{$query} })
			{
				# A tie that crosses rank 100 may be cut elsewhere.
				if ($true{ $row->[0] } || unpack('f<', pack 'f<', $row->[1]) == $last) { $hits++; }
				else                                                                   { push @outside, "query $query: id $row->[0] at $row->[1], rank 100 is at $last"; }
			}
		}
		is($hits, 100 * $queries, "$name: recall at 100 is 1.0 over $queries queries") or diag(join "\n", @outside[ 0 .. ($#outside < 9 ? $#outside : 9) ]);
	}
	approximate_recall($name, $queries);
	note(sprintf '%s: %.1f s in all', $name, time - $start);
	$node->safe_psql('postgres', 'DROP TABLE base; DROP TABLE query');
}

$node->stop;
done_testing();
