# Lists that several processes write (gpuivf), and vectors that lie out of line in any order: updated, deleted, reused places, compressed values.
# Errors and a crash while lists are written; limits of temporary files; more rows than the last count says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuTest;

my $node = make_node('lists', streaming => 1, conf => "restart_after_crash = on\nfsync = off\nautovacuum = off\nvectorgpu.worker = off\nvectorgpu.auto_merge = off\n"
	  . "min_parallel_table_scan_size = 0\nmaintenance_work_mem = 256MB\nmax_parallel_maintenance_workers = 2\n");
my $lists = 'CREATE INDEX t_lists ON t USING gpuivf (v vector_l2_ops) WITH (lists = 12)';
my $beside = qr/using \d parallel workers to write the lists/;

# Whether a statement writes lists in several processes.
sub beside
{
	my ($statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; $statements");

	is($rc, 0, $statements) or diag($err);
	return $err =~ $beside ? 1 : 0;
}

sub no_files
{
	my ($when) = @_;

	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_tmpdir()}), 0, "no temporary files $when");
	return;
}

my $standby = make_standby($node, 'standby');

# Values of 2.8 kB in two chunks each: some updated and some deleted, their places used again, so that chunks do not follow each other.
make_table($node, 't', dims => 700);
fill_vectors($node, 't', rows => 3000, dims => 700, null_every => 11);
$node->safe_psql('postgres', "UPDATE t SET v = (SELECT v FROM t o WHERE o.id = 3001 - t.id) WHERE id % 6 = 0; DELETE FROM t WHERE id % 7 = 0; VACUUM t");
fill_vectors($node, 't', rows => 1200, first => 5000, dims => 700, null_every => 13, seed => 5);
$node->safe_psql('postgres', "UPDATE t SET category = category + 1 WHERE id % 5 = 0; ALTER TABLE t SET (parallel_workers = 2); ANALYZE t");

is(beside($lists), 1, 'workers write the lists');
no_files('after a build');
check_index($node, 't_lists');
compare_sweep($node, 't', '<->', dims => 700, queries => 2, name => 'lists written by workers');
wait_standby($node, $standby);
check_index($standby, 't_lists', name => 'lists written by workers, on a standby');
compare_scans($standby, 't', '<->', query_vector($node, 4, dims => 700), name => 'scans of a standby');
my $pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('t_lists')});
is(beside('SET max_parallel_maintenance_workers = 0; REINDEX INDEX t_lists'), 0, 'one process writes them');
is($node->safe_psql('postgres', q{SELECT pg_relation_size('t_lists')}), $pages, 'with the same size');
is(beside('REINDEX INDEX t_lists'), 1, 'workers write the lists of a REINDEX');
check_index($node, 't_lists', narrow => 0);
for my $storage ("storage = 'sq8'", "storage = 'pq', pq_m = 28", "storage = 'rabitq'") # the last one's rotation is random
{
	my $coded = $lists =~ s/lists = 12/lists = 12, $storage/r;
	my $same = sub {
		my ($processes, $first) = @_;
		my ($rc, $out, $err) = $node->psql('postgres', "DROP INDEX t_lists; SET client_min_messages = debug1; SET max_parallel_maintenance_workers = $processes; $first; $coded");

		is($rc, 0, "$storage, $processes workers") or diag($err);
		is($err =~ $beside ? 1 : 0, $processes > 0 ? 1 : 0, "$storage: $processes workers write the lists");
		check_index($node, 't_lists');
		return $err =~ /(take \d+ candidates.*)/ ? $1 : 'no message';
	};
	my $alone = $same->(0, 'SELECT 1');
	my $together = $same->(2, 'SELECT 1');

	like($alone, qr/candidates/, "$storage is calibrated");
	like($together, qr/candidates/, "$storage is calibrated beside workers");
	next if $storage =~ /rabitq/;
	is($together, $alone, "$storage: as many candidates when recall is measured while workers write");
	is($same->(2, q{SET vectorgpu.fault = 'ivf_calibrate:1:sleep'}), $alone, "$storage: and when they have written all before") if faults_enabled($node);
}
$node->safe_psql('postgres', "DROP INDEX t_lists; $lists");
is(beside('SET temp_file_limit = 1000000; REINDEX INDEX t_lists'), 0, 'a limit of temporary files counts what the leader writes');
check_index($node, 't_lists');
is(beside('REINDEX INDEX CONCURRENTLY t_lists'), 0, 'beside other sessions the leader writes');
check_index($node, 't_lists');
compare_sweep($node, 't', '<->', dims => 700, queries => 1, name => 'lists of a concurrent build');
$node->safe_psql('postgres', 'DROP INDEX t_lists');
is(beside('CREATE INDEX t_flat ON t USING gpuflat (v vector_l2_ops)'), 0, 'vectors in TID order');
check_index($node, 't_flat');
wait_standby($node, $standby);
check_index($standby, 't_flat', name => 'vectors in TID order, on a standby');
$standby->stop;
compare_sweep($node, 't', '<->', dims => 700, queries => 2, name => 'vectors of a table in disorder');
$node->safe_psql('postgres', 'DROP INDEX t_flat');

