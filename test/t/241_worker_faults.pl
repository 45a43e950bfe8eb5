# The worker killed, crashing, stopped and silent under clients that check every answer: no client sees an error or a wrong
# row, no scan waits beyond the deadline, the server does not restart, nothing leaks.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuResources;
use VectorgpuCount;
use VectorgpuMatch;
use VectorgpuTest;
use VectorgpuWorker;

my $seconds = $ENV{VECTORGPU_LONG} ? 100 : 8;
my $deaths = $ENV{VECTORGPU_LONG} ? 50 : 4;
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 300ms\n"
	  . "shared_preload_libraries = 'vectorgpu'\nmax_connections = 60\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
create_values($node);
$node->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int, v ' . column_type(16) . ')');
fill_values($node, 't', dims => 16, rows => 3000);
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v $CLASS)");
make_answers($node, 20, undef, $OP);
watch_waits($node, $OP);
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 11\b/);
my $clients = 20;
my %number = (KILL => 9, SEGV => 11);
for my $signal (sort keys %number)
{
	my $log_start = -s $node->logfile;
	my $first = worker_stat($node, 'answered');
	my ($done, $killed_at, %killed, %busy, @wrong) = (0, $first);

	# Rounds until there were enough deaths: a busy machine starts few workers in one round.
	for my $round (1 .. 20)
	{
		my $run = start_clients($node, clients => $clients, seconds => $seconds, op => $OP);
		my $until = time() + $seconds - 1;

		while (time() < $until)
		{
			sleep 0.1 + rand 0.3;
			my ($pid, $answered) = split /\|/, $node->safe_psql('postgres', 'SELECT pid, answered FROM vectorgpu_worker');

			# A dead worker may still be in the view.
			next if $pid eq '' || $killed{$pid};
			# Of the answers since the last kill, at most one per client may come from the previous worker. A worker with more answers than that dies
			# under requests; one in three is killed as it is found, possibly while it starts or loads.
			my $is_busy = $answered - $killed_at >= 2 * $clients;

			next if !($is_busy || keys(%killed) % 3 == 2) || !kill $signal, $pid;
			$killed{$pid} = 1;
			$busy{$pid} = 1 if $is_busy;
			$killed_at = $answered;
		}
		my ($transactions, $wrong) = finish_clients($run);
		$done += $transactions;
		push @wrong, $wrong if $wrong ne '';
		last if keys %busy >= $deaths && $done > 100;
	}
	# The supervisor's log names workers that ended by it.
	my %ended;
	wait_until(sub {
		%ended = map { $_ => 1 } slurp_file($node->logfile, $log_start) =~ /vectorgpu worker \(PID (\d+)\) ended by signal $number{$signal}\b/g;
		return !grep { !$ended{$_} } keys %killed;
	});
	my $among = grep { $ended{$_} } keys %busy;
	my $answered = worker_stat($node, 'answered') - $first;
	is("@wrong", '', "no client error, no wrong row while the worker dies by SIG$signal");
	cmp_ok($done, '>', 100, "clients were answered ($done transactions)");
	cmp_ok($among, '>=', $deaths, "$among workers died by SIG$signal while they answered, of " . keys(%ended) . ' that died by it');
	cmp_ok($answered, '>=', 2 * $clients * $deaths, "workers answered in between ($answered scans)");
	ok(wait_worker($node), 'there is a worker again');
}

# Stopped (F3): scans under way wait once, for the deadline; later scans do not wait, neither in these sessions nor in new ones. The deadline is long
# enough for a wait to be measurable.
my $deadline = $ENV{VECTORGPU_LONG} ? 4 : 2;
my $stopped = $ENV{VECTORGPU_LONG} ? 60 : 5;    # seconds; after thirty deadlines it would be killed
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = ${deadline}s\n");
$node->reload;
my $log_start = -s $node->logfile;
my $pid = wait_worker($node);
my $answered = worker_stat($node, 'answered');
my $run = start_clients($node, clients => $clients, seconds => $stopped + 5, watched => 1);
ok(wait_until(sub { worker_stat($node, 'answered') > $answered + 20 * $clients }), 'the worker answers');
my $until = time() + $stopped;
kill 'STOP', $pid;
ok(wait_log($node, qr/does not answer/, $log_start), 'the supervisor notices a stopped worker');
soon($node, $deadline - 1, 'a new session is not held up by it', scan_sql($OP)) for 1 .. 2;
sleep 0.1 while time() < $until;
kill 'CONT', $pid;
my ($done, $wrong) = finish_clients($run);
is($wrong, '', "no client error, no wrong row while the worker is stopped for $stopped s, and when it continues with late replies");
my ($n_scans, $waits) = count_waits($node, $deadline);
cmp_ok($waits, '>', 0, 'clients were waiting for it');
# If each scan waited, these would be two and a half times as many; a few may take as long on a busy machine.
cmp_ok($waits, '<', 2 * $clients, "$waits of $n_scans scans did");
by_worker($node, 'when it goes on', sub { $node->safe_psql('postgres', scan_sql($OP)) });
is(worker_pid($node), $pid, 'the same worker answers again');

