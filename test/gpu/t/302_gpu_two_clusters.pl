# Two clusters with a worker each on the GPUs of one machine: each keeps its budget, clients of both check every answer, also while one of the workers
# is killed, and while one cluster's copies take what the other has left. Needs a GPU; run by test/gpu/run. VECTORGPU_SIMULATE_GPU=1: two CPU engines.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $simulated = $ENV{VECTORGPU_SIMULATE_GPU};
my ($rows, $dims) = (20000, 64);
my $budget = 4 << 20; # of the second cluster on each device, less than its copy
my $conf = "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 10s\n"
  . "max_connections = 60\nvectorgpu.device = '" . ($simulated ? 'cpu,cpu' : 'cuda') . "'\n";
my @nodes = (make_node('first', conf => $conf), make_node('second', conf => $conf . 'vectorgpu.gpu_memory = ' . ($budget >> 10) . "kB\n"));

for my $i (0, 1)
{
	make_table($nodes[$i], 't', dims => $dims);
	fill_vectors($nodes[$i], 't', dims => $dims, rows => $rows, seed => 5 + $i);
	$nodes[$i]->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
	make_answers($nodes[$i], 20);
	ok(wait_worker($nodes[$i]), 'a worker');
	ok($nodes[$i]->poll_query_until('postgres', q(SELECT engine = ') . ($simulated ? 'cpu' : 'cuda') . q(' FROM vectorgpu_worker)), 'it computes there');
	$nodes[$i]->safe_psql('postgres', q(SELECT vectorgpu_prewarm('i')));
}

# both NAME, MEANWHILE: clients of both clusters at once.
sub both
{
	my ($name, $meanwhile) = @_;
	my @runs = map { start_clients($_, clients => 8, seconds => 4) } @nodes;

	$meanwhile->() if defined $meanwhile;
	for my $i (0, 1)
	{
		my ($done, $wrong) = finish_clients($runs[$i]);

		ok($done > 0, "$name: clients of cluster $i were served ($done)");
		is($wrong, '', "$name: no client of cluster $i saw an error or a wrong row");
	}
	return;
}

sub check_budget
{
	my ($name) = @_;
	my $most = $nodes[1]->safe_psql('postgres', 'SELECT max(b) FROM vectorgpu_worker, unnest(device_bytes) b');

  SKIP:
	{
		skip 'bytes of the only device are those of host memory, too', 1 if $most eq '';
		cmp_ok($most, '<=', $budget, "$name: the second keeps its budget");
	}
	return;
}

both('two clusters');
check_budget('two clusters');
for my $i (0, 1)
{
	my $other = worker_pid($nodes[ 1 - $i ]);
	my $pid = worker_pid($nodes[$i]);

	both("the worker of cluster $i is killed", sub { sleep 1; kill 'KILL', $pid; });
	ok(wait_worker($nodes[$i], not_pid => $pid), "the worker of cluster $i is killed: another takes over");
	is(worker_pid($nodes[ 1 - $i ]), $other, "the worker of cluster $i is killed: the other's lives");
	$nodes[$i]->safe_psql('postgres', q(SELECT vectorgpu_prewarm('i')));
}
both('more copies come and go', sub {
	for my $n (1 .. 3)
	{
		for my $node (@nodes)
		{
			$node->safe_psql('postgres', "CREATE TABLE u$n AS SELECT * FROM t LIMIT 8000; CREATE INDEX u${n}_i ON u$n USING gpuflat (v vector_l2_ops); SELECT vectorgpu_prewarm('u${n}_i')");
		}
	}
	$_->safe_psql('postgres', 'DROP TABLE u1, u2') for @nodes;
});
check_budget('more copies come and go');
both('afterwards');
is(count_restarts($_), 0, 'no server restarted by itself') for @nodes;
done_testing();
