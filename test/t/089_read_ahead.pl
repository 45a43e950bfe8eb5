# Searches for the outer rows of a join, made ahead: the rows are the same, in the same order, with vectorgpu.read_ahead on and off. Shapes of joins,
# parameters from further out, cursors, prepared statements, parallel plans; functions in the loop that write to the table; changes, merges and vacuums by
# others between two rows; a worker that is killed, cancel, statement_timeout; a standby. And vectorgpu_join against LATERAL.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $conf = "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\nvectorgpu.auto_merge = off\n"
  . "vectorgpu.worker_restart_delay_max = 0\nshared_buffers = 1MB\n"; # pages leave the cache and come back in other buffers
my $node = make_node('main', conf => $conf, streaming => 1);

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Of q every 50th row has no vector, and every fifth the one of the row before. The rows of t come in part from the delta, and some are dead.
my $dims = 8;
my $any  = random_vector_sql('i', dims => $dims);
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int PRIMARY KEY, k int, v vector($dims));
CREATE TABLE q (id int PRIMARY KEY, k int, v vector($dims), w vector);
CREATE TABLE x (k int PRIMARY KEY);
CREATE TABLE p (id int, v vector($dims)) PARTITION BY HASH (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO x SELECT generate_series(0, 9);
INSERT INTO t SELECT i, i % 10, CASE WHEN i % 41 > 0 THEN $any END FROM generate_series(1, 2000) i;
INSERT INTO q SELECT n, n % 10, $any FROM generate_series(1, 450) n, LATERAL (SELECT CASE WHEN n % 5 = 0 THEN 5000 + n - 1 ELSE 5000 + n END AS i) j;
UPDATE q SET v = NULL WHERE id % 50 = 0;
UPDATE q SET w = v;
CREATE INDEX i ON t USING $AM (v vector_l2_ops, k);
DELETE FROM t WHERE id % 17 = 0;
INSERT INTO t SELECT i, i % 10, $any FROM generate_series(2001, 2100) i;
INSERT INTO p SELECT id, v FROM t;
CREATE INDEX ON p USING $AM (v vector_l2_ops);
VACUUM ANALYZE q, x;
ANALYZE t, p;
SQL
ok(wait_worker($node), 'the worker is ready');
$node->safe_psql('postgres', q{SELECT vectorgpu_prewarm('i')});
my $resources = note_resources($node);

my $settings = 'SET enable_sort = off; SET enable_seqscan = on; SET enable_material = off;';

# The rows of statements as text, with read ahead on or off.
sub answers
{
	my ($on, $sql, %opt) = @_;
	my ($rc, $out, $err) = ($opt{node} // $node)->psql('postgres', "$settings SET vectorgpu.read_ahead = $on; $sql");

	return $rc == 0 ? $out : "$out\nerror: " . join("\n", grep { /ERROR/ } split /\n/, $err);
}

# How many searches a plan made ahead, and how many of them were asked for; undef: it reads nothing ahead.
sub searches
{
	my ($sql, %opt) = @_;
	my $plan = ($opt{node} // $node)->safe_psql('postgres',
		"$settings $opt{before} EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql");
	my ($made, $hits);

	while ($plan =~ /Vectorgpu Read Ahead.*?Searches: (\d+)\s+Hits: (\d+)/gs)
	{
		$made += $1;
		$hits += $2;
	}
	return ($made, $hits, $plan);
}

# The same rows in the same order. least: share of its searches that a plan with read ahead on has to ask for; undef: not looked at.
sub same_rows
{
	my ($name, $sql, %opt) = @_;
	my $before = $opt{before} // '';
	my ($off, $on) = map { answers($_, "$before $sql", %opt) } qw(off on);

	($off, $on) = map { join "\n", sort split /\n/ } ($off, $on) if $opt{any_order};
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($off eq $on && length($off) > ($opt{empty} ? -1 : 10), "$name: the same rows") or diag("off: " . substr($off, 0, 500) . "\non: " . substr($on, 0, 500));
	return unless defined $opt{least};

	my ($made, $hits, $plan) = searches($sql, %opt, before => $before);
	ok(defined $made && $made >= ($opt{made} // 200) && $hits >= $opt{least} * $made, "$name: searches are made ahead (" . ($made // 'none') . ", " . ($hits // 'none') . ' asked for)')
	  or diag($plan);
	return;
}

my $near = 'SELECT t.id, t.v <-> q.v AS d FROM t ORDER BY t.v <-> q.v LIMIT';

# --- shapes ---
same_rows('LATERAL', "SELECT q.id, s.* FROM q, LATERAL ($near 5) s", least => .9);
same_rows('LEFT JOIN LATERAL', "SELECT q.id, s.* FROM q LEFT JOIN LATERAL ($near 3) s ON s.d < 1.1", least => .9);
same_rows('steps', "SELECT q.id, s.* FROM q, LATERAL ($near 40) s", least => .9);
same_rows('OFFSET', "SELECT q.id, s.* FROM q, LATERAL ($near 4 OFFSET 3) s", least => .9);
same_rows('projections', "SELECT q.id * 2 AS twice, s.id + q.k, upper('x' || s.e) FROM q, LATERAL (SELECT t.id, (t.v <-> q.v) * 2 AS e FROM t ORDER BY t.v <-> q.v LIMIT 4) s", least => .9);
same_rows('another row', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.id <> q.id AND t.k + 0 <> q.k ORDER BY t.v <-> q.v LIMIT 3) s", least => .6);
same_rows('a key column', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k = 4 ORDER BY t.v <-> q.v LIMIT 3) s", least => .9);
same_rows('a list on a key column', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k IN (1, 3, 5) OR t.k IS NULL ORDER BY t.v <-> q.v LIMIT 3) s", least => .9);
same_rows('a key column by the outer row', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k = q.k ORDER BY t.v <-> q.v LIMIT 3) s", least => .6);
same_rows('two of them', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k >= q.k AND t.k <= q.k ORDER BY t.v <-> q.v LIMIT 3) s", least => .6);
same_rows('an expression as key', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k >= q.k AND t.k < nullif(q.k, 3) + 2 ORDER BY t.v <-> q.v LIMIT 3) s");
same_rows('a list by the outer row', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, t.k FROM t WHERE t.k IN (q.k, 7) ORDER BY t.v <-> q.v LIMIT 3) s");
same_rows('an expression as query', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> (q.v + q.v) LIMIT 3) s");
same_rows('LIMIT by the outer row', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT q.k) s");
same_rows('a range', 'SELECT q.id, t.id FROM q JOIN t ON t.v <-> q.v < 0.9', any_order => 1, before => 'SET enable_nestloop = on;');
same_rows('LIMIT outside', "SELECT q.id, s.* FROM q, LATERAL ($near 2) s LIMIT 7");
same_rows('a join inside', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, x.k FROM t JOIN x ON x.k = t.k ORDER BY t.v <-> q.v LIMIT 3) s");
same_rows('a join outside', "SELECT q.id, s.* FROM x JOIN q ON q.k = x.k, LATERAL ($near 2) s WHERE x.k < 8", least => .9, any_order => 1);
same_rows('nested', "SELECT q.id, a.id, b.id FROM q, LATERAL (SELECT t.id, t.v FROM t ORDER BY t.v <-> q.v LIMIT 2) a, LATERAL (SELECT t.id FROM t WHERE t.id <> a.id ORDER BY t.v <-> a.v LIMIT 2) b", least => .6);
same_rows('parameters from further out', "SELECT x.k, y.* FROM x, LATERAL (SELECT q.id, s.id AS near FROM q, LATERAL ($near 3) s WHERE q.k = x.k OFFSET 0) y", any_order => 1);
same_rows('Memoize above', "SELECT a.id, y.* FROM generate_series(1, 40) a(id), LATERAL (SELECT q.id, s.id AS near FROM q, LATERAL ($near 3) s WHERE q.k = a.id % 10 OFFSET 0) y", any_order => 1);
same_rows('rows of VALUES', "SELECT n, s.* FROM (SELECT n, ('[' || n || ',1,2,3,4,5,6,7]')::vector AS v FROM generate_series(1, 200) n OFFSET 0) q, LATERAL ($near 3) s", least => .9, made => 100);
# The search for the first row is foreseen; equal queries are searched for once.
my @few = map { "[$_,1,2,3,4,5,6,7]" } 1 .. 4;
same_rows('a few vectors', "SELECT v, s.* FROM unnest(ARRAY['" . join("', '", @few) . "']::vector[]) q (v), LATERAL ($near 3) s", least => 1, made => 4);
same_rows('equal vectors', "SELECT v, s.* FROM unnest(ARRAY['" . join("', '", ($few[0]) x 90) . "']::vector[]) q (v), LATERAL ($near 3) s", least => 45, made => 2);
same_rows('a sub-select in the select list', 'SELECT q.id, (SELECT t.id FROM t WHERE t.k + 0 <> q.k ORDER BY t.v <-> q.v LIMIT 1), (SELECT t.v FROM t WHERE t.k = 77 ORDER BY t.v <-> q.v LIMIT 1) FROM q', least => .4);
same_rows('partitions', "SELECT q.id, s.* FROM q, LATERAL (SELECT p.id, p.v <-> q.v AS d FROM p ORDER BY p.v <-> q.v LIMIT 4) s", least => .6);
same_rows('EXISTS', 'SELECT q.id FROM q WHERE EXISTS (SELECT FROM t WHERE t.v <-> q.v < 0.8 AND t.id % 2 = 0)', any_order => 1);
same_rows('a query of other dimensions', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.w LIMIT 3) s", before => q{BEGIN; UPDATE q SET w = '[1,2]' WHERE id = 333;});
like(answers('on', "BEGIN; UPDATE q SET w = '[1,2]' WHERE id = 333; SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.w LIMIT 3) s"), qr/error: .*different vector dimensions/, 'which is an error');
same_rows('INSERT', "WITH n AS (INSERT INTO kept SELECT q.id, s.id FROM q, LATERAL ($near 3) s RETURNING *) SELECT * FROM n", before => 'CREATE TEMP TABLE kept (q int, t int);');
same_rows('UPDATE', "UPDATE q SET k = s.id FROM q r, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> r.v LIMIT 1) s WHERE r.id = q.id RETURNING q.id, q.k", before => 'BEGIN;', any_order => 1);
same_rows('FOR UPDATE', "SELECT q.id, s.* FROM q, LATERAL ($near 2) s FOR UPDATE OF q", before => 'BEGIN;');

for my $shape ('SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 2) s FOR UPDATE OF q',
	'UPDATE q SET k = s.id FROM q r, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> r.v LIMIT 1) s WHERE r.id = q.id',
	'SELECT q.id, s.* FROM (SELECT id, v, random() AS r FROM q OFFSET 0) q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 2) s',
	'SELECT q.id, s.* FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 2) s WHERE random() >= q.k')
{
	unlike($node->safe_psql('postgres', "$settings EXPLAIN $shape"), qr/Read Ahead/, 'not read ahead: ' . substr($shape, 0, 60));
}
unlike($node->safe_psql('postgres', "$settings SET vectorgpu.worker = off; EXPLAIN SELECT q.id, s.* FROM q, LATERAL ($near 3) s"), qr/Read Ahead/, 'nor without the worker');
unlike($node->safe_psql('postgres', "$settings EXPLAIN SELECT q.id, s.* FROM (SELECT * FROM q LIMIT 2) q, LATERAL ($near 3) s"), qr/Read Ahead/, 'nor for two rows');

# --- settings of searches, memory, parallel plans, prepared statements, cursors ---
same_rows('work_mem', "SELECT q.id, s.* FROM q, LATERAL ($near 20) s", before => q{SET work_mem = '64kB';}, least => .9);
same_rows('other widths', "SELECT q.id, s.* FROM q, LATERAL ($near 5) s", before => 'SET gpuivf.probes = 0; SET gpugraph.search_width = 0;', least => .9);
same_rows('relaxed', "SELECT q.id, s.* FROM q, LATERAL ($near 40) s", before => 'SET gpuivf.probes = 3; SET gpugraph.search_width = 30; SET vectorgpu.scan_order = relaxed;');
same_rows('a parallel plan', "SELECT q.id, s.* FROM q, LATERAL ($near 3) s", any_order => 1,
	before => 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;');
my $parallel = "$settings SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET enable_seqscan = on;";
my $range = 'SELECT q.id, t.id FROM q JOIN t ON t.v <-> q.v < 0.3';
my $lateral = "SELECT q.id, s.* FROM q LEFT JOIN LATERAL ($near 3) s ON s.d < 0.7";
for my $query ($range, $lateral)
{
	like($node->safe_psql('postgres', "$parallel EXPLAIN $query"), qr/Gather.*Nested Loop.*Read Ahead.*Parallel Seq Scan/s, "the node is below Gather: $query");
}
same_rows('a parallel plan of lateral searches', $lateral, any_order => 1, before => $parallel);
same_rows('a parallel plan without the leader', "SELECT q.id, s.t FROM q, LATERAL (SELECT t.id AS t FROM t WHERE t.k = q.k ORDER BY t.v <-> q.v LIMIT 4) s", any_order => 1,
	before => "$parallel SET parallel_leader_participation = off;");
same_rows('a parallel plan of ranges', $range, any_order => 1, before => $parallel, empty => 1);
same_rows('a generic plan', "EXECUTE p(3, 0); EXECUTE p(7, 4); EXECUTE p(3, 300);", before => "SET plan_cache_mode = force_generic_plan; PREPARE p(int, int) AS SELECT q.id, s.* FROM q, LATERAL ($near \$1) s WHERE q.id > \$2;");
same_rows('a cursor', 'FETCH 3 FROM c; MOVE 500 IN c; FETCH 5 FROM c; MOVE ALL IN c; FETCH 1 FROM c;', before => "BEGIN; DECLARE c CURSOR FOR SELECT q.id, s.* FROM q, LATERAL ($near 2) s;");
same_rows('a cursor that goes back', 'FETCH 300 FROM c; MOVE BACKWARD 200 IN c; FETCH 5 FROM c; FETCH BACKWARD 3 FROM c; FETCH LAST FROM c;', before => "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT q.id, s.* FROM q, LATERAL ($near 2) s;");
same_rows('a cursor WITH HOLD', 'FETCH 300 FROM c;', before => "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT q.id, s.* FROM q, LATERAL ($near 2) s; COMMIT;");

# --- changes in the loop ---
$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION add_near(q int, t int) RETURNS int LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN
	INSERT INTO t SELECT 10000 + q.id, q.k, q.v FROM q WHERE q.id = \$1 + 1 ON CONFLICT DO NOTHING;
	DELETE FROM t WHERE t.id = \$2;
	UPDATE q SET v = NULL WHERE q.id = \$1 + 2;
	RETURN (SELECT count(*) FROM t);
END \$\$;
CREATE FUNCTION nearest(n int) RETURNS int LANGUAGE plpgsql VOLATILE AS
	\$\$ BEGIN RETURN (SELECT sum(s.id) FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 2) s WHERE q.id BETWEEN n AND n + 40); END \$\$;
SQL
same_rows('a function that writes', "SELECT q.id, s.*, add_near(q.id, s.id) FROM q, LATERAL ($near 2) s; SELECT count(*), sum(id) FROM t", before => 'BEGIN;');
same_rows('a function that writes in the sub-select', "SELECT q.id, s.* FROM q, LATERAL (SELECT t.id, add_near(q.id, t.id) FROM t ORDER BY t.v <-> q.v LIMIT 2) s; SELECT count(*), sum(id) FROM t", before => 'BEGIN;');
same_rows('a function that searches', "SELECT q.id, s.*, nearest(q.id) FROM q, LATERAL ($near 1) s WHERE q.id < 25", any_order => 1);
same_rows('own changes', "SELECT q.id, s.* FROM q, LATERAL ($near 3) s", least => .6,
	before => 'BEGIN; DELETE FROM t WHERE id % 3 = 0; INSERT INTO t SELECT 20000 + id, k, v FROM q WHERE id % 3 = 0; SAVEPOINT a; INSERT INTO t SELECT 30000 + id, k, v FROM q; ROLLBACK TO a;');

# Rows of u that an UPDATE has moved share the entries of their versions before: an index with key columns has none of these.
$node->safe_psql('postgres', "CREATE TABLE u AS SELECT * FROM t; CREATE INDEX ON u (k); CREATE INDEX j ON u USING $AM (v vector_l2_ops); VACUUM ANALYZE u;
	SELECT vectorgpu_prewarm('j'); UPDATE u SET k = k + 1 WHERE id % 3 = 0");
same_rows('shared entries', 'SELECT q.id, s.* FROM q, LATERAL (SELECT u.id, u.k, u.v <-> q.v AS d FROM u ORDER BY u.v <-> q.v LIMIT 5) s', least => .9);
same_rows('shared entries, many of them own', 'SELECT q.id, s.* FROM q, LATERAL (SELECT u.id, u.k, u.v <-> q.v AS d FROM u ORDER BY u.v <-> q.v LIMIT 5) s', least => .6,
	before => 'BEGIN; UPDATE u SET k = k + 1 WHERE id % 2 = 0; SAVEPOINT a; UPDATE u SET k = k - 1; ROLLBACK TO a;');

# Between the rows of a cursor others change the table, VACUUM and merge, and drop the copy. The cursor has its snapshot.
for ([ 't', 'i' ], [ 'u', 'j' ])
{
	my ($table, $index) = @$_;
	my $session = $node->background_psql('postgres');
	my $join = "SELECT q.id, s.id AS t, s.d FROM q, LATERAL (SELECT t.id, t.v <-> q.v AS d FROM $table t ORDER BY t.v <-> q.v LIMIT 3) s";
	my @got;

	$session->query_safe("$settings BEGIN ISOLATION LEVEL REPEATABLE READ");
	$session->query_safe('SET vectorgpu.read_ahead = off');
	my $expected = $session->query_safe($join);
	$session->query_safe("SET vectorgpu.read_ahead = on; DECLARE c CURSOR FOR $join");
	for my $turn (0 .. 6)
	{
		push @got, $session->query_safe('FETCH 190 FROM c');
		$node->safe_psql('postgres', "INSERT INTO $table SELECT 40000 + $turn * 1000 + id, k, v FROM q WHERE id % 7 = $turn; DELETE FROM $table WHERE id % 29 = $turn;
			UPDATE $table SET k = k WHERE id % 31 = $turn; UPDATE $table SET k = k + 1 WHERE id % 11 = $turn; UPDATE q SET v = NULL WHERE id % 7 = $turn");
		$node->safe_psql('postgres', "VACUUM $table") if $turn % 2 == 1;
		$node->safe_psql('postgres', "SELECT vectorgpu_merge('$index')") if $turn % 3 == 1;
		$node->safe_psql('postgres', "SELECT vectorgpu_evict('$index')") if $turn == 4;
	}
	push @got, $session->query_safe('FETCH ALL FROM c');
	is(join("\n", grep { $_ ne '' } @got), $expected, "changes of $table by others have no effect on a cursor");
	$session->quit;
	check_index($node, $index);
	$node->safe_psql('postgres', 'UPDATE q SET v = w');
}
$node->safe_psql('postgres', "UPDATE q SET v = w; SELECT vectorgpu_merge('i'); VACUUM t; SELECT vectorgpu_prewarm('i')");

# --- a copy that lacks rows, or is missing ---
# No search of the first request has an answer then. One search brings the copy up to date, and all others are made together.
{
	my $sql       = 'SELECT q.id, s.id FROM q, LATERAL (SELECT id FROM t ORDER BY t.v <-> q.v LIMIT 5) s';
	my $fallbacks = q{SELECT fallbacks FROM vectorgpu_indexes WHERE index_name = 'i'};
	my ($warm)    = searches($sql);
	my $before    = $node->safe_psql('postgres', $fallbacks);
	my %change    = (
		'lacks a row' => q{INSERT INTO t SELECT 60000, 0, v FROM q WHERE id = 1; DELETE FROM t WHERE id = 60000},
		'is missing'  => q{SELECT vectorgpu_evict('i')});

	cmp_ok($warm, '>', 300, 'a copy that is up to date: searches are made ahead');
	for my $what (sort keys %change)
	{
		$node->safe_psql('postgres', $change{$what});
		is((searches($sql))[0], $warm, "a copy that $what: as many");
		$node->safe_psql('postgres', $change{$what});
		$node->safe_psql('postgres', q{SELECT count(*) FROM vectorgpu_join('i', 'q', 'v', 5)});
	}
	is($node->safe_psql('postgres', $fallbacks), $before, 'and vectorgpu_join does not give up either');
}

# --- vectorgpu_join ---
my $compare = <<"SQL";
CREATE TEMP TABLE a AS SELECT q.ctid AS query, s.tid, s.rank, s.distance FROM q, LATERAL (SELECT t.ctid AS tid, t.v <-> q.v AS distance, row_number() OVER () AS rank
	FROM (SELECT ctid, v FROM t ORDER BY t.v <-> q.v LIMIT 6) t WHERE t.v IS NOT NULL) s WHERE q.v IS NOT NULL;
CREATE TEMP TABLE b AS SELECT * FROM vectorgpu_join('i', 'q', 'v', 6);
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM (SELECT query, rank, distance FROM a EXCEPT SELECT query, rank, distance FROM b) s),
	(SELECT count(*) FROM b LEFT JOIN t ON t.ctid = b.tid JOIN q ON q.ctid = b.query WHERE (t.v <-> q.v) IS DISTINCT FROM distance),
	(SELECT count(*) FROM (SELECT query, tid FROM b GROUP BY 1, 2 HAVING count(*) > 1) s);
SQL
for my $worker ('on', 'off')
{
	like(answers('off', "SET vectorgpu.worker = $worker; $compare"), qr/^2646\|2646\|0\|0\|0$/m, "vectorgpu_join finds the rows of LATERAL, worker $worker");
}
# Of u, some rows of which share entries.
(my $compare_u = $compare) =~ s/\bt\b(?= ORDER BY| ON t\.ctid)/u t/g;
$compare_u =~ s/vectorgpu_join\('i'/vectorgpu_join('j'/;
$node->safe_psql('postgres', 'UPDATE u SET k = k + 1 WHERE id % 5 = 0');
for my $worker ('on', 'off')
{
	like(answers('off', "SET vectorgpu.worker = $worker; $compare_u"), qr/^2646\|2646\|0\|0\|0$/m, "vectorgpu_join of rows that share entries, worker $worker");
}
like(answers('off', "BEGIN; DELETE FROM t WHERE id % 3 > 0; INSERT INTO t SELECT 50000 + id, k, v FROM q WHERE id % 3 = 0; $compare"), qr/^2646\|2646\|0\|0\|0$/m, 'with own changes');
like(answers('off', "BEGIN; DELETE FROM t WHERE id NOT IN (SELECT id FROM t WHERE v IS NOT NULL ORDER BY id LIMIT 3); CREATE TEMP TABLE b AS SELECT * FROM vectorgpu_join('i', 'q', 'v', 6); SELECT count(*), max(rank) FROM b"), qr/^1323\|3$/m, 'as many rows as there are');

# Rows do not have the values of virtual generated columns, which exist from 18 on.
if (server_major() >= 18)
{
	my $bits = 'CREATE TEMP TABLE tb AS SELECT n::bit(8) AS b FROM generate_series(1, 100) n; CREATE INDEX ib ON tb USING gpuflat (b bit_hamming_ops);
		CREATE TEMP TABLE qb (a bit(8), b bit(8) GENERATED ALWAYS AS (~ a) VIRTUAL, c bit(8) GENERATED ALWAYS AS (~ a) STORED); INSERT INTO qb (a) SELECT b FROM tb;';

	like(answers('on', "$bits SELECT count(*) FROM vectorgpu_join('ib', 'qb', 'c', 2)"), qr/^200$/m, 'a stored generated column of queries');
	like(answers('on', "$bits SELECT count(*) FROM vectorgpu_join('ib', 'qb', 'b', 2)"), qr/error: .*virtual generated column/, 'a virtual one is refused');
}

# --- faults ---
SKIP:
{
	skip 'built without FAULTS=1', 7 unless faults_enabled($node);
	my $sql = "SELECT count(s.id) FROM q, LATERAL ($near 3) s";

	like(answers('on', "SET vectorgpu.fault = 'ahead_search:2:error'; $sql"), qr/fault point/, 'an error in the middle');
	like(answers('on', "SET vectorgpu.fault = 'ahead_search:2:sleep'; SET statement_timeout = '500ms'; $sql"), qr/statement timeout/, 'statement_timeout');
	is(answers('on', "SET vectorgpu.fault = 'many_receive:2:corrupt'; $sql"), answers('off', $sql), 'a reply that is none: the pages, or the scan itself, answer');

	# An error while the worker has the next request: the session can be used again at once. 441 searches are two requests at least.
	my $after = "$settings SET vectorgpu.read_ahead = on; DO \$\$ BEGIN PERFORM vectorgpu_join('i', 'q', 'v', 6); RAISE NOTICE 'no error'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END \$\$;
		SET vectorgpu.fault = ''; SELECT count(*), sum(distance) FROM vectorgpu_join('i', 'q', 'v', 6); $sql";
	my $right = answers('off', "SELECT count(*), sum(distance) FROM vectorgpu_join('i', 'q', 'v', 6); $sql");
	for my $n (1 .. 2)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = 'many_take:$n:error'; $after");

		is("$rc $out", "0 $right", "after an error between two requests, $n");
		like($err, qr/fault point/, 'which was raised');
	}
	check_faults_reached($node);
}
for my $turn (1 .. 4)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query_safe('SELECT pg_backend_pid()');

	$session->query_until(qr/begun/, "\\echo begun\n$settings SELECT count(s.id) FROM q a, q b, LATERAL (SELECT t.id FROM t ORDER BY t.v <-> a.v LIMIT 20) s;\n");
	$node->poll_query_until('postgres', "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $pid");
	select undef, undef, undef, .07 * $turn;
	$node->safe_psql('postgres', $turn % 2 ? "SELECT pg_cancel_backend($pid)" : "SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid AND state = 'active'"), 'a join ends when it is cancelled');
	eval { $session->quit };
}
same_rows('after that', "SELECT q.id, s.* FROM q, LATERAL ($near 5) s", least => .9);

# Workers that are killed while the join runs.
{
	my $expected = answers('off', "SELECT q.id, s.* FROM q, LATERAL ($near 3) s");
	my $wrong = 0;

	for my $turn (1 .. 6)
	{
		my $session = $node->background_psql('postgres');

		$session->query_safe("$settings SET vectorgpu.read_ahead = on; BEGIN; DECLARE c CURSOR FOR SELECT q.id, s.* FROM q, LATERAL ($near 3) s");
		my @got = ($session->query_safe('FETCH 100 FROM c'));
		kill 'KILL', wait_worker($node);
		push @got, $session->query_safe('FETCH 700 FROM c');
		wait_worker($node) if $turn % 2;
		push @got, $session->query_safe('FETCH ALL FROM c');
		$wrong++ if join("\n", @got) ne $expected;
		$session->quit;
	}
	is($wrong, 0, 'a worker that dies changes no row');
}
my $worker = wait_worker($node);
ok($worker, 'there is a worker');

# One that hangs: a timeout, then the pages.
{
	my $expected = answers('off', "SELECT q.id, s.* FROM q, LATERAL ($near 3) s");
	my $session = $node->background_psql('postgres');

	$session->query_safe("$settings SET vectorgpu.read_ahead = on; SET vectorgpu.worker_timeout = '300ms'; BEGIN; DECLARE c CURSOR FOR SELECT q.id, s.* FROM q, LATERAL ($near 3) s");
	my @got = ($session->query_safe('FETCH 100 FROM c'));
	kill 'STOP', $worker;
	push @got, $session->query_safe('FETCH 700 FROM c');
	kill 'CONT', $worker;
	push @got, $session->query_safe('FETCH ALL FROM c');
	is(join("\n", @got), $expected, 'a worker that hangs changes no row');
	$session->quit;
}

# --- a standby ---
{
	my $standby = make_standby($node, 'standby');
	wait_standby($node, $standby);
	ok(wait_worker($standby), 'the standby has a worker');
	$standby->psql('postgres', q{SELECT vectorgpu_prewarm('i')});
	same_rows('standby', "SELECT q.id, s.* FROM q, LATERAL ($near 5) s", node => $standby, least => .6);
	is(answers('on', "SELECT count(*), sum(distance) FROM vectorgpu_join('i', 'q', 'v', 4)", node => $standby), answers('off', "SELECT count(*), sum(distance) FROM vectorgpu_join('i', 'q', 'v', 4)"), 'vectorgpu_join too');
	check_stopped($standby) if $standby->stop;
}
same_rows('at last', "SELECT q.id, s.* FROM q, LATERAL ($near 5) s");
check_index($node, 'i');
is(count_restarts($node), 0, 'the server never restarted');
check_resources($node, $resources);
check_stopped($node);
done_testing();
