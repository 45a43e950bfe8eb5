# A worker in a memory cgroup that is too small for its copies: the kernel kills it repeatedly. Clients see no error and no
# wrong row, the server continues, and with more memory everything is loaded again.
# VECTORGPU_MEMORY_CGROUP names a cgroup with the children `inner`, which this test may limit, and `outer`, which it runs in;
# scripts/test makes it if it is allowed to.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $cgroup = $ENV{VECTORGPU_MEMORY_CGROUP};
plan skip_all => 'no memory cgroup that this user may change' if !defined $cgroup || !-w "$cgroup/inner/cgroup.procs";

my $unified = -e "$cgroup/inner/memory.max";
my ($limit_file, $usage_file, $kills_file, $no_limit) =
  $unified
  ? ('memory.max', 'memory.current', 'memory.events', 'max')
  : ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'memory.oom_control', '-1');

sub write_to
{
	my ($file, $text) = @_;

	open(my $handle, '>', "$cgroup/$file") or die "could not open $file: $!";
	print $handle $text;
	close($handle) or die "could not write $text to $file: $!";
	return;
}

sub limit_to { write_to("inner/$limit_file", $_[0]); return; }

sub kills
{
	my ($n) = slurp_file("$cgroup/inner/$kills_file") =~ /^oom_kill (\d+)/m;

	return $n // 0;
}

# Bytes that the kernel cannot take back: without the page cache.
sub used
{
	my $stat = slurp_file("$cgroup/inner/memory.stat");
	my $files = 0;

	$files += $1 while $stat =~ /^(?:in)?active_file (\d+)/mg;
	return slurp_file("$cgroup/inner/$usage_file") - $files;
}

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.worker_timeout = 60s\nvectorgpu.worker_memory = 1GB\nvectorgpu.worker = off\n");
my $worker = worker_file($node);

if (!-x $worker)
{
	$node->stop;
	plan skip_all => 'the worker is not installed';
}

# Every worker enters the limited cgroup before it begins.
my $program = $node->basedir . '/limited_worker';

append_to_file($program, "#!/bin/sh\necho \$\$ >'$cgroup/inner/cgroup.procs' || exit 1\nexec '$worker' \"\$@\"\n");
chmod 0755, $program;
$node->append_conf('postgresql.conf', "vectorgpu.worker_program = '$program'\nvectorgpu.worker = on\n");
$node->reload;
make_table($node, 't', dims => 64);
fill_vectors($node, 't', dims => 64, rows => 4000);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
for my $n (1 .. 4)
{
	# 16 MB each, cheap to make.
	$node->safe_psql('postgres', "CREATE TABLE big$n (id bigint, category int, v vector(1000)); "
		  . "INSERT INTO big$n SELECT i, 0, array_fill((hashint8(i * $n) % 1000) / 100.0, ARRAY[1000])::vector FROM generate_series(1, 4000) i; "
		  . "CREATE INDEX big${n}_v ON big$n USING gpuflat (v vector_l2_ops)");
}
my $pid = wait_worker($node);
like(slurp_file("/proc/$pid/cgroup"), qr/\/inner$/m, 'the worker is in the limited cgroup');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
my $before = note_resources($node);

for my $spare_mb (8, 24, 40)
{
	my $run = start_clients($node, clients => 8, seconds => 6);

	# Every client has its session, and a slot in the worker.
	ok(wait_until(sub { worker_stat($node, 'sessions') > 8 }), "$spare_mb MB to spare: clients are there");
	my $old = wait_worker($node);
	my $kills = kills();
	limit_to(used() + $spare_mb * 1024 * 1024);
	my @problems;

	for my $n (1 .. 4)
	{
		my ($state, $message) = psql_state($node, "SELECT vectorgpu_prewarm('big${n}_v')");
		# The worker died while it was loading, or is just starting.
		push @problems, "prewarm of big$n: $message" if $state !~ /^(?:00000|53200|08006)$/;
		($state, $message) = psql_state($node, 'SET enable_seqscan = off; SET enable_sort = off; '
			  . "SELECT id FROM big$n ORDER BY v <-> array_fill(3.3, ARRAY[1000])::vector LIMIT 10");
		push @problems, "scan of big$n: $message" if $state ne '00000';
	}
	my ($done, $wrong) = finish_clients($run);
	is($wrong, '', "$spare_mb MB to spare: no client error, no wrong row ($done transactions)");
	is("@problems", '', "$spare_mb MB to spare: loading was refused or interrupted, no scan was");
	cmp_ok(kills(), '>', $kills, "$spare_mb MB to spare: the kernel killed for want of memory");
	limit_to($no_limit);
	ok(wait_worker($node, not_pid => $old), "$spare_mb MB to spare: there is another worker");
	is(count_restarts($node), 0, "$spare_mb MB to spare: it was the worker that was killed");
}

# With memory again everything is loaded and right.
for my $n (1 .. 4)
{
	ok(wait_until(sub { (psql_state($node, "SELECT vectorgpu_prewarm('big${n}_v')"))[0] eq '00000' }), "big$n is loaded with room again");
	by_worker($node, "big$n", sub {
		compare_scans($node, "big$n", '<->', 'array_fill(3.3, ARRAY[1000])::vector', limit => 50, name => "big$n: scans agree");
	});
}
$node->safe_psql('postgres', "SELECT vectorgpu_evict('big${_}_v')") for 1 .. 4;
like(slurp_file($node->logfile), qr/vectorgpu worker .*ended by signal 9/, 'the log shows how the worker died');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|server process .* was terminated/, 'no process of the server was killed');
check_resources($node, $before);
check_stopped($node);
done_testing();
