# Peers that break the protocol, on both sides of the socket: clients still get right answers.
use strict;
use warnings;
use IO::Socket::UNIX;
use Socket;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 200ms\n"
	  . "shared_preload_libraries = 'vectorgpu'\n");
my $worker_file = worker_file($node);
my $started = time();

plan skip_all => 'the worker is not installed' unless -x $worker_file;
plan skip_all => 'no python3' if system('python3 -c "import os; os.eventfd" 2>/dev/null') != 0;
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
# For a merge that a worker with a GPU would rebuild, and other workers do by insertion: 10 % more rows.
$node->safe_psql('postgres', 'CREATE TABLE g AS SELECT i AS id, array_fill(sin(i)::real, ARRAY[7])::vector || array_fill(i % 100, ARRAY[1])::vector AS v FROM generate_series(1, 6000) i; '
	  . 'ALTER TABLE g ALTER v TYPE vector(8); CREATE INDEX gi ON g USING gpugraph (v vector_l2_ops) WITH (degree = 8); INSERT INTO g SELECT id + 6000, v + v FROM g LIMIT 600');
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my ($version) = slurp_file(__FILE__ =~ s{[^/]+$}{../../src/wire/messages.hpp}r) =~ /kProtocolVersion = (\d+);/ or die 'the sources do not say which protocol they speak';
(my $folder = __FILE__) =~ s/[^\/]+$//;

# Strangers on the worker's socket
my $pid = wait_worker($node);
my ($path) = glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*');
my ($epoch) = $path =~ /w\.([0-9a-f]+)$/;
my $run = start_clients($node, clients => 6, seconds => 8);
my $hello = sub {
	my (%with) = (magic => 0x4B574756, version => $version, role => 1, epoch => hex(substr($epoch, 8)), high => hex(substr($epoch, 0, 8)), @_);
	return pack('V v v V V V V Q<', $with{magic}, $with{version}, $with{role}, $with{epoch}, $with{high}, $$, 0, 0);
};
my @open;
for my $message ('', 'x', "\0" x 32, "\xff" x 32, 'y' x 60000, $hello->(version => $version - 1), $hello->(version => $version + 1), $hello->(epoch => 1), $hello->(role => 9),
	$hello->(magic => 1), substr($hello->(), 0, 31), $hello->() . 'z')
{
	for (1 .. 3)
	{
		socket(my $socket, PF_UNIX, SOCK_SEQPACKET, 0) or die "socket: $!";
		# In a deep data directory the path is too long for an address; a short link leads there.
		my $link = PostgreSQL::Test::Utils::tempdir_short() . '/s';
		symlink($node->data_dir . '/pgsql_tmp_vectorgpu', $link);
		connect($socket, pack_sockaddr_un("$link/pgsql_tmp_w.$epoch")) or die "connect: $!";
		send($socket, $message, 0) if $message ne '';
		push @open, $socket;
	}
}
my ($done, $wrong) = finish_clients($run);
is($wrong, '', 'strangers on the socket disturb no client');
cmp_ok($done, '>', 20, "clients were answered ($done transactions)");
is(worker_pid($node), $pid, 'and the worker lives');
$_->close for @open;
by_worker($node, 'a scan', sub {
	compare_scans($node, 't', '<->', query_vector($node, 1, dims => 8), limit => 10, name => 'a scan');
});

my $sweep = join ';', 'SET enable_seqscan = off; SET enable_sort = off', map {
	"SELECT ARRAY(SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = $_) LIMIT 10) = (SELECT ids FROM answers WHERE q = $_)"
} 1 .. 8;
my $all_right = join "\n", ('t') x 8;
my $open_session = $node->background_psql('postgres');
is($open_session->query_safe($sweep), $all_right, 'a session that stays open');

