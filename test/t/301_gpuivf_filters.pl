# gpuivf, with vectors and with codes, and gpugraph on SIFT (VECTORGPU_DATA; unset: skipped). Conditions that 50, 10 and 1 % of the rows pass,
# independent of the query or correlated with it: recall at 10 is not below the target. And after half of the rows were deleted, inserted again elsewhere
# and all merged, recall is that of a fresh build. From the pages and, in part, by the worker. With a GPU: test/gpu/sql_bench, filters and live.
# VECTORGPU_SHARE=2of4: every fourth of the indexes, so that four shares can run beside each other.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VectorgpuTest;
use VectorgpuWorker;

require_data('sift-bsds-128.base.u8bin', 'sift-bsds-128.query.u8bin');

my $long    = $ENV{VECTORGPU_LONG};
my $rows    = $long ? 200_000 : 20_000;
my $queries = $long ? 400 : 60;      # with each condition
my $many    = $long ? 4000 : 3000;   # without one
my $target  = 0.9;
my ($share, $shares) = ($ENV{VECTORGPU_SHARE} || '1of1') =~ /^(\d+)of(\d+)$/ or die "VECTORGPU_SHARE is not like 2of4";
my $folder  = PostgreSQL::Test::Utils::tempdir();
my $node    = make_node('filters',
	conf => "fsync = off\nshared_buffers = 1GB\nmaintenance_work_mem = 256MB\nmax_wal_size = 4GB\ngpuivf.probes = 0\ngpuivf.recall_target = $target\ngpugraph.search_width = 0\ngpugraph.recall_target = $target\n"
	  . "vectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\n");

sub load_u8bin
{
	my ($table, $file, $n) = @_;
	my @floats = map { pack 'f>', $_ } 0 .. 255;

	my $in = open_data($file);
	read($in, my $head, 8) == 8 or die "$file is too short";
	my ($total, $dims) = unpack 'VV', $head;
	open my $out, '>:raw', "$folder/$table" or die "$folder/$table: $!";
	print $out "PGCOPY\n\xff\r\n\0", pack('NN', 0, 0);
	for my $id (0 .. $n - 1)
	{
		read($in, my $row, $dims) == $dims or die "$file is too short";
		print $out pack('nNNNnn', 2, 4, $id, 4 + 4 * $dims, $dims, 0), join('', @floats[ unpack 'C*', $row ]);
	}
	print $out pack('n', 0xffff);
	close $out or die "$folder/$table: $!";
	$node->safe_psql('postgres', "CREATE TABLE $table (id int, v vector($dims)); COPY $table FROM '$folder/$table' (FORMAT binary)", timeout => 1800);
	unlink "$folder/$table";
	return;
}

# s is a projection of a row: rows whose s is near the query's are nearer than others. `window` has, for each query, how near the
# nearest 1, 10, 50, 90 and 99 % are.
load_u8bin('loaded', 'sift-bsds-128.base.u8bin', $rows);
load_u8bin('loaded_queries', 'sift-bsds-128.query.u8bin', $many);
my $setup = <<'SQL';
CREATE TABLE base AS SELECT id, v, (SELECT sum(e) FROM unnest(v::real[]) e) AS s, hashint4(id) & 1023 AS h FROM loaded;
CREATE TABLE query AS SELECT id, v, (SELECT sum(e) FROM unnest(v::real[]) e) AS s FROM loaded_queries;
CREATE TABLE near AS SELECT q.id AS query, (SELECT percentile_disc(ARRAY[0.01, 0.1, 0.5, 0.9, 0.99]) WITHIN GROUP (ORDER BY abs(b.s - q.s)) FROM base b) AS p
	FROM query q WHERE id < {queries};
CREATE TABLE hits (state text, query int, hits int);
ANALYZE;
CREATE FUNCTION nearest(vector, condition text, n int) RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE
	distances float8[];
BEGIN
	EXECUTE format('SELECT array_agg(d ORDER BY d) FROM (SELECT v <-> %1$L::vector AS d FROM base WHERE %2$s ORDER BY v <-> %1$L::vector LIMIT %3$s) s', $1, condition, n)
		INTO distances;
	RETURN distances;
END
$$;
CREATE FUNCTION condition_of(condition text, query int) RETURNS text LANGUAGE sql AS $$
	SELECT replace(replace(replace(replace(replace(replace(condition, '{s}', q.s::text), '{1}', n.p[1]::text), '{10}', n.p[2]::text),
		'{50}', n.p[3]::text), '{90}', n.p[4]::text), '{99}', n.p[5]::text)
	FROM query q JOIN near n ON n.query = q.id WHERE q.id = condition_of.query
$$;
SQL
$node->safe_psql('postgres', $setup =~ s/\{queries\}/$queries/r, timeout => 1800);

