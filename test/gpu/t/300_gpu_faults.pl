# Faults of the GPU under clients of every access method that check every answer: no client sees an error or a wrong row, what fell back is
# counted, the server does not restart, and the GPU is in service again. Needs a GPU and a worker with fault points; run by test/gpu/run.
# VECTORGPU_SIMULATE_GPU=1: without a GPU, with faults of the worker in place of the GPU's, so that the file itself can be tried anywhere.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $simulated = $ENV{VECTORGPU_SIMULATE_GPU};
my $engine = $simulated ? 'cpu' : 'cuda';
my ($rows, $dims, $queries) = (20000, 16, 20);

# What a client asks, and how many of the ten nearest rows have to be among its answer: of a look at all rows and of exact access methods all, in
# their order. Narrow searches are those that follow lists and edges; a graph is followed up to this width only where the GPU would not sooner
# look at all rows (gpu_choice.hpp).
my @methods = qw(gpuflat gpuivf gpugraph gpumatch);
my %table = (gpuflat => 't', gpuivf => 't_ivf', gpugraph => 't_graph', gpumatch => 't_match');
my %index = (gpuflat => '(v vector_l2_ops)', gpuivf => '(v vector_l2_ops) WITH (lists = 50)', gpugraph => '(v vector_l2_ops)', gpumatch => '(v)');
my %narrow = (gpuivf => 'gpuivf.probes = 20', gpugraph => 'gpugraph.search_width = 16');
my $narrow_floor = 4;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "max_connections = 60\n" . ($simulated ? '' : "vectorgpu.device = 'cuda:0'\n"));

# The environment of the workers to come, beside the server's own.
my $set_surroundings = wrap_worker($node);
$node->restart;

sub order_of { my ($method) = @_; return $method eq 'gpumatch' ? 'v <#>' : 'v <->'; }

