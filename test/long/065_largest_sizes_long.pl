# Sizes at their limits (C41): gpuivf with the maximum number of lists, built by the backend and by the worker, searched, merged and checked; 16,000
# dimensions and 64,000 bits with every storage, the longest codes and the most edges; the largest LIMIT of each access method; k, sample and clusters of
# the functions at their limits, and one beyond.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('largest', conf => "fsync = off\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 600s\n"
	  . "vectorgpu.auto_merge = off\nmaintenance_work_mem = 1GB\nwork_mem = 64MB\n");
my $has_worker = -x worker_file($node);
create_comparer($node);

# The maximum number of lists.
my $lists = 65536;
$node->safe_psql('postgres', 'CREATE TABLE t (id int, category int, v vector(2)); INSERT INTO t SELECT i, i % 10, test_vector(i, 2)::vector FROM generate_series(1, 70000) i');
ok(wait_worker($node), 'the worker is ready') if $has_worker;
for my $worker ($has_worker ? ('on', 'off') : 'off')
{
	$node->safe_psql('postgres', "SET vectorgpu.worker = $worker; DROP INDEX IF EXISTS t_v; CREATE INDEX t_v ON t USING gpuivf (v vector_l2_ops) WITH (lists = $lists)");
	is($node->safe_psql('postgres', q{SELECT lists, segment_rows FROM vectorgpu_indexes WHERE index_name = 't_v'}), "$lists|70000", "worker $worker: built with $lists lists");
	check_index($node, 't_v', name => "worker $worker: check");
	answers_equal($node, 't', dims => 2, queries => 3, limits => [ 1, 100, 5000, undef ], name => "worker $worker: all lists are looked at, answers are exact");
	cmp_ok($node->safe_psql('postgres', "SET gpuivf.probes = 200; SELECT recall FROM vectorgpu_recall('t_v', 100, 10)"), '>', 0.9, 'some lists have most of the nearest rows');
	$node->safe_psql('postgres', "SET vectorgpu.worker = $worker; INSERT INTO t SELECT i, 1, test_vector(i, 2)::vector FROM generate_series(70001, 71000) i; DELETE FROM t WHERE id % 50 = 1");
	$node->safe_psql('postgres', "SET vectorgpu.worker = $worker; VACUUM t; SELECT vectorgpu_merge('t_v')");
	answers_equal($node, 't', dims => 2, queries => 2, limits => [ 100, undef ], name => "worker $worker: merged");
	check_index($node, 't_v', name => "worker $worker: check of the merged one");
	$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t SELECT i, i % 10, test_vector(i, 2)::vector FROM generate_series(1, 70000) i') if $worker eq 'on';
}
my ($state) = psql_state($node, 'CREATE INDEX ON t USING gpuivf (v vector_l2_ops) WITH (lists = ' . ($lists + 1) . ')');
is($state, '22023', 'one list more is refused');
($state) = psql_state($node, 'SET gpuivf.probes = ' . ($lists + 1));
is($state, '22023', 'so is one probe more');

