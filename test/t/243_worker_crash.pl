# Crashes of the server with a warm worker: rows whose WAL was lost are never returned again, even if a client has seen them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $rounds = $ENV{VECTORGPU_LONG} ? 20 : 4;
my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "wal_writer_delay = 10s\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nrestart_after_crash = on\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v vector_l2_ops); CREATE UNLOGGED TABLE u AS SELECT * FROM t; "
	  . "CREATE INDEX ui ON u USING $AM (v vector_l2_ops); CHECKPOINT");
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my $lost = 0;
for my $round (1 .. $rounds)
{
	my $first = 100000 * $round;
	my $inserted = $node->safe_psql('postgres', <<"SQL");
SET synchronous_commit = off;
SET enable_seqscan = off;
INSERT INTO t SELECT $first + i, 1, array_fill(50 + $round, ARRAY[8])::vector FROM generate_series(1, 50) i;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> array_fill(50 + $round, ARRAY[8])::vector LIMIT 50) s WHERE id > $first;
SQL
	is($inserted, 50, "round $round: the rows are seen before the crash");

	my $pid = wait_worker($node);
	kill 'STOP', $pid; # so that it does nothing of its own while the server dies
	$node->stop('immediate');
	ok(wait_gone($pid), 'the stopped worker ends with the server');
	$node->start;

	my $table = $node->safe_psql('postgres', "SET enable_indexscan = off; SELECT count(*) FROM t WHERE id > $first");
	$lost++ if $table == 0;
	# Other rows under the same row ids, and the same delta numbers.
	fill_vectors($node, 't', dims => 8, rows => 50, first => $first + 50000, seed => 100 + $round);
	ok(wait_worker($node, not_pid => $pid), 'there is a new worker');
	by_worker($node, "round $round, after the crash", sub {
		compare_sweep($node, 't', '<->', dims => 8, queries => 2, strict_ties => 1, name => "round $round: scans agree after the crash");
	});
	by_worker($node, "round $round, the unlogged table", sub {
		compare_sweep($node, 'u', '<->', dims => 8, queries => 1, limits => [ 10, undef ], name => "round $round: and those of the unlogged table");
	});
	$node->safe_psql('postgres', 'INSERT INTO u SELECT id, category, v FROM t LIMIT ' . (100 + 10 * $round)) if $round > 1;
	$node->safe_psql('postgres', 'TRUNCATE u; INSERT INTO u SELECT * FROM t') if $round == 1;
}
cmp_ok($lost, '>', 0, "the crashes lost rows ($lost of $rounds), so that there was something to get wrong");

# A backend is killed: the server restarts itself, the worker with it.
my $pid = wait_worker($node);
my $session = $node->background_psql('postgres');
my $backend = $session->query_safe('SELECT pg_backend_pid()');
kill 'KILL', $backend;
ok(wait_gone($pid), 'after a crash of a backend the worker ends');
eval { $session->quit };
ok(wait_for_restart($node), 'the server is back');
ok(wait_worker($node, not_pid => $pid), 'and so is a worker');
compare_sweep($node, 't', '<->', dims => 8, queries => 2, strict_ties => 1, name => 'scans agree');

# The supervisor is killed: the server restarts as for any of its processes; the worker is gone within a second in the best try, and there are never two workers.
sub workers
{
	my $folder = $node->data_dir;

	return grep { (readlink("$_/cwd") // '') eq $folder && (eval { slurp_file("$_/cmdline") } // '') =~ /^vectorgpu_worker\0/ } glob('/proc/[0-9]*');
}

my ($quickest, $most) = (1e9, 0);
for my $try (1 .. 3)
{
	$pid = wait_worker($node);
	my $supervisor = supervisor_pid($node);
	is(scalar(my @workers = workers()), 1, "supervisor, try $try: there is one worker");
	my $killed = time();
	kill 'KILL', $supervisor;
	ok(wait_gone($pid), "after SIGKILL of the supervisor the worker is gone, try $try");
	my $took = time() - $killed;
	$quickest = $took if $took < $quickest;
	ok(wait_for_restart($node), 'the server is back');
	ok(wait_until(sub {
		my $n = workers();
		my ($rc, $row) = $node->psql('postgres', 'SELECT ready, pid FROM vectorgpu_worker');

		$most = $n if $n > $most;
		return $rc == 0 && $row =~ /^t\|(\d+)$/ && $1 != $pid;
	}), 'and so is a worker');
	last if $quickest < 1;
}
cmp_ok($quickest, '<', 1, sprintf('the worker ended %.2f s after its supervisor', $quickest));
is($most, 1, 'there was no second one while the next came');
is(scalar(my @workers = workers()), 1, 'nor is there now');
is(scalar(my @sockets = glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*')), 1, 'with one socket');
check_index($node, 'i');
check_resources($node, $resources);
check_stopped($node);
done_testing();
