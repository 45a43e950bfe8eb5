# vectorgpu_join in FROM keeps searches under way between its batches: the worker, of two devices, has those of the next batch while the rows of one are
# put. The rows are the same if the index changes or the worker dies at that moment, or if a scan needs the session; errors and cancels leave no
# answer behind that another request would take for its own.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\nvectorgpu.inline_load_size = 1GB\n"
	  . "vectorgpu.auto_merge = off\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.device = 'cpu,cpu'\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Batches of 2,048 queries, a third one of fewer. Of u some rows share entries, so that queries near them are left to scans.
my $n_queries = 5000;
my $batch     = 2048;
my $dims      = 8;
my $any       = random_vector_sql('i', dims => $dims);
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int PRIMARY KEY, k int, v vector($dims)) WITH (autovacuum_enabled = off);
CREATE TABLE q (id int PRIMARY KEY, v vector($dims));
INSERT INTO t SELECT i, i % 10, $any FROM generate_series(1, 1500) i;
INSERT INTO q SELECT n, $any FROM generate_series(1, $n_queries) n, LATERAL (SELECT 5000 + n AS i) s;
CREATE TABLE u (LIKE t) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT * FROM t;
CREATE TABLE l (LIKE t);
INSERT INTO l SELECT * FROM t;
CREATE INDEX i ON t USING gpuflat (v vector_l2_ops);
CREATE INDEX j ON u USING gpuflat (v vector_l2_ops);
CREATE INDEX ON u (k);
CREATE INDEX m ON l USING gpuivf (v vector_l2_ops) WITH (lists = 12);
VACUUM ANALYZE t, q, u, l;
UPDATE u SET k = k + 1 WHERE id % 300 = 0;
SQL
ok(wait_worker($node), 'the worker is ready');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm(x) FROM unnest('{i,j,m}'::regclass[]) x");
my $resources = note_resources($node);

sub join_sql
{
	my ($index) = @_;

	return "SELECT count(*), bit_xor(hashtextextended(concat_ws(' ', query, tid, rank, distance), 0)), bool_and(in_order) FROM "
	  . "(SELECT *, (query, rank) >= lag((query, rank)) OVER () IS NOT FALSE AS in_order FROM vectorgpu_join('$index', 'q', 'v', 5)) s";
}

my %right = map { $_ => $node->safe_psql('postgres', 'SET vectorgpu.worker = off; ' . join_sql($_)) } qw(i j m);

sub same_rows
{
	my ($name) = @_;

	for my $index (qw(i j m))
	{
		is($node->safe_psql('postgres', join_sql($index)), $right{$index}, "$name: the rows of $index");
	}
	return;
}

like($right{i}, qr/^@{[ 5 * $n_queries ]}\|-?\d+\|t$/, 'five rows for each query');
my $searches = worker_stat($node, 'searches');
same_rows('by the worker');
cmp_ok(worker_stat($node, 'searches') - $searches, '>=', 3 * $n_queries, 'which has made all searches');

# LIMIT ends a statement in the middle of a batch; in the select list nothing is under way then.
is($node->safe_psql('postgres', "SELECT rank FROM vectorgpu_join('i', 'q', 'v', 5) LIMIT 1; " . join_sql('i')), "1\n$right{i}", 'LIMIT above FROM');
is($node->safe_psql('postgres', "SELECT (vectorgpu_join('i', 'q', 'v', 5)).rank LIMIT 2; " . join_sql('i')), "1\n2\n$right{i}", 'LIMIT above the select list');
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT vectorgpu_join('i', 'q', 'v', 5)) s; " . join_sql('i')), 5 * $n_queries . "\n$right{i}", 'all rows in the select list');
is($node->safe_psql('postgres', "SELECT count(*), min(n), max(n) FROM (SELECT (SELECT count(*) FROM vectorgpu_join('i', 'q', 'v', 5) WHERE k > -1) AS n FROM generate_series(1, 3) k) s"),
	join('|', 3, (5 * $n_queries) x 2), 'a join that is made three times');