# A fake worker
my $mode_file = $node->data_dir . '/fake_mode';
my $notes_file = $node->data_dir . '/fake_notes';
my $program = PostgreSQL::Test::Utils::tempdir() . '/program';
append_to_file($mode_file, "silent\n");
append_to_file($node->data_dir . '/fake_rows', $node->safe_psql('postgres', 'SELECT q.v, t.ctid, t.v <-> q.v FROM t, t q WHERE q.id <= 8'));
my $fake = slurp_file("${folder}lib/fake_worker.py");
$fake =~ s/^VERSION = None$/VERSION = $version/m or die 'the false worker has no version to set';
append_to_file($program, $fake);
chmod 0755, $program;
$node->append_conf('postgresql.conf', "vectorgpu.worker_program = '$program'\n");
$node->reload;
ok(wait_gone($pid), 'the worker gives way to a false one');

# Notes of the fake worker: its mode, and the count of each other word.
sub notes
{
	my ($mode, @words) = split /\n/, -e $notes_file ? slurp_file($notes_file) : '';
	my %n = map { $_ => 0 } qw(connected asked searched dropped left);

	$n{$_}++ for @words;
	return ($mode // '', \%n);
}

# Number of fallbacks for one reason, and for all others together.
sub fallbacks
{
	my ($reason) = @_;

	return split /\|/, $node->safe_psql('postgres', "SELECT (fallback_reasons->>'$reason')::int, fallbacks - (fallback_reasons->>'$reason')::int FROM vectorgpu_worker");
}

# Number of answers by the worker, and of fallbacks by reason.
sub counters
{
	return +{ map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		"SELECT n.* FROM vectorgpu_worker, jsonb_each_text(fallback_reasons || jsonb_build_object('answered', answered)) n") };
}

# The counters that have grown. A busy machine may make any worker silent, and after a closed session the next scans run without one for a moment: these
# count only in tests about them.
sub grown
{
	my ($before, $reason) = @_;
	my $now = counters();

	return grep { $now->{$_} > $before->{$_} && (/^($reason)$/ || !/^(silent|slot_busy|unreachable)$/) } sort keys %$now;
}

# One whose greeting is not accepted: the supervisor does not mark it as ready, so that scans do not try to reach it.
sub refused_before
{
	my ($mode) = @_;

	# The supervisor has greeted it and left at once, or still waits for a reply.
	ok(wait_until(sub { my ($of, $n) = notes(); $of eq $mode && $n->{$mode eq 'mute' ? 'connected' : 'left'} > 0 }), "$mode: it is started, and its greeting refused");
	sleep 0.3;
	return [ worker_pid($node), fallbacks('not_running') ];
}

sub refused_after
{
	my ($mode, $before, $n_scans) = @_;
	my ($not_running, $others) = fallbacks('not_running');
	my (undef, $n) = notes();

	is(worker_stat($node, 'ready'), 'f', "$mode: it is not taken for a worker");
	is(worker_pid($node), $before->[0], "$mode: and runs all the time");
	cmp_ok($not_running, '>=', $before->[1] + $n_scans, "$mode: to scans it is not ready");
	is($others, $before->[2], "$mode: which have no other reason");
	is($n->{asked}, 0, "$mode: nothing was asked of it");
	return;
}

