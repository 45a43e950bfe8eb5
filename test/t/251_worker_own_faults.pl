# The fault points inside the worker that test/worker_faults.txt gives this file, end to end: an error there, and a worker that dies or
# sleeps there, changes no answer and reaches no client. Rows without a structure, lists, a graph and inverted lists of sets, each in a table of
# its own. VECTORGPU_LONG=1: each table alone, at call 1, 2, 3 … of each point until the worker no longer reaches it, and at every call.
# VECTORGPU_SHARE=2of8, with VECTORGPU_LONG: every eighth pair of a table and a point, so that eight shares can run beside each other.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $long = $ENV{VECTORGPU_LONG};
my ($share, $shares) = ($ENV{VECTORGPU_SHARE} || '1of1') =~ /^(\d+)of(\d+)$/ or die 'VECTORGPU_SHARE is not like 2of8';
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.worker_timeout = 500ms\nvectorgpu.auto_merge = off\n");
my $worker_file = worker_file($node);

plan skip_all => 'the worker is not installed' unless -x $worker_file;
plan skip_all => 'built without FAULTS=1' unless faults_enabled($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 400);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops, id)');
fill_vectors($node, 't', dims => 8, rows => 50, first => 1001, seed => 2);
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 50 = 0; VACUUM t');
fill_vectors($node, 't', dims => 8, rows => 20, first => 2001, seed => 3);
make_answers($node, 20);
# The same rows in lists and in a graph, whose copies have these structures too; and sets.
my %op = map { $_ => $_ eq 's' ? '<#>' : '<->' } qw(t u g s);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE u (LIKE t, PRIMARY KEY (id));
CREATE TABLE g (LIKE t, PRIMARY KEY (id));
INSERT INTO u SELECT * FROM t WHERE id < 2001;
INSERT INTO g SELECT * FROM t WHERE id < 2001;
CREATE INDEX u_i ON u USING gpuivf (v vector_l2_ops) WITH (lists = 5);
CREATE INDEX g_i ON g USING gpugraph (v vector_l2_ops);
INSERT INTO u SELECT * FROM t WHERE id > 2000;
INSERT INTO g SELECT * FROM t WHERE id > 2000;
CREATE TABLE s (id bigint PRIMARY KEY, v int[]);
INSERT INTO s SELECT i, ARRAY[i % 7, 10 + i % 11, 30 + i % 13, 50 + i % 101] FROM generate_series(1, 400) i;
CREATE INDEX s_i ON s USING gpumatch (v);
INSERT INTO s SELECT i, ARRAY[i % 7, 10 + i % 11] FROM generate_series(1001, 1020) i;
CREATE TABLE known (name text, q int, ids bigint[], PRIMARY KEY (name, q));
SQL
$node->safe_psql('postgres', "DELETE FROM $_ WHERE id = 399; VACUUM $_") for qw(u g s);
$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; INSERT INTO known SELECT '$_', q, ARRAY(SELECT id FROM $_ ORDER BY v $op{$_} (SELECT v FROM $_ WHERE id = q), ctid LIMIT 10) FROM generate_series(1, 6) q")
  for sort keys %op;

# The worker reads its faults from its environment.
my $set_surroundings = wrap_worker($node);
my $first = wait_worker($node);
$node->reload;
ok(wait_worker($node, not_pid => $first), 'the worker is ready');
my $resources = note_resources($node);

sub set_fault
{
	my ($fault) = @_;

	$set_surroundings->("export VECTORGPU_WORKER_FAULT='$fault'");
	kill_worker($node);
	return;
}

# Scans that load the copies, in three sessions, so that a refused request is repeated.
sub questions
{
	my (@asked) = @_;

	return join ';', 'SET enable_seqscan = off', 'SET enable_sort = off', 'SET enable_bitmapscan = off', map {
		my ($table, $q) = @$_;
		"SELECT ARRAY(SELECT id FROM $table ORDER BY v $op{$table} (SELECT v FROM $table WHERE id = $q) LIMIT 10) = (SELECT ids FROM known WHERE name = '$table' AND q = $q)"
	} @asked;
}

