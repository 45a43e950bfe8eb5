# A worker that gets no memory: its address space is limited while indexes are loaded into it and searched. It refuses and
# survives; scans are answered from the pages, by backends that may be short of memory themselves; with memory again it continues.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

plan skip_all => 'no prlimit' if system('command -v prlimit >/dev/null') != 0;
plan skip_all => 'under AddressSanitizer a process ends where its memory does' if under_asan();
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.worker_timeout = 60s\nvectorgpu.worker_memory = 1GB\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
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
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
my $before = note_resources($node);
my $big_scan = sub { return "SELECT id FROM big$_[0] ORDER BY v <-> array_fill(3.3, ARRAY[1000])::vector LIMIT 10" };

sub limit_to
{
	my ($limit) = @_;

	system('prlimit', "--pid=$pid", "--as=$limit:") == 0 or die 'prlimit failed';
	return;
}

# Prewarms these at the same time, each in a new session: one that gets no slot from the worker waits half a minute. Returns their messages.
sub prewarm_together
{
	my @children = map {
		my $file = PostgreSQL::Test::Utils::tempdir() . "/prewarm$_";

		[ $file, IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', "SELECT vectorgpu_prewarm('big${_}_v')" ],
			'<', \undef, '>', '/dev/null', '2>', $file) ];
	} @_;

	$_->[1]->finish for @children;
	return map { slurp_file($_->[0]) } @children;
}

# If the worker has no room for a background load, the load counts that for its index. The scans only count `loading`.
my $asking = $node->background_psql('postgres');
my $by_loader = q{SELECT coalesce(sum(fallbacks - (fallback_reasons->>'loading')::int8), 0) FROM vectorgpu_indexes WHERE index_name };
$asking->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.inline_load_size = 0; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1) LIMIT 1");
limit_to((slurp_file("/proc/$pid/status") =~ /VmSize:\s+(\d+)/)[0] * 1024);
my $of_others = $node->safe_psql('postgres', "$by_loader = 'i'");
ok(wait_until(sub {
	$asking->query_safe($big_scan->($_)) for 1 .. 4;
	return $node->safe_psql('postgres', "$by_loader LIKE 'big%'") > 0;
}), 'indexes that were to be loaded were refused');
is($node->safe_psql('postgres', "$by_loader = 'i'"), $of_others, 'and another was not');
limit_to('unlimited');
$asking->quit;
$node->psql('postgres', "SELECT vectorgpu_evict('big${_}_v')") for 1 .. 4;

for my $spare_mb (0, 4, 12, 40)
{
	my ($kb) = slurp_file("/proc/$pid/status") =~ /VmSize:\s+(\d+)/;
	limit_to(($kb + 1024 * $spare_mb) * 1024);
	my $run = start_clients($node, clients => 12, seconds => 4);
	my ($refused, @problems) = (0);

	for my $message (prewarm_together(1 .. 4))
	{
		$refused++ if $message =~ /ERROR:/;
		# out_of_memory; or unreachable, in a new session that got no slot.
		push @problems, "prewarm: $message" if $message =~ /ERROR:(?!  (?:53200|08006):)|FATAL|PANIC|server closed/;
	}
	for my $n (1 .. 4)
	{
		my ($state, $message) = psql_state($node, 'SET enable_seqscan = off; SET enable_sort = off; ' . $big_scan->($n));
		push @problems, "scan of big$n: $message" if $state ne '00000';
	}
	my ($done, $wrong) = finish_clients($run);
	is($wrong, '', "$spare_mb MB to spare: no client error, no wrong row ($done transactions)");
	is("@problems", '', "$spare_mb MB to spare: $refused of 4 indexes were refused, none of the scans");
	cmp_ok($refused, '>', 0, "$spare_mb MB to spare: it was too little") if $spare_mb < 12;
	limit_to('unlimited');
	is(wait_worker($node), $pid, "$spare_mb MB to spare: the worker lives");
	$node->psql('postgres', "SELECT vectorgpu_evict('big${_}_v')") for 1 .. 4;
}

# With memory again everything is loaded and right.
for my $n (1 .. 4)
{
	ok(wait_until(sub { (psql_state($node, "SELECT vectorgpu_prewarm('big${n}_v')"))[0] eq '00000' }), "big$n is loaded with room again");
	by_worker($node, "big$n", sub {
		compare_scans($node, "big$n", '<->', 'array_fill(3.3, ARRAY[1000])::vector', limit => 50, name => "big$n: scans agree");
	});
	ok(wait_until(sub { $node->safe_psql('postgres', "SELECT cache_rows_checked FROM vectorgpu_check('big${n}_v', false, true)") == 4000 }), "big$n: the copy equals the pages");
}
$node->safe_psql('postgres', "SELECT vectorgpu_evict('big${_}_v')") for 1 .. 4;

# A backend that is short of memory, beside a worker that is too. The limit that is too low depends on malloc, so it is searched for.
my ($worker_kb) = slurp_file("/proc/$pid/status") =~ /VmSize:\s+(\d+)/;
my $too_little = 0;
limit_to($worker_kb * 1024);
for my $spare_kb (0, 256, 1024, 4096)
{
	my $limited = $node->background_psql('postgres', on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my $backend = session_pid($limited);
	$limited->query_safe('SET enable_seqscan = off; SET enable_sort = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1) LIMIT 3');
	my ($kb) = slurp_file("/proc/$backend/status") =~ /VmSize:\s+(\d+)/;
	system('prlimit', "--pid=$backend", '--as=' . ($kb + $spare_kb) * 1024 . ':') == 0 or die 'prlimit failed';
	$limited->{stderr} = '';
	$limited->query($big_scan->($_)) for 1 .. 4;
	my $errors = () = $limited->{stderr} =~ /ERROR:  53200: out of memory/g;
	$too_little += $errors;
	unlike($limited->{stderr}, qr/ERROR:(?!  53200: out of memory)|terminated|server closed/, "a backend with $spare_kb kB to spare fails by 53200 ($errors of 4 scans)");
	system('prlimit', "--pid=$backend", '--as=unlimited:');
	$limited->{stderr} = '';
	is($limited->query_safe('SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1)) s'), 4000, 'its session continues');
	$limited->quit;
}
cmp_ok($too_little, '>', 0, "$too_little of 16 scans had too little memory");
limit_to('unlimited');

is(wait_worker($node), $pid, 'it is the same worker throughout');
is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $before);
check_stopped($node);
done_testing();