# Stopped repeatedly, for longer than the deadline.
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 300ms\n");
$node->reload;
$seconds = 4 if !$ENV{VECTORGPU_LONG};
$run = start_clients($node, clients => $clients, seconds => $seconds, op => $OP);
$until = time() + $seconds - 1;
my $stops = 0;
for (; $stops < 3 || time() < $until; $stops++)
{
	sleep 0.4;
	kill 'STOP', $pid;
	sleep 0.4;
	kill 'CONT', $pid;
}
($done, $wrong) = finish_clients($run);
is($wrong, '', "no client error, no wrong row while the worker is stopped and continued, $stops times");
is(wait_worker($node), $pid, 'the same worker answers again');

# statement_timeout is honoured while a backend waits for a stopped worker, and its next answer is its own.
my $setup = 'SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker_timeout = 10000;';
my $nearest = sub {
	my ($q, $limit) = @_;
	return "SELECT ARRAY(SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = $q) LIMIT $limit)";
};
my $right = sub { return "\\unset is_right\n" . $nearest->($_[0], 10) . " = (SELECT ids FROM answers WHERE q = $_[0]) AS is_right \\gset\n\\echo answer :is_right\n"; };
# The timeout also applies to the statement that resets it: on a busy machine SET itself may be cancelled.
my $calm = "SET statement_timeout = 0;\n" x 8;
my $check = "$setup SET vectorgpu.worker_timeout = '10min';\n" . $nearest->(1, 5) . ";\n\\! kill -STOP $pid\nSET statement_timeout = 200;\n"
  . $nearest->(2, 5) . ";\n\\! kill -CONT $pid\n$calm" . $right->(3);
# The supervisor would mark a silent worker, and no scan would wait for it.
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = '10min'\n");
$node->reload;
my ($rc, $out, $err, $waited);
my $tries = 0;
do
{
	by_worker($node, 'scans turn to it', sub { $node->safe_psql('postgres', scan_sql($OP)) });
	my $before = $node->safe_psql('postgres', 'SELECT fallbacks FROM vectorgpu_worker');
	($rc, $out, $err) = $node->psql('postgres', $check, on_error_stop => 0);
	$waited = $node->safe_psql('postgres', 'SELECT fallbacks FROM vectorgpu_worker') == $before;
	# On a busy machine it may answer between the signal and its effect.
} until ($waited && $err ne '') || $tries++ > 20;
ok($waited, 'a scan waits for a stopped worker');
like($err, qr/canceling statement due to statement timeout/, 'statement_timeout ends it, ten minutes before worker_timeout');
like($out, qr/^answer t$/m, 'and the next answer is right');
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 300ms\n");
$node->reload;

# A storm of cancelled queries: a late answer is never taken for that of the next query.
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

