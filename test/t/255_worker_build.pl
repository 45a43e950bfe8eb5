# Builds and merges of gpuivf and gpugraph that the worker takes part in: the indexes are as good as the backend's own, for every metric, type and
# storage; if the worker fails, is refused or dies in the middle, the backend continues alone, without an error.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.auto_merge = off\nvectorgpu.worker_restart_delay_max = 0\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Rows in 40 groups, some equal, some without a value.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, v vector(20), h halfvec(20), b bit(50));
INSERT INTO t SELECT i, CASE WHEN i % 97 <> 0 THEN ARRAY(SELECT (round((20 * sin((i % 40) * j + j))::numeric) + (i * j * 7919) % 11)::real
	FROM generate_series(1, 20) j)::vector END FROM generate_series(1, 5000) i;
UPDATE t SET h = v::halfvec, b = CASE WHEN id % 97 <> 0 THEN (SELECT string_agg(CASE WHEN sin(id % 400 * j + j * j) + sin(id * 0.37 * j) > 0.3 THEN '1' ELSE '0' END, '' ORDER BY j)
	FROM generate_series(1, 50) j)::bit(50) END;
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

my ($trained, $assigned) = (qr/the worker has trained/, qr/the worker has assigned/);

# Builds t_i; returns the server's messages; checks the index against the table, and its recall.
sub build
{
	my ($name, $class, $col, $with, $settings) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"DROP INDEX IF EXISTS t_i; SET client_min_messages = debug1; $settings; CREATE INDEX t_i ON t USING gpuivf ($col $class) WITH ($with)");
	my $recall;

	is($rc, 0, "$name: the index is built") or diag($err);
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', "$name: the check passes");
	$recall = $node->safe_psql('postgres', "SET gpuivf.probes = 20; SELECT recall FROM vectorgpu_recall('t_i', 60, 10)");
	cmp_ok($recall, '>', 0.8, "$name: it finds the nearest rows");
	return $err;
}

for my $case (['l2', 'vector_l2_ops', 'v', 'lists = 30'], ['inner product', 'vector_ip_ops', 'v', 'lists = 30'],
	['cosine', 'vector_cosine_ops', 'v', 'lists = 30'], ['l1', 'vector_l1_ops', 'v', 'lists = 30'],
	['halves', 'halfvec_l2_ops', 'h', 'lists = 30'], ['codes', 'vector_l2_ops', 'v', q{lists = 30, storage = 'pq', pq_m = 10}],
	['bytes', 'vector_l2_ops', 'v', q{lists = 30, storage = 'sq8', refine = 'none'}], ['bits', 'bit_hamming_ops', 'b', 'lists = 30'],
	['bits, Jaccard', 'bit_jaccard_ops', 'b', 'lists = 30'])
{
	my ($name, @with) = @$case;
	my $said = build($name, @with, 'SELECT 1');

	like($said, $trained, "$name: the worker trained");
	like($said, $assigned, "$name: the worker assigned the rows");
	unlike(build("$name, without the worker", @with, 'SET vectorgpu.worker = off'), $trained, "$name: switched off");
}

# The labels are those of the backend, by vectorgpu_check with heapallindexed; a merge that keeps the model.
build('merged', 'vector_l2_ops', 'v', 'lists = 30', 'SELECT 1');
$node->safe_psql('postgres', "INSERT INTO t SELECT id + 10000, v, h FROM t WHERE id <= 2000; SELECT vectorgpu_merge('t_i')");
is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', 'a merge by the worker passes the check');

# gpugraph: the worker builds the same graph as the backend: narrow searches find the same, and so do searches by recall target.
my $built = qr/the worker has built the graph/;