# The rows nearest to row q, as a list of ids.
sub nearest_sql
{
	my ($method, $q, $limit, $more) = @_;

	return 'SELECT id FROM ' . $table{$method} . ' ORDER BY ' . order_of($method) . " (SELECT v FROM $table{$method} WHERE id = $q)" . ($more // '') . " LIMIT $limit";
}

make_table($node, 't', dims => $dims);
fill_vectors($node, 't', dims => $dims, rows => $rows);
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t_ivf (LIKE t INCLUDING ALL);
CREATE TABLE t_graph (LIKE t INCLUDING ALL);
CREATE TABLE t_match (id bigint PRIMARY KEY, v int[]);
INSERT INTO t_ivf SELECT * FROM t;
INSERT INTO t_graph SELECT * FROM t;
INSERT INTO t_match SELECT i, (SELECT array_agg((d * 32 + (hashint8extended(i * 16 + d, 42) & 31))::int) FROM generate_series(1, 16) d) FROM generate_series(1, $rows) i;
CREATE TABLE answers (method text, q int, ids bigint[], PRIMARY KEY (method, q));
CREATE FUNCTION assert_answers_of(of_method text, of_q int, answer bigint[], floor int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	nearest bigint[] := (SELECT ids FROM answers WHERE method = of_method AND q = of_q);
BEGIN
	IF cardinality(answer) IS DISTINCT FROM 10 OR (floor = 10 AND answer IS DISTINCT FROM nearest)
			OR (SELECT count(DISTINCT id) FROM unnest(answer) id WHERE id = ANY (nearest)) < floor THEN
		RAISE EXCEPTION 'wrong answer from % to query %: % instead of %', of_method, of_q, answer, nearest;
	END IF;
END
\$\$;
SQL
for my $method (@methods)
{
	$node->safe_psql('postgres', "CREATE INDEX i_$method ON $table{$method} USING $method $index{$method}");
	$node->safe_psql('postgres', "SET enable_indexscan = off; INSERT INTO answers SELECT '$method', q, ARRAY(" . nearest_sql($method, 'q', 10, ', ctid') . ") FROM generate_series(1, $queries) q");
}

# Scripts of clients of one access method.
sub scripts_of
{
	my ($method) = @_;
	my $ask = sub {
		my ($floor) = @_;
		return "SELECT assert_answers_of('$method', :q, ARRAY(" . nearest_sql($method, ':q', 10) . "), $floor);\n";
	};
	my %scripts = ($method => "\\set q random(1, $queries)\n" . $ask->(10));

	$scripts{"${method}_narrow"} = "\\set q random(1, $queries)\nBEGIN;\nSET LOCAL $narrow{$method};\n" . $ask->($narrow_floor) . "COMMIT;\n"
	  if $narrow{$method};
	return %scripts;
}

# Sixteen clients of the given access methods; two tests: each kind of them was served, and none saw an error or a wrong row.
#   meanwhile  called while they ask
sub clients
{
	my ($name, $of, $seconds, $meanwhile) = @_;
	my %scripts = map { scripts_of($_) } @$of;

	local $ENV{PGOPTIONS} = '-c enable_seqscan=off -c enable_sort=off';
	my $load = start_load($node, \%scripts, clients => 16, seconds => $seconds);
	$meanwhile->() if defined $meanwhile;
	my ($done, $wrong) = finish_load($load);
	my %served = $load->{out} =~ m{^SQL script \d+: \S*/(\w+)\.sql\n(?: - .*\n)*? - (\d+) transactions}mg;
	my @unserved = keys %scripts > 1 ? grep { !$served{$_} } sort keys %scripts : ();

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($done > 0 && !@unserved, "$name: clients were served ($done)") or diag("none of @unserved: $load->{out}");
	is($wrong, '', "$name: no client saw an error or a wrong row");
	return;
}

# Restarts the server with a fault in the environment of its workers.
sub restart_with_fault
{
	my ($fault) = @_;
	my %instead = (gpu_address => 'exit', gpu_misaligned => 'exit', gpu_trap => 'exit', gpu_assert => 'exit', gpu_ecc => 'exit', gpu_spin => 'sleep');

	$fault =~ s/\b(gpu_(?:address|misaligned|trap|assert|ecc|spin)):(\d+):error/search:$2:$instead{$1}/g if $simulated;
	$fault =~ s/\bgpu_launch:/search:/g if $simulated;
	$fault =~ s/\bgpu_(?:malloc_late|flip):/load_segment:/g if $simulated;
	local $ENV{VECTORGPU_WORKER_FAULT} = $fault;
	$node->restart;
	return wait_worker($node);
}

# Who answers a query of an access method, as EXPLAIN (ANALYZE) says.
sub answered_by
{
	my ($method) = @_;

	return $node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (ANALYZE, COSTS off) ' . nearest_sql($method, 7, 10));
}

sub fallbacks
{
	my ($method) = @_;

	return $node->safe_psql('postgres', "SELECT coalesce(sum(fallbacks), 0) FROM vectorgpu_indexes WHERE index_name = 'i_$method'");
}

# Each access method is answered by the worker, from the GPU unless its copy had to leave it.
sub all_by_worker
{
	my ($name, $by) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $method (@methods)
	{
		my $plan;

		ok(wait_until(sub { ($plan = answered_by($method)) =~ /Answered By: worker  Worker Engine: $by\b/ }), "$name: $method by the worker") or diag($plan);
	}
	return;
}

ok(wait_worker($node), 'the worker is ready');
ok($node->poll_query_until('postgres', "SELECT engine = '$engine' FROM vectorgpu_worker"), 'it computes on the GPU');
diag('device: ' . worker_stat($node, 'device'));
all_by_worker('at first', $engine);

# Sticky errors, memory that cannot be corrected among them: every worker dies at its 40th batch, the next one takes over. The first dies of the
# searches of one access method, another one while all are asked.
my %sticky = (gpu_address => 'gpuflat', gpu_misaligned => 'gpuivf', gpu_trap => 'gpugraph', gpu_assert => 'gpugraph', gpu_ecc => 'gpumatch');
for my $fault (sort keys %sticky)
{
	my $method = $sticky{$fault};
	my $offset = -s $node->logfile;

	ok(restart_with_fault("$fault:40:error"), "$fault: a worker");
	my $pid = worker_pid($node);
	my $before = fallbacks($method);
	my ($died, $back);

	clients("$fault of $method", [$method], 1);
	ok(wait_log($node, qr/vectorgpu worker \(PID $pid\) ended with status 3/, $offset), "$fault of $method: the worker left by itself");
	$died = time;
	cmp_ok(fallbacks($method), '>', $before, "$fault of $method: what fell back is counted");
	$back = wait_until(sub {
		$node->safe_psql('postgres', "SELECT ready AND pid <> $pid AND engine = '$engine' FROM vectorgpu_worker") eq 't';
	});
	ok($back, "$fault of $method: the GPU is back in service");
	# The worker died up to a second before.
	diag(sprintf('back in service %.2f s after clients of %s had seen %s', time - $died, $method, $fault)) if $back;
	clients("$fault of all", \@methods, 2);
	ok(wait_until(sub {
		my $deaths = () = slurp_file($node->logfile, $offset) =~ /vectorgpu worker \(PID \d+\) ended with status 3/g;
		return $deaths > 1;
	}), "$fault of all: another worker left by itself");
	like(slurp_file($node->logfile, $offset), qr/GPU lost: /, "$fault: the log says so") if !$simulated;
}

# Launches that are refused, all of them: the worker lives, and answers nothing.
{
	ok(restart_with_fault('gpu_launch:0:error'), 'gpu_launch: a worker');
	my $pid = worker_pid($node);
	my %before = map { $_ => fallbacks($_) } @methods;

	clients('gpu_launch', \@methods, 2);
	for my $method (@methods)
	{
		like(answered_by($method), qr/Answered By: backend.*Fallback: refused/s, "gpu_launch: the pages answer, $method");
		cmp_ok(fallbacks($method), '>', $before{$method}, "gpu_launch: what fell back is counted, $method");
	}
	is(worker_pid($node), $pid, 'gpu_launch: the worker lives');
	is(worker_stat($node, 'engine'), $engine, 'gpu_launch: it computes on the GPU still');
}

# Memory that is not there for copies that are loaded while clients search: some allocations, and all. The host's memory has them then, or, of
# match counts, the host counts; later they come back.
for my $nth ('1,2,4,6', '0')
{
	my $offset = -s $node->logfile;

	ok(restart_with_fault(join ',', map { "gpu_malloc_late:$_:error" } split /,/, $nth), "gpu_malloc_late, $nth: a worker");
	my $pid = worker_pid($node);

	$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('i_gpuflat')}) if !$simulated; # it meets the first one
	clients("gpu_malloc_late, $nth", \@methods, 2);
	is(worker_pid($node), $pid, "gpu_malloc_late, $nth: the worker lives");
	is(worker_stat($node, 'engine'), $engine, "gpu_malloc_late, $nth: it computes on the GPU still");
	next if $simulated;
	all_by_worker("gpu_malloc_late, $nth", '\w+');
	ok(wait_log($node, qr/a copy (?:has moved to|begins in) host memory: could not allocate device memory/, $offset),
		"gpu_malloc_late, $nth: the log says where a copy went");
	ok(wait_log($node, qr/a copy is not all on the device, the host searches the rest: could not allocate device memory/, $offset),
		"gpu_malloc_late, $nth: and that the host counts")
	  if $nth eq '0';
}

