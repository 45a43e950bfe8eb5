# The worker killed, crashing, stopped and silent under clients that check every answer: no client sees an error or a wrong
# row, nobody waits beyond the deadline, the server does not restart, nothing leaks.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuResources;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $seconds = $ENV{VECTORGPU_LONG} ? 100 : 8;
my $deaths = $ENV{VECTORGPU_LONG} ? 50 : 4;
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 300ms\n"
	  . "shared_preload_libraries = 'vectorgpu'\nmax_connections = 60\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
make_table($node, 't', dims => 16);
fill_vectors($node, 't', dims => 16, rows => 3000);
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v vector_l2_ops)");
make_answers($node, 20);
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 11\b/);
for my $signal (qw(KILL SEGV))
{
	my ($kills, $done, @wrong) = (0, 0);

	# Rounds, until there were deaths enough: a busy machine starts few workers in one.
	for my $round (1 .. 10)
	{
		my $run = start_clients($node, clients => 20, seconds => $seconds);
		my $until = time() + $seconds - 1;

		while (time() < $until)
		{
			my $pid = worker_pid($node);

			$kills += kill $signal, $pid if defined $pid;
			sleep 0.4;
		}
		my ($transactions, $wrong) = finish_clients($run);
		$done += $transactions;
		push @wrong, $wrong if $wrong ne '';
		last if $kills >= $deaths && $done > 100;
	}
	is("@wrong", '', "no client error, no wrong row while the worker dies by SIG$signal");
	cmp_ok($done, '>', 100, "clients were answered ($done transactions, $kills kills)");
	cmp_ok($kills, '>=', $deaths, "the worker died $deaths times");
	ok(wait_worker($node), 'there is a worker again');
}

# Stopped: each client waits once, at most for the deadline; later ones do not wait at all.
my $log_start = -s $node->logfile;
my $pid = wait_worker($node);
my $run = start_clients($node, clients => 20, seconds => $seconds);
my $until = time() + $seconds - 1;
sleep 1;
kill 'STOP', $pid;
ok(wait_log($node, qr/does not answer/, $log_start), 'the supervisor notices a stopped worker');
soon($node, 2, 'a new session is not held up by it', scan_sql());
sleep 1;
kill 'CONT', $pid;
my $stops = 1;
for (; $stops < 3 || time() < $until; $stops++)
{
	sleep 0.4;
	kill 'STOP', $pid;
	sleep 0.4;
	kill 'CONT', $pid;
}
my ($done, $wrong) = finish_clients($run);
is($wrong, '', "no client error, no wrong row while the worker is stopped and goes on, $stops times");
is(wait_worker($node), $pid, 'the same worker answers again');

# statement_timeout is honoured while a backend waits for a stopped worker, and its next answer is its own.
my $setup = 'SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker_timeout = 10000;';
my $nearest = sub {
	my ($q, $limit) = @_;
	return "SELECT ARRAY(SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = $q) LIMIT $limit)";
};
my $right = sub { return "\\unset is_right\n" . $nearest->($_[0], 10) . " = (SELECT ids FROM answers WHERE q = $_[0]) AS is_right \\gset\n\\echo answer :is_right\n"; };
# The timeout holds for the statement that ends it too: on a busy machine one SET may be cancelled itself.
my $calm = "SET statement_timeout = 0;\n" x 8;
my $check = "$setup SET vectorgpu.worker_timeout = '10min';\n" . $nearest->(1, 5) . ";\n\\! kill -STOP $pid\nSET statement_timeout = 200;\n"
  . $nearest->(2, 5) . ";\n\\! kill -CONT $pid\n$calm" . $right->(3);
# The supervisor would pass over a worker that is silent, and no scan would wait for it.
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = '10min'\n");
$node->reload;
my ($rc, $out, $err, $waits);
my $tries = 0;
do
{
	wait_worker($node);
	my $before = $node->safe_psql('postgres', 'SELECT fallbacks FROM vectorgpu_worker');
	($rc, $out, $err) = $node->psql('postgres', $check, on_error_stop => 0);
	$waits = $node->safe_psql('postgres', 'SELECT fallbacks FROM vectorgpu_worker') == $before;
	# On a busy machine it may answer between the signal and its effect.
} until ($waits && $err ne '') || $tries++ > 20;
ok($waits, 'a scan waits for a stopped worker');
like($err, qr/canceling statement due to statement timeout/, 'statement_timeout ends it, ten minutes before worker_timeout');
like($out, qr/^answer t$/m, 'and the next answer is right');
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 300ms\n");
$node->reload;

# A storm of cancelled queries: the late answer of one is never taken for the next one's.
ok(wait_worker($node), 'the worker is ready');
my $storm = $setup;
for my $i (1 .. 300)
{
	my $q = 1 + $i % 20;

	$storm .= "SET statement_timeout = '1ms';\n" . $nearest->($q, 3000) . " IS NULL;\n" . $calm . $right->($q);
}
($rc, $out, $err) = $node->psql('postgres', $storm, on_error_stop => 0);
my $cancelled = () = $err =~ /canceling statement/g;
my $n_right = () = $out =~ /^answer t$/mg;
my $n_wrong = () = $out =~ /^answer f$/mg;
cmp_ok($cancelled, '>', 10, "queries were cancelled ($cancelled of 300)");
is($n_wrong, 0, 'and no query after them was answered wrongly');
is($n_right, 300, 'each of them was answered');

# A client that vanishes in the middle leaves its session to be closed.
# Those of the clients before are closed when the worker comes to it: the supervisor's is left, and that of the process that asks.
my $sessions = 2;
ok(wait_until(sub { (worker_stat($node, 'sessions') // 0) == $sessions }), 'earlier sessions are closed');
my $vanishing = $node->background_psql('postgres');
$vanishing->query_safe('SET enable_seqscan = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1); FETCH 1 FROM c');
ok(wait_until(sub {
	$vanishing->query_safe('MOVE 1 FROM c; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 2) LIMIT 3) s');
	return $node->safe_psql('postgres', "SELECT sessions > $sessions FROM vectorgpu_worker") eq 't';
}), 'a session of its own');
my $backend = $vanishing->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($backend)");
ok($node->poll_query_until('postgres', "SELECT sessions <= $sessions FROM vectorgpu_worker"), 'is closed with its backend');

# No memory, no descriptors: refused, never an error.
$pid = wait_worker($node);
SKIP:
{
	skip 'no prlimit', 2 if system('command -v prlimit >/dev/null') != 0;
	system('prlimit', "--pid=$pid", '--nofile=24:24') == 0 or die 'prlimit failed';
	($done, $wrong) = finish_clients(start_clients($node, clients => 20, seconds => 3));
	is($wrong, '', 'no client error while the worker is out of descriptors');
	kill 'KILL', $pid;
	ok(wait_worker($node, not_pid => $pid), 'a fresh worker');
}

is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_index($node, 'i');
ok(wait_until(sub {
	$node->safe_psql('postgres', scan_sql()); # it brings the copy
	return $node->safe_psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('i', true, true)") eq 't';
}),
	'the worker\'s copy equals the pages');
check_resources($node, $resources);
check_stopped($node);
done_testing();