sub build_graph
{
	my ($name, $class, $col, $settings, $with) = @_;
	my $options = defined $with ? "degree = 12, $with" : 'degree = 12';
	my ($rc, $out, $err) = $node->psql('postgres',
		"DROP INDEX IF EXISTS t_g; SET client_min_messages = debug1; $settings; CREATE INDEX t_g ON t USING gpugraph ($col $class) WITH ($options) WHERE id % 2 = 0 OR id > 5000");

	is($rc, 0, "$name: the index is built") or diag($err);
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_g', true))"), '1', "$name: the check passes");
	# A job ends a little after its session has its answer; a worker that has ended is not back at once.
	ok($node->poll_query_until('postgres', 'SELECT copies = 0 FROM vectorgpu_worker'), "$name: the worker keeps nothing of it");
	return $err;
}

# Widths for a recall target come from the calibration.
sub graph_edges
{
	return $node->safe_psql('postgres', <<'SQL');
SET vectorgpu.worker = off;
SET gpugraph.search_width = 6;
SELECT md5(string_agg(g::text, '' ORDER BY source, rank)) FROM vectorgpu_knn_graph('t_g', 4) g;
SET gpugraph.search_width = 0;
SET gpugraph.recall_target = 0.9;
SELECT md5(string_agg(g::text, '' ORDER BY source, rank)) FROM vectorgpu_knn_graph('t_g', 4) g;
SQL
}

$node->safe_psql('postgres', 'DROP INDEX t_i; DELETE FROM t WHERE id > 5000');
$node->safe_psql('postgres', 'VACUUM t');
my $graph;

for my $case (['graph, l2', 'vector_l2_ops', 'v'], ['graph, inner product', 'vector_ip_ops', 'v'], ['graph, cosine', 'vector_cosine_ops', 'v'], ['graph, halves', 'halfvec_l2_ops', 'h'],
	['graph, bits by hamming', 'bit_hamming_ops', 'b'], ['graph, bits by jaccard', 'bit_jaccard_ops', 'b'], ['graph with codes', 'vector_l2_ops', 'v', 'hash_bits = 64'], ['graph with codes, inner product, halves', 'halfvec_ip_ops', 'h', 'hash_bits = 128'],
	['graph with codes of rabitq', 'vector_cosine_ops', 'v', 'codes = rabitq, bits = 2'], ['graph with codes of rabitq, halves', 'halfvec_l2_ops', 'h', 'codes = rabitq'])
{
	my ($name, $class, $col, $options) = @$case;
	my $edges;

	like(build_graph($name, $class, $col, 'SELECT 1', $options), $built, "$name: the worker built the graph");
	$edges = graph_edges();
	$graph //= $edges;
	unlike(build_graph("$name, without the worker", $class, $col, 'SET vectorgpu.worker = off', $options), $built, "$name: switched off");
	# A GPU may take another of two rows at nearly equal distance (README of gpugraph): then a wide search finds the same.
	my $which = $class eq 'bit_jaccard_ops' && $node->safe_psql('postgres', 'SELECT engine FROM vectorgpu_worker') eq 'cuda' ? qr/\n(.*)/ : qr/(.*)/s;
	is(join(' ', graph_edges() =~ $which), join(' ', $edges =~ $which), "$name: the graph is the same");
}
# A parallel build writes the vectors into the index; the worker reads them there, or gets them if it cannot.
my $parallel = q{SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = 2; SET maintenance_work_mem = '128MB'};

