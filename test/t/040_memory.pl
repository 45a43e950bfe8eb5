# Memory of a backend stays flat: LATERAL over many outer rows (C24), many scans, many inserts, cursors left open, errors
# in the middle of scans. Scans of gpuivf and gpugraph look at few lists and follow edges; gpumatch counts matches of sets.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuMatch;
use VectorgpuWorker;

my $node    = make_node('memory', conf => "shared_buffers = 64MB\n");
my $scans   = $ENV{VECTORGPU_LONG} ? 1_000_000 : $AM eq 'gpuflat' ? 100_000 : 3_000;
my $outer   = $ENV{VECTORGPU_LONG} || $AM eq 'gpuflat' ? 20_000 : 3_000;
my $rows    = $AM eq 'gpuflat' ? 60 : 1_000;    # enough of them for lists and edges
my $wide    = $ENV{VECTORGPU_LONG} || $AM eq 'gpuflat' ? 6_000 : 2_000;
my $kept = kept_memory_kb();
my $allowed = 2048 + $kept;    # kB: what the allocator may keep, not a function of the number of scans

# SQL of a value that depends on a number.
sub value
{
	my ($number) = @_;

	return of_match() ? "ARRAY[33 + $number, 65, 99, 130]" : "('[' || $number || ',1,1,1,1,1,1,1]')::vector";
}

my ($of_loop, $fixed) = (value('i % 7'), value(1));
my $constant  = of_match() ? "'{1,2,3,4,5,6,7,8}'" : "'[1,2,3,4,5,6,7,8]'";
my $impossible = of_match() ? "PERFORM 1 / (id - id) FROM t ORDER BY v $OP $fixed LIMIT 1" : "PERFORM id FROM t ORDER BY v <-> '[1,1]' LIMIT 1";

create_values($node) if of_match();
$node->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(8) . ')');
fill_values($node, 't', dims => 8, rows => $rows);
$node->safe_psql('postgres', <<SQL);
CREATE INDEX t_v ON t USING $AM (v $CLASS);
INSERT INTO t SELECT id + 5000, category, v FROM t WHERE id <= 20;
CREATE FUNCTION scan_many(n int) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE
	total bigint := 0;
	found bigint;
	i int;
BEGIN
	FOR i IN 1 .. n LOOP
		SELECT id INTO found FROM t ORDER BY v $OP $of_loop LIMIT 1;
		total := total + found;
	END LOOP;
	RETURN total;
END
\$\$;
CREATE FUNCTION fail_many(n int) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE
	failed bigint := 0;
	i int;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			PERFORM 1 / (id - id) FROM t ORDER BY v $OP $fixed;
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
		BEGIN
			$impossible;
		EXCEPTION WHEN data_exception THEN
			failed := failed + 1;
		END;
	END LOOP;
	RETURN failed;
END
\$\$;
SQL

my $session = $node->background_psql('postgres');
my $pid     = session_pid($session);
$session->query_safe('SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET work_mem = \'4MB\'; SET gpuivf.probes = 2; SET gpugraph.search_width = 16');

sub flat
{
	my ($what, $warm_up, $sql, $expected, $times) = @_;

	$session->query_safe($warm_up);
	my $before = backend_memory_kb($pid);
	my @results = map { $session->query_safe($sql) } 1 .. $times // 1;    # in pieces, since none may take longer than PG_TEST_TIMEOUT_DEFAULT
	my $after  = backend_memory_kb($pid);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(' ', grep { !/$expected/ } @results), '', "$what: right result");
	cmp_ok($after - $before, '<', $allowed, "$what: memory is flat ($before kB before, $after kB after)");
	return;
}

