# A worker of several GPUs: clients of replicas and of shards check every answer while one of the GPUs breaks. None sees an error or a wrong row, the
# worker goes on with the others, and the GPU comes back. Needs two GPUs and a worker with fault points; run by test/gpu/run.
# VECTORGPU_SIMULATE_GPU=1: two CPU engines, of which one is lost, so that the file itself can be tried anywhere.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VectorgpuTest;
use VectorgpuWorker;

my $simulated = $ENV{VECTORGPU_SIMULATE_GPU};
my $n_gpus = $simulated ? 2 : scalar(grep { /^GPU / } `nvidia-smi -L 2>/dev/null`);

plan skip_all => "several GPUs: this machine has $n_gpus" if $n_gpus < 2;

my $engine = $simulated ? 'cpu' : 'cuda';
my ($rows, $dims) = (20000, 64);
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.auto_merge = off\nvectorgpu.worker_timeout = 10s\n"
	  . "max_connections = 60\nvectorgpu.device = '" . ($simulated ? 'cpu,cpu' : 'cuda') . "'\n");
my $set_surroundings = wrap_worker($node);

make_table($node, 't', dims => $dims);
fill_vectors($node, 't', dims => $dims, rows => $rows);
make_answers($node, 20);
$node->safe_psql('postgres', <<'SQL');
CREATE INDEX i ON t USING gpuflat (v vector_l2_ops);
CREATE TABLE u AS SELECT * FROM t LIMIT 1000;
CREATE INDEX u_i ON u USING gpuivf (v vector_l2_ops) WITH (lists = 16);
CREATE TABLE g AS SELECT * FROM t LIMIT 1000;
CREATE INDEX g_i ON g USING gpugraph (v vector_l2_ops);
SQL

# start_with FAULT, SETTING…: a new worker, in whose environment the fault is.
sub start_with
{
	my ($fault, @settings) = @_;

	$set_surroundings->($fault ne '' ? "export VECTORGPU_WORKER_FAULT='$fault'" : '');
	$node->append_conf('postgresql.conf', "$_\n") for @settings;
	$node->restart;
	ok(wait_worker($node), 'a worker' . ($fault ne '' ? " with $fault" : ''));
	ok($node->poll_query_until('postgres', "SELECT engine = '$engine' AND cardinality(devices) = $n_gpus FROM vectorgpu_worker"), 'it computes on all');
	return;
}

# Lists and graphs through the worker find what the backend finds.
sub compare_others
{
	my ($name) = @_;
	my $sql = 'SET enable_seqscan = off; SET enable_sort = off; '
	  . join('; ', map { my $q = $_; map { "SELECT '$_', ARRAY(SELECT id FROM $_ ORDER BY v <-> (SELECT v FROM $_ WHERE id = $q) LIMIT 20)" } qw(u g) } 1 .. 30);
	my $pages = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $sql");
	my $wrong;

	by_worker($node, "$name: the worker answers searches of lists and graphs", sub {
		my $found = $node->safe_psql('postgres', $sql);

		$wrong //= $found if $found ne $pages;
	});
	is($wrong // $pages, $pages, "$name: as the pages do, each time");
	return;
}

sub devices_of { my ($index) = @_; return $node->safe_psql('postgres', "SELECT cardinality(devices) FROM vectorgpu_indexes WHERE index_name = '$index'"); }

# What breaks, and the room on each GPU: as much as there is, or less than the copy of t, which is then in shards on all.
my %room = (replicas => 'vectorgpu.gpu_memory = 0', shards => 'vectorgpu.gpu_memory = 5MB');
my @faults = ([ gpu_address => 'replicas' ], [ gpu_trap => 'shards' ], [ gpu_ecc => 'replicas' ], [ lose_device => 'shards' ]);
for my $case (@faults)
{
	my ($fault, $name) = ($simulated ? 'lose_device' : $case->[0], $case->[1]);

	start_with("$fault:300:error", $room{$name});
	my $pid = worker_pid($node);
	my $offset = -s $node->logfile;
	# After an exception in a kernel CUDA refuses the process on all GPUs, not on that one alone: the next worker takes over.
	my $alone = $fault !~ /^gpu_(address|trap)$/;

	$node->safe_psql('postgres', join ';', map { "SELECT vectorgpu_prewarm('$_')" } qw(i u_i g_i));
	is(devices_of('i'), $n_gpus, "$fault, $name: the copy is on all");
	my $run = start_clients($node, clients => 16, seconds => 8);

	ok(wait_log($node, qr/device \S+ is lost/, $offset), "$fault, $name: a device is lost under load");
	my $lost_at = time;
	my $lost = worker_stat($node, 'lost_devices');
	my ($done, $wrong) = finish_clients($run);

	ok($done > 0, "$fault, $name: clients were served ($done)");
	is($wrong, '', "$fault, $name: no client saw an error or a wrong row");
	if ($alone)
	{
		like($lost, qr/^\{[^,{}]+\}$/, "$fault, $name: the view names one lost device");
		is(worker_pid($node), $pid, "$fault, $name: the worker goes on");
		compare_others("$fault, $name, with the others");
	}
	ok(wait_until(sub { (worker_stat($node, 'lost_devices') // '') eq '{}' }), "$fault, $name: the device comes back");
	diag(sprintf('back in service %.1f s after %s in %s', time - $lost_at, $fault, $name));
	# The next worker has copies of what is asked of it.
	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('u_i'); SELECT vectorgpu_prewarm('g_i')") unless $alone;
	ok(wait_until(sub { devices_of('u_i') == $n_gpus && devices_of('g_i') == $n_gpus }), "$fault, $name: and gets small copies");
	$run = start_clients($node, clients => 16, seconds => 3);
	($done, $wrong) = finish_clients($run);
	is($wrong, '', "$fault, $name: no client of all devices saw an error or a wrong row ($done)");
	compare_others("$fault, $name, with all again");
	is(worker_pid($node), $pid, "$fault, $name: the worker has gone on") if $alone;
	is(worker_stat($node, 'lost_devices'), '{}', "$fault, $name: no other device was lost");
	diag($_) for grep { /device |GPU lost/ } split /\n/, slurp_file($node->logfile, $offset);
}

# Builds use all devices, and lose none.
start_with('', $room{replicas});
$node->safe_psql('postgres', 'CREATE INDEX b_l ON t USING gpuivf (v vector_l2_ops) WITH (lists = 64); CREATE INDEX b_g ON t USING gpugraph (v vector_l2_ops)');
is(worker_stat($node, 'lost_devices'), '{}', 'builds lose no device');
is(count_restarts($node), 0, 'the server never restarted by itself');
done_testing();
