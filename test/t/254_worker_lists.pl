# Indexes with inverted lists, or with a graph (VECTORGPU_ACCESS_METHOD), answered by the worker: rows, distances and order are those that
# the backend finds in the pages, for every metric and type, with narrow searches and wide ones, under filters, in both scan orders, after inserts, deletes, vacuum and merges.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.inline_load_size = 1GB\nvectorgpu.auto_merge = off\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Ties, rows without a value, zero vectors (NaN by cosine).
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, k int, v vector(12), h halfvec(12), b bit(75));
INSERT INTO t SELECT i, i % 100, CASE WHEN i % 97 <> 0 THEN ARRAY(SELECT round((10 * sin(i * j + j * j))::numeric)
		FROM generate_series(1, 12) j)::real[]::vector END FROM generate_series(1, 4000) i;
UPDATE t SET v = array_fill(0, ARRAY[12])::vector WHERE id % 211 = 0;
UPDATE t SET h = v::halfvec, b = CASE WHEN id % 97 <> 0 THEN (SELECT string_agg(CASE WHEN sin(id % 400 * j + j * j) > 0.3 THEN '1' ELSE '0' END, '' ORDER BY j)
	FROM generate_series(1, 75) j)::bit(75) END;
UPDATE t SET b = repeat('0', 75)::bit(75) WHERE id % 211 = 0;
CREATE FUNCTION answer(op text, col text, q int, n int, filter int, worker text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	PERFORM set_config('vectorgpu.worker', worker, true);
	EXECUTE format('SELECT md5(string_agg(id || '':'' || coalesce(d::text, ''-''), '','')) || count(*) FROM (
		SELECT id, %2$I %1$s (SELECT %2$I FROM t WHERE id = %3$s) AS d FROM t WHERE k < %5$s
		ORDER BY %2$I %1$s (SELECT %2$I FROM t WHERE id = %3$s) LIMIT %4$s) x', op, col, q, n, filter) INTO found;
	RETURN found;
END $$;
CREATE VIEW differences AS
	SELECT current_setting('test.op') AS op, q, n, f FROM generate_series(1, 4) q, unnest(ARRAY[1, 10, 500, 6000]) n, unnest(ARRAY[1, 10, 100]) f
	WHERE answer(current_setting('test.op'), current_setting('test.col'), q * 31, n, f, 'off')
		IS DISTINCT FROM answer(current_setting('test.op'), current_setting('test.col'), q * 31, n, f, 'on');
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

# Storage parameters of an index, and the setting for the width of a search.
my $graph = ($ENV{VECTORGPU_ACCESS_METHOD} // '') eq 'gpugraph';
my ($method, $with, $width) = $graph ? ('gpugraph', 'degree = 8', 'gpugraph.search_width') : ('gpuivf', 'lists = 25', 'gpuivf.probes');

# EXPLAIN of a search that the engine answered together with others: sessions ask while the worker is stopped.
sub explained_together
{
	my @sessions = map { $node->background_psql('postgres') } 1 .. 3;
	my $explain = 'EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF) SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 31) LIMIT 5';
	my $told;

	$_->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET $width = 40; $explain") for @sessions;
	wait_until(sub {
		my $pid = wait_worker($node);

		kill 'STOP', $pid;
		for my $session (@sessions)
		{
			$session->{stdin} .= "$explain;\n\\echo told\n";
			$session->{run}->pump_nb();
		}
		wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) = 3 FROM pg_stat_activity WHERE state = 'active' AND query ~ '^EXPLAIN'") eq 't' }, 2);
		kill 'CONT', $pid;
		($told) = grep { /Largest Engine Batch: ([2-9])/ } map { $_->query_until(qr/^told$/m, '') } @sessions;
		return defined $told;
	});
	$_->quit for @sessions;
	return $told;
}

sub compare
{
	my ($name, $op, $col, @some) = @_;

	for my $settings (@some ? @some : ("$width = 1", "$width = 3", "$width = 0", "$width = 1; SET vectorgpu.scan_order = relaxed"))
	{
		my $before = worker_stat($node, 'answered');

		is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET test.op = '$op'; SET test.col = '$col'; "
			  . "SET $settings; SELECT * FROM differences"), '', "$name, $settings: the worker's answers are those of the pages");
		# The view asks 48 times; a batch that ends with a look at all rows may need no candidates.
		cmp_ok(worker_stat($node, 'answered') - $before, '>', 24, "$name, $settings: the worker has answered");
	}
	return;
}