# The worker killed while kernels run that never end.
{
	ok(restart_with_fault('gpu_spin:40:error'), 'gpu_spin: a worker');
	my $pid = worker_pid($node);

	clients('gpu_spin', \@methods, 4, sub {
		sleep 3;
		kill 'KILL', $pid;
		ok(wait_gone($pid), 'gpu_spin: a worker whose kernel never ends can be killed');
	});
	cmp_ok($node->safe_psql('postgres', q{SELECT fallback_reasons ->> 'silent' FROM vectorgpu_worker}), '>', 0, 'gpu_spin: clients waited for it no longer than vectorgpu.worker_timeout');
	ok(wait_worker($node, not_pid => $pid), 'gpu_spin: another takes over');
}

# A byte of each copy is damaged, of vectors, norms or what searches have beside: the check finds it where there is such.
my %damages = (
	gpu_flip         => [qw(gpuflat gpuivf gpugraph)],
	gpu_flip_norm    => [qw(gpuflat gpuivf gpugraph)],
	gpu_flip_derived => [qw(gpuflat gpuivf gpugraph gpumatch sparse)]);
$node->safe_psql('postgres', "CREATE TABLE t_sparse AS SELECT format('{%s:1,%s:2}/1000', 1 + i % 500, 501 + i % 500)::sparsevec(1000) AS v FROM generate_series(1, 3000) i; CREATE INDEX i_sparse ON t_sparse USING gpuflat (v)")
  if !$simulated;
for my $fault ($simulated ? () : sort keys %damages)
{
	ok(restart_with_fault("$fault:0:error"), "$fault: a worker");
	$node->safe_psql('postgres', join ';', map { "SELECT vectorgpu_prewarm('i_$_')" } @methods, 'sparse');
	for my $method (@methods, 'sparse')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_check('i_$method', false, true)");

		if (!grep { $_ eq $method } @{ $damages{$fault} })
		{
			is("$rc$err", '0', "$fault: nothing of the kind, no damage, $method");
			next;
		}
		isnt($rc, 0, "$fault: the check of the copy fails, $method");
		like($err, qr/differs from its pages/, "$fault: and says what, $method");
	}
}

