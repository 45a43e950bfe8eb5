# Limits of the session: storms of timeouts and cancels with known answers, and how soon they act (F36), a client that disconnects during a scan
# (F37), no memory left in the backend (F19), cancelled maintenance.
# VECTORGPU_LONG: 10,000 statements of each storm, and cancels of large builds, scans, merges and others at many moments.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes qw(sleep time);
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuMatch;
use VectorgpuWorker;

my $node = make_node('limits', conf => "fsync = off\n");
my $long = $ENV{VECTORGPU_LONG} || $AM eq 'gpuflat';    # else fewer of each: what the access methods share is the same
my $rows = $long ? 10_000 : 2_500;
my %of_table = (dims => 64, op => $OP, type => $CAST);
create_values($node);
$node->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(64) . ')');
fill_values($node, 't', dims => 64, rows => $rows * 0.8);
$node->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v $CLASS)");
fill_values($node, 't', dims => 64, rows => $rows * 0.2, first => $rows * 0.8 + 1);

# The order of rows for a query number, in SQL.
sub by_query { my ($number) = @_; return "v $OP test_vector($number, 64)::$CAST"; }

# F36. Searches of few lists, or along edges, return the same as without a timeout.
my $narrow = 'SET gpuivf.probes = 2; SET gpugraph.search_width = 16;';
my $index_only = 'SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker_min_size = 0; SET vectorgpu.worker_timeout = \'60s\';';
my $has_worker = -x worker_file($node) && ($ENV{VECTORGPU_WORKER} // '') ne 'off';
my $stays = $has_worker && ($ENV{VECTORGPU_WORKER} // '') ne 'flapping';

# The known answers of queries 1 to 20: their 10 nearest rows.
sub known_answers
{
	my ($settings, $ties) = @_;

	return { map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		"$settings SELECT q, (SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY " . by_query('q') . "$ties LIMIT 10) s) FROM generate_series(1, 20) q") };
}

# A query's number and its first 10 rows; several in one statement.
sub question
{
	my ($q, $limit) = @_;

	return join(' UNION ALL ',
		map { "SELECT 'answer $_ ' || array_to_string((array_agg(id))[1:10], ',') FROM (SELECT id FROM t ORDER BY " . by_query($_) . ' LIMIT ' . ($limit // 10) . ') s' } ref $q ? @$q : $q) . ";\n";
}

# From a psql script's output: the number of answers, and the wrong ones.
sub judge
{
	my ($out, $known) = @_;
	my ($n, @wrong) = (0);

	while ($out =~ /^answer (\d+) (.*)$/mg)
	{
		$n++;
		push @wrong, "query $1: $2" if $2 ne $known->{$1};
	}
	count('answers', $n);
	count('wrong', scalar @wrong);
	return ($n, @wrong);
}

# The timeout also applies to the statement that resets it, which on a busy machine may be cancelled itself.
my $calm_line = "SET statement_timeout = 0;\n";
my $calm = $calm_line x 8;

# The milliseconds for which this session and its psql have waited for a CPU, in SQL: see waited.
my $waited_ms = q{(SELECT sum(split_part(pg_read_file(file), ' ', 2)::float8) / 1e6 FROM unnest(ARRAY['/proc/self/schedstat', :'schedstat']) file)};

# Three tests: a number of statements, each with a timeout of a few ms, and after each a query without one. An answer of the first is right, and the
# second always answers. 99 in a hundred of the cancelled statements end within 100 ms of their timeout (all but one if they are fewer), less the
# time that session and psql waited for a CPU. They may have waited before the timeout, so the difference may be negative.
#   setting    the timeout
#   statement  function of a try: the SQL to be cancelled
#   answers    its answers if it is not cancelled
#   error      its error if it is
#   always     1: it is always cancelled
sub timeout_storm
{
	my ($name, $settings, $known, $n, %opt) = @_;
	my ($answers, $cancelled, $stray, @wrong, @took) = (0, 0, 0);

	for (my $first = 0; $first < $n; $first += 500)
	{
		my $last = $first + 500 < $n ? $first + 500 : $n;
		my $script = "$index_only $settings\n\\set schedstat /proc/ `echo \$PPID` /schedstat\n";

		for my $try ($first + 1 .. $last)
		{
			my $ms = 1 + $try % 7;

			$script .= "SELECT $waited_ms AS waited, clock_timestamp() AS began \\gset\nSET $opt{setting} = '${ms}ms';\n" . $opt{statement}->($try) . "\\set cut :ERROR\n$calm"
			  . "SELECT 'took ' || extract(epoch FROM clock_timestamp() - :'began') * 1000 - $ms - ($waited_ms - :waited) || ' ' || :'cut';\n" . question(1 + ($try + 7) % 20);
		}
		my ($rc, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0);
		my ($n_answers, @are_wrong) = judge($out, $known);

		push @wrong, @are_wrong;
		$answers += $n_answers;
		$cancelled += () = $err =~ /ERROR: +canceling statement due to $opt{error}/g;
		my @lines = split /\n/, $script;
		# A timeout at the end of its statement cancels the next one without a reason if that sets the timer again: PostgreSQL's behaviour.
		my @others = grep { /ERROR:/ && !/canceling statement due to $opt{error}/ } split /\n/, $err;
		my $n_others = @others;
		@others = grep { !(/:(\d+): ERROR: +canceling statement due to user request/ && "$lines[ $1 - 1 ]\n" eq $calm_line) } @others;
		$stray += $n_others - @others;
		push @wrong, splice @others, 0, 5;
		my @cut = $out =~ /^took (-?[\d.]+(?:e-\d+)?) true$/mg;
		my $expected = $last - $first + $opt{answers} * ($last - $first - @cut);
		push @wrong, "$n_answers answers instead of $expected" if $n_answers != $expected;
		push @took, @cut;
	}
	push @wrong, "$stray of $n timeouts came to the statement after theirs" if $stray > 1 + $n / 100;
	@took = sort { $a <=> $b } @took;
	my $late = @took ? $took[ 0.99 * $#took ] : 1e9;
	splice @wrong, 10 if @wrong > 10;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", @wrong), '', "$name: $answers answers, all right; $cancelled of $n statements cut off");
	if   ($opt{always}) { is($cancelled, $n, "$name: each is cut off"); }
	else                { cmp_ok(scalar @took, '>', $n / 50, "$name: statements are cut off"); }
	cmp_ok($late, '<', 100, sprintf('%s: at once (half of them after %.1f ms, 99 %% after %.1f, the last after %.0f)', $name, $took[ $#took / 2 ] // 0, $late, $took[-1] // 0));
	return;
}

# Two tests: another session cancels this one's statements every few ms, a number of times.
sub cancel_storm
{
	my ($name, $settings, $known, $n) = @_;
	my ($answers, $cancelled, @wrong) = (0, 0);
	my $canceller = start_load($node, { cancel => "\\set us random(500, 9000)\n\\sleep :us us\nSELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'storm' AND state = 'active';\n" },
		clients => 1, seconds => 3600);

	for (my $round = 0; $cancelled < $n && $round < $n; $round++)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "$index_only $settings\nSET application_name = 'storm';\n" . join('', map { question(1 + $_ % 20, $_ % 3 ? 10 : $rows * 0.9) } 1 .. 500),
			on_error_stop => 0);
		my ($n_answers, @are_wrong) = judge($out, $known);

		$answers += $n_answers;
		$cancelled += () = $err =~ /ERROR: +canceling statement due to user request/g;
		push @wrong, @are_wrong, grep { /ERROR:/ && !/canceling statement due to user request/ } split /\n/, $err;
		push @wrong, "the session ended: $err" if $rc != 0;
	}
	$canceller->{harness}->kill_kill(grace => 0);
	splice @wrong, 10 if @wrong > 10;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", @wrong), '', "$name: $answers answers, all right");
	cmp_ok($cancelled, '>=', $n, "$name: $cancelled statements cancelled");
	return;
}

# Runs CODE while the worker is stopped and continued every few ms: scans wait for it, and its answers to cancelled scans come late.
sub with_a_slow_worker
{
	my ($code) = @_;
	my $worker = wait_worker($node);
	my $child = fork // die "fork: $!";

	if ($child == 0)
	{
		# Without END blocks.
		for (;;) { kill 'STOP', $worker; sleep 0.012; kill 'CONT', $worker or POSIX::_exit(0); sleep 0.006; }
	}
	my $answered = worker_stat($node, 'answered');
	my $done = eval { $code->(); 1 };
	my $error = $@;
	kill 'KILL', $child;
	waitpid $child, 0;
	kill 'CONT', $worker;
	die $error if !$done;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_until(sub { worker_stat($node, 'answered') > $answered }), 'the worker has answered meanwhile');
	return;
}

# Seconds that a process has waited for a CPU.
sub waited
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/schedstat") =~ /^\d+ (\d+)/ ? $1 / 1e9 : 0;
}

# Starts a statement, and cancels it when CODE returns. Returns the seconds from the cancel to the session's next statement, less those that its process
# waited for a CPU; undef if it ended before.
sub cancel_takes
{
	my ($session, $other, $sql, $code) = @_;
	$session->{stderr} = '';
	my $pid = session_pid($session);

	$session->{stdin} .= "$sql;\nSELECT 'over ' || extract(epoch FROM clock_timestamp());\n";
	$session->{run}->pump_nb;
	$code->($pid);
	my $before = waited($pid);
	my ($sent) = $other->query("SELECT extract(epoch FROM clock_timestamp()), pg_cancel_backend($pid)") =~ /^([\d.]+)\|t/ or die 'not cancelled';
	my $out = $session->query(q{SELECT 'end'});
	# It came when the statement was done, and cancelled the one that reads the time.
	return undef if $out =~ /^end$/m && $out !~ /^over/m && $session->{stderr} =~ /canceling statement due to user request/;
	my ($over) = $out =~ /^over ([\d.]+)/m or die "the session does not go on: $session->{stderr}";
	my $took = $over - $sent - (waited($pid) - $before);

	return $session->{stderr} =~ /canceling statement due to user request/ ? $took : undef;
}

# One test: a statement obeys a cancel within 100 ms: at each of some moments of its duration at least one of several tries does. Other load of the machine
# delays a try; a part of a statement that does not check for interrupts delays each. Returns the number of moments at which it was cancelled before its end.
#   moments  shares of the duration
#   seconds  its duration; default: that of the first run
#   prepare  SQL before each try
#   session  settings
sub heeds_cancel
{
	my ($name, $sql, %opt) = @_;
	my ($session, $other) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
	my ($n, $slowest, @late) = (0, 0);
	my $prepare = sub { $session->query($opt{prepare}) if defined $opt{prepare} };

	$sql = with_storage($sql);
	$session->query_safe("SET client_min_messages = warning; $index_only " . ($opt{session} // ''));
	$other->query_safe('SELECT 1');
	my $duration = $opt{seconds};
	if (!defined $duration)
	{
		$prepare->();
		my $start = time;
		$session->query($sql);
		$duration = time - $start;
		$session->query($opt{after}) if defined $opt{after};
	}
	for my $moment (@{ $opt{moments} })
	{
		my $best;

		for (1 .. 8)
		{
			$prepare->();
			my $took = cancel_takes($session, $other, $sql, sub { sleep $moment * $duration });

			$session->query($opt{after}) if defined $opt{after};
			next if !defined $took;
			$best = $took if !defined $best || $took < $best;
			last if $best < 0.1;
		}
		next if !defined $best;
		$n++;
		$slowest = $best if $best > $slowest;
		push @late, sprintf('at %.0f %% of %.2f s: %.0f ms', $moment * 100, $duration, $best * 1000) if $best >= 0.1;
	}
	$_->quit for $session, $other;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join('; ', @late), '', sprintf('%s: a cancel is heeded within 100 ms (at %d moments of %.2f s, slowest %.0f ms)', $name, $n, $duration, $slowest * 1000));
	return $n;
}

my %known = (all => known_answers('SET enable_indexscan = off;', ', ctid'));
is(scalar keys %{ $known{all} }, 20, 'answers are known');
my $n_storm = $ENV{VECTORGPU_LONG} ? 10_000 : $AM eq 'gpuflat' ? 200 : 60;
my $n_cut = of_match() ? 1 : 4;    # as many searches as take a few ms
my $cut = sub { my ($try) = @_; return question([ map { 1 + ($try + $_) % 20 } 1 .. $n_cut ], $try % 2 ? 10 : $rows * 0.9) };
my $settings = 'SET vectorgpu.worker = off;';
timeout_storm('statement_timeout, from the pages', $settings, $known{all}, $n_storm, setting => 'statement_timeout', error => 'statement timeout', statement => $cut, answers => $n_cut);
cancel_storm('pg_cancel_backend, from the pages', $settings, $known{all}, $n_storm);
if ($AM =~ /ivf|graph/)
{
	$known{few} = known_answers("$index_only $narrow $settings", '');
	timeout_storm('statement_timeout, few rows', "$narrow $settings", $known{few}, $n_storm / 2, setting => 'statement_timeout', error => 'statement timeout',
		statement => sub { my ($try) = @_; return question([ map { 1 + ($try + $_) % 20 } 1 .. 8 ]) }, answers => 8);
}
# Statements that wait for a lock of another session.
{
	my $holder = $node->background_psql('postgres');
	my @waiting = ("SELECT vectorgpu_merge('t_v')", 'REINDEX INDEX t_v', 'VACUUM t');

	$holder->query_safe('BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE');
	timeout_storm('lock_timeout', $settings, $known{all}, $n_storm, setting => 'lock_timeout', error => 'lock timeout', always => 1, answers => 0, statement => sub { "$waiting[ $_[0] % 3 ];\n" });
	$holder->query_safe('COMMIT'); # and its timer begins anew
	$holder->quit;
}
SKIP:
{
	skip 'no worker that stays', 1 if !$stays;
	$node->safe_psql('postgres', "LOAD 'vectorgpu'; ALTER SYSTEM SET vectorgpu.worker_timeout = '60s'; SELECT pg_reload_conf()");
	$node->safe_psql('postgres', "$index_only " . question(1));
	my $pid = wait_worker($node);
	ok($pid, 'there is a worker');

	with_a_slow_worker(sub { timeout_storm('statement_timeout, by the worker', '', $known{all}, $n_storm, setting => 'statement_timeout', error => 'statement timeout', statement => $cut, answers => $n_cut) });
	with_a_slow_worker(sub { cancel_storm('pg_cancel_backend, by the worker', '', $known{all}, $n_storm) });

	# A scan that waits for a worker that does not answer.
	my ($session, $other) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
	my ($best, @problems);

	$session->query_safe("$index_only " . question(1));
	for (1 .. 5)
	{
		my $waits;

		kill 'STOP', $pid;
		my $took = cancel_takes($session, $other, question(2),
			sub { my ($backend) = @_; $waits = wait_until(sub { $other->query("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $backend") eq 't' }, 5) });
		kill 'CONT', $pid;
		my ($n, @wrong) = judge(scalar $session->query(question(3)), $known{all});
		push @problems, "$n answers, @wrong" if $n != 1 || @wrong;
		$best = $took if $waits && defined $took && (!defined $best || $took < $best);
		last if defined $best && $best < 0.1;
	}
	is(join('; ', @problems), '', 'after a cancel of a scan that waits for a stopped worker the next answer is right');
	cmp_ok($best // 60, '<', 0.1, sprintf('the cancel is heeded within 100 ms (%.0f)', 1000 * ($best // 60)));
	$_->quit for $session, $other;
	$node->safe_psql('postgres', q{LOAD 'vectorgpu'; ALTER SYSTEM RESET vectorgpu.worker_timeout; SELECT pg_reload_conf()});
}

# Long statements: in the suite slow builds of a small table.
my $other_class = of_match() ? 'array_minhash_ops' : 'vector_ip_ops';
my %build = (sql => "CREATE INDEX t_x ON t USING $AM (v $other_class)" . ($AM eq 'gpugraph' ? ' WITH (degree = 64)' : ''), after => 'DROP INDEX IF EXISTS t_x');
if (!$ENV{VECTORGPU_LONG})
{
	heeds_cancel('build', $build{sql}, %build, session => 'SET vectorgpu.worker = off', moments => [ 0.3, 0.6 ]) if $AM eq 'gpugraph';    # others take too short a time
}
else
{
	my $n_big = $AM eq 'gpugraph' ? 20_000 : 100_000;
	my $big = "INSERT INTO big SELECT nextval('big_id'), 0, test_vector(i, 64)::$CAST FROM generate_series(%d, %d) i";
	my @often = map { $_ / 20 } 1 .. 19;
	my @seldom = map { $_ / 6 } 1 .. 5;
	my $n = 0;

	$node->safe_psql('postgres', 'CREATE SEQUENCE big_id; CREATE TABLE big (id bigint, category int, v ' . column_type(64) . '); ' . sprintf($big, 1, $n_big) . "; CREATE INDEX big_v ON big USING $AM (v $CLASS); " . sprintf($big, $n_big, $n_big * 1.1));
	(my $build_big = $build{sql}) =~ s/ ON t / ON big /;
	for my $worker ('off', $stays ? 'on' : ())
	{
		my $setting = "SET vectorgpu.worker = $worker; SET maintenance_work_mem = '256MB'";

		$n += heeds_cancel("build, worker $worker", $build_big, %build, session => $setting, moments => \@often);
		$n += heeds_cancel("scan, worker $worker", 'SELECT count(*) FROM (SELECT id FROM big ORDER BY ' . by_query(1) . ') s', session => $setting, moments => \@often);
		$n += heeds_cancel("merge, worker $worker", q{SELECT vectorgpu_merge('big_v')}, session => $setting, prepare => sprintf($big, 1, $n_big / 20), moments => \@often);
		next if of_match();
		$n += heeds_cancel("recall, worker $worker", q{SELECT count(*) FROM vectorgpu_recall('big_v', 300, 10)}, session => $setting, moments => \@seldom);
		$n += heeds_cancel("neighbors, worker $worker", q{SELECT count(*) FROM vectorgpu_knn_graph('big_v', 5)}, session => $setting, seconds => 2, moments => \@seldom);
		$n += heeds_cancel("k-means, worker $worker", q{SELECT count(*) FROM vectorgpu_kmeans('big', 'v', 100)}, session => $setting, moments => \@seldom);
	}
	$n += heeds_cancel('vacuum', 'VACUUM (INDEX_CLEANUP on) big', prepare => 'DELETE FROM big WHERE id % 50 = (random() * 50)::int', moments => \@seldom);
	$n += heeds_cancel('check', q{SELECT vectorgpu_check('big_v', true)}, moments => \@seldom);
	$n += heeds_cancel('insert', sprintf($big, 1, $n_big / 10), moments => \@seldom);
	$n += heeds_cancel('prewarm', q{SELECT vectorgpu_prewarm('big_v')}, after => q{SELECT vectorgpu_evict('big_v')}, moments => \@seldom) if $stays;
	cmp_ok($n, '>', 60, 'moments at which something was cancelled');
	answers_equal($node, 'big', %of_table, queries => 1, name => 'afterwards both scans of the large table agree');
	check_index($node, 'big_v');
	$node->safe_psql('postgres', 'DROP TABLE big');
}

# F37: the client disconnects with an open cursor.
for my $round (1 .. 5)
{
	my $gone = $node->background_psql('postgres');
	$gone->query_safe("BEGIN; SET enable_seqscan = off; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY " . by_query($round) . '; FETCH 5 FROM c');
	$gone->{run}->kill_kill(grace => 0);
}
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"), 'sessions of clients that went away end');

# F19: the address space of a backend is limited to a little more than it has, until each kind of statement has failed once.
SKIP:
{
	skip 'prlimit is not there', 1 if system('command -v prlimit >/dev/null') != 0;
	skip 'under AddressSanitizer a process ends where its memory does', 1 if under_asan();
	my (@problems, %refused);
	my $of_ours = 0;
	my $scan       = 'SELECT count(*) FROM (SELECT id FROM t ORDER BY ' . by_query(1) . '%s) s';
	my %statements = (
		scan   => sprintf($scan, ''),
		top    => sprintf($scan, ' LIMIT ' . $rows * 0.9),
		build  => "BEGIN; CREATE INDEX t_x ON t USING $AM (v " . (of_match() ? '' : 'vector_ip_ops') . '); ROLLBACK',
		merge  => "SELECT vectorgpu_merge('t_v')",
		check  => "SELECT vectorgpu_check('t_v', true)",
		vacuum => 'VACUUM (INDEX_CLEANUP on) t');
	$statements{narrow} = "$narrow " . sprintf($scan, ' LIMIT 10') if $AM =~ /ivf|graph/;
	for my $kind (sort keys %statements)
	{
		# Most of these are too little or enough; values between let it go further before it fails.
		my @spares = $long ? (64, 512, 1024, 4096, 16384) : (64, 1024, 4096);    # kB
		my $halfway = 3;
		my ($too_little, $enough);

		$refused{$kind} = 0;
		while (defined(my $spare = shift @spares))
		{
			my $limited = $node->background_psql('postgres', on_error_stop => 0);
			my $backend = session_pid($limited);
			$limited->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET maintenance_work_mem = '64MB'; LOAD 'vectorgpu'");
			my ($kb) = slurp_file("/proc/$backend/status") =~ /VmSize:\s+(\d+)/;
			system('prlimit', "--as=" . ($kb + $spare) * 1024 . ":", '--pid', $backend) == 0 or die 'prlimit failed';
			$limited->{stderr} = '';
			$limited->query("\\set VERBOSITY verbose\n$statements{$kind}");
			my $error = $limited->{stderr};
			push @problems, "$kind with $spare kB: $error" if $error =~ /ERROR/ && $error !~ /53200/;
			push @problems, "$kind with $spare kB: session lost: $error" if $error =~ /terminated|server closed/;
			if ($error =~ /ERROR: +53200/)
			{
				$refused{$kind}++;
				$of_ours++ if $error =~ /in memory context "vectorgpu /;
				$too_little = $spare if !defined $too_little || $spare > $too_little;
			}
			else { $enough = $spare if !defined $enough || $spare < $enough; }
			system('prlimit', "--as=unlimited:", '--pid', $backend);
			my $again = eval { $limited->query('ROLLBACK; RESET gpuivf.probes; RESET gpugraph.search_width; ' . sprintf($scan, '')) } // '';
			push @problems, "$kind with $spare kB: the session does not go on: $again" if $again !~ /\b$rows\b/;
			eval { $limited->quit };
			push @spares, int($enough / 4) if !@spares && !defined $too_little && $enough > 0;
			push @spares, int(($too_little + $enough) / 2) if !@spares && defined $too_little && defined $enough && $halfway-- > 0;
		}
		cmp_ok($refused{$kind}, '>', 0, "$kind: there was too little memory $refused{$kind} times");
	}
	is(join("\n", @problems), '', 'out of memory is SQLSTATE 53200, the session continues');
	cmp_ok($of_ours, '>', 0, "$of_ours of these times in memory of this module");
}
answers_equal($node, 't', %of_table, name => 'afterwards both scans agree');
check_index($node, 't_v');

# Maintenance cancelled at moments over its whole duration, until it was cancelled often enough: it may end before.
for my $sql ("SELECT vectorgpu_merge('t_v')", 'VACUUM (INDEX_CLEANUP on) t', "SELECT vectorgpu_check('t_v', true)", 'REINDEX INDEX t_v')
{
	my ($hit, $tries, @problems) = (0, 0);
	# After some changes, in a new session: SQLSTATE and message, and the ms of the statement, undef if it did not end.
	my $run = sub {
		my ($timeout) = @_;

		$node->safe_psql('postgres', "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT $rows / 60); "
			  . "INSERT INTO t SELECT last + i, 0, test_vector(last + i, 64)::$CAST FROM (SELECT max(id) AS last FROM t) s, generate_series(1, $rows / 50) i");
		my ($state, $message, $out) = psql_state($node, "SELECT clock_timestamp() AS began \\gset\nSET statement_timeout = $timeout;\n$sql;\n\\echo over\n"
			  . "SELECT 'took ' || extract(epoch FROM clock_timestamp() - :'began') * 1000");
		# The timeout also applies to the next statement.
		return $out =~ /^over$/m ? ('00000', '', $out =~ /^took ([\d.]+)/m) : ($state, $message);
	};
	my ($duration) = sort { $a <=> $b } map { ($run->(0))[2] } 1 .. 3;
	my $wanted = $long ? 6 : 3;
	my @at;

	while ($tries < $wanted || ($hit < $wanted && $tries < 100))
	{
		# Shares by the golden section come near each moment, however many they are.
		my $share = 0.618 * ++$tries;
		my $ms = POSIX::ceil(($share - int $share) * $duration);
		my ($state, $message) = $run->($ms);

		push @problems, "$ms ms: $message" if $state !~ /^(?:00000|57014)$/;
		if ($state eq '57014') { $hit++; push @at, $ms; }
	}
	is("@problems", '', "$sql: cancelled or done");
	cmp_ok($hit, '>=', $wanted, sprintf('%s, of %.1f ms: cancelled after %s ms (%d tries)', $sql, $duration, join(', ', @at), $tries));
	answers_equal($node, 't', %of_table, queries => 1, name => "$sql cancelled: both scans agree");
	check_index($node, 't_v', name => "$sql cancelled: check");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process crashed');

$node->stop;
done_testing();