# Dead rows take the place of candidates, the delta has no codes, a merge makes others.
sub codes_of_changed_rows
{
	my ($codes, @some) = @_;

	$node->safe_psql('postgres', "CREATE INDEX i ON t USING $method (v vector_l2_ops) WITH ($with, $codes); SELECT vectorgpu_prewarm('i')");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT -id, k, v, h FROM t WHERE id % 30 = 0');
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 11 = 0 AND id <> ALL (ARRAY[31, 62, 93, 124])');
	$node->safe_psql('postgres', 'VACUUM t');
	compare('rows with codes inserted and removed', '<->', 'v', @some);
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
	compare('codes merged', '<->', 'v', @some);
	is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', 'the copy equals the merged pages');
	return;
}

# Of rows that bytes do not tell apart the worker finds those that the pages' vectors lead to; of all rows as many as the recall target asks for.
sub rounded_rows
{
	my $elements = q{SELECT i AS id, ('[' || string_agg((CASE j WHEN 1 THEN %s WHEN 2 THEN %s ELSE sin(i * j * j) END)::real::text, ',' ORDER BY j) || ']')::vector(64) AS v
		FROM generate_series(1, 3000) i, generate_series(1, 64) j GROUP BY i};
	my %tables = (coarse => sprintf($elements, 300, '200 * sin(i)'), fine => sprintf($elements, 1, 'sin(i)'));
	my $recall = 'SELECT recall FROM vectorgpu_recall(\'r_v\', 300)';

	for my $rows (sort keys %tables)
	{
		$node->safe_psql('postgres', "CREATE TABLE r AS $tables{$rows}; CREATE INDEX r_v ON r USING gpugraph (v vector_l2_ops); SELECT vectorgpu_prewarm('r_v')");

		my $answers = q{SET enable_seqscan = off; SET enable_sort = off; SELECT string_agg((SELECT string_agg(id::text, ',') FROM (SELECT id FROM r ORDER BY v <-> q.v LIMIT 10) a), ';' ORDER BY q.id) FROM r q WHERE id % 50 = 0};
		my $by_pages = $node->safe_psql('postgres', "SET vectorgpu.worker = off; SET gpugraph.search_width = 12; $answers");
		my $by_worker;

		by_worker($node, "$rows rows", sub { $by_worker = $node->safe_psql('postgres', "SET gpugraph.search_width = 12; $answers") });
		is($by_worker, $by_pages, 'rows that bytes do not tell apart: the worker goes by the rows') if $rows eq 'coarse';
		by_worker($node, "recall, $rows rows", sub { cmp_ok($node->safe_psql('postgres', $recall), '>', 0.95, "$rows rows: the worker reaches the recall target") });
		$node->safe_psql('postgres', 'DROP TABLE r');
	}
	return;
}

my %ops = (l2 => '<->', ip => '<#>', cosine => '<=>', l1 => '<+>');

for my $col (qw(v h))
{
	for my $class (sort keys %ops)
	{
		my $type = $col eq 'v' ? 'vector' : 'halfvec';

		next if $col eq 'h' && $class ne 'l2' && $class ne 'cosine';
		$node->safe_psql('postgres', "CREATE INDEX i ON t USING $method ($col ${type}_${class}_ops) WITH ($with)");
		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		by_worker($node, "$type $class", sub { compare("$type $class", $ops{$class}, $col) });
		$node->safe_psql('postgres', 'DROP INDEX i');
	}
}

