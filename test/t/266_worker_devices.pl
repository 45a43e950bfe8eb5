# A worker of several devices: vectorgpu.device names two CPU engines, which take the places of two GPUs. Small copies are on both, large ones are cut;
# a device that is lost takes its copies away and comes back; the last one takes the worker along; answers stay right. Two clusters beside each other.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $conf = "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.auto_merge = off\n"
  . "vectorgpu.worker_timeout = 30s\nvectorgpu.device = 'cpu,cpu'\n";
my $node = make_node('main', conf => $conf);

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
make_table($node, 't', dims => 64);
fill_vectors($node, 't', dims => 64, rows => 9000);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE u AS SELECT * FROM t LIMIT 1000;
CREATE INDEX u_i ON u USING gpuivf (v vector_l2_ops) WITH (lists = 8);
CREATE TABLE g AS SELECT * FROM u;
CREATE INDEX g_i ON g USING gpugraph (v vector_l2_ops);
CREATE TABLE s (id bigint PRIMARY KEY, v int[]);
INSERT INTO s SELECT i, ARRAY[i % 7, 10 + i % 11, 30 + i % 13, 50 + i % 101] FROM generate_series(1, 400) i;
CREATE INDEX s_i ON s USING gpumatch (v);
CREATE TABLE r AS SELECT * FROM u;
CREATE INDEX r_i ON r USING gpuivf (v vector_l2_ops) WITH (lists = 8, storage = rabitq);
CREATE TABLE p (LIKE u) PARTITION BY HASH (id);
DO $$ BEGIN
	FOR i IN 0 .. 7 LOOP
		EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i);
	END LOOP;
END $$;
INSERT INTO p SELECT * FROM t WHERE id <= 2000;
CREATE INDEX p_i ON p USING gpuflat (v vector_l2_ops);
SQL
my $first = wait_worker($node);
my $set_surroundings = wrap_worker($node);
$node->reload;
ok(wait_worker($node, not_pid => $first), 'a worker of two devices');
my $resources = note_resources($node);

sub of_index
{
	my ($columns, $index) = @_;

	return $node->safe_psql('postgres', "SELECT $columns FROM vectorgpu_indexes WHERE index_name = '$index'");
}

