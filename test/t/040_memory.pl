# Memory of a backend stays flat: LATERAL over many outer rows (C24), many scans, many inserts, cursors left open, errors
# in the middle of scans.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node    = make_node('memory', conf => "shared_buffers = 64MB\n");
my $scans   = $ENV{VECTORGPU_LONG} ? 1_000_000 : 100_000;
my $allowed = 2048;    # kB: what the allocator may keep, not a function of the number of scans

make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 60);
$node->safe_psql('postgres', <<'SQL');
CREATE INDEX t_v ON t USING gpuflat (v vector_l2_ops);
INSERT INTO t SELECT id + 100, category, v FROM t WHERE id <= 20;
CREATE FUNCTION scan_many(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	total bigint := 0;
	found bigint;
	i int;
BEGIN
	FOR i IN 1 .. n LOOP
		SELECT id INTO found FROM t ORDER BY v <-> ('[' || i % 7 || ',1,1,1,1,1,1,1]')::vector LIMIT 1;
		total := total + found;
	END LOOP;
	RETURN total;
END
$$;
CREATE FUNCTION fail_many(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	failed bigint := 0;
	i int;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			PERFORM 1 / (id - id) FROM t ORDER BY v <-> '[1,1,1,1,1,1,1,1]';
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
		BEGIN
			PERFORM id FROM t ORDER BY v <-> '[1,1]' LIMIT 1;
		EXCEPTION WHEN data_exception THEN
			failed := failed + 1;
		END;
	END LOOP;
	RETURN failed;
END
$$;
SQL

my $session = $node->background_psql('postgres');
my $pid     = session_pid($session);
$session->query_safe('SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET work_mem = \'4MB\'');

sub flat
{
	my ($what, $warm_up, $sql, $expected) = @_;

	$session->query_safe($warm_up);
	my $before = backend_memory_kb($pid);
	my $result = $session->query_safe($sql);
	my $after  = backend_memory_kb($pid);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($result, $expected, "$what: right result");
	cmp_ok($after - $before, '<', $allowed, "$what: memory is flat ($before kB before, $after kB after)");
	return;
}

my $lateral = "SELECT count(*), count(DISTINCT n.id) FROM generate_series(1, %d) o, LATERAL (SELECT id FROM t ORDER BY v <-> ('[' || o %% 11 || ',0,0,0,0,0,0,0]')::vector LIMIT 2) n";
like($session->query_safe('EXPLAIN ' . sprintf($lateral, 20_000)), qr/Nested Loop.*Index Scan using t_v/s, 'LATERAL uses the index');
flat('LATERAL over 20,000 rows', sprintf($lateral, 2000), sprintf($lateral, 20_000), qr/^40000\|/);
flat("$scans scans", 'SELECT scan_many(5000)', "SELECT scan_many($scans)", qr/^\d+$/);
flat('2,000 scans that end in an error', 'SELECT fail_many(200)', 'SELECT fail_many(1000)', qr/^2000$/);
my $insert = "INSERT INTO t SELECT i, 0, '[1,2,3,4,5,6,7,8]' FROM generate_series(%d, %d) i";
flat('20,000 inserts', sprintf($insert, 10_001, 12_000), sprintf($insert, 20_001, 40_000) . "; SELECT 'done'", qr/^done$/);
flat('whole scans of 22,000 rows', join(';', ("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> '[1,1,1,1,1,1,1,1]') s") x 3),
	join(';', ("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> '[1,1,1,1,1,1,1,2]') s") x 10), qr/^(?:22080\n?){10}$/);
flat('merge and vacuum, again and again', "SELECT vectorgpu_merge('t_v') IS NULL AND false; VACUUM t",
	join(';', ("INSERT INTO t SELECT nextval('pg_temp.s'), 0, '[1,2,3,4,5,6,7,8]' FROM generate_series(1, 10)", "DELETE FROM t WHERE id > 100000", 'VACUUM t', "SELECT vectorgpu_merge('t_v') IS NULL AND false") x 20), qr/^(?:f\n?){20}$/)
  if $session->query_safe("CREATE TEMP SEQUENCE s START 100001; SELECT 1");
$session->quit;

# A scan of rows that do not fit in work_mem is bounded too.
make_table($node, 'wide', dims => 512);
fill_vectors($node, 'wide', dims => 512, rows => 6000, seed => 2);
$node->safe_psql('postgres', 'CREATE INDEX wide_v ON wide USING gpuflat (v vector_l2_ops)');
$session = $node->background_psql('postgres');
$pid     = session_pid($session);
$session->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET work_mem = '1MB'; SELECT id FROM wide WHERE id = 1");
my $before = backend_memory_kb($pid);
is($session->query_safe('SELECT count(*) FROM (SELECT id FROM wide ORDER BY v <-> (SELECT v FROM wide WHERE id = 7)) s'), 6000, '12 MB of vectors with 1 MB of work_mem');
cmp_ok(backend_memory_kb($pid) - $before, '<', 8192, 'the vectors were not copied into the backend');
$session->quit;

# Builds do not hold the table: 60 MB of vectors with 2 MB of maintenance_work_mem (6 to train a product quantiser), and batches of up to 24 MB
# beside it.
$node->safe_psql('postgres', 'INSERT INTO wide SELECT w.id + 6000 * i, w.category, w.v FROM wide w, generate_series(1, 4) i');
for my $method ([ 'gpuflat', 2 ], [ 'gpuivf', 2 ], [ 'gpuivf', 6, 'storage = pq, pq_m = 8, pq_bits = 4, refine = none' ], [ 'gpugraph', 2 ])
{
	my ($am, $megabytes, $storage) = @$method;
	my $label   = $am . (defined $storage ? ", $storage" : '');
	my $highest = 0;

	$session = $node->background_psql('postgres');
	$pid     = session_pid($session);
	$session->query_safe("SET vectorgpu.worker = off; SET client_min_messages = error; SET maintenance_work_mem = '${megabytes}MB'; SET max_parallel_maintenance_workers = 0; "
		  . 'SELECT count(*) FROM (SELECT v <-> v FROM wide LIMIT 10) s');
	$before = backend_memory_kb($pid);
	$session->query_until(qr/begun/, "\\echo begun\nCREATE INDEX built ON wide USING $am (v vector_l2_ops)"
		  . (defined $storage ? " WITH ($storage)" : '') . ";\n");
	while (defined(my $now = backend_memory_kb($pid)))
	{
		$highest = $now if $now > $highest;
		last if $node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'CREATE INDEX built%'") eq 'idle';
		select undef, undef, undef, 0.02;
	}
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'built'}), '1', "$label: built");
	cmp_ok($highest - $before, '<', ($megabytes + 24) * 1024, "$label: a build keeps within its memory (" . ($highest - $before) . ' kB more at most)');
	$session->query_safe('DROP INDEX built');
	$session->quit;
}

$node->stop;
done_testing();
