# Changes of tables and indexes: TRUNCATE, REINDEX and rewrites, committed and rolled back (C11, F55), CREATE DATABASE
# TEMPLATE (C11), temp tables in two sessions (C10, F48), CREATE INDEX and REINDEX CONCURRENTLY under inserts (C17), their
# leftovers (C30, F10), builds cancelled at seven moments (C45; VECTORGPU_LONG: at 50 random ones), DROP EXTENSION under a cursor (F47).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuBuilds;
use VectorgpuTest;
use VectorgpuLoad;

my $node = make_node('ddl');
my $zero = "'[0,0,0,0,0,0,0,0]'::vector";
create_comparer($node);

# Another session keeps scanning throughout: its caches are warm at every step.
my $warm = $node->background_psql('postgres');
$warm->query_safe('SET enable_seqscan = off');
my $warm_query = "SELECT count(*), coalesce(sum(id), 0) FROM (SELECT id FROM t ORDER BY v <-> $zero) s";

sub step
{
	my ($what, $sql) = @_;

	$node->safe_psql('postgres', $sql) if $sql ne '';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($warm->query_safe($warm_query), $node->safe_psql('postgres', 'SELECT count(*), coalesce(sum(id), 0) FROM t'),
		"$what: a session that has scanned before sees all rows");
	answers_equal($node, 't', dims => 8, queries => 1, name => "$what: index and sequential scans agree");
	check_index($node, 't_v', name => "$what: check");
	return;
}

make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");
my $more = 'INSERT INTO t SELECT i, 0, ' . random_vector_sql('i', dims => 8, seed => 3) . ' FROM generate_series';
step('after build', '');
step('TRUNCATE rolled back', "BEGIN; TRUNCATE t; $more(1001, 1100) i; SELECT id FROM t ORDER BY v <-> $zero LIMIT 1; ROLLBACK");
step('TRUNCATE in a savepoint rolled back', "BEGIN; $more(1201, 1210) i; SAVEPOINT a; TRUNCATE t; $more(1101, 1110) i; ROLLBACK TO a; $more(1211, 1220) i; COMMIT");
step('TRUNCATE', 'TRUNCATE t');
step('rows after TRUNCATE', "$more(2001, 2400) i");
step('REINDEX rolled back', "BEGIN; REINDEX INDEX t_v; $more(2401, 2410) i; ROLLBACK; $more(2411, 2420) i");
step('REINDEX', 'DELETE FROM t WHERE id % 5 = 0; REINDEX INDEX t_v');
step('VACUUM FULL', 'DELETE FROM t WHERE id % 7 = 0; VACUUM FULL t');
step('CLUSTER on another index rolled back', "BEGIN; CLUSTER t USING t_pkey; $more(2501, 2510) i; ROLLBACK");
step('CLUSTER on another index', 'CLUSTER t USING t_pkey');
step('ALTER TYPE of another column', 'ALTER TABLE t ALTER category TYPE bigint');
step('ALTER TYPE rolled back', "BEGIN; ALTER TABLE t ALTER v TYPE vector(8) USING v + v; SELECT id FROM t ORDER BY v <-> $zero LIMIT 1; ROLLBACK");
step('ALTER TYPE of the column', 'ALTER TABLE t ALTER v TYPE vector(8) USING v + v');
step('DROP INDEX rolled back', "BEGIN; DROP INDEX t_v; $more(2601, 2610) i; ROLLBACK");
step('DROP and CREATE INDEX', "DROP INDEX t_v; CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");
step('SET UNLOGGED', 'ALTER TABLE t SET UNLOGGED');
step('rows in the unlogged table', "$more(2701, 2720) i");
step('SET LOGGED', 'ALTER TABLE t SET LOGGED');
my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION '$space'");
step('SET TABLESPACE rolled back', 'BEGIN; ALTER INDEX t_v SET TABLESPACE other; ROLLBACK');
# Both index files make a segment of the same number in one transaction.
step('SET TABLESPACE and a merge there in a savepoint rolled back',
	"BEGIN; $more(2721, 2730) i; SELECT vectorgpu_merge('t_v'), vectorgpu_check('t_v', true); SAVEPOINT a; ALTER INDEX t_v SET TABLESPACE other; $more(2731, 2760) i; "
	. "SELECT vectorgpu_merge('t_v'), vectorgpu_check('t_v', true); SELECT id FROM t ORDER BY v <-> $zero LIMIT 1; ROLLBACK TO a; $more(2761, 2765) i; DELETE FROM t WHERE id = 2725; "
	. "SELECT vectorgpu_merge('t_v'), vectorgpu_check('t_v', true); SELECT id FROM t ORDER BY v <-> $zero LIMIT 1; COMMIT; SELECT vectorgpu_merge('t_v')");
