# Insert, update, delete, vacuum and merge beside scans, each compared with the sequential scan of the same snapshot (F34);
# prepared and simple protocol; parallel mode (C32). For gpumatch sets instead of vectors: one index of t instead of two.
# VECTORGPU_SECONDS (default 20; gpumatch: 6) and VECTORGPU_CLIENTS (4) for soaks. A worker that is on (VECTORGPU_WORKER) has to answer in each load.
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

my $seconds = $ENV{VECTORGPU_SECONDS} // (of_match() ? 6 : 20);
my $clients = $ENV{VECTORGPU_CLIENTS} // 4;
my $node = make_node('mixed', conf => "fsync = off\nmax_connections = 150\nautovacuum = on\nautovacuum_naptime = 1s\n");
my $worker = ($ENV{VECTORGPU_WORKER} // '') =~ /^(?:on|flapping)$/ ? $ENV{VECTORGPU_WORKER} : '';
plan skip_all => 'the worker is not installed' if $worker && !-x worker_file($node);
if ($worker eq 'on')
{
	# A hundred clients on few cores delay each other for longer than the two seconds after which the worker counts as silent.
	$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 60s\n");
	$node->reload;
}
create_values($node);

my ($type, $wide) = (column_type(16), column_type(2500));
my ($op_cos, $op_wide, $class_wide) = of_match() ? ($OP, $OP, '') : ('<=>', '<+>', 'vector_l1_ops');
my $without_elements = of_match() ? q{'{}'} : 'array_fill(0::float4, ARRAY[16])::vector';
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t (id bigint PRIMARY KEY, category int NOT NULL, v $type) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
INSERT INTO t SELECT i, i % 10, CASE WHEN i % 60 = 0 THEN NULL WHEN i % 70 = 0 THEN $without_elements ELSE test_vector(i, 16)::$CAST END FROM generate_series(1, 1500) i;
CREATE INDEX t_l2 ON t USING $AM (v $CLASS);
CREATE SEQUENCE t_id START 10000;
CREATE TABLE w (id bigint, category int, v $wide);
INSERT INTO w SELECT i, i % 3, test_vector(i, 2500)::$CAST FROM generate_series(1, 60) i;
CREATE INDEX w_v ON w USING $AM (v $class_wide);
SQL
$node->safe_psql('postgres', "CREATE INDEX t_cos ON t USING $AM (v vector_cosine_ops)") if !of_match();
# Enough rows for narrow searches to be narrow: see VectorgpuNarrow.
$node->safe_psql('postgres', 'CREATE TABLE n (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(8) . ')');
fill_values($node, 'n', dims => 8, rows => 4000);
$node->safe_psql('postgres', "CREATE INDEX n_v ON n USING $AM (v $CLASS)");
my @indexes = of_match() ? qw(t_l2 w_v n_v) : qw(t_l2 t_cos w_v n_v);

my $any = "test_vector((random() * 1e9)::bigint, 16)::$CAST";
my $compare = sub {
	my ($table, $op, $dims, $k, $filter) = @_;
	return "\\set q random(1, 100000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_answers('$table', '$op', quote_literal(test_vector(:q, $dims)) || '::$CAST', $k, '$filter');\nCOMMIT;\n";
};

# One test if the worker is on: it has answered during CODE. A worker that is killed each second may not get to it on a busy machine.
sub answered_during
{
	my ($what, $code) = @_;
	my $before = $worker ? worker_stat($node, 'answered') : 0;

	$code->();
	return if !$worker;
	my $answered = worker_stat($node, 'answered') - $before;
	note("$what, worker $worker: it answered $answered batches, " . worker_stat($node, 'restarts') . ' restarts and ' . worker_stat($node, 'fallbacks') . ' fallbacks so far');
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($answered, '>', 0, "$what: the worker answered") if $worker eq 'on' && !pages_answer();
	return;
}

my %scripts = (
	'insert@6'    => "INSERT INTO t SELECT nextval('t_id'), 1, CASE WHEN random() < 0.02 THEN NULL ELSE $any END FROM generate_series(1, 8);\n",
	'update@3'    => "UPDATE t SET v = $any WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED);\n",
	'hot@3'       => "UPDATE t SET category = (category + 1) % 10 WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED);\n",
	# Deletes exceed inserts if there are many rows, and are fewer if there are few: a soak of an empty table would compare nothing.
	'delete@6'    => "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT (SELECT CASE WHEN count(*) > 1200 THEN 12 ELSE 4 END FROM t) FOR UPDATE SKIP LOCKED);\n",
	'abort@2'     => "BEGIN;\nINSERT INTO t SELECT nextval('t_id'), 1, $any FROM generate_series(1, 5);\nSAVEPOINT a;\nDELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED);\nROLLBACK TO a;\nROLLBACK;\n",
	'wide@2'      => "BEGIN;\nINSERT INTO w SELECT nextval('t_id'), 1, test_vector((random() * 1e9)::bigint, 2500)::$CAST;\nDELETE FROM w WHERE id IN (SELECT id FROM w ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED);\nCOMMIT;\n",
	'narrow@2'    => "DELETE FROM n WHERE id IN (SELECT id FROM n ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED);\nINSERT INTO n SELECT nextval('t_id'), 1, test_vector((random() * 1e9)::bigint, 8)::$CAST FROM generate_series(1, 5);\n",
	'vacuum@1'    => "VACUUM t;\nVACUUM w;\nVACUUM n;\n",
	'merge@1'     => join('', map { "SELECT vectorgpu_merge('$_');\n" } @indexes),
	'near@8'      => $compare->('t', $OP, 16, 10, 'true'),
	'many@2'      => $compare->('t', $OP, 16, 400, 'true'),
	'all@1'       => $compare->('t', $op_cos, 16, 'NULL', 'true'),
	'cosine@4'    => $compare->('t', $op_cos, 16, 10, 'true'),
	'filter@3'    => $compare->('t', $OP, 16, 10, 'category = 3'),
	'widescan@2'  => $compare->('w', $op_wide, 2500, 5, 'true'),
	'nearn@1'     => $compare->('n', $OP, 8, 10, 'true'),
	'own@2'       => "\\set q random(1, 100000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nINSERT INTO t SELECT nextval('t_id'), 2, test_vector(:q, 16)::$CAST;\nDELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED);\nSELECT assert_answers('t', '$OP', quote_literal(test_vector(:q, 16)) || '::$CAST', 5);\nCOMMIT;\n");

for my $protocol ('simple', 'prepared')
{
	answered_during("$protocol protocol", sub {
		my $load = start_load($node, \%scripts, clients => $clients, seconds => int($seconds / 2) + 1, extra => [ '-M', $protocol ]);
		my ($transactions, $problem) = finish_load($load);
		is($problem, '', "$protocol protocol: no error and no wrong answer in $transactions transactions");
		cmp_ok($transactions, '>', $seconds / 2, "$protocol protocol: work was done");
	});
}
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '>', 600, 'rows are left');
for my $index (@indexes)
{
	check_index($node, $index, name => "afterwards: check of $index");
}
answers_equal($node, 't', dims => 16, op => $OP, type => $CAST, name => 'afterwards: both scans agree');
answers_equal($node, 't', dims => 16, op => $op_cos, name => 'afterwards: cosine too') if !of_match();
answers_equal($node, 'w', dims => 2500, op => $op_wide, type => $CAST, name => 'afterwards: rows over several pages');

