# An index whose codes fit the GPU and whose rows do not: rows lie in host memory, the GPU reads them there, and answers are those of the pages, also
# while rows come and go. Then with room for all, and with room for neither. The views say where the bytes are. Needs a GPU; run by test/gpu/run.
# VECTORGPU_SIMULATE_GPU=1: a CPU engine, which has all in host memory, so that the file itself can be tried anywhere.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $simulated = $ENV{VECTORGPU_SIMULATE_GPU};
my ($rows, $dims) = (40000, 64);
my $row_bytes = $dims * 4 + 8;
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.auto_merge = off\n"
	  . "vectorgpu.worker_timeout = 60s\n" . ($simulated ? "vectorgpu.device = 'cpu'\n" : "vectorgpu.device = 'cuda:0'\n"));

# Elements with many bits: no narrower form holds them. A row is 1/7 of a byte-wise pattern, so that queries have near rows.
$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION made(i bigint) RETURNS vector LANGUAGE sql IMMUTABLE AS
	\$\$ SELECT array_agg((hashint8extended(i % 500, d) % 1000 + hashint8extended(i, d + 1000) % 400)::float4 / 7)::vector FROM generate_series(1, $dims) d \$\$;
CREATE TABLE t AS SELECT i AS id, made(i)::vector($dims) AS v FROM generate_series(1, $rows) i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE INDEX i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 64, storage = sq8);
SQL

sub of_index { return $node->safe_psql('postgres', "SELECT $_[0] FROM vectorgpu_indexes WHERE index_name = 'i'"); }

# start_with MB: a worker with so much memory of the GPU.
sub start_with
{
	$node->append_conf('postgresql.conf', "vectorgpu.gpu_memory = $_[0]\n");
	$node->restart;
	ok(wait_worker($node), "a worker with $_[0] of the GPU");
	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
	return;
}

# Searches of lists, of all rows, and with conditions through the worker against those from the pages.
sub compare_with_pages
{
	my ($name) = @_;
	my @searches = map {
		my $q = $_;
		map { "SELECT ARRAY(SELECT id FROM t $_ ORDER BY v <-> made($q) LIMIT 20)" } ('', 'WHERE id % 3 = 0')
	} 1 .. 8;
	my $sql = join('; ', 'SET enable_seqscan = off', 'SET enable_sort = off', @searches, 'SET gpuivf.probes = 64', @searches);
	my $pages = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $sql");

	by_worker($node, $name, sub { is($node->safe_psql('postgres', $sql), $pages, "$name: as the pages do"); });

	my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_check('i', true, true)");

	is("$rc$err", '0', "$name: the index and its copy are sound");
	return;
}

# [memory, condition on host_bytes, what it means]
my $all = "host_bytes >= $rows * $row_bytes";
my @cases = (
	['6MB', "$all AND host_bytes < $rows * $row_bytes + 1000000", 'rows are in host memory, codes on the GPU'],
	['2MB', "host_bytes >= $rows * ($dims * 5 + 8)", 'rows and codes are in host memory'],
	['0', 'host_bytes = 0', 'all is on the GPU']);

for my $case (@cases)
{
	my ($memory, $where, $name) = @$case;

	start_with($memory);
	compare_with_pages("$memory, $name");
	is(of_index($simulated ? 'host_bytes > 0' : $where), 't', "$memory: $name") or diag(of_index('host_bytes, resident_bytes'));
	is($node->safe_psql('postgres', 'SELECT host_bytes FROM vectorgpu_worker'), of_index('host_bytes'), "$memory: both views say so");
}

# Rows that come and go; the merge makes another segment, beside which the first one stays.
start_with('6MB');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, made(i) FROM generate_series($rows + 1, $rows + 3000) i; DELETE FROM t WHERE id % 10 = 1");
compare_with_pages('after inserts and deletes');
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
compare_with_pages('after a merge');
is(of_index($simulated ? 'host_bytes > 0' : 'host_bytes >= 36000 * ' . $row_bytes), 't', 'rows are in host memory still') or diag(of_index('host_bytes, resident_bytes'));
$node->safe_psql('postgres', 'DROP TABLE t');
ok($node->poll_query_until('postgres', 'SELECT host_bytes = 0 AND copies = 0 FROM vectorgpu_worker'), 'and go with the table');
done_testing();