my $lateral = "SELECT count(*), count(DISTINCT n.id) FROM generate_series(1, %d) o, LATERAL (SELECT id FROM t ORDER BY v $OP " . value('o %% 11') . ' LIMIT 2) n';
like($session->query_safe('EXPLAIN ' . sprintf($lateral, $outer)), qr/Nested Loop.*Index Scan using t_v/s, 'LATERAL uses the index');
flat("LATERAL over $outer rows", sprintf($lateral, 1000), sprintf($lateral, $outer), qr/^@{[ 2 * $outer ]}\|/);
my $at_once = $scans < 20_000 ? $scans : 20_000;
flat("$scans scans", 'SELECT scan_many(1000)', "SELECT scan_many($at_once)", qr/^\d+$/, $scans / $at_once);
flat('2,000 scans that end in an error', 'SELECT fail_many(200)', 'SELECT fail_many(1000)', qr/^2000$/);
my $insert = "INSERT INTO t SELECT i, 0, $constant FROM generate_series(%d, %d) i";
flat('20,000 inserts', sprintf($insert, 10_001, 12_000), sprintf($insert, 20_001, 40_000) . "; SELECT 'done'", qr/^done$/);
my ($whole, $other) = map { "SELECT count(*) FROM (SELECT id FROM t ORDER BY v $OP $_) s" } $fixed, value(2);
flat('whole scans that widen by rounds', join(';', ($whole) x 3), join(';', ($other) x 10), qr/^(?:\d+\n?){10}$/) if $AM =~ /ivf|graph/;
$session->query_safe('RESET gpuivf.probes; RESET gpugraph.search_width');
flat('whole scans of 22,000 rows', join(';', ($whole) x 3), join(';', ($other) x 10), qr/^(?:@{[ $rows + 20 + 22_000 ]}\n?){10}$/);
flat('merge and vacuum, again and again', "SELECT vectorgpu_merge('t_v') IS NULL AND false; VACUUM t",
	join(';', ("INSERT INTO t SELECT nextval('pg_temp.s'), 0, $constant FROM generate_series(1, 10)", "DELETE FROM t WHERE id > 100000", 'VACUUM t', "SELECT vectorgpu_merge('t_v') IS NULL AND false") x 20), qr/^(?:f\n?){20}$/)
  if $session->query_safe("CREATE TEMP SEQUENCE s START 100001; SELECT 1");
$session->quit;

# For a session: the most memory (kB) that its process takes beyond its start while it runs a statement.
sub most_memory
{
	my ($settings, $sql) = @_;
	my $limited = $node->background_psql('postgres');
	my $backend = session_pid($limited);
	my $highest = 0;

	$limited->query_safe("SET vectorgpu.worker = off; SET client_min_messages = error; $settings; SELECT count(*) FROM (SELECT v $OP v FROM wide LIMIT 10) s");
	my $least = backend_memory_kb($backend);
	$limited->query_until(qr/begun/, "\\echo begun\n/* measured */ $sql;\n");
	while (defined(my $now = backend_memory_kb($backend)))
	{
		$highest = $now if $now > $highest;
		last if $node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $backend AND query LIKE '/* measured */%'") eq 'idle';
		select undef, undef, undef, 0.02;
	}
	return ($limited, $highest - $least);
}

# A scan of rows that do not fit in work_mem is bounded too.
$node->safe_psql('postgres', 'CREATE TABLE wide (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(512) . ')');
fill_values($node, 'wide', dims => 512, rows => $wide, seed => 2);
$node->safe_psql('postgres', "CREATE INDEX wide_v ON wide USING $AM (v $CLASS)");
$session = $node->background_psql('postgres');
$pid     = session_pid($session);
$session->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET work_mem = '1MB'; SELECT id FROM wide WHERE id = 1");
my $before = backend_memory_kb($pid);
is($session->query_safe("SELECT count(*) FROM (SELECT id FROM wide ORDER BY v $OP (SELECT v FROM wide WHERE id = 7)) s"), $wide, '4 or 12 MB of values with 1 MB of work_mem');
cmp_ok(backend_memory_kb($pid) - $before, '<', 8192 + $kept, 'the values were not copied into the backend');
$session->quit;

# A statement that inserts many rows keeps no memory for each row either; core has a queue of 2 MB and more for its triggers and locks.
($session, my $most) = most_memory("SET work_mem = '1MB'", "INSERT INTO wide SELECT w.id + $wide * i, w.category, w.v FROM wide w, generate_series(1, 4) i");
is($session->query_safe('SELECT count(*) FROM wide'), 5 * $wide, 'many rows inserted');
cmp_ok($most, '<', 16 * 1024 + $kept, "an INSERT of 16 or 48 MB keeps no memory of its rows ($most kB more at most)");
$session->quit;