# Bit strings in a graph; lists of them below.
for my $class ($graph ? ([ 'hamming', '<~>' ], [ 'jaccard', '<%>' ]) : ())
{
	my ($distance, $op) = @$class;

	$node->safe_psql('postgres', "CREATE INDEX i ON t USING $method (b bit_${distance}_ops) WITH ($with); SELECT vectorgpu_prewarm('i')");
	by_worker($node, "bit $distance", sub { compare("bit $distance", $op, 'b') });
	is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', "bit $distance: the copy equals the pages");
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# Lists scanned by codes, from which the worker takes the same candidates.
unless ($graph)
{
	my @some = ("$width = 3", "$width = 1; SET vectorgpu.scan_order = relaxed");

	for my $codes (["storage = 'sq8'", 'v', 'l2'], ["storage = 'sq8'", 'v', 'l1'], ["storage = 'pq', pq_m = 5", 'v', 'l2'],
		["storage = 'pq', pq_bits = 4, opq = on", 'v', 'cosine'], ["storage = 'pq'", 'h', 'ip'], ["storage = 'fp16', refine = 'fp32'", 'v', 'cosine'],
		["storage = 'rabitq', bits = 3", 'v', 'cosine'], ["storage = 'rabitq', bits = 1", 'h', 'l2'])
	{
		my ($storage, $col, $class) = @$codes;
		my $type = $col eq 'v' ? 'vector' : 'halfvec';

		$node->safe_psql('postgres', "CREATE INDEX i ON t USING gpuivf ($col ${type}_${class}_ops) WITH ($with, $storage)");
		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		by_worker($node, "$type $class $storage", sub { compare("$type $class $storage", $ops{$class}, $col, @some) });
		is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', "$storage: the copy equals the pages");
		$node->safe_psql('postgres', 'DROP INDEX i');
	}

	# Lists of bit strings, changed and merged.
	for my $class (['hamming', '<~>'], ['jaccard', '<%>'])
	{
		my ($name, $op) = @$class;

		$node->safe_psql('postgres', "CREATE INDEX i ON t USING gpuivf (b bit_${name}_ops) WITH ($with)");
		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		by_worker($node, "bit $name", sub { compare("bit $name", $op, 'b') });
		$node->safe_psql('postgres', 'INSERT INTO t SELECT -id, k, v, h, b FROM t WHERE id % 30 = 0');
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id < 0 AND id % 7 = 0');
		$node->safe_psql('postgres', 'VACUUM t');
		compare("bit $name, inserted and removed", $op, 'b', "$width = 2");
		$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
		compare("bit $name, merged", $op, 'b', "$width = 2");
		is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', "bit $name: the copy equals the pages");
		$node->safe_psql('postgres', 'DROP INDEX i; DELETE FROM t WHERE id < 0');
		$node->safe_psql('postgres', 'VACUUM t');
	}

	codes_of_changed_rows("storage = 'pq'", @some);
	$node->safe_psql('postgres', 'DROP INDEX i');

	# Codes alone: the worker finds the candidates, the backend reads them from the table.
	for my $codes (["storage = 'sq8', refine = 'none'", 'v', 'l2'], ["storage = 'sq8', refine = 'fp16'", 'v', 'l1'], ["storage = 'fp16'", 'v', 'ip'],
		["storage = 'fp16'", 'v', 'cosine'], ["storage = 'pq', pq_m = 5, refine = 'none'", 'v', 'l2'], ["storage = 'pq', pq_m = 4, refine = 'fp16'", 'v', 'cosine'],
		["storage = 'pq', pq_bits = 4, opq = on, refine = 'none'", 'v', 'cosine'], ["storage = 'sq8', refine = 'none'", 'h', 'ip'],
		["storage = 'rabitq', refine = 'none'", 'v', 'ip'])
	{
		my ($storage, $col, $class) = @$codes;
		my $type = $col eq 'v' ? 'vector' : 'halfvec';

		$node->safe_psql('postgres', "CREATE INDEX i ON t USING gpuivf ($col ${type}_${class}_ops) WITH ($with, $storage)");
		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET $width = 3; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "
			  . "SELECT id FROM t ORDER BY $col $ops{$class} (SELECT $col FROM t WHERE id = 31) LIMIT 5"),
			qr/Answered By: worker /, "$type $class $storage: EXPLAIN says who found the candidates");
		by_worker($node, "$type $class $storage", sub { compare("$type $class $storage", $ops{$class}, $col, @some) });
		is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', "$storage: the copy equals the pages");
		$node->safe_psql('postgres', 'DROP INDEX i');
	}
	for my $codes ("storage = 'pq', refine = 'none'", "storage = 'sq8', refine = 'fp16'", "storage = 'rabitq', refine = 'fp16'")
	{
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 9000 OR id < 0');
		$node->safe_psql('postgres', 'VACUUM t');
		codes_of_changed_rows($codes, @some);

		# Several segments, including small ones, which are read whole.
		$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 10000, k, v, h FROM t WHERE id % 3 = 0 AND id BETWEEN 1 AND 9000');
		$node->safe_psql('postgres', "SET vectorgpu.merge_delta_size = '64kB'; VACUUM t");
		$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 20000, k, v, h FROM t WHERE id % 400 = 0 AND id BETWEEN 1 AND 9000');
		compare("several segments, $codes", '<->', 'v', @some);
		$node->safe_psql('postgres', "SELECT vectorgpu_evict('i')");
		by_worker($node, 'codes loaded in the background', sub {
			$node->safe_psql('postgres', "SET vectorgpu.inline_load_size = 0; SET enable_seqscan = off; SET $width = 1; "
				  . "SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 31) LIMIT 5");
		});

		# Rounds alternately with and without the worker.
		for my $n (faults_enabled($node) ? 1 .. 3 : ())
		{
			is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET test.op = '<->'; SET test.col = 'v'; SET $width = 1; "
				  . "SET vectorgpu.fault = 'bridge_send:$n:corrupt'; SELECT * FROM differences"), '', "$codes: a request that fails, the ${n}th");
		}
		$node->safe_psql('postgres', 'DROP INDEX i');
	}
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 9000 OR id < 0');
	$node->safe_psql('postgres', 'VACUUM t');
}