my %conditions = (
	'1 any 50 %'                => 'h < 512',
	'1 any 10 %'                => 'h < 102',
	'1 any 1 %'                 => 'h < 10',
	'2 the 50 % alike'          => 'abs(s - {s}) <= {50}',
	'2 the 10 % alike'          => 'abs(s - {s}) <= {10}',
	'2 the 1 % alike'           => 'abs(s - {s}) <= {1}',
	'3 the 50 % least alike'    => 'abs(s - {s}) > {50}',
	'3 the 10 % least alike'    => 'abs(s - {s}) > {90}',
	'3 the 1 % least alike'     => 'abs(s - {s}) > {99}');
# The truth of each condition by sequential scans; without a condition by gpuflat, which is faster, and compared with sequential scans for some queries.
$node->safe_psql('postgres', 'CREATE TABLE truth (condition text, query int, distances float8[])');
$node->safe_psql('postgres', "SET enable_indexscan = off; INSERT INTO truth SELECT \$c\$$_\$c\$, query, nearest(v, condition_of(\$c\$$conditions{$_}\$c\$, query), 10) FROM near JOIN query ON id = query", timeout => 3000) for sort keys %conditions;
$node->safe_psql('postgres', "CREATE INDEX base_v ON base USING gpuflat (v vector_l2_ops); SET vectorgpu.worker = off; SET enable_seqscan = off; "
	  . "INSERT INTO truth SELECT 'none', id, (SELECT array_agg(d ORDER BY d) FROM (SELECT b.v <-> q.v AS d FROM base b ORDER BY b.v <-> q.v LIMIT 10) s) FROM query q", timeout => 3000);
is($node->safe_psql('postgres', "SET enable_indexscan = off; SELECT count(*) FROM near JOIN query ON id = query JOIN truth t ON t.query = id AND condition = 'none' AND distances = nearest(v, 'true', 10)"),
	$queries, 'the exact index has the same distances as a sequential scan');

# The elements of a list that belong to this share.
sub ours { return @_[ grep { $_ % $shares == $share - 1 } 0 .. $#_ ]; }

# Recall at 10 by index scans, and the time of a query.
sub recall
{
	my ($condition) = @_;
	my $start = time;
	my $recall = $node->safe_psql('postgres', "SET enable_seqscan = off; SELECT sum((SELECT count(*) FROM unnest(found) d WHERE d <= t.distances[cardinality(t.distances)]))::float8 / sum(cardinality(t.distances)) "
		  . "FROM (SELECT query, nearest(v, condition_of(\$c\$$conditions{$condition}\$c\$, query), 10) AS found FROM near JOIN query ON id = query) s JOIN truth t ON t.query = s.query AND t.condition = \$c\$$condition\$c\$", timeout => 3000);

	return ($recall, 1000 * (time - $start) / $queries);
}

# Runs all queries without a condition, and stores under this name how many of the 10 nearest rows each finds. Returns recall and its standard error,
# the recall of the queries used with conditions, and the time of a query.
sub look
{
	my ($state) = @_;
	my $start = time;

	$node->safe_psql('postgres', "SET enable_seqscan = off; DELETE FROM hits WHERE state = '$state'; INSERT INTO hits SELECT '$state', q.id, "
		  . "(SELECT count(*) FROM (SELECT b.v <-> q.v AS d FROM base b ORDER BY b.v <-> q.v LIMIT 10) s WHERE d <= t.distances[10]) FROM query q JOIN truth t ON t.query = q.id AND condition = 'none'", timeout => 1800);
	my $ms = 1000 * (time - $start) / $many;
	return split(/\|/, $node->safe_psql('postgres', "SELECT avg(hits) / 10, stddev(hits) / 10 / sqrt(count(*)), avg(hits) FILTER (WHERE query < $queries) / 10 FROM hits WHERE state = '$state'")), $ms;
}

# From now on sessions ask the worker, or do not.
sub use_worker
{
	my ($mode) = @_;

	$node->safe_psql('postgres', "ALTER DATABASE postgres SET vectorgpu.worker = $mode");
	ok(wait_worker($node), 'the worker is ready') if $mode eq 'on';
	return;
}

# Loads the index into the worker, and runs queries, which the worker has to answer.
sub look_by_worker
{
	my ($state, $label) = @_;

	$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('base_v')}, timeout => 600);
	my $before = worker_stat($node, 'answered');
	my @found = look($state);
	cmp_ok(worker_stat($node, 'answered') - $before, '>=', 0.9 * $many, "$label: by the worker");
	return @found;
}