# C32: everything inside parallel workers, as far as the planner will go.
for my $mode ('regress', 'on')
{
	my $rows = "SELECT id, v $OP test_vector(1, 16)::$CAST FROM t ORDER BY 2 LIMIT 7";
	my %found = map {
		(my $scan, my $setup) = @$_;
		$scan => [ map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', "SET $PARALLEL_MODE = $mode; $setup; $rows") ]
	} ([ index => 'SET enable_seqscan = off; SET enable_sort = off' ], [ sequential => 'SET enable_indexscan = off' ]);
	my %ids = map { $_->[0] => 1 } @{ $found{index} };

	# Ties are ordered by the TID of the HOT chain's root, not of the row's version.
	is_deeply([ map { $_->[1] } @{ $found{index} } ], [ map { $_->[1] } @{ $found{sequential} } ], "$PARALLEL_MODE = $mode: distances");
	is(scalar keys %ids, 7, "$PARALLEL_MODE = $mode: as many rows");
}
# Enough for a parallel plan.
$node->safe_psql('postgres', "INSERT INTO t SELECT nextval('t_id'), 1, $any FROM generate_series(1, 2000); ANALYZE t");
like($node->safe_psql('postgres', <<SQL), qr/Parallel Seq Scan/, 'distances run in parallel workers');
SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY v $OP test_vector(1, 16)::$CAST LIMIT 7
SQL

# Many sessions, few queries each: all scans are right.
answered_during('60 clients', sub {
	my $burst = start_load($node, { 'near@1' => $scripts{'near@8'}, 'insert@1' => $scripts{'insert@6'} }, clients => 60, seconds => 4);
	my ($transactions, $problem) = finish_load($burst);
	is($problem, '', "60 clients: no wrong answer in $transactions transactions");
});
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|deadlock/, 'no crash, no deadlock');

$node->stop;
done_testing();