# Graphs searched by codes: the worker finds the same rows by them.
if ($graph)
{
	my @some = ("$width = 3", "$width = 40", "$width = 1; SET vectorgpu.scan_order = relaxed");

	for my $codes (['hash_bits = 64', 'v', 'l2'], ['hash_bits = 512', 'v', 'ip'], ['hash_bits = 128', 'v', 'cosine'], ['hash_bits = 32', 'h', 'l2'],
		['codes = rabitq, bits = 1', 'v', 'l2'], ['codes = rabitq, bits = 2', 'v', 'ip'], ['codes = rabitq', 'v', 'cosine'], ['codes = rabitq, bits = 2', 'h', 'l2'])
	{
		my ($codes_of, $col, $class) = @$codes;
		my $type = $col eq 'v' ? 'vector' : 'halfvec';

		$node->safe_psql('postgres', "CREATE INDEX i ON t USING $method ($col ${type}_${class}_ops) WITH ($with, $codes_of)");
		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		by_worker($node, "$type $class, $codes_of", sub { compare("$type $class, $codes_of", $ops{$class}, $col, @some) });
		is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', "$codes_of: the copy equals the pages");
		$node->safe_psql('postgres', 'DROP INDEX i');
	}

	rounded_rows();
	codes_of_changed_rows('codes = rabitq, bits = 2', @some);
	$node->safe_psql('postgres', 'DROP INDEX i; DELETE FROM t WHERE id < 0');
	$node->safe_psql('postgres', 'VACUUM t');
	codes_of_changed_rows('hash_bits = 128', @some);
	like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET $width = 40; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "
		  . "SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 31) LIMIT 5"),
		qr/Answered By: worker .*Candidates: ([1-9]\d*)  Rescored: \1  Delta/s, 'EXPLAIN says how many rows codes have named');
	like(explained_together(), qr/Rescored: 0  Rescored In Engine Batch: [1-9]/, 'and, of searches that the engine answers together, how many of them all');
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# A series of changes.
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $method (v vector_l2_ops) WITH ($with); SELECT vectorgpu_prewarm('i')");
$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 10000, k, v, h FROM t WHERE id % 20 = 0');
compare('rows inserted', '<->', 'v');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 7 = 0 AND id <> ALL (ARRAY[31, 62, 93, 124])');
$node->safe_psql('postgres', 'VACUUM t');
compare('rows removed', '<->', 'v');
is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', 'the copy equals the pages');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
compare('merged', '<->', 'v');
is($node->safe_psql('postgres', "SELECT cache_rows_checked > 3000 FROM vectorgpu_check('i', true, true)"), 't', 'it equals the merged pages');
is($node->safe_psql('postgres', "SELECT vectorgpu_evict('i')"), 't', 'it can be evicted');
compare('loaded anew', '<->', 'v');