# Scans with a fake worker of one mode.
#   reason   the counter that must grow: a key of fallback_reasons, or answered; one of several: a|b; none: its greeting is refused
#   dropped  1: each of its answers makes them drop the copy that it is from
#   limit    seconds that the best of some sweeps may take
sub with_mode
{
	my ($mode, %opt) = @_;
	my $old = worker_pid($node);
	my $limit = $opt{limit} // 3;
	my $n_scans = 0;
	my ($refused, $pid, $before, $searched, @grown);

	replace_file($mode_file, "$mode\n");
	kill_worker($node);
	if (defined $opt{reason})
	{
		$pid = wait_worker($node, not_pid => $old);
		ok($pid, "$mode: the supervisor takes it for a worker");
		$before = counters();
		$searched = (notes())[1]->{searched};
	}
	else
	{
		$refused = refused_before($mode);
	}
	my $best;
	# Scans may skip a worker that was slow once: until one asks it there is nothing to test.
	my $until = time() + $PostgreSQL::Test::Utils::timeout_default;
	for (my $i = 1; ; $i++)
	{
		my $start = time();
		my ($rc, $out, $err) = $node->psql('postgres', $sweep);
		my $seconds = time() - $start;
		is("$rc $err", '0 ', "$mode: no error");
		is($out, $all_right, "$mode: right answers");
		$best = $seconds if !defined $best || $seconds < $best;
		$n_scans += 8;
		@grown = grown($before, $opt{reason}) if defined $before;
		last if $best < $limit && (!defined $before || @grown && (notes())[1]->{searched} > $searched && (!$opt{dropped} || (notes())[1]->{dropped} > 0));
		last if $i >= 10 && ($best >= $limit || time() > $until);
		sleep 0.1;
	}
	cmp_ok($best, '<', $limit, sprintf('%s: in time (%.1f s)', $mode, $best));
	return refused_after($mode, $refused, $n_scans) if defined $refused;

	my ($of, $n) = notes();
	is($of, $mode, "$mode: that is what it does");
	is(worker_pid($node), $pid, "$mode: and it runs all the time");
	cmp_ok($n->{searched}, '>', $searched, "$mode: searches were asked of it");
	cmp_ok($n->{dropped}, '>', 0, "$mode: it is to drop what such rows came from") if $opt{dropped};
	like("@grown", qr/^($opt{reason})$/, "$mode: they count it as $opt{reason}");
	return;
}

# Another release's worker, as after an upgrade: one line in the log at its start, and sessions that were connected to the one before are answered too.
my $log = -s $node->logfile;
with_mode('version');
is($open_session->query_safe($sweep), $all_right, 'version: a session that was open before has right answers');
$open_session->quit;
# On a slow machine the supervisor has started it again meanwhile.
my @started = slurp_file($node->logfile, $log) =~ /LOG:  vectorgpu worker \(PID (\d+)\) does not match the server/g;
my %started = map { $_ => 1 } @started;
ok(@started > 0 && @started == keys %started, "version: one line in the log for each start (of @started)");

with_mode($_) for qw(epoch small_area large_area no_fds short_memory unsealed half_welcome mute);

# One without errors: so the defects of the others are those of their modes, and not of the fake worker itself.
with_mode('right', reason => 'answered');
ok(wait_until(sub {
	my $answered = counters()->{answered};
	my $out = $node->safe_psql('postgres', $sweep);

	return $out eq $all_right && counters()->{answered} == $answered + 8;
}), 'right: all answers of a sweep are its own, and right');

# Bytes that are no reply to a SEARCH. The last has no rows and announces more: it would be taken for the end.
with_mode($_, reason => 'wrong_answer') for qw(garbage too_long count_lies status more_forever);

# A reply with impossible rows.
with_mode($_, reason => 'wrong_answer', dropped => 1) for qw(too_many order twice no_such_block bad_offset);

# A slot with invalid contents.
my $graph = q{SELECT md5(string_agg(k::text, ',' ORDER BY k::text)) FROM vectorgpu_knn_graph('i', 3) k};
my $right = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $graph");
for my $mode (qw(other_sequence state))
{
	with_mode($mode, reason => 'wrong_answer');

	# The searches of a k-NN graph, many in one request.
	my $counted = counters();
	my @graphs;
	ok(wait_until(sub {
		push @graphs, $node->safe_psql('postgres', $graph);
		return counters()->{wrong_answer} > $counted->{wrong_answer};
	}), "$mode: a k-NN graph counts it as wrong_answer");
	is(counters()->{gone}, $counted->{gone}, "$mode: and not as a worker that is gone");
	is(scalar(grep { $_ ne $right } @graphs), 0, "$mode: and is right");
}

# The same after a scan that has given up: the next scan detects it.
sub until_counted
{
	my ($mode, $reason) = @_;
	my $session = $node->background_psql('postgres');
	my $counted = counters()->{$reason};
	my $out;

	ok(wait_until(sub { $out = $session->query_safe($sweep); return $out ne $all_right || counters()->{$reason} > $counted }), "$mode: a session counts it as $reason");
	is($out, $all_right, "$mode: right answers");
	$session->quit;
	return;
}