# The log line of a worker that has ended at a point.
my %ended = (exit => qr/vectorgpu worker \(PID \d+\) ended with status 3/, abort => qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/);

# Problems with a fault in the worker while the tables are queried.
#   reached  1: the worker has to end there; a reference: whether it has
#   seconds  longest wait for a worker between two sessions
sub problems_with
{
	my ($fault, $asked, %opt) = @_;
	my ($action) = $fault =~ /(\w+)$/;
	my $right = questions(@$asked);
	my $problems = '';
	my $offset = -s $node->logfile;
	my $ask = sub {
		my ($session) = @_;
		my ($rc, $out, $err) = $node->psql('postgres', $right);

		$problems .= "session $session: $err" if $rc != 0 || $err ne '';
		$problems .= "session $session: " . join(',', split /\n/, $out) if $out ne join("\n", ('t') x @$asked);
		count('answers', scalar @$asked);
	};
	my $has_ended = sub { return exists $ended{$action} && slurp_file($node->logfile, $offset) =~ $ended{$action} };
	# The supervisor starts a worker that has died, and greets one that has not been greeted. With a GPU a start takes seconds. A worker that
	# ends at each greeting is never ready.
	my $wait = sub {
		my $before = $has_ended->();

		wait_until(sub { (!$before && $has_ended->()) || $node->safe_psql('postgres', 'SELECT ready FROM vectorgpu_worker') eq 't' }, $before ? $opt{seconds} / 4 : $opt{seconds});
	};

	set_fault($fault);
	my $answered = worker_stat($node, 'answered');
	$wait->() if $long;
	for my $session (1 .. 3)
	{
		$ask->($session);
		$wait->() if $session < 3;
	}
	# The worker has reached the point if it has ended there. The three sessions may precede a worker that takes seconds to start and to load a copy;
	# further sessions ask until it has ended, or has answered.
	if (ref $opt{reached})
	{
		my $late = 0;

		wait_until(sub { $has_ended->() || worker_stat($node, 'answered') > $answered || do { $late = 1; $ask->('late'); 0 } }, $opt{seconds});
		# What ended that wait is one session, and a course is three of them.
		for my $session ($late && !$has_ended->() ? (1 .. 3) : ())
		{
			$ask->("late $session");
			$wait->();
		}
		${ $opt{reached} } = wait_until($has_ended, 3);
	}
	return $problems if ref $opt{reached} || !$opt{reached} || !exists $ended{$action};
	$problems .= 'it was not reached; ' if !wait_until(sub { $has_ended->() || do { $ask->('late'); 0 } });
	return $problems;
}

# One test for each point: at the first call, or at the second if the first is the supervisor's.
expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/); # action abort
my @points = qw(accept make_slot send_welcome receive create load_segment load_structure load_keys seal append_delta tombstones manifest search reply);
my %by_supervisor = map { $_ => 1 } qw(accept make_slot send_welcome receive reply);
my @all = (map({ [ 't', $_ ] } 1 .. 6), map { ([ 'u', $_ ], [ 'g', $_ ], [ 's', $_ ]) } 1 .. 2);
for my $point ($long ? () : @points)
{
	my $problems = '';
	my $call = $by_supervisor{$point} ? 2 : 1;

	for my $action (qw(error enomem corrupt exit abort))
	{
		my $problem = problems_with("$point:$call:$action", \@all, reached => 1, seconds => 20);
		$problems .= "call $call, $action: $problem; " if $problem ne '';
	}
	is($problems, '', "$point: right answers, no error");
}
# The structures of each access method, after those of the others are loaded.
for my $table ($long ? () : qw(g s))
{
	my $problems = '';

	for my $action (qw(error exit))
	{
		my $problem = problems_with("load_structure:1:$action", [ map { [ $table, $_ ] } 1 .. 3 ], reached => 1, seconds => 20);
		$problems .= "$action: $problem; " if $problem ne '';
	}
	is($problems, '', "load_structure of table $table alone: right answers, no error");
}