# A transaction's cached model to decode codes belongs to one index file: here both files have a segment of the same number, with other ranges of bytes.
# With the wrong model a merge would write rows a hundred times too far out, where no search finds them. (On an expression: else the merge reads the table.)
if ($AM eq 'gpuivf')
{
	my $coded = sub { "INSERT INTO coded SELECT i, " . random_vector_sql('i', dims => 8, seed => 4) . " * array_fill($_[2]::real, ARRAY[8])::vector FROM generate_series($_[0], $_[1]) i" };
	my $merge = "SELECT vectorgpu_merge('coded_v')";

	$node->safe_psql('postgres', 'CREATE TABLE coded (id bigint, v vector); ' . $coded->(1, 2000, 1)
		  . "; CREATE INDEX coded_v ON coded USING gpuivf ((v::vector(8)) vector_l2_ops) WITH (lists = 20, storage = 'sq8', refine = 'none')");
	$node->safe_psql('postgres', join(';', 'BEGIN; SAVEPOINT a; ALTER INDEX coded_v SET TABLESPACE other',
		$coded->(3001, 6000, 100), $merge, $coded->(6001, 6001, 100), $merge, 'ROLLBACK TO a', $coded->(2001, 2010, 1), $merge, $coded->(2011, 2020, 1), $merge, 'COMMIT'));
	cmp_ok($node->safe_psql('postgres', 'SET enable_seqscan = off; SET gpuivf.probes = 5; '
			  . 'SELECT count(*) FROM coded c WHERE id % 20 = 0 AND id = (SELECT id FROM coded ORDER BY v::vector(8) <-> c.v LIMIT 1)'),
		'>', 90, 'rows of 101 that are found; codes are decoded as in the file that they are in');
	$node->safe_psql('postgres', 'DROP TABLE coded');
}
step('SET TABLESPACE', 'ALTER INDEX t_v SET TABLESPACE other');
step('and back, after more rows', "$more(2801, 2850) i; ALTER INDEX t_v SET TABLESPACE pg_default");
my ($state) = psql_state($node, 'CLUSTER t USING t_v');
is($state, '0A000', 'CLUSTER on the index itself is refused');
($state) = psql_state($node, "CREATE UNIQUE INDEX ON t USING $AM (v vector_l2_ops)");
is($state, '0A000', 'so is UNIQUE');
($state) = psql_state($node, "CREATE INDEX ON t USING $AM (v vector_l2_ops, v vector_ip_ops)");
is($state, '0A000', 'and a second column');
$warm->quit;

# A build stopped in a phase after the scan of the table shows the number of rows done there, and the total.
my %held = (
	gpuivf   => [ [ 'ivf_assign:2', 'assigning rows to lists', '' ], [ 'ivf_assign:2', 'assigning rows to lists', q{WITH (storage = 'pq', pq_m = 4, opq)} ] ],
	gpugraph => [ [ 'graph_progress:20', 'finding neighbors', '' ] ]);
