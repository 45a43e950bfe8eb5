# Codes of gpuivf that the worker trains and makes: they are those of the backend, bit for bit (vectorgpu_check with heapallindexed computes the list and
# the code of every row again), for every storage, also when the worker dies in the middle. vectorgpu_kmeans by the worker.
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
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.auto_merge = off\nvectorgpu.worker_restart_delay_max = 0\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, v vector(24), h halfvec(24));
INSERT INTO t SELECT i, CASE WHEN i % 97 <> 0 THEN ARRAY(SELECT (20 * sin((i % 40) * j + j) + (i * j * 7919) % 101 / 40.0)::real
	FROM generate_series(1, 24) j)::vector END FROM generate_series(1, 4000) i;
UPDATE t SET h = v::halfvec;
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my ($trained, $coded) = (qr/the worker has trained the codes/, qr/the worker has assigned and coded the rows/);
my ($counted, $candidates) = (qr/the worker has counted the codes/, qr/take (\d+ candidates for a row, by \d+ queries with \d+ rows before)/);

# Builds t_i; returns the server's messages.
sub build
{
	my ($name, $class, $col, $with, $settings) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"DROP INDEX IF EXISTS t_i; SET client_min_messages = debug1; $settings; CREATE INDEX t_i ON t USING gpuivf ($col $class) WITH (lists = 25, $with)");

	is($rc, 0, "$name: the index is built") or diag($err);
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', "$name: lists and codes are the backend's");
	cmp_ok($node->safe_psql('postgres', "SET gpuivf.probes = 20; SELECT recall FROM vectorgpu_recall('t_i', 50, 10)"), '>', 0.8, "$name: it finds the nearest rows");
	return $err;
}

for my $case (['bytes', 'vector_l2_ops', 'v', q{storage = 'sq8'}], ['bytes of halves', 'halfvec_cosine_ops', 'h', q{storage = 'sq8'}],
	['parts', 'vector_l2_ops', 'v', q{storage = 'pq', pq_m = 12}], ['parts, inner product', 'vector_ip_ops', 'v', q{storage = 'pq', pq_m = 12}],
	['parts of 4 bits, cosine', 'vector_cosine_ops', 'v', q{storage = 'pq', pq_bits = 4, pq_m = 13}],
	['parts, turned', 'vector_l2_ops', 'v', q{storage = 'pq', pq_m = 8, opq, refine = 'fp16'}],
	['bits', 'vector_l2_ops', 'v', q{storage = 'rabitq', bits = 4}], ['bits, inner product', 'vector_ip_ops', 'v', q{storage = 'rabitq', bits = 8}],
	['signs of halves, cosine', 'halfvec_cosine_ops', 'h', q{storage = 'rabitq', bits = 1}])
{
	my ($name, @with) = @$case;
	my $said = build($name, @with, 'SELECT 1');

	like($said, $trained, "$name: the worker trained the codes") if "@with" =~ /pq/; # others take a mean or ranges, which the backend finds
	like($said, $coded, "$name: the worker coded the rows");
	like($said, $counted, "$name: the worker counted the codes");
	like($said, $candidates, "$name: of some queries");
	unlike(build("$name, without the worker", @with, 'SET vectorgpu.worker = off'), $coded, "$name: switched off");
	# A merge keeps the codec, and passes it to the worker.
	build($name, @with, 'SELECT 1');
	$node->safe_psql('postgres', "INSERT INTO t SELECT id + 10000, v, h FROM t WHERE id <= 300");
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; SELECT vectorgpu_merge('t_i')");

	like($err, $coded, "$name: the worker coded the rows of a merge");
	unlike($err, $trained, "$name: with the codes that there were");
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', "$name: a merged index passes the check");
	$node->safe_psql('postgres', 'DROP INDEX t_i; DELETE FROM t WHERE id > 10000');
	$node->safe_psql('postgres', 'VACUUM t');
}
unlike(build('halves', 'vector_l2_ops', 'v', q{storage = 'fp16'}, 'SELECT 1'), $coded, 'halves are made by the backend');

SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	my @pq = ('vector_l2_ops', 'v', q{storage = 'pq', pq_m = 12});

	# Counted by the backend: the same counts (of RaBitQ every build draws another rotation).
	for my $with (q{storage = 'sq8'}, q{storage = 'pq', pq_m = 12}, q{storage = 'pq', pq_bits = 4, refine = 'fp16'})
	{
		my @said = map { build("$with, counted$_->[0]", 'vector_l2_ops', 'v', $with, $_->[1]) } [' by the worker', 'SELECT 1'], ['', "SET vectorgpu.fault = 'ivf_count_codes:1:corrupt'"];

		like($said[0], $counted, "$with: the worker counted");
		unlike($said[1], $counted, "$with: the backend counted");
		is(join(' ', $said[1] =~ $candidates), join(' ', $said[0] =~ $candidates), "$with: the same counts");
	}
	# Requests: the beginning, the sample, the training, its results, codes, their sample, training and model, queries, then rows, the counts' beginning, queries, rows and result.
	for my $n (6 .. 9, 11, 13, 15 .. 19)
	{
		build("the worker is gone at request $n", @pq, "SET vectorgpu.fault = 'bridge_send:$n:corrupt'");
		build("a wrong answer to request $n", @pq, "SET vectorgpu.fault = 'bridge_receive:$n:corrupt'");
		ok(wait_worker($node), 'the worker is there');
	}
	# Killed while it codes: the build continues after the last batch.
	for my $with (q{storage = 'pq', pq_m = 12}, q{storage = 'sq8'}, q{storage = 'rabitq', bits = 2})
	{
		my ($holder, $builder) = map { $node->background_psql('postgres') } 1 .. 2;
		my $pid = worker_pid($node);

		$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_i');
		$holder->query_safe('SELECT pg_advisory_lock(1)');
		$builder->query_safe("SELECT '[1]'::vector; SET vectorgpu.fault = 'ivf_encode:1:lock'");
		ok(run_to_lock($node, $builder, "CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 25, $with)"),
			'a build waits behind its first batch');
		kill 'KILL', $pid;
		wait_gone($pid);
		$holder->query_safe('SELECT pg_advisory_unlock(1)');
		is($builder->query_safe('SELECT 1'), '1', 'it goes on');
		$_->quit for $holder, $builder;
		is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', "$with, the worker killed: lists and codes are the backend's");
		ok(wait_worker($node), 'the worker is there again');
	}
}
$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_i');

# In a build whose parallel workers write the lists meanwhile, the worker counts codes as well, and may be gone.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE p (id int, v vector(24)) WITH (parallel_workers = 2);
INSERT INTO p SELECT i, ARRAY(SELECT (20 * sin((i % 40) * j + j) + (i::bigint * j * 7919) % 1009 / 400.0)::real FROM generate_series(1, 24) j)::vector
	FROM generate_series(1, 100000) i;
SQL
my $beside = qr/using \d parallel workers to write the lists/;
my $create = q{CREATE INDEX p_i ON p USING gpuivf (v vector_l2_ops) WITH (lists = 25, storage = 'sq8')};
my $parallel = q{SET maintenance_work_mem = '256MB'; SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers};
my @said = map { ($node->psql('postgres', "DROP INDEX IF EXISTS p_i; SET client_min_messages = debug1; $parallel = $_; $create"))[2] } 0, 2;

unlike($said[0], $beside, 'one process writes the lists');
like($said[1], $beside, 'several processes write the lists');
like($_, $counted, 'the worker counts the codes') for @said;
is(join(' ', $said[1] =~ $candidates), join(' ', $said[0] =~ $candidates), 'the same counts beside the processes that write');
is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('p_i', true))"), '1', 'their lists and codes are the backend\'s');
SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	my ($holder, $builder) = map { $node->background_psql('postgres') } 1 .. 2;
	my $pid = worker_pid($node);

	$node->safe_psql('postgres', 'DROP INDEX p_i');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$builder->query_safe("SELECT '[1]'::vector; $parallel = 2; SET vectorgpu.fault = 'ivf_calibrate:1:lock'");
	ok(run_to_lock($node, $builder, $create), 'recall is about to be measured');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event_type = 'Extension'"),
		'processes have written the lists, and wait');
	kill 'KILL', $pid;
	wait_gone($pid);
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	is($builder->query_safe('SELECT 1'), '1', 'the build goes on without the worker');
	$_->quit for $holder, $builder;
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('p_i', true))"), '1', 'the worker killed beside them: lists and codes are the backend\'s');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'and no files are left');
	ok(wait_worker($node), 'the worker is there once more');
}
$node->safe_psql('postgres', 'DROP TABLE p');

# vectorgpu_kmeans.
my $by_worker = qr/the worker has trained \d+ clusters/;
my $rows = $node->safe_psql('postgres', 'SELECT count(v) FROM t');