# Every access method, with rows inserted and deleted meanwhile. queries: of gpuflat.
sub check_copies
{
	my ($name, %opt) = @_;

	by_worker($node, "$name: the worker answers", sub {
		compare_sweep($node, 't', '<->', dims => 64, strict_ties => 1, queries => $opt{queries} // 1, name => "$name: gpuflat");
	});
	for my $index (qw(i u_i g_i s_i r_i))
	{
		is($node->safe_psql('postgres', "SELECT vectorgpu_prewarm('$index')") ne '', 1, "$name: $index has a copy");
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_check('$index', true, true)");

		is("$rc$err", '0', "$name: $index and its copy are sound");
	}
	return;
}

# Searches of lists, graphs, sets and partitions (p: all searches in one request) through the worker against those from the pages: same rows, by
# the same effort.
sub compare_with_pages
{
	my ($name) = @_;
	my $sql = 'SET enable_seqscan = off; SET enable_sort = off; '
	  . join('; ', map { my $q = $_; map { "SELECT '$_', ARRAY(SELECT id FROM $_ ORDER BY v @{[ $_ eq 's' ? '<#>' : '<->' ]} (SELECT v FROM $_ WHERE id = $q) LIMIT 20)" } qw(u g s r p) } 1 .. 9);
	my $pages = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $sql");

	by_worker($node, "$name: the worker answers searches of lists, graphs, sets and partitions", sub {
		is($node->safe_psql('postgres', $sql), $pages, "$name: as the pages do");
	});
	return;
}

# Replicas
check_copies('replicas', queries => 3);
compare_with_pages('replicas');
like($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (ANALYZE) SELECT id FROM p ORDER BY v <-> (SELECT v FROM p WHERE id = 1) LIMIT 20'),
	qr/Asked Ahead/, 'searches of partitions go in one request');
is(worker_stat($node, 'devices'), '{cpu,cpu}', 'the view names the devices');
is(worker_stat($node, 'lost_devices'), '{}', 'and none is lost');
like(worker_stat($node, 'device'), qr/^2 x cpu/, 'and what they are');
is(of_index('devices', 'i'), '{cpu,cpu}', 'a small copy is on both');
is(of_index('device_bytes[1] = device_bytes[2], device_bytes[1] >= 9000 * 64 * 4', 'i'), 't|t', 'with all its bytes');
is(of_index('host_bytes', 'i'), '0', 'and none apart from the devices');
$node->safe_psql('postgres', 'INSERT INTO u SELECT id + 1000000, category, v FROM t LIMIT 50; DELETE FROM t WHERE id % 100 = 3; VACUUM t; INSERT INTO g SELECT id + 1000000, category, v FROM t LIMIT 50');
check_copies('replicas after changes');
compare_with_pages('replicas after changes');
$node->safe_psql('postgres', 'DROP TABLE answers');
make_answers($node, 20);

# start_with: settings and a fault; waits for the new worker.
sub start_with
{
	my ($fault, @settings) = @_;
	my $old = worker_pid($node);

	$set_surroundings->(defined $fault ? "export VECTORGPU_WORKER_FAULT='$fault'" : '');
	$node->append_conf('postgresql.conf', "$_\n") for @settings;
	$node->reload;
	sleep 1 if @settings;
	kill_worker($node) if (worker_pid($node) // 0) == $old;
	ok(wait_worker($node, not_pid => $old), 'a new worker' . (defined $fault ? " with $fault" : ''));
	return;
}

# Shards: a device has room for less than the copy of t.
start_with(undef, 'vectorgpu.gpu_memory = 2MB');
check_copies('shards', queries => 3);
compare_with_pages('shards');
is(of_index('devices', 'i'), '{cpu,cpu}', 'a copy that is larger than a device is on both');
is(of_index('device_bytes[1] + device_bytes[2] < 2 * 9000 * 64 * 4 AND device_bytes[1] > 9000 * 64 AND device_bytes[2] > 9000 * 64', 'i'), 't', 'each has a part');
is($node->safe_psql('postgres', 'SELECT bool_and(b <= 2 * 1024 * 1024) FROM vectorgpu_worker, unnest(device_bytes) b'), 't', 'and no device more than it may');

SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);

	# A device is lost under load: no wrong answer and no error, the worker stays, and the device comes back.
	for my $case ([ 'replicas', 'vectorgpu.gpu_memory = 0' ], [ 'shards', 'vectorgpu.gpu_memory = 2MB' ])
	{
		my ($name, $setting) = @$case;

		start_with('lose_device:300:error', $setting);
		my $pid = worker_pid($node);
		my $offset = -s $node->logfile;
		my $run = start_clients($node, clients => 6, seconds => 5);
		ok(wait_log($node, qr/device cpu is lost/, $offset), "$name: a device is lost under load");
		my $lost = worker_stat($node, 'lost_devices');
		my ($done, $wrong) = finish_clients($run);

		is($wrong, '', "$name: no wrong answer and no error in $done scans");
		is($lost, '{cpu}', "$name: the view names the lost device");
		is(worker_pid($node), $pid, "$name: the worker goes on");
		check_copies("$name with one device");
		ok(wait_until(sub { (worker_stat($node, 'lost_devices') // '') eq '{}' }, 60), "$name: the device comes back");
		like(slurp_file($node->logfile, $offset), qr/device cpu is used again/, "$name: the log says so");
		ok(wait_until(sub { of_index('devices', 'u_i') eq '{cpu,cpu}' }, 60), "$name: a small copy is brought there")
		  if $name eq 'replicas';
		check_copies("$name with both again");
		is(worker_pid($node), $pid, "$name: the worker has gone on");
	}

	# Both: the worker ends, as with the only GPU, and the next one has both.
	start_with('lose_device:200:error,lose_device:260:error', 'vectorgpu.gpu_memory = 0');
	my $pid = worker_pid($node);
	my $offset = -s $node->logfile;
	my $run = start_clients($node, clients => 6, seconds => 5);

	ok(wait_log($node, qr/ended with status 3/, $offset), 'a worker that loses both devices ends');
	$set_surroundings->('');
	my ($done, $wrong) = finish_clients($run);
	is($wrong, '', "no wrong answer and no error in $done scans");
	start_with(undef);
	is(worker_stat($node, 'lost_devices'), '{}', 'the next one has both');
	check_copies('after the loss of all');
}

# A second cluster with devices of its own, within its own budget.
my $other = make_node('other', conf => $conf . "vectorgpu.gpu_memory = 2MB\n");
make_table($other, 't', dims => 64);
fill_vectors($other, 't', dims => 64, rows => 9000, seed => 5);
$other->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($other, 20);
ok(wait_worker($other), 'a worker of a second cluster');
my @runs = map { start_clients($_, clients => 3, seconds => 3) } $node, $other;
for my $run (@runs)
{
	my ($done, $wrong) = finish_clients($run);

	is($wrong, '', "two clusters beside each other: no wrong answer in $done scans");
	ok($done > 0, 'and there are some');
}
is($other->safe_psql('postgres', 'SELECT bool_and(b <= 2 * 1024 * 1024) FROM vectorgpu_worker, unnest(device_bytes) b'), 't', 'the second keeps its budget');
is($other->safe_psql('postgres', q(SELECT devices FROM vectorgpu_indexes WHERE index_name = 'i')), '{cpu,cpu}', 'its copy is cut');
check_stopped($other);

# One device is as before.
start_with(undef, "vectorgpu.device = 'cpu'");
is(worker_stat($node, 'devices'), undef, 'a worker with one device names no list');
is(of_index('devices', 'i'), '', 'nor does the view of indexes');

# Wrong lists are refused.
for my $wrong ('cpu,cuda:0', 'cuda:0,cuda:0', 'cpu,', ',cpu', 'cuda:0, cuda:1', 'auto,cpu', 'cuda,cuda', 'cuda:0,cuda:1000', join(',', ('cpu') x 17))
{
	my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; ALTER SYSTEM SET vectorgpu.device = '$wrong'", on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	like($err, qr/22023: invalid value for parameter "vectorgpu.device".*DETAIL:  Valid values are/s, "\"$wrong\" is refused");
}
is(count_restarts($node), 0, 'the server never restarted by itself');
check_resources($node, $resources);
check_stopped($node);
done_testing();