# The largest LIMIT, by every access method.
my %indexes = (gpuflat => 'v vector_l2_ops', gpuivf => 'v vector_l2_ops', gpugraph => 'v vector_l2_ops', gpumatch => 'tags');
$node->safe_psql('postgres', 'CREATE TABLE l AS SELECT id, v, ARRAY[id % 7, id % 11] AS tags FROM t WHERE id <= 12000');
for my $method (sort keys %indexes)
{
	my $order = $method eq 'gpumatch' ? q{tags <#> '{1,2}'} : q{v <-> '[0.1,0.2]'};

	$node->safe_psql('postgres', "DROP INDEX IF EXISTS l_i; CREATE INDEX l_i ON l USING $method ($indexes{$method})");
	for my $limit (2**31 - 1, 2**31, 2**32, '9223372036854775807', 'ALL')
	{
		for my $worker ($has_worker ? ('on', 'off') : 'off')
		{
			is($node->safe_psql('postgres', "SET vectorgpu.worker = $worker; SET enable_seqscan = off; SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM l ORDER BY $order LIMIT $limit) s"),
				$node->safe_psql('postgres', 'SELECT count(*), count(*) FROM l'), "$method, worker $worker: LIMIT $limit");
		}
	}
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM l ORDER BY $order OFFSET 9223372036854775807 LIMIT 10) s"), 0, "$method: the largest OFFSET");
	next if $method eq 'gpumatch';

	# The functions at their limits.
	is($node->safe_psql('postgres', "SELECT sample, k, wanted FROM vectorgpu_recall('l_i', 100, 10000)"), '100|10000|1000000', "$method: recall of 10,000 rows");
	is($node->safe_psql('postgres', "SELECT sample, k, wanted FROM vectorgpu_recall('l_i', 10000, 10)"), '10000|10|100000', "$method: recall of 10,000 queries") if $method eq 'gpuflat';
	is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT (g).source), max((g).rank) FROM (SELECT vectorgpu_knn_graph('l_i', 10000) AS g LIMIT 20000) s}), '20000|2|10000', "$method: 10,000 neighbours of a row");
}
for my $call ("vectorgpu_recall('l_i', 1, 10001)", "vectorgpu_recall('l_i', 10001, 1)", "vectorgpu_recall('l_i', 10000, 1001)", "vectorgpu_knn_graph('l_i', 10001)", "vectorgpu_path('l_i', '(0,1)', '(0,2)', 10001)",
	"vectorgpu_kmeans('l', 'v', 1048577)")
{
	($state) = psql_state($node, "SELECT $call");
	is($state, '22023', "$call is refused");
}
is($node->safe_psql('postgres', q{SELECT count(*) BETWEEN 500 AND 12000, sum(size) FROM vectorgpu_kmeans('l', 'v', 1048576)}), $node->safe_psql('postgres', q{SELECT 't', count(*) FROM l}), 'as many clusters as there can be');

# The longest vectors and bit strings, codes and edges.
$node->safe_psql('postgres', 'CREATE TABLE w (id int, v vector(16000), b bit(64000)); INSERT INTO w SELECT i, ' . random_vector_sql('i', dims => 16000) . ', ' . random_vector_sql('i', dims => 64000, type => 'bit') . ' FROM generate_series(1, 150) i');
my $query_v = query_vector($node, 1, dims => 16000);
my $query_b = query_vector($node, 1, dims => 64000, type => 'bit');
for my $case (['gpuflat (v vector_l2_ops)', 'v <->'], ['gpuivf (v vector_l2_ops) WITH (lists = 10)', 'v <->'], [q{gpuivf (v vector_l2_ops) WITH (lists = 10, storage = 'sq8')}, 'v <->'],
	[q{gpuivf (v vector_l2_ops) WITH (lists = 10, storage = 'fp16')}, 'v <->'], [q{gpuivf (v vector_l2_ops) WITH (lists = 10, storage = 'pq', pq_m = 16000)}, 'v <->'],
	[q{gpuivf (v vector_l2_ops) WITH (lists = 10, storage = 'pq', pq_m = 1, pq_bits = 4)}, 'v <->'], ['gpugraph (v vector_l2_ops) WITH (degree = 256)', 'v <->'],
	['gpugraph (v vector_cosine_ops) WITH (degree = 256, hash_bits = 512)', 'v <=>'], ['gpuflat (b bit_hamming_ops)', 'b <~>'], ['gpuivf (b bit_jaccard_ops) WITH (lists = 10)', 'b <%>'],
	['gpugraph (b bit_hamming_ops) WITH (degree = 256)', 'b <~>'])
{
	my ($definition, $distance) = @$case;
	my $query = $distance =~ /^v/ ? $query_v : $query_b;
	my $rows = "SELECT string_agg(id || ':' || d, ',') FROM (SELECT id, $distance $query AS d FROM w ORDER BY $distance $query%s LIMIT 50) s";
	my $expected = $node->safe_psql('postgres', 'SET enable_indexscan = off; ' . sprintf($rows, ', ctid'));

	for my $worker ($has_worker ? ('on', 'off') : 'off')
	{
		$node->safe_psql('postgres', "SET vectorgpu.worker = $worker; DROP INDEX IF EXISTS w_i; CREATE INDEX w_i ON w USING $definition");
		is($node->safe_psql('postgres', "SET vectorgpu.worker = $worker; SET enable_seqscan = off; " . sprintf($rows, '')), $expected, "$definition, worker $worker");
		check_index($node, 'w_i', name => "$definition, worker $worker: check");
	}
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process of the server crashed');
$node->stop;
done_testing();