for my $case (faults_enabled($node) ? @{ $held{$AM} // [] } : ())
{
	my ($point, $phase, $with) = @$case;
	my ($holder, $builder) = map { $node->background_psql('postgres') } 1 .. 2;

	$node->safe_psql('postgres', 'CREATE TABLE counted AS SELECT i AS id, ' . random_vector_sql('i', dims => 8, seed => 5) . ' AS v FROM generate_series(1, 2500) i');
	$builder->query_safe("LOAD 'vectorgpu'; SET vectorgpu.worker = off; SET max_parallel_maintenance_workers = 0; SET vectorgpu.fault = '$point:lock'");
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	ok(run_to_lock($node, $builder, "CREATE INDEX counted_v ON counted USING $AM ((v::vector(8)) vector_l2_ops) $with"), 'a build waits');
	is($node->safe_psql('postgres', 'SELECT phase, tuples_total, tuples_done BETWEEN 1 AND 2499 FROM pg_stat_progress_create_index'),
		"building index: $phase|2500|t", "the progress view shows its phase and counts $with");
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	is($builder->query_safe('SELECT 1'), '1', 'it goes on');
	check_index($node, 'counted_v', name => 'and the index is whole');
	$_->quit for $holder, $builder;
	$node->safe_psql('postgres', 'DROP TABLE counted');
}

# CREATE DATABASE TEMPLATE: equal relfilenodes, equal page bytes; then each copy changes separately.
$node->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE postgres');
$node->safe_psql('clone', "DELETE FROM t WHERE id % 2 = 0; $more(5001, 5100) i; VACUUM t; $more(5101, 5150) i");
for my $db ('postgres', 'clone')
{
	answers_equal($node, 't', db => $db, dims => 8, name => "database $db: index and sequential scans agree");
	check_index($node, 't_v', db => $db, name => "database $db: check");
}
$node->safe_psql('postgres', "$more(6001, 6050) i");
answers_equal($node, 't', db => $_, dims => 8, name => "database $_ again") for 'postgres', 'clone';
$node->safe_psql('postgres', 'DROP DATABASE clone');

# Temp tables: the same name in two sessions.
my @sessions = map { $node->background_psql('postgres') } 1 .. 2;
for my $number (0, 1)
{
	$sessions[$number]->query_safe(<<SQL);
SET enable_seqscan = off; SET client_min_messages = error;
CREATE TEMP TABLE own (id bigint, category int, v vector(8)) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE kept (id bigint, category int, v vector(8));
CREATE INDEX own_v ON own USING $AM (v vector_l2_ops);
CREATE INDEX kept_v ON kept USING $AM (v vector_l2_ops);
SQL
}
my @answers;
for my $number (0, 1, 0, 1)
{
	my $base = 1000 * (@answers + 1);
	my $rows = "SELECT $base + i, 0, " . random_vector_sql('i', dims => 8, seed => 11 + $number) . ' FROM generate_series(1, 60) i';

	push @answers, $sessions[$number]->query_safe(<<SQL);
BEGIN;
INSERT INTO own $rows;
SELECT count(*), min(id) > $base, max(id) <= $base + 60 FROM (SELECT id FROM own ORDER BY v <-> $zero) s;
COMMIT;
SELECT count(*) FROM (SELECT id FROM own ORDER BY v <-> $zero) s;
INSERT INTO kept $rows;
DELETE FROM kept WHERE id % 10 = 0;
VACUUM kept;
SELECT vectorgpu_merge('kept_v') IS NULL AND false;
SELECT vectorgpu_check('kept_v', true) IS NULL AND false;
SELECT compare_answers('kept', '<->', quote_literal('[0,0,0,0,0,0,0,0]') || '::vector', NULL);
SQL
}
is($answers[$_], "60|t|t\n0\nf\nf\n", 'temp tables, session ' . ($_ % 2 + 1) . ', round ' . (int($_ / 2) + 1)) for 0 .. 3;
($state) = psql_state($node, "SELECT vectorgpu_check(c.oid::regclass, false) FROM pg_class c WHERE relname = 'kept_v'");
is($state, '0A000', "another session's temp index is refused");
$_->quit for @sessions;

# CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY under inserts, updates and deletes.
make_table($node, 'busy', dims => 8);
fill_vectors($node, 'busy', dims => 8, rows => 3000);
$node->safe_psql('postgres', 'CREATE SEQUENCE busy_id START 100000');
my $load = start_load($node, {
		insert => "INSERT INTO busy SELECT nextval('busy_id'), 1, test_vector((random() * 1e9)::bigint, 8)::vector;\n",
		update => "\\set i random(1, 3000)\nUPDATE busy SET v = test_vector((random() * 1e9)::bigint, 8)::vector WHERE id = :i;\n",
		abort  => "BEGIN;\nINSERT INTO busy SELECT nextval('busy_id'), 1, test_vector((random() * 1e9)::bigint, 8)::vector;\nROLLBACK;\n" },
	clients => 3, seconds => 8);
for my $round (1 .. 3)
{
	sleep 0.3;
	$node->safe_psql('postgres', "CREATE INDEX CONCURRENTLY busy_v ON busy USING $AM (v vector_l2_ops)");
	sleep 0.3;
	$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY busy_v');
	is($node->safe_psql('postgres', <<SQL), 't|t', "round $round: every row once after CREATE and REINDEX INDEX CONCURRENTLY");
BEGIN ISOLATION LEVEL REPEATABLE READ;
CREATE TEMP TABLE found ON COMMIT DROP AS SELECT 0::bigint AS n, 0::bigint AS d LIMIT 0;
SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
INSERT INTO found SELECT count(*), count(DISTINCT ctid) FROM (SELECT ctid FROM busy ORDER BY v <-> $zero) s;
SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
SELECT n = d, n = (SELECT count(*) FROM busy) FROM found;
COMMIT;
SQL
	$node->safe_psql('postgres', $round < 3 ? 'DROP INDEX CONCURRENTLY busy_v' : 'SELECT 1');
}
my ($transactions, $problem) = finish_load($load);
is($problem, '', 'the writers met no error');
cmp_ok($transactions, '>', 10, "they did $transactions transactions");
answers_equal($node, 'busy', dims => 8, name => 'afterwards both scans agree');
check_index($node, 'busy_v', name => 'and the check is clean');

# Cancelled at many moments (F10, C30): absent or invalid, inserts go on, drop and rebuild work.
fill_vectors($node, 'busy', dims => 8, rows => 5000, first => 10001);
cancel_builds($node,
	commands => {
		'CREATE INDEX'              => "CREATE INDEX busy_c ON busy USING $AM (v vector_ip_ops)",
		'CREATE INDEX CONCURRENTLY' => "CREATE INDEX CONCURRENTLY busy_c ON busy USING $AM (v vector_ip_ops)",
		'REINDEX CONCURRENTLY'      => 'REINDEX INDEX CONCURRENTLY busy_v' },
	moments   => $ENV{VECTORGPU_LONG} ? 50 : [ 1, 3, 6, 10, 15, 25, 40 ],
	leftovers => [qw(busy_c busy_v_ccnew busy_v_ccold)],
	between   => sub { "INSERT INTO busy SELECT nextval('busy_id'), 1, $zero" });
$node->safe_psql('postgres', "CREATE INDEX busy_c ON busy USING $AM (v vector_ip_ops)");
answers_equal($node, 'busy', dims => 8, op => $_, queries => 1, name => "after the cancels, $_") for '<->', '<#>';
check_index($node, $_) for 'busy_v', 'busy_c';
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 0, 'no invalid index is left');

check_all($node); # none is left at the end

# F47: DROP EXTENSION waits for a cursor's transaction; the extension can come back.
my $cursor = $node->background_psql('postgres');
$cursor->query_safe("BEGIN; SET enable_seqscan = off; DECLARE one CURSOR FOR SELECT id FROM busy ORDER BY v <-> $zero; FETCH 2 FROM one");
($state) = psql_state($node, "SET lock_timeout = '200ms'; DROP EXTENSION vectorgpu CASCADE");
is($state, '55P03', 'DROP EXTENSION waits while a cursor is open');
is(scalar(split /\n/, $cursor->query_safe('FETCH 20 FROM one')), 20, 'the cursor continues');
$cursor->query_safe('COMMIT');
$node->safe_psql('postgres', 'DROP EXTENSION vectorgpu CASCADE; CREATE EXTENSION vectorgpu');
is($cursor->query_safe("CREATE TEMP TABLE again (id int, v vector(2)); INSERT INTO again VALUES (1, '[1,2]'); CREATE INDEX ON again USING $AM (v vector_l2_ops); SELECT id FROM again ORDER BY v <-> '[0,0]' LIMIT 1"),
	1, 'after CREATE EXTENSION the same session can use it');
$cursor->quit;

$node->stop;
done_testing();