# Indexes beyond the GPU's budget: host memory answers. Cursors stay open while copies go from one place to the other.
{
	my $offset = -s $node->logfile;
	my $order = 'SET enable_seqscan = off; SET enable_sort = off';

	$node->append_conf('postgresql.conf', "vectorgpu.gpu_memory = 1MB\n");
	$node->restart;
	ok(wait_worker($node), 'a worker with 1 MB of GPU memory');
	ok($node->poll_query_until('postgres', "SELECT engine = '$engine' FROM vectorgpu_worker"), 'a small budget: the GPU is used all the same');

	my %cursor = map { $_ => $node->background_psql('postgres') } @methods;
	my %fetched;
	for my $method (@methods)
	{
		$cursor{$method}->query_safe("$order; BEGIN; DECLARE c NO SCROLL CURSOR FOR " . nearest_sql($method, 11, 3000));
		$fetched{$method} = $cursor{$method}->query_safe('FETCH 10 FROM c');
	}
	clients('a small budget', \@methods, 2, sub { $node->safe_psql('postgres', "SELECT vectorgpu_evict('i_$_')") for @methods; });
	for my $method (@methods)
	{
		$fetched{$method} .= "\n" . $cursor{$method}->query_safe('FETCH ALL FROM c');
		$cursor{$method}->quit;
		count('answers');
		ok($fetched{$method} eq $node->safe_psql('postgres', 'SET enable_indexscan = off; ' . nearest_sql($method, 11, 3000, ', ctid')),
			"a small budget: a cursor whose copy has moved returns every row in order, $method")
		  or count('wrong');
	}
	all_by_worker('a small budget', '\w+');
	for my $method (@methods)
	{
		is($node->safe_psql('postgres', "SELECT cache_rows_checked FROM vectorgpu_check('i_$method', false, true)"), $rows, "a small budget: the copy equals the pages, $method");
	}
	if (!$simulated && !ok(wait_log($node, qr/a copy (?:has moved to|begins in) host memory/, $offset), 'a small budget: the log says where the copies went'))
	{
		my @lines = grep { !/statement:/ } split /\n/, slurp_file($node->logfile, $offset);

		diag($_) for @lines > 40 ? @lines[-40 .. -1] : @lines;
		diag("$_: " . $node->safe_psql('postgres', "SELECT * FROM $_")) for qw(vectorgpu_worker vectorgpu_indexes);
	}
}

# A GPU that cannot be opened any more once it was lost (G15), one that is hidden, and a driver that cannot be loaded (G16): clients see nothing of it,
# the log says why, and the next worker after that has the GPU again.
$node->append_conf('postgresql.conf', "vectorgpu.gpu_memory = 0\n");
my $folder = PostgreSQL::Test::Utils::tempdir();
mkdir "$folder/none" or die "mkdir: $!";
append_to_file("$folder/none/libcuda.so.1", '');
my %without = (
	lost   => 'export CUDA_VISIBLE_DEVICES=',
	hidden => 'export CUDA_VISIBLE_DEVICES=',
	driver => "export LD_LIBRARY_PATH='$folder/none'" . '${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}');
for my $how (sort keys %without)
{
	my $offset = -s $node->logfile;

	$set_surroundings->('');
	ok(restart_with_fault($how eq 'lost' ? 'gpu_ecc:40:error' : ''), "$how: a worker");
	ok($node->poll_query_until('postgres', "SELECT engine = '$engine' FROM vectorgpu_worker"), "$how: it computes on the GPU");
	my $pid = worker_pid($node);

	$set_surroundings->($without{$how});
	clients($how, \@methods, 3, sub { kill 'KILL', $pid if $how ne 'lost'; });
	ok(wait_until(sub { (worker_pid($node) // $pid) != $pid }), "$how: another worker");
	ok($node->poll_query_until('postgres', "SELECT engine = 'cpu' FROM vectorgpu_worker"), "$how: it computes by the CPU");
	like(slurp_file($node->logfile, $offset), qr/(?:no GPU is|GPU 0 is not) used: .+; the CPU engine answers/, "$how: the log says so");
	diag(slurp_file($node->logfile, $offset) =~ /((?:no GPU is|GPU 0 is not) used: .+);/);
	all_by_worker($how, 'cpu');
}
$set_surroundings->('');
ok(restart_with_fault(''), 'the GPU is there: a worker');
ok($node->poll_query_until('postgres', "SELECT engine = '$engine' FROM vectorgpu_worker"), 'it computes on the GPU');
all_by_worker('the GPU is there', $engine);
is(count_restarts($node), 0, 'the server never restarted by itself');
done_testing();
