# Another process takes the GPU's memory, while clients check every answer: none sees an error or a wrong row, the worker lives or
# comes back, and copies that had no room find it when the other process has ended. It takes the memory from everybody else on
# this GPU as well, so nothing may run beside it; run by test/gpu/run.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

# Takes all the memory that is left, to the last MB, by the driver's interface; says so, and waits for its input to end.
my $neighbour = <<'END';
import ctypes, sys

cuda = ctypes.CDLL("libcuda.so.1")
def check(status):
    if status != 0:
        sys.exit("CUDA error %d" % status)
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
size, taken = 1 << 40, 0
while size >= 1 << 20:
    if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0:
        taken += size
    else:
        size >>= 1
print("taken", taken >> 20, "MB", flush=True)
sys.stdin.read()
END

sub start_neighbour
{
	my %run = (in => '', out => '', err => '');

	$run{harness} = IPC::Run::start([ 'python3', '-c', $neighbour ], '<', \$run{in}, '>', \$run{out}, '2>', \$run{err});
	$run{harness}->pump_nb;
	ok(wait_until(sub { $run{harness}->pump_nb; return $run{out} =~ /taken (\d+) MB/ && $1 > 0; }),
		'another process has taken the memory')
	  or diag($run{err});
	diag($run{out});
	return \%run;
}

sub end_neighbour
{
	my ($run) = @_;

	$run->{harness}->kill_kill;
}

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "max_connections = 60\n");

make_table($node, 't', dims => 32);
fill_vectors($node, 't', dims => 32, rows => 40000);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
ok(wait_worker($node), 'a worker');
ok($node->poll_query_until('postgres', "SELECT engine = 'cuda' FROM vectorgpu_worker"), 'it computes on the GPU');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");

# Killed while it computes, time and again: the driver takes back what it had (G7).
sub used_mb { return (split /\n/, `nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --id=0`)[0]; }
my $used = used_mb();

cmp_ok($used, '>', 0, "the GPU's memory in use can be asked for: $used MB");
for my $round (1 .. 5)
{
	my $pid = worker_pid($node);
	my $clients = start_clients($node, clients => 16, seconds => 2);

	sleep 1;
	kill 'KILL', $pid;
	my ($done, $wrong) = finish_clients($clients);
	is($wrong, '', "killed while it computes, round $round: no client saw an error or a wrong row");
	ok(wait_worker($node, not_pid => $pid), "killed while it computes, round $round: another takes over");
}
ok($node->poll_query_until('postgres', "SELECT engine = 'cuda' FROM vectorgpu_worker"), 'killed while it computes: it has the GPU');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
my $now;
ok(wait_until(sub { ($now = used_mb()) <= $used + 64 }), 'killed while it computes: no memory is left in use')
  or diag("$now MB instead of $used");

# While a copy is there already, and others come.
my $offset = -s $node->logfile;
my $run = start_clients($node, clients => 16, seconds => 15);
my $other = start_neighbour();

for my $n (1 .. 4)
{
	make_table($node, "u$n", dims => 64);
	fill_vectors($node, "u$n", dims => 64, rows => 40000);
	$node->safe_psql('postgres', "CREATE INDEX ui$n ON u$n USING gpuflat (v vector_l2_ops)");
	compare_sweep($node, "u$n", '<->', dims => 64, queries => 2, limits => [ 1, 10, 100 ]);
}
my ($done, $wrong) = finish_clients($run);

cmp_ok($done, '>', 0, "no room for new copies: clients were served ($done)");
is($wrong, '', 'no room for new copies: no client saw an error or a wrong row');

# A worker that begins then.
kill 'KILL', worker_pid($node);
$run = start_clients($node, clients => 16, seconds => 10);
($done, $wrong) = finish_clients($run);
cmp_ok($done, '>', 0, "a worker that begins without room: clients were served ($done)");
is($wrong, '', 'a worker that begins without room: no client saw an error or a wrong row');
diag('it computes by ' . ($node->safe_psql('postgres', 'SELECT engine, device FROM vectorgpu_worker') || 'nothing'));

# With room again, the next worker has the GPU.
end_neighbour($other);
$node->restart;
ok(wait_worker($node), 'the memory is free again: a worker');
ok($node->poll_query_until('postgres', "SELECT engine = 'cuda' FROM vectorgpu_worker"), 'it computes on the GPU');
$run = start_clients($node, clients => 16, seconds => 3);
($done, $wrong) = finish_clients($run);
is($wrong, '', 'the memory is free again: no client saw an error or a wrong row');
my $log = slurp_file($node->logfile, $offset);

diag($_) for grep { /host memory|GPU|no GPU|engine/ } split /\n/, $log;
is(count_restarts($node), 0, 'the server never restarted by itself');
done_testing();
