# More rows from one scan than one SEARCH may ask for (1,048,576): the scan continues after the last row of the first answer,
# and the two parts form one answer, in order, ties by TID, without a repeated or missing row.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.inline_load_size = 1GB\n"
	  . "vectorgpu.worker_min_size = 0\nvectorgpu.auto_merge = off\nshared_buffers = 256MB\nwork_mem = 256MB\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

my $rows = 1_060_000;
my $limit = 1_055_000; # more than one search, and not all

$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int, v vector(1));
INSERT INTO t SELECT i, ARRAY[((i::bigint * 7919) % 400000)::real]::vector FROM generate_series(1, $rows) i;
CREATE INDEX i ON t USING gpuflat (v vector_l2_ops);
INSERT INTO t SELECT $rows + i, ARRAY[(i * 1000 + 0.5)::real]::vector FROM generate_series(1, 300) i;
SQL

# Order and completeness in one value.
sub digest
{
	my ($settings, $order) = @_;

	return $node->safe_psql('postgres',
		"$settings; SELECT count(*), count(DISTINCT id), md5(string_agg(id::text, ',')) "
		  . "FROM (SELECT id FROM t ORDER BY v <-> '[123456]'$order LIMIT $limit) s");
}

my $expected = digest('SET enable_indexscan = off', ', ctid');

like($expected, qr/^$limit\|$limit\|/, 'the sequential scan has that many rows');

ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my ($searches, $found);

by_worker($node, 'more rows than one search may ask for', sub {
	my $before = worker_stat($node, 'searches');

	$found = digest('SET enable_seqscan = off', '');
	$searches = worker_stat($node, 'searches') - $before;
});
is($found, $expected, 'the rows of a scan in two searches are those of a sequential scan, in its order');
cmp_ok($searches, '>=', 2, 'it took more than one search');

check_resources($node, $resources);
check_stopped($node);
done_testing();