with_mode('late', reason => 'silent( wrong_answer)?');
until_counted('late', 'wrong_answer');
with_mode('close', reason => 'gone');
with_mode('late_close', reason => '(gone )?silent');
until_counted('late_close', 'gone');

# One that never answers, with a timeout long enough to measure each wait: eight scans of a session wait for one timeout in all, those of later sessions for none.
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 2s\n");
$node->reload;
with_mode('silent', reason => 'silent', limit => 4);
soon($node, 1, 'silent: a new session does not wait for it', scan_sql());
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 200ms\n");
$node->reload;
# A session whose request it has had for 30 timeouts closes its connection.
{
	my $session = $node->background_psql('postgres');
	my $counted = counters()->{gone};
	my $began = time();
	my $out = $session->query_safe($sweep);

	sleep 2;    # the session that has told the counters has ended: the next to leave is this one
	my $left = (notes())[1]->{left};
	ok(wait_until(sub { $out = $session->query_safe($sweep); return $out ne $all_right || ((notes())[1]->{left} > $left && time() > $began + 6) }), 'silent: a session leaves it after 30 timeouts');
	is($out, $all_right, 'silent: right answers all the time');
	is(counters()->{gone}, $counted, 'silent: and does not count that as a worker that is gone');
	$session->quit;
}

# Apart from searches: a function that needs the worker asks two workers; a merge that could ask for two kinds of work waits for one timeout.
with_mode('hangs_up', reason => 'gone');
my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_prewarm('i')", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/08006: could not reach the vectorgpu worker.*ended, or closed the connection/s, 'two workers in a row disconnect: prewarm reports it');
with_mode('deaf', reason => 'silent');
# Not in each try: a greeting that is late counts too.
my @merged;
my $n_rows = 6600;
ok(wait_until(sub {
	my $before = counters()->{silent};

	push @merged, $node->safe_psql('postgres', "SET vectorgpu.fault = 'graph_worker_exact:1:corrupt'; SELECT segments_after || '|' || rows_moved - $n_rows FROM vectorgpu_merge('gi'); "
		  . 'INSERT INTO g SELECT id + 20000, v + v FROM g WHERE id <= 660');
	$n_rows += 660;
	return counters()->{silent} == $before + 1;
}), 'a merge waits once for a worker that never answers');
is(join(' ', grep { $_ ne '1|0' } @merged), '', 'and does without it');
check_index($node, 'gi', recall => 0);
ok(wait_log($node, qr/answered without the worker/, 0), 'the log reports scans without the worker');
my $minutes = 1 + (time() - $started) / 60;
cmp_ok(scalar(() = slurp_file($node->logfile) =~ /answered without the worker/g), '<=', $minutes + 1, 'once a minute');

$pid = worker_pid($node) // 0;
$node->append_conf('postgresql.conf', "vectorgpu.worker_program = ''\n");
$node->reload;
ok(wait_worker($node, not_pid => $pid), 'the real worker is back');
by_worker($node, 'and scans are answered', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree');
});
# Impossible rows, once: the copy is dropped, and this is the reason as long as this session continues without a copy. Not in each try: on a busy machine
# the worker may be late with a greeting or with a reply to the DROP.
my $wrong_rows = 0;
ok(wait_until(sub {
	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
	my %then = %{ counters() };
	my $out = $node->safe_psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.worker_timeout = '60s'; SET vectorgpu.fault = 'worker_rows:1:corrupt'; $sweep");
	my $now = counters();

	$wrong_rows++ if $out ne $all_right;
	$then{wrong_answer} += 8;
	return $wrong_rows || !grep { $now->{$_} != $then{$_} } keys %then;
}), 'a worker whose rows cannot be: that scan and those after it count as wrong_answer');
is($wrong_rows, 0, 'a worker whose rows cannot be: right answers');
is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $resources);
check_stopped($node);
done_testing();