# Without a condition recall has a standard error of .0025 with 3,000 queries; the tolerance is two standard errors and .01 for the calibration. Conditions
# are tested with fewer queries: a recall of .9 has an error of .014 with 60; the tolerance is two. A graph's narrowest search may exceed the target.
for my $index (ours('gpuivf', 'gpuivf: storage = sq8', 'gpuivf: storage = pq, refine = none', 'gpugraph'))
{
	my ($am, $storage) = split /: /, $index;
	my $label = $storage // ($am eq 'gpuivf' ? 'vectors' : $am);

	use_worker('off');
	$node->safe_psql('postgres', "DROP INDEX IF EXISTS base_v; CREATE INDEX base_v ON base USING $am (v vector_l2_ops)" . (defined $storage ? " WITH ($storage)" : ''), timeout => 1800);
	for my $worker ('off', 'on')
	{
		use_worker($worker) if $worker eq 'on';
		my ($plain, $error, $few, $ms) = $worker eq 'on' ? look_by_worker('plain', $label) : look('plain');
		note(sprintf '%s, worker %s: recall %.4f (standard error %.4f) without a condition, %.2f ms', $label, $worker, $plain, $error, $ms);
		cmp_ok($plain, '>=', $target - 0.01 - 2 * $error, "$label, worker $worker: recall at 10 without a condition");
		for my $condition (sort keys %conditions)
		{
			# The quick run has a sample of cases with equal answers from the pages.
			next if $worker eq 'on' && !$long && $condition !~ /10 %/;
			my ($recall, $time) = recall($condition);

			cmp_ok($recall, '>=', $target - 0.01 - 2 * 0.014, sprintf '%s, worker %s: recall of %.3f with a condition, %.3f without, %s, %.2f ms', $label, $worker, $recall, $few, substr($condition, 2), $time);
		}
	}
}

# Half of the rows, drawn by a hash, are deleted and inserted again in another order; then the same rows in a fresh index. A merged index keeps its
# recall: the standard error of the queries' differences is .001 to .002 with 3,000 of them (0 if both indexes are equal); the tolerance is two.
# A fresh build trains and calibrates on another sample: the recall of 14 builds of these rows in seven orders was .892 to .906, with a standard deviation of
# .005, which is .007 for the difference of two. The tolerance is three of these.
$node->safe_psql('postgres', 'DROP INDEX IF EXISTS base_v; CREATE TABLE again AS SELECT * FROM base WHERE h % 2 = 0');
my ($delete, $insert, $vacuum) = ('DELETE FROM base WHERE h % 2 = 0', 'INSERT INTO base SELECT * FROM again ORDER BY hashint4extended(id, 1)', 'VACUUM (INDEX_CLEANUP on) base');
my @indexes = ('gpuivf', 'gpuivf: storage = sq8', 'gpuivf: storage = pq', 'gpuivf: storage = pq, refine = none', 'gpugraph');
for my $run (ours((map { "off, $_" } @indexes), map { "on, $_" } $long ? @indexes : @indexes[ 0, 3, 4 ]))
{
	my ($worker, $index) = $run =~ /^(\w+), (.*)$/;
	my ($am, $storage) = split /: /, $index;
	my $label = ($storage // ($am eq 'gpuivf' ? 'vectors' : $am)) . ", worker $worker";

	use_worker($worker);
	$node->safe_psql('postgres', "CREATE INDEX base_v ON base USING $am (v vector_l2_ops)" . (defined $storage ? " WITH ($storage)" : ''), timeout => 1800);
	my ($built) = $worker eq 'on' ? look_by_worker('built', $label) : look('built');
	$node->safe_psql('postgres', $_, timeout => 1800) for $delete, $worker eq 'off' ? $vacuum : (), $insert, $vacuum, q{SELECT vectorgpu_merge('base_v')};
	check_index($node, 'base_v', name => "$label: check after deletes and inserts");
	my ($lists, $drift) = split /\|/, $node->safe_psql('postgres', q{SELECT coalesce(lists, 0), coalesce(list_drift, 0) FROM vectorgpu_indexes WHERE index_name = 'base_v'});
	my ($merged) = $worker eq 'on' ? look_by_worker('merged', $label) : look('merged');
	$node->safe_psql('postgres', 'REINDEX INDEX base_v', timeout => 1800);
	my ($fresh) = $worker eq 'on' ? look_by_worker('fresh', $label) : look('fresh');
	my ($lost, $error) = split /\|/, $node->safe_psql('postgres', "SELECT avg(lost), stddev(lost) / sqrt(count(*)) FROM (SELECT (sum(hits) FILTER (WHERE state = 'built') - sum(hits) FILTER (WHERE state = 'merged')) / 10.0 AS lost FROM hits GROUP BY query) q");
	cmp_ok($lost, '<=', 0.005 + 2 * $error, sprintf '%s: recall of %.4f after deletes and inserts, %.4f before, standard error %.4f (%d lists, drift %.3f)', $label, $merged, $built, $error, $lists, $drift);
	cmp_ok($fresh - $merged, '<=', 0.02, sprintf '%s: a fresh build has a recall of %.4f', $label, $fresh);
	$node->safe_psql('postgres', 'DROP INDEX base_v');
}
$node->stop;
done_testing();