# Two segments with lists, or graphs, of their own.
$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 20000, k, v, h FROM t');
$node->safe_psql('postgres', "SET vectorgpu.merge_delta_size = '64kB'; VACUUM t");
compare('after VACUUM', '<->', 'v');

# By a loader in the background.
$node->safe_psql('postgres', "SELECT vectorgpu_evict('i')");
by_worker($node, 'loaded in the background', sub {
	$node->safe_psql('postgres', "SET vectorgpu.inline_load_size = 0; SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 31) LIMIT 5");
});
compare('loaded in the background', '<->', 'v');

like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "
	  . "SELECT id FROM t WHERE k = 3 ORDER BY v <-> (SELECT v FROM t WHERE id = 31) LIMIT 40"),
	qr/Answered By: worker /, 'EXPLAIN says who answered, under a filter too');

# Several rounds, some without the worker: each continues where the previous one stopped.
if (faults_enabled($node))
{
	for my $n (1 .. 4)
	{
		is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET test.op = '<->'; SET test.col = 'v'; SET $width = 1; "
			  . "SET vectorgpu.fault = 'bridge_send:$n:corrupt'; SELECT * FROM differences"), '', "a request that fails, the ${n}th");
	}
}

# A scan of all lists of the segments that it knows of meets a copy that has a merged segment with more lists by then: it looks at
# all of those too.
if (faults_enabled($node))
{
	my ($scan, $sort) = map { "SELECT string_agg(id::text, ',') FROM (SELECT id FROM m ORDER BY v <-> (SELECT v FROM m WHERE id = 31)$_ LIMIT 300) x" } '', ', ctid';
	my $force = "LOAD 'vectorgpu'; SET enable_seqscan = off; SET enable_sort = off";

	$node->safe_psql('postgres', "CREATE TABLE m AS SELECT id, v FROM t WHERE v IS NOT NULL AND id % 9 = 0 AND id < 5000; CREATE INDEX m_v ON m USING $method (v vector_l2_ops)");
	$node->safe_psql('postgres', "INSERT INTO m SELECT id, v FROM t WHERE v IS NOT NULL AND id % 9 <> 0 AND id < 5000; $force; SELECT vectorgpu_prewarm('m_v'); $scan");

	my $nearest = $node->safe_psql('postgres', "SET enable_indexscan = off; $sort");
	my $holder = $node->background_psql('postgres');
	my $late = $node->background_psql('postgres');
	my $before;

	$late->query_safe("$force; $scan"); # its session is open
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	ok(run_to_lock($node, $late, "SET vectorgpu.fault = 'bridge_send:1:lock'; $scan"), 'a scan has read the version of the index and waits');
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('m_v')");
	by_worker($node, 'the copy has the merged segment', sub { $node->safe_psql('postgres', "$force; $scan") });
	$before = worker_stat($node, 'answered');
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	like($late->query("SELECT 'end'"), qr/^\Q$nearest\E\n.*end$/s, 'then it finds the nearest rows of all');
	cmp_ok(worker_stat($node, 'answered'), '>', $before, 'by the worker');
	$late->quit;
	$holder->quit;
	$node->safe_psql('postgres', 'DROP TABLE m');
}

is($node->safe_psql('postgres', "SELECT count(*) FROM vectorgpu_worker, jsonb_each(fallback_reasons) WHERE key IN ('wrong_answer', 'out_of_memory') AND value <> '0'"),
	'0', 'no answer was wrong');
check_resources($node, $resources);
check_stopped($node);
done_testing();