sub clusters
{
	my ($settings, $call) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"SET client_min_messages = debug1; $settings; SELECT count(*), sum(size), sum(inertia) FROM vectorgpu_kmeans($call)");

	is($rc, 0, "k-means of $call, $settings") or diag($err);
	return ((split /\|/, (split /\n/, $out)[-1]), $err);
}

for my $case (["'t', 'v', 40"], ["'t', 'h', 7"], ["'t', 'v', 15, spherical => true"], ["'t', 'v', 30", "SET maintenance_work_mem = '1MB'"])
{
	my ($call, $settings) = (@$case, 'SELECT 1');
	my ($n, $sizes, $inertia, $said) = clusters($settings, $call);
	my ($n_own, $sizes_own, $inertia_own, $said_own) = clusters("$settings; SET vectorgpu.worker = off", $call);

	like($said, $by_worker, 'by the worker');
	unlike($said_own, $by_worker, 'by the backend');
	is($n, $n_own, 'as many clusters');
	is("$sizes $sizes_own", "$rows $rows", 'their sizes are all rows that have a value');
	cmp_ok(abs($inertia / $inertia_own - 1), '<', 0.01, "the inertia is $inertia, by the backend $inertia_own");
}
# Balanced: the worker trains and assigns, the backend balances in between.
for my $case (["'t', 'v', 20, balance => 2", 20], ["'t', 'v', 40, balance => 1.2", 20, "SET maintenance_work_mem = '1MB'"],
	["'t', 'v', 25, spherical => true, balance => 1.5", 15])
{
	my ($call, $least, $settings) = (@$case, 'SELECT 1');
	my ($k) = $call =~ /(\d+)/;
	my ($b) = $call =~ /balance => ([\d.]+)/;
	my ($n, $sizes, $inertia, $said) = clusters($settings, $call);

	like($said, $by_worker, "$call: trained by the worker");
	is($sizes, $rows, 'sizes are all rows that have a value');
	cmp_ok($n, '>=', $least, "$n clusters");
	next if $settings ne 'SELECT 1'; # a sample only is promised anything
	is($node->safe_psql('postgres', "SELECT min(size) >= $rows / $k / $b FROM vectorgpu_kmeans($call)"), 't', 'no recall is too small');
}
unlike((clusters("SET vectorgpu.worker_min_size = '1GB'", "'t', 'v', 20"))[3], $by_worker, 'so are those of few bytes');
# A query of the rows that asks the worker, too, while it has the centroids.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION busy(v vector) RETURNS vector LANGUAGE plpgsql AS $$ BEGIN
	PERFORM count(*) FROM (SELECT vectorgpu_kmeans('few', 'v', 3)) k; RETURN v; END $$;
CREATE TABLE few AS SELECT v FROM t WHERE v IS NOT NULL LIMIT 50;
CREATE VIEW asking AS SELECT CASE WHEN id % 1000 = 1 THEN busy(v) ELSE v END AS v FROM t WHERE v IS NOT NULL;
SQL
my ($n, $sizes) = clusters("SET maintenance_work_mem = '1MB'", "'asking', 'v', 30");

is("$n $sizes", "30 $rows", 'a view that runs k-means for some rows');
SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	for my $n (1, 2, 3, 5, 8)
	{
		for my $fault ("bridge_send:$n:corrupt", "bridge_receive:$n:corrupt")
		{
			is((clusters("SET vectorgpu.fault = '$fault'", "'t', 'v', 12"))[1], $rows, "$fault: all rows are counted");
			ok(wait_worker($node), 'the worker is there');
		}
	}
	my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = 'kmeans_worker_request:4:error'; SELECT count(*) FROM vectorgpu_kmeans('t', 'v', 12)");

	like($err, qr/fault point/, 'an error in the middle');
	like((clusters('SELECT 1', "'t', 'v', 12"))[3], $by_worker, 'the worker continues');
}
# A cancelled call ends, also in the worker. A pause within one of its requests makes it long enough on any machine.
SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	my ($rc, $out, $err) = $node->psql('postgres',
		"SET vectorgpu.fault = 'kmeans_worker_request:4:sleep'; SET statement_timeout = '1s'; SELECT count(*) FROM vectorgpu_kmeans('t', 'v', 12)");

	like($err, qr/statement timeout/, 'a k-means by the worker is cancelled');
	check_faults_reached($node);
}
like((clusters('SELECT 1', "'t', 'v', 12"))[3], $by_worker, 'and the worker is free for the next');
is(count_restarts($node), 0, 'the server never restarted');
check_resources($node, $resources);
check_stopped($node);
done_testing();