for my $fault ('', 'graph_worker_pages:1:corrupt')
{
	next if $fault && !faults_enabled($node);
	my ($rc, $out, $err) = $node->psql('postgres',
		"DROP INDEX IF EXISTS t_g; SET client_min_messages = debug1; $parallel; SET vectorgpu.fault = '$fault'; CREATE INDEX t_g ON t USING gpugraph (v vector_l2_ops) WITH (degree = 12) WHERE id % 2 = 0 OR id > 5000"
		  =~ s/SET vectorgpu.fault = ''; //r);

	like($err, $built, "graph, parallel $fault: the worker built the graph");
	like($err, $fault ? qr/the worker has read 0 of \d+ rows from the index/ : qr/the worker has read (\d+) of \1 rows from the index/,
		"graph, parallel $fault: rows from the index");
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_g', true))"), '1', "graph, parallel $fault: the check passes");
	is(graph_edges(), $graph, "graph, parallel $fault: the graph is the same");
}

# A part of all rows of the segments and the delta.
build_graph('graph, merged', 'vector_l2_ops', 'v', 'SELECT 1');
$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 10000, v, h FROM t WHERE id <= 1000');
like(($node->psql('postgres', "SET client_min_messages = debug1; SELECT vectorgpu_merge('t_g')"))[2], $built, 'a merge: the worker built the graph');
is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_g', true))"), '1', 'a merged graph passes the check');
# A cursor that is left between two batches of a k-NN graph keeps no sessions; the worker takes a moment to see that they are closed.
is($node->safe_psql('postgres', <<'SQL'), "t\nt", 'an open cursor keeps no sessions');
SELECT vectorgpu_prewarm('t_g') > 0;
BEGIN;
DECLARE c CURSOR FOR SELECT vectorgpu_knn_graph('t_g', 2);
MOVE 1 IN c;
DO $$ BEGIN
	FOR i IN 1 .. 1000 LOOP
		EXIT WHEN (SELECT sessions <= 2 FROM vectorgpu_worker);
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT sessions <= 2 FROM vectorgpu_worker;
SQL
$node->safe_psql('postgres', 'DROP INDEX t_g; DELETE FROM t WHERE id > 10000');
# The worker may build for a temporary table, since builds have no name there.
like(($node->psql('postgres', "CREATE TEMP TABLE s AS SELECT v FROM t WHERE id <= 1000; SET client_min_messages = debug1; CREATE INDEX ON s USING gpugraph (v vector_l2_ops)"))[2],
	$built, 'the worker builds the graph of a temporary table');
# A large build takes longer than the start of a worker.
$node->safe_psql('postgres', 'CREATE TABLE many AS SELECT ARRAY[i * 7919 % 10007, i * 104729 % 10009]::vector(2) AS v FROM generate_series(1, 20000) i');
$node->restart;
like(($node->psql('postgres', 'SET client_min_messages = debug1; CREATE INDEX ON many USING gpugraph (v vector_l2_ops) WITH (degree = 12)'))[2],
	$built, 'a large build waits for a worker that starts');
$node->restart;
like(($node->psql('postgres', 'SET client_min_messages = debug1; CREATE INDEX ON many USING gpuivf (v vector_l2_ops) WITH (lists = 20)'))[2],
	$trained, 'so does one of gpuivf');
$node->safe_psql('postgres', 'DROP TABLE many');
ok(wait_worker($node), 'the worker is ready');

SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	# With some 2,500 rows: begin, rows, start, polls, then results.
	for my $n (1, 2, 3, 4, 7)
	{
		for my $fault ("bridge_send:$n:corrupt", "bridge_receive:$n:corrupt")
		{
			build_graph("graph, $fault", 'vector_l2_ops', 'v', "SET vectorgpu.fault = '$fault'");
			is(graph_edges(), $graph, "$fault: the graph is the same");
			ok(wait_worker($node), 'the worker is there');
		}
	}
	# After an error the worker builds again.
	for my $fault ('graph_worker_request:1:error', 'graph_worker_request:3:error', 'graph_worker_wait:1:error', 'graph_worker_request:7:error')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "DROP INDEX IF EXISTS t_g; SET vectorgpu.fault = '$fault'; CREATE INDEX t_g ON t USING gpugraph (v vector_l2_ops) WHERE id % 2 = 0");

		like($err, qr/fault point/, "$fault ends the build");
		like(build_graph("after $fault", 'vector_l2_ops', 'v', 'SELECT 1'), $built, "after $fault the worker builds again");
	}
	# Several at a time: each is built by the worker, and all are equal.
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_g');
	my @builds;

	for my $i (1 .. 3)
	{
		my $in = "SET client_min_messages = debug1; CREATE INDEX t_g$i ON t USING gpugraph (v vector_l2_ops) WITH (degree = 12) WHERE id % 2 = 0 OR id > 5000;\n";
		my ($out, $err) = ('', '');

		push @builds, [IPC::Run::start([ 'psql', '-X', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err), \$err];
	}
	for my $i (1 .. 3)
	{
		$builds[$i - 1][0]->finish;
		like(${ $builds[$i - 1][1] }, $built, "build $i of three at a time: by the worker");
		$node->safe_psql('postgres', "ALTER INDEX t_g$i RENAME TO t_g");
		is(graph_edges(), $graph, "build $i of three at a time: the same graph");
		$node->safe_psql('postgres', 'DROP INDEX t_g');
	}
}
$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_g');

