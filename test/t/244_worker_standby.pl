# A standby with its own worker follows the primary in an open session, and through a promotion.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $conf = "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
  . "vectorgpu.worker_timeout = 60s\n";
my $primary = make_node('primary', conf => $conf, streaming => 1);

plan skip_all => 'the worker is not installed' unless -x worker_file($primary);
make_table($primary, 't', dims => 8);
fill_vectors($primary, 't', dims => 8, rows => 800);
$primary->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v vector_l2_ops, category, id)");

my $standby = make_standby($primary, 'standby');
ok(wait_worker($standby), 'the standby has its own worker');
ok(wait_worker($primary), 'and so has the primary');
isnt(worker_pid($standby), worker_pid($primary), 'another one');
my $resources = note_resources($standby);

my $session = $standby->background_psql('postgres');
$session->query_safe('SET enable_seqscan = off; SET enable_sort = off');

# One test: the open session on the standby answers as a sequential scan on the primary.
sub follows
{
	my ($name) = @_;
	my $query = query_vector($primary, 7, dims => 8);

	wait_standby($primary, $standby);
	my $expected = $primary->safe_psql('postgres',
		"SET enable_indexscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> $query, ctid) s");

	by_worker($standby, $name, sub {
		is($session->query_safe("SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> $query) s"), $expected, $name);
	});
	$expected = $primary->safe_psql('postgres',
		"SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM t WHERE category = 4 AND id > 40 ORDER BY v <-> $query, ctid LIMIT 60) s");
	by_worker($standby, "$name, conditions", sub {
		is($session->query_safe("SET enable_bitmapscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM t WHERE category = 4 AND id > 40 ORDER BY v <-> $query LIMIT 60) s"),
			$expected, "$name, conditions");
	});
	return;
}

follows('at first');
fill_vectors($primary, 't', dims => 8, rows => 200, first => 10001, seed => 5);
follows('after inserts');
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 = 0');
follows('after deletes');
$primary->safe_psql('postgres', 'VACUUM t');
follows('after vacuum');
fill_vectors($primary, 't', dims => 8, rows => 300, first => 20001, seed => 6);
follows('after inserts into freed places');
$primary->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
follows('after a merge');
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id % 5 = 0; VACUUM t');
follows('after another vacuum');
$primary->safe_psql('postgres', 'REINDEX INDEX i');
follows('after REINDEX');
is($standby->safe_psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('i', true, true)"), 't',
	'the copy on the standby equals its pages');

# The worker dies under the open session.
my $pid = wait_worker($standby);
kill 'KILL', $pid;
is($session->query_safe("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> array_fill(0, ARRAY[8])::vector) s"),
	$primary->safe_psql('postgres', 'SELECT count(*) FROM t'), 'the session does not notice that the worker has died');
ok(wait_worker($standby, not_pid => $pid), 'a new one starts');
follows('with the new worker');

# Promotion under load
make_answers($primary, 20);
wait_standby($primary, $standby);
my $run = start_clients($standby, clients => 8, seconds => 6);
sleep 2;
$pid = wait_worker($standby);
$standby->promote;
my ($done, $wrong) = finish_clients($run);
is($wrong, '', 'clients see no error and no wrong row during the promotion');
cmp_ok($done, '>', 20, "and are answered ($done transactions)");
is(worker_pid($standby), $pid, 'the worker lives through it');
fill_vectors($standby, 't', dims => 8, rows => 100, first => 30001, seed => 8);
$standby->safe_psql('postgres', 'DELETE FROM t WHERE id % 11 = 0; VACUUM t');
compare_sweep($standby, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree after the promotion');
is(count_restarts($standby) + count_restarts($primary), 0, 'no server restarted by itself');
$session->quit;
check_resources($standby, $resources);
check_stopped($standby);
check_stopped($primary);
done_testing();