# Builds do not hold the table in memory: 20 or 60 MB of values with 2 MB of maintenance_work_mem (6 to train a product quantiser), and batches of
# up to 24 MB beside it.
for my $method (grep { $_->[0] eq $AM } [ 'gpuflat', 2 ], [ 'gpuivf', 2 ], [ 'gpuivf', 6, 'storage = pq, pq_m = 8, pq_bits = 4, refine = none' ], [ 'gpugraph', 2 ], [ 'gpumatch', 2 ])
{
	my ($am, $megabytes, $storage) = @$method;
	my $label   = $am . (defined $storage ? ", $storage" : '');

	($session, $most) = most_memory("SET maintenance_work_mem = '${megabytes}MB'; SET max_parallel_maintenance_workers = 0",
		"CREATE INDEX built ON wide USING $am (v $CLASS)" . (defined $storage ? " WITH ($storage)" : ''));
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'built'}), '1', "$label: built");
	cmp_ok($most, '<', ($megabytes + 24) * 1024 + $kept, "$label: a build keeps within its memory ($most kB more at most)");
	$session->quit;
	($session, $most) = most_memory("SET maintenance_work_mem = '${megabytes}MB'", q{SELECT vectorgpu_check('built', true)});
	cmp_ok($most, '<', ($megabytes + 24) * 1024 + $kept, "$label: so does a check against the table ($most kB more at most)");
	$session->query_safe('DROP INDEX built');
	$session->quit;
}

$node->stop;

# A long-lived worker keeps no memory of finished work either (I5): the same work repeatedly, each time by new sessions. Its memory after all copies
# are gone is compared with that after the first rounds.
SKIP:
{
	skip 'the worker is not installed', 1 unless -x worker_file($node);
	my $served = make_node('served', conf => "shared_preload_libraries = 'vectorgpu'\nautovacuum = off\nvectorgpu.auto_merge = off\nvectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 600s\n");
	my ($first, $rounds) = (15, $ENV{VECTORGPU_LONG} ? 600 : 60);
	my $id = 10_000;

	create_values($served) if of_match();
	$served->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(32) . ')');
	fill_values($served, 't', dims => 32, rows => 2000);
	$served->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v $CLASS)");
	my $worker = wait_worker($served);
	my $round = sub {
		my $scans = join ';', ("SELECT count(*) FROM (SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = 1 + random() * 1000 LIMIT 1) LIMIT 20) s") x 5;
		my ($from, $to) = ($id + 1, $id += 50);

		$served->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SELECT vectorgpu_prewarm('t_v') IS NULL; $scans");
		$served->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; INSERT INTO t SELECT $from + id, 0, v FROM t WHERE id BETWEEN 1 AND 50; $scans; DELETE FROM t WHERE id > 10000; $scans");
		$served->safe_psql('postgres', 'VACUUM t');
		$served->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $scans; SELECT vectorgpu_check('t_v', false, true) IS NULL; SELECT vectorgpu_merge('t_v') IS NULL");
		$served->safe_psql('postgres', "CREATE INDEX other ON t USING $AM (v $CLASS); SELECT vectorgpu_prewarm('other') IS NULL; DROP INDEX other; SELECT vectorgpu_evict('t_v')");
	};
	# Copies are dropped a moment later.
	my $held = sub {
		$served->poll_query_until('postgres', 'SELECT copies = 0 FROM vectorgpu_worker') or die 'copies stay';
		my ($least) = sort { $a <=> $b } map { select undef, undef, undef, 0.1; backend_memory_kb($worker) } 1 .. 10;
		return $least;
	};

	$round->() for 1 .. $first;
	my $at_first = $held->();
	$round->() for 1 .. $rounds;
	my $at_last = $held->();
	is(worker_pid($served), $worker, 'it is one worker');
	cmp_ok($at_last - $at_first, '<', 4096 + $kept, "a worker keeps no memory of $rounds rounds of loads, searches, changes, checks and builds ($at_first kB after $first rounds, then $at_last)");
	$served->stop;
}
done_testing();