# A join waits where the rows of its first batch are about to be put. Meanwhile WHILE runs. Returns what the join returns, or the error.
sub held
{
	my ($sql, $while) = @_;
	my $holder  = $node->background_psql('postgres');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');

	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$session->query_until(qr/begun/, "\\echo begun\nSET vectorgpu.fault = 'join_put:1:lock';\n$sql;\n\\echo\n\\echo ended\n");
	ok(wait_until(sub { $node->safe_psql('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") eq 't' }), 'a join is held')
	  or diag($node->safe_psql('postgres', "SELECT wait_event_type, wait_event, state, query FROM pg_stat_activity WHERE pid = $pid"));
	$while->($pid);
	$holder->quit;
	my $out = eval { $session->query_until(qr/^ended$/m, '') } // '';
	my $error = $session->{stderr};
	eval { $session->quit };
	return $error =~ /(ERROR:.*|FATAL:.*)/ ? $1 : $out =~ /^(\d\S*)$/m ? $1 : $out;
}

SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);

	# The worker gets the searches of the second batch before the rows of the first one are taken.
	$searches = worker_stat($node, 'searches');
	my $answered = worker_stat($node, 'answered');
	is(held(join_sql('i'), sub {
		ok(wait_until(sub { worker_stat($node, 'searches') - $searches > $batch }, 20), 'searches of the next batch are under way')
		  or diag(worker_stat($node, 'searches') - $searches);
		cmp_ok(worker_stat($node, 'searches') - $searches, '<=', 2 * $batch, 'and of no further one');
		cmp_ok(worker_stat($node, 'answered') - $answered, '>=', $batch, 'those of the first one were answered');
		cmp_ok(worker_stat($node, 'answered') - $answered, '<', 2 * $batch, 'and not all of the next one were waited for');
	}), $right{i}, 'the rows');

	# Changes by others: rows that the join does not see, merges, other segments, a copy that is gone.
	for my $index (qw(i j m))
	{
		my $table = { i => 't', j => 'u', m => 'l' }->{$index};
		my $n = 0;

		for my $change ("INSERT INTO $table SELECT 9000 + id, 0, v FROM q WHERE id % 5 = 0", "SELECT vectorgpu_merge('$index')", "SELECT vectorgpu_evict('$index')",
			"DELETE FROM $table WHERE id >= 9000; VACUUM $table; SELECT vectorgpu_merge('$index')")
		{
			my $rows = $node->safe_psql('postgres', 'SET vectorgpu.worker = off; ' . join_sql($index));

			is(held(join_sql($index), sub { $node->safe_psql('postgres', $change) }), $rows, "$index, change " . ++$n . ' by another session');
		}
	}
	%right = map { $_ => $node->safe_psql('postgres', 'SET vectorgpu.worker = off; ' . join_sql($_)) } qw(i j m);
	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm(x) FROM unnest('{i,j,m}'::regclass[]) x");
	same_rows('after the changes');

	# The worker ends, or hangs.
	for my $index (qw(i j))
	{
		my $worker = wait_worker($node);

		is(held(join_sql($index), sub { kill 'KILL', $worker; wait_gone($worker) }), $right{$index}, "$index: the worker dies");
		is(held(join_sql($index), sub { kill 'KILL', worker_pid($node); wait_worker($node, not_pid => $worker) }), $right{$index}, "$index: another one has come")
		  if wait_worker($node, not_pid => $worker);
	}
	my $worker = wait_worker($node);

	is(held('SET vectorgpu.worker_timeout = 300; ' . join_sql('i'), sub { kill 'STOP', $worker }), $right{i}, 'the worker hangs');
	kill 'CONT', $worker;
	ok(wait_worker($node), 'there is a worker');
	by_worker($node, 'after that', sub { same_rows('after that') });

	# Errors, and what the session does next.
	for my $fault ('join_put:1:error', 'join_put:2:error', 'many_take:3:error', 'many_take:12:error', 'join_put:1:enomem')
	{
		my ($rc, $out, $err) = $node->psql('postgres', <<"SQL");
SET vectorgpu.fault = '$fault';
DO \$\$ BEGIN PERFORM count(*) FROM vectorgpu_join('i', 'q', 'v', 5); RAISE NOTICE 'no error'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END \$\$;
@{[ join_sql('i') ]};
@{[ join_sql('j') ]};
SQL
		is("$rc $out", "0 $right{i}\n$right{j}", "after $fault in a subtransaction");
		like($err, qr/fault point|out of memory/, 'which was raised');
	}
	like(held(join_sql('i') . "; SELECT 'again', * FROM (" . join_sql('j') . ') s', sub { $node->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])") }),
		qr/^ERROR:.*canceling statement/, 'a cancel');
	like(held(join_sql('i'), sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])") }), qr/^FATAL:.*terminating connection/, 'a termination');
	like((map { (my $e = $_->[2]) =~ s/\s+/ /g; $e } [ $node->psql('postgres', "SET statement_timeout = '1s'; SET vectorgpu.fault = 'join_put:2:sleep'; " . join_sql('i')) ])[0],
		qr/statement timeout/, 'a timeout');
	check_faults_reached($node);
}
same_rows('at last');
ok(wait_until(sub { worker_stat($node, 'queued') == 0 }), 'nothing waits in the worker');
check_index($node, 'i');
is(count_restarts($node), 0, 'the server never restarted');
check_resources($node, $resources);
check_stopped($node);
done_testing();
