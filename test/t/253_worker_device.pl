# vectorgpu.device and vectorgpu.gpu_memory: the device of the worker. A GPU that cannot be used is a line in the log and
# never an error: the CPU engine answers. No machine has 1,000 GPUs, so cuda:999 never exists.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main', conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 1\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');

# auto: the GPU if there is one, else the CPU
ok(wait_worker($node), 'a worker with the device auto');
my $resources = note_resources($node);
ok($node->poll_query_until('postgres', 'SELECT engine IS NOT NULL FROM vectorgpu_worker'), 'it names its engine');
my $auto = worker_stat($node, 'engine');
like($auto, qr/^(cpu|cuda)$/, "auto selects an available engine: $auto");
ok($auto eq 'cuda' || slurp_file($node->logfile) =~ /no GPU is used: .+; the CPU engine answers/,
	'where auto means the CPU, the log says why');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with the device auto');

# restart_with: sets a value, waits for the new worker.
sub restart_with
{
	my ($setting) = @_;
	my $old = worker_pid($node);
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', "$setting\n");
	$node->reload;
	ok(wait_worker($node, not_pid => $old), "$setting restarts the worker");
	return $offset;
}

# A scan that finds the worker slow gives up, and so does the view: they are asked again.
sub is_engine
{
	my ($engine, $name) = @_;

	return ok($node->poll_query_until('postgres', "SELECT engine = '$engine' FROM vectorgpu_worker"), $name);
}

my $offset = restart_with("vectorgpu.device = 'cpu'");
is_engine('cpu', 'the device cpu is the CPU engine');
ok($node->poll_query_until('postgres', "SELECT device = 'cpu' FROM vectorgpu_worker"), 'and the view names it');
unlike(slurp_file($node->logfile, $offset), qr/GPU \d+ is not used/, 'without a word about GPUs');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with the device cpu');

$offset = restart_with("vectorgpu.device = 'cuda:999'");
ok(wait_log($node, qr/GPU 999 is not used: .+; the CPU engine answers/, $offset), 'a GPU that is not there: a line in the log');
is_engine('cpu', 'and the CPU engine answers');
by_worker($node, 'scans without the GPU that was asked for', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree without the GPU that was asked for');
});

$offset = restart_with("vectorgpu.device = 'cuda:0'");
is_engine($auto, 'the device cuda:0 is what auto found');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with the device cuda:0');

# A budget that no copy fits: queries of the index are still answered.
restart_with('vectorgpu.gpu_memory = 1MB');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with little memory on the GPU');

# Wrong values are refused, and the running worker stays.
my $pid = worker_pid($node);
for my $wrong ('gpu', 'cuda0', 'cuda:', 'cuda:x', 'cuda:1234', 'cuda:-1', 'CPU', '')
{
	my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu';\nALTER SYSTEM SET vectorgpu.device = '$wrong'", on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	like($err, qr/22023: invalid value for parameter "vectorgpu.device".*DETAIL:  Valid values are/s, "\"$wrong\" is refused")
	  if $wrong ne '';
	like($err, qr/22023/, 'so is the empty value') if $wrong eq '';
}
is(worker_pid($node), $pid, 'the worker continues');
is(count_restarts($node), 0, 'the server never restarted by itself');
check_resources($node, $resources);
check_stopped($node);
done_testing();
