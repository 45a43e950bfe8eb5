# Faults of the GPU under clients that check every answer: no client sees an error or a wrong row, the server does not restart,
# and the GPU is in service again. Needs a GPU and a worker with fault points; run by test/gpu/run.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "max_connections = 60\nvectorgpu.device = 'cuda:0'\n");

make_table($node, 't', dims => 32);
fill_vectors($node, 't', dims => 32, rows => 40000);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
ok(wait_worker($node), 'the worker is ready');
ok($node->poll_query_until('postgres', "SELECT engine = 'cuda' FROM vectorgpu_worker"), 'it computes on the GPU');
diag('device: ' . worker_stat($node, 'device'));

# Restarts the server with a fault in the environment of its workers.
sub restart_with_fault
{
	my ($fault) = @_;

	local $ENV{VECTORGPU_WORKER_FAULT} = $fault;
	$node->restart;
	return wait_worker($node);
}

# Sticky errors: every worker dies at its 40th batch, the next one takes over.
for my $fault (qw(gpu_address gpu_misaligned gpu_trap gpu_ecc))
{
	my $offset = -s $node->logfile;

	ok(restart_with_fault("$fault:40:error"), "$fault: a worker");
	my $run = start_clients($node, clients => 16, seconds => 10);
	my ($done, $wrong) = finish_clients($run);

	cmp_ok($done, '>', 0, "$fault: clients were served ($done)");
	is($wrong, '', "$fault: no client saw an error or a wrong row");
	my $log = slurp_file($node->logfile, $offset);
	my $deaths = () = $log =~ /vectorgpu worker \(PID \d+\) ended with status 3/g;

	cmp_ok($deaths, '>', 0, "$fault: workers left by themselves ($deaths)");
	like($log, qr/GPU lost: /, "$fault: the log says so");
}

# Back in service: how long one death takes.
ok(restart_with_fault('gpu_address:200:error'), 'a worker');
{
	my $pid = worker_pid($node);
	my $run = start_clients($node, clients => 16, seconds => 20);
	my $died;
	my $back;

	for (1 .. 400)
	{
		my ($rc, $row) = $node->psql('postgres', 'SELECT pid, ready, engine FROM vectorgpu_worker');
		my ($now, $ready, $engine) = split /\|/, $row // '';

		$died = time() if !defined $died && ($now // '') ne $pid;
		$back = time() if defined $died && $ready eq 't' && ($now // '') ne $pid && ($engine // '') eq 'cuda';
		last if defined $back;
		sleep 0.05;
	}
	my ($done, $wrong) = finish_clients($run);

	is($wrong, '', 'no client saw an error or a wrong row');
	ok(defined $back, 'the GPU is back in service');
	diag(sprintf('back in service after %.2f s', $back - $died)) if defined $back;
}

# Refused launches and memory that is not there: the worker lives, clients are served.
# Allocations that fail are those of a copy that is loaded while 16 clients search: the first, a later one, all.
for my $fault ('gpu_launch:0:error', 'gpu_malloc_late:1:error', 'gpu_malloc_late:2:error', 'gpu_malloc_late:0:error')
{
	my $offset = -s $node->logfile;

	ok(restart_with_fault($fault), "$fault: a worker");
	my $pid = worker_pid($node);
	my $run = start_clients($node, clients => 16, seconds => 5);
	my ($done, $wrong) = finish_clients($run);

	cmp_ok($done, '>', 0, "$fault: clients were served ($done)");
	is($wrong, '', "$fault: no client saw an error or a wrong row");
	is(worker_pid($node), $pid, "$fault: the worker lives");
	is(worker_stat($node, 'engine'), 'cuda', "$fault: it computes on the GPU still");
	ok(wait_log($node, qr/a copy (?:has moved to|begins in) host memory: could not allocate device memory/, $offset),
		"$fault: the log says where the copy went")
	  if $fault =~ /malloc/;
}

# The worker killed while kernels run that never end.
ok(restart_with_fault('gpu_spin:40:error'), 'gpu_spin: a worker');
{
	my $pid = worker_pid($node);
	my $run = start_clients($node, clients => 16, seconds => 10);

	sleep 3;
	kill 'KILL', $pid;
	ok(wait_gone($pid), 'a worker whose kernel never ends can be killed');
	my ($done, $wrong) = finish_clients($run);

	is($wrong, '', 'gpu_spin: no client saw an error or a wrong row');
}

# A damaged copy is found by the check.
ok(restart_with_fault('gpu_flip:1:error'), 'gpu_flip: a worker');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_check('i', false, true)");
isnt($rc, 0, 'gpu_flip: the check of the copy fails');
like($err, qr/copy|differ/i, 'gpu_flip: and says what');

# An index beyond the GPU's budget: host memory answers.
my $small = -s $node->logfile;
$node->append_conf('postgresql.conf', "vectorgpu.gpu_memory = 1MB\n");
$node->restart;
ok(wait_worker($node), 'a worker with 1 MB of GPU memory');
ok($node->poll_query_until('postgres', "SELECT engine = 'cuda' FROM vectorgpu_worker"), 'a small budget: the GPU is used all the same');
my $run = start_clients($node, clients => 16, seconds => 5);
my ($done, $wrong) = finish_clients($run);
cmp_ok($done, '>', 0, "a small budget: clients were served ($done)");
is($wrong, '', 'a small budget: no client saw an error or a wrong row');
if (!ok(wait_log($node, qr/a copy (?:has moved to|begins in) host memory/, $small), 'a small budget: the log says where the copy went'))
{
	my @lines = grep { !/statement:/ } split /\n/, slurp_file($node->logfile, $small);

	diag($_) for @lines > 40 ? @lines[-40 .. -1] : @lines;
	diag("$_: " . $node->safe_psql('postgres', "SELECT * FROM $_")) for qw(vectorgpu_worker vectorgpu_indexes);
}
is(count_restarts($node), 0, 'the server never restarted by itself');
done_testing();