# A worker that ends, or has no room, at any point of the build.
SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	for my $n (1, 2, 4, 6)
	{
		my ($rc, $out, $err) = $node->psql('postgres',
			"DROP INDEX IF EXISTS t_i; SET vectorgpu.fault = 'worker_build_rows:$n:error'; CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 30)");

		like($err, qr/fault point/, "an error at the worker's rows, call $n, ends the build");
		like(build("after an error at call $n", 'vector_l2_ops', 'v', 'lists = 30', 'SELECT 1'), $assigned, "after an error at call $n the worker builds again");
		build("the worker is gone at request $n", 'vector_l2_ops', 'v', 'lists = 30', "SET vectorgpu.fault = 'bridge_send:$n:corrupt'");
		build("a wrong answer to request $n", 'vector_l2_ops', 'v', 'lists = 30', "SET vectorgpu.fault = 'bridge_receive:$n:corrupt'");
		ok(wait_worker($node), 'the worker is there');
	}
}

# The same inside the worker, which reads its faults from its environment.
SKIP:
{
	skip 'built without FAULTS=1', 1 unless faults_enabled($node);
	my $set_surroundings = wrap_worker($node);
	$node->reload;
	my $restart_with = sub
	{
		my ($fault) = @_;

		$set_surroundings->("export VECTORGPU_WORKER_FAULT='$fault'");
		kill_worker($node);
		ok(wait_worker($node), "$fault: the worker is ready");
	};

	expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/); # abort
	for my $fault (qw(build:0:error build:1:exit build:2:enomem build:3:exit build:4:abort))
	{
		$restart_with->($fault);
		my $offset = -s $node->logfile;
		build($fault, 'vector_l2_ops', 'v', 'lists = 30', 'SELECT 1');
		ok(wait_log($node, qr/vectorgpu worker \(PID \d+\) ended with status 3/, $offset), "$fault: the worker was there") if $fault =~ /exit/;
	}
	$node->safe_psql('postgres', 'DROP INDEX t_i'); # the worker has a copy
	for my $fault (qw(build_graph:0:error build_graph:1:exit build_graph:1:enomem build:2:exit build:3:error))
	{
		$restart_with->($fault);
		my $offset = -s $node->logfile;
		unlike(build_graph("graph, $fault", 'vector_l2_ops', 'v', 'SELECT 1'), $built, "$fault: not by the worker");
		is(graph_edges(), $graph, "$fault: the graph is the same");
		ok(wait_log($node, qr/vectorgpu worker \(PID \d+\) ended with status 3/, $offset), "graph, $fault: the worker was there") if $fault =~ /exit/;
	}

	# A build that is refused counts once.
	my $fallbacks = 'SELECT fallbacks FROM vectorgpu_worker';

	$restart_with->('build:1:error');
	my $before = $node->safe_psql('postgres', $fallbacks);

	unlike(build_graph('graph, refused', 'vector_l2_ops', 'v', 'SELECT 1'), $built, 'refused: not by the worker');
	is($node->safe_psql('postgres', $fallbacks), $before + 1, 'a refused build counts one fallback');
	check_faults_reached($node);
}
is(count_restarts($node), 0, 'the server never restarted');
check_resources($node, $resources);
check_stopped($node);
done_testing();