# Halves, and bit strings: out of line, compressed within the row, compressed out of line.
my $bits = 24000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE b (id bigint PRIMARY KEY, category int, v bit($bits)) WITH (parallel_workers = 2);
INSERT INTO b SELECT i, 0, (SELECT string_agg(CASE i % 3 WHEN 0 THEN '01' WHEN 1 THEN (hashint8extended(i * 30000 + d, 1) & 3)::bit(2)::text
	ELSE (hashint8extended(i * 30000 + d % 9000, 1) & 3)::bit(2)::text END, '' ORDER BY d) FROM generate_series(1, $bits / 2) d)::bit($bits)
	FROM generate_series(1, 150) i;
ANALYZE b;
CREATE INDEX b_flat ON b USING gpuflat (v bit_hamming_ops);
SQL
check_index($node, 'b_flat');
compare_sweep($node, 'b', '<~>', type => 'bit', dims => $bits, queries => 2, name => 'bit strings out of line');
$node->safe_psql('postgres', 'CREATE TABLE h (id bigint PRIMARY KEY, category int, v halfvec(3000)) WITH (parallel_workers = 2)');
fill_vectors($node, 'h', rows => 500, dims => 3000, type => 'halfvec');
$node->safe_psql('postgres', 'ANALYZE h; CREATE INDEX h_flat ON h USING gpuflat (v halfvec_l2_ops)');
check_index($node, 'h_flat');
compare_sweep($node, 'h', '<->', type => 'halfvec', dims => 3000, queries => 2, name => 'halves out of line');

# Rows that were not counted yet: as many as have room in the table's blocks.
make_table($node, 'fresh', dims => 128);
$node->safe_psql('postgres', 'ALTER TABLE fresh SET (parallel_workers = 2)');
fill_vectors($node, 'fresh', rows => 24000, dims => 128);
is(beside('CREATE INDEX fresh_lists ON fresh USING gpuivf (v vector_l2_ops) WITH (lists = 12)'), 1, 'workers write the lists of a table without a count');
check_index($node, 'fresh_lists', narrow => 0);
$node->safe_psql('postgres', 'DROP TABLE fresh');

# More rows than the last count says, and than memory holds: they go to the leader's own file.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE many (id bigint, v vector(2000)) WITH (parallel_workers = 2);
INSERT INTO many SELECT i, (SELECT array_agg((hashint8extended(i * 2000 + d, 1) & 255)::real) FROM generate_series(1, 2000) d)::vector FROM generate_series(1, 100) i;
INSERT INTO many SELECT id + 100 * k, v FROM many, generate_series(1, 259) k;
ANALYZE many;
UPDATE pg_class SET reltuples = relpages WHERE relname = 'many';
SQL
is(beside('CREATE INDEX many_lists ON many USING gpuivf (v vector_l2_ops) WITH (lists = 4)'), 0, 'more rows than memory holds');
check_index($node, 'many_lists', narrow => 0);
no_files('afterwards');

# Vectors that take more than half of the memory: the samples of codes take what these leave.
$node->safe_psql('postgres', 'CREATE TABLE half AS SELECT * FROM many WHERE id <= 17500; DROP TABLE many; ANALYZE half');
for my $storage (qw(sq8 rabitq))
{
	is(beside("SET max_parallel_maintenance_workers = 0; SET temp_file_limit = '8MB'; CREATE INDEX half_lists ON half USING gpuivf (v vector_l2_ops) WITH (lists = 4, storage = '$storage')"), 0,
		"$storage: vectors stay in memory");
	check_index($node, 'half_lists', narrow => 0);
	$node->safe_psql('postgres', 'DROP INDEX half_lists');
}
$node->safe_psql('postgres', 'DROP TABLE half');

if (faults_enabled($node))
{
	my $sound = sub {
		my ($when) = @_;

		no_files($when);
		is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 't_lists'}), 0, "no index $when");
	};

	for my $fault ('ivf_calibrate:1', map { ("ivf_write_range:$_", "build_place:$_") } 1 .. 3)
	{
		my $from = -s $node->logfile;
		my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = '$fault:error'; $lists; DROP INDEX t_lists");
		my $acted = fault_acted($node, split(/:/, $fault), $from);

		ok($acted || $fault !~ /:1/, "$fault is reached, at its first call in one of the processes");
		ok($acted ? $rc != 0 && $err =~ /fault point/ : $rc == 0, "an error at $fault") or diag($err);
		$sound->("after $fault");
	}
	my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = 'ivf_calibrate:1:sleep'; SET statement_timeout = '2s'; $lists");

	isnt($rc, 0, 'a build is canceled while recall is measured');
	like($err, qr/statement timeout/, 'at its time limit');
	$sound->('after that');
	for my $point (qw(ivf_calibrate ivf_write_range build_place))
	{
		$node->psql('postgres', "SET vectorgpu.fault = '$point:1:exit'; $lists");
		$node->poll_query_until('postgres', 'SELECT true') or die 'no restart';
		$sound->("after a crash at $point");
	}
	is(beside($lists), 1, 'and the index is made');
	check_index($node, 't_lists');
	check_faults_reached($node);
}
$node->stop;
done_testing();