# The sessions of vanished clients (F37) are closed: one with an open cursor, whose backend is terminated; one during a statement whose scans the worker
# answers one after the other; one that waits for a stopped worker.
# Sessions of earlier clients are closed with a delay: those of the supervisor and of the asking process remain.
my $sessions = 2;
ok(wait_until(sub { (worker_stat($node, 'sessions') // 0) == $sessions }), 'earlier sessions are closed');

# A session that the worker knows, and its backend.
sub session_of_its_own
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe('SET enable_seqscan = off; SET enable_sort = off');
	ok(wait_until(sub {
		$session->query_safe("SELECT count(*) FROM (SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = 2) LIMIT 3) s");
		return $node->safe_psql('postgres', "SELECT sessions > $sessions FROM vectorgpu_worker") eq 't';
	}), 'a session of its own');
	return ($session, $session->query_safe('SELECT pg_backend_pid()'));
}

# Starts a statement in a session and does not wait for it.
sub begin
{
	my ($session, $sql) = @_;

	$session->{stdin} .= "$sql;\n";
	$session->{run}->pump_nb;
	return;
}

my ($vanishing, $backend) = session_of_its_own();
$vanishing->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = 1); FETCH 1 FROM c; MOVE 1 FROM c");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($backend)");
ok($node->poll_query_until('postgres', "SELECT sessions <= $sessions FROM vectorgpu_worker"), 'is closed with its backend');

$pid = wait_worker($node);
for my $way ('scans', 'waits')
{
	my ($session, $process) = session_of_its_own();
	my $state = "FROM pg_stat_activity WHERE pid = $process AND state = 'active' AND query LIKE '%generate_series%'";

	$session->query_safe("SET client_connection_check_interval = '100ms'; SET vectorgpu.worker_timeout = '10min'");
	if ($way eq 'waits')
	{
		$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = '10min'\n"); # nor does the supervisor call it silent
		$node->reload;
		by_worker($node, 'before it stops', sub { $node->safe_psql('postgres', scan_sql($OP)) });
	}
	my $before = worker_stat($node, 'answered');
	# An hour of scans. The view shows a session's scans as they end.
	begin($session, "SELECT count(*) FROM generate_series(1, 10000000) g, LATERAL (SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = 1 + g % 20) LIMIT 10) s");
	ok(wait_until(sub { worker_stat($node, 'answered') > $before + 100 }), "a client $way: the worker answers one scan after the other");
	kill 'STOP', $pid if $way eq 'waits';
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 $state" . ($way eq 'waits' ? " AND wait_event_type = 'Extension'" : '')), "a client $way: in the middle of a statement");
	$session->{run}->signal('KILL');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $process"), "a client $way: its backend ends with it" . ($way eq 'waits' ? ', and waits no longer for the worker' : ''));
	kill 'CONT', $pid;
	ok($node->poll_query_until('postgres', "SELECT sessions <= $sessions FROM vectorgpu_worker"), "a client $way: and its session at the worker");
	eval { $session->{run}->finish };
}
is(worker_pid($node), $pid, 'the worker lives');
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 300ms\n");
$node->reload;

# No descriptors (F20): the worker's limit is the number that it has open and some for two more sessions. Further clients are refused, which they do not notice;
# the worker survives, and answers again when they are gone.
$pid = wait_worker($node);
SKIP:
{
	skip 'no prlimit', 5 if system('command -v prlimit >/dev/null') != 0;
	my $refused = sub { return $node->safe_psql('postgres', "SELECT (fallback_reasons->>'unreachable')::int FROM vectorgpu_worker") };
	my $open = () = glob("/proc/$pid/fd/*");
	my $before = $refused->();
	my $most = $open + 10;

	system('prlimit', "--pid=$pid", "--nofile=$most:") == 0 or die 'prlimit failed';
	($done, $wrong) = finish_clients(start_clients($node, clients => $clients, seconds => 3, op => $OP));
	is($wrong, '', "no client error, no wrong row while the worker is out of descriptors ($done transactions)");
	cmp_ok($refused->(), '>', $before, 'sessions were refused');
	by_worker($node, 'with descriptors for few sessions', sub { $node->safe_psql('postgres', scan_sql($OP)) });
	system('prlimit', "--pid=$pid", '--nofile=1024:') == 0 or die 'prlimit failed';
	($done, $wrong) = finish_clients(start_clients($node, clients => $clients, seconds => 1, op => $OP));
	is($wrong, '', 'nor afterwards');
	is(worker_pid($node), $pid, 'the same worker has gone through it');
}

is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_index($node, 'i');
ok(wait_until(sub {
	$node->safe_psql('postgres', scan_sql($OP)); # it brings the copy
	return $node->safe_psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('i', true, true)") eq 't';
}),
	'the worker\'s copy equals the pages');
check_resources($node, $resources);
check_stopped($node);
done_testing();