# Every call that three sessions of one table cause. The worker's end shows that a call is reached, and the steps before it do not depend on the
# action: so a call at which the worker ends is tried with the other actions too. The calls of a course may differ by one of the supervisor, so two
# courses have to end without reaching it.
my $turn = 0;
for my $table ($long ? sort keys %op : ())
{
	my @asked = map { [ $table, $_ ] } 1 .. 3;

	for my $point (@points)
	{
		next if $point eq 'load_structure' && $table eq 't' || $point eq 'load_keys' && $table ne 't';    # it has none
		next if $turn++ % $shares != $share - 1;
		my $problems = '';
		my $try = sub {
			my ($call) = @_;
			my $problem = problems_with("$point:$call:exit", \@asked, reached => \my $reached, seconds => 20);

			$problems .= "call $call, exit: $problem; " if $problem ne '';
			for my $action ($reached ? qw(error enomem corrupt abort) : ())
			{
				$problem = problems_with("$point:$call:$action", \@asked, seconds => 20);
				$problems .= "call $call, $action: $problem; " if $problem ne '';
			}
			return $reached;
		};
		my ($last, $unbounded) = calls_until_clean($try, most => 1000, tries => 2);

		for my $action (qw(error enomem corrupt exit abort sleep))
		{
			my $problem = problems_with("$point:0:$action", \@asked, reached => $action ne 'sleep', seconds => $action eq 'sleep' ? 1 : 5);
			$problems .= "every call, $action: $problem; " if $problem ne '';
		}
		is($problems . $unbounded, '', "$point, table $table: right answers, no error (calls 1 to $last)");
		cmp_ok($last, '>=', 1, "$point, table $table: it was reached");
	}
}

# F4: every search takes five seconds, and in long runs every load, or every reply. No scan waits longer than the deadline. As many scans wait for it as
# there are concurrent sessions, and then only one of the server now and then, though each scan has a session of its own.
my ($timeout, $clients, $tries) = (2, 8, 3); # in ten seconds a pause is over twice, after four and ten
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = ${timeout}s\n");
$node->reload;
watch_waits($node);
for my $point ('search', $ENV{VECTORGPU_LONG} ? ('create', 'reply') : ())
{
	my ($best, $total, $waits) = (1e9);

	# On a busy machine other scans take as long, too: the best of three counts.
	for (1 .. 3)
	{
		set_fault("$point:0:sleep");
		# A worker that replies this late is never found ready.
		$point eq 'reply' ? wait_until(sub { defined worker_pid($node) }) : wait_worker($node);
		my ($done, $wrong) = finish_clients(start_clients($node, clients => $clients, seconds => $ENV{VECTORGPU_LONG} ? 10 : 6, watched => 1, extra => ['-C']));
		is($wrong, '', "no client error, no wrong row while each $point takes five seconds ($done transactions)");
		($total, $waits) = count_waits($node, $timeout);
		cmp_ok($waits, '>', 0, "$point: it was waited for") if $point ne 'reply';
		$best = $waits if $waits < $best;
		last if $waits <= $clients + $tries && $total > $clients + $tries;
	}
	cmp_ok($best, '<=', $clients + $tries, "$point: by $best scans");
	cmp_ok($total, '>', $clients + $tries, "$point: of $total, so that the pages answered the others");
}
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 500ms\n");
$node->reload;

# A single search that takes this long: afterwards the same worker is asked again.
set_fault('search:1:sleep');
my $slow = wait_worker($node);
my $before = $node->safe_psql('postgres', "SELECT fallback_reasons->>'silent' FROM vectorgpu_worker");
$node->safe_psql('postgres', questions(@all));
cmp_ok($node->safe_psql('postgres', "SELECT fallback_reasons->>'silent' FROM vectorgpu_worker"), '>', $before, 'one search takes five seconds: scans do without the worker');
by_worker($node, 'when it has passed', sub { $node->safe_psql('postgres', scan_sql()) });
is(worker_pid($node), $slow, 'the same one');

set_fault('');
ok(wait_worker($node), 'a sound worker is back');
by_worker($node, 'at last', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree at last');
});
is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $resources);
check_stopped($node);
done_testing();
