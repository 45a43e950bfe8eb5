# DDL with warm copies and with a stopped worker: right answers, no waiting, no copies left over. Tests that name access methods themselves run once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  # Long enough to detect a statement that waits for a stopped worker.
	  . "vectorgpu.worker_timeout = 60s\n"
	  . "allow_in_place_tablespaces = on\nmax_prepared_transactions = 5\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 1000);
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v vector_l2_ops)");
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

# One test: the worker has the copy, and answers as a sequential scan does.
sub agrees
{
	my ($name, %opt) = @_;

	by_worker($node, $name, sub {
		compare_sweep($node, 't', '<->', dims => 8, queries => 2, limits => [ 10, undef ], strict_ties => 1, %opt, name => $name);
	});
	return;
}

agrees('warm copy');
$node->safe_psql('postgres', 'BEGIN; TRUNCATE t; ROLLBACK');
agrees('TRUNCATE rolled back');
$node->safe_psql('postgres', "BEGIN; TRUNCATE t; SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> array_fill(1, ARRAY[8])::vector) s; ROLLBACK");
agrees('TRUNCATE, scanned, rolled back');
$node->safe_psql('postgres', 'TRUNCATE t');
fill_vectors($node, 't', dims => 8, rows => 700, seed => 3);
agrees('after TRUNCATE', seed => 3);
$node->safe_psql('postgres', 'REINDEX INDEX i');
agrees('after REINDEX');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY i');
agrees('after REINDEX CONCURRENTLY');
$node->safe_psql('postgres', 'BEGIN; REINDEX INDEX i; ROLLBACK');
agrees('REINDEX rolled back');
$node->safe_psql('postgres', 'VACUUM FULL t');
agrees('after VACUUM FULL');
$node->safe_psql('postgres', 'CLUSTER t USING t_pkey');
agrees('after CLUSTER');
$node->safe_psql('postgres', 'ALTER TABLE t ALTER COLUMN v TYPE vector(8) USING v * v');
agrees('after ALTER TYPE');
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION ''");
$node->safe_psql('postgres', 'ALTER INDEX i SET TABLESPACE other');
agrees('in another tablespace');
$node->safe_psql('postgres', 'ALTER INDEX i SET TABLESPACE pg_default');
agrees('and back');

# A session's cached data of a graph's segment belongs to one file: a merge in a file that is rolled back, and the next one in the old file, make segments of
# the same number. The calibration of the first asks for narrow searches, since its rows have 3 dimensions in truth; that of the other for wide ones.
if ($AM eq 'gpuflat')
{
	my $easy = sub { 'INSERT INTO g SELECT i, 0, (' . random_vector_sql('i', dims => 3, seed => 7)
		  . "::real[] || array_fill(5::real, ARRAY[29]))::vector FROM generate_series($_[0], $_[1]) i" };
	my $ask = "SELECT q, (SELECT string_agg(id::text, ',' ORDER BY n) FROM (SELECT id, row_number() OVER () AS n FROM (SELECT id FROM g ORDER BY v <-> "
	  . random_vector_sql('q', dims => 32, seed => 8) . ' LIMIT 10) s) s) FROM generate_series(1, 60) q';
	my $settings = "SET enable_seqscan = off; SET vectorgpu.worker_timeout = '60s'; SET gpugraph.search_width = 0";
	my $warm = $node->background_psql('postgres');
	my $answered;

	make_table($node, 'g', dims => 32);
	$node->safe_psql('postgres', $easy->(1, 2000));
	$node->safe_psql('postgres', 'CREATE INDEX gi ON g USING gpugraph (v vector_l2_ops)');
	$warm->query_safe($settings);
	$warm->query_safe('BEGIN; ' . $easy->(2001, 2010) . '; ALTER INDEX gi SET TABLESPACE other');
	$warm->query_safe("SELECT vectorgpu_merge('gi')");
	$warm->query_safe($ask);
	$warm->query_safe('ROLLBACK');
	fill_vectors($node, 'g', dims => 32, rows => 12000, first => 20001, seed => 7);
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('gi'), vectorgpu_prewarm('gi')");
	$answered = worker_stat($node, 'answered');
	is($warm->query_safe($ask), $node->safe_psql('postgres', "$settings; $ask"),
		'a session that searched a rolled-back file of a graph searches as wide as any other');
	is(worker_stat($node, 'answered') - $answered, 120, 'both by the worker');
	$warm->quit;
	$node->safe_psql('postgres', 'DROP TABLE g');
}

# Rows that a transaction inserts are visible to itself, and to no transaction after a rollback.
my $own = $node->safe_psql('postgres', <<'SQL');
SET enable_seqscan = off;
BEGIN;
INSERT INTO t VALUES (100001, 1, '[9,9,9,9,9,9,9,9]');
SELECT id FROM t ORDER BY v <-> '[9,9,9,9,9,9,9,9]' LIMIT 1;
SAVEPOINT s;
INSERT INTO t VALUES (100002, 1, '[8,8,8,8,8,8,8,8]');
SELECT id FROM t ORDER BY v <-> '[8,8,8,8,8,8,8,8]' LIMIT 1;
ROLLBACK TO s;
SELECT id FROM t ORDER BY v <-> '[8,8,8,8,8,8,8,8]' LIMIT 1;
ROLLBACK;
SELECT id < 100000 FROM t ORDER BY v <-> '[9,9,9,9,9,9,9,9]' LIMIT 1;
SQL
is($own, "100001\n100002\n100001\nt", 'a transaction sees its own rows, and only while they live');

# Prepared transactions
$node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (100003, 1, '[7,7,7,7,7,7,7,7]'); PREPARE TRANSACTION 'p'");
agrees('beside a prepared transaction');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> '[7,7,7,7,7,7,7,7]' LIMIT 1"),
	100003, 'rows of a prepared transaction come with its commit');
agrees('after it');

# Vacuum frees line pointers for new rows: a copy without the tombstones would return wrong rows.
for my $round (1 .. 3)
{
	$node->safe_psql('postgres', "DELETE FROM t WHERE id % 7 = $round");
	$node->safe_psql('postgres', 'VACUUM t');
	fill_vectors($node, 't', dims => 8, rows => 100, first => 200000 + 1000 * $round, seed => 10 + $round);
	agrees("after delete, vacuum, insert ($round)");
}
$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
agrees('after a merge');
is($node->safe_psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('i', true, true)"), 't', 'the copy equals the pages');

# A clone of the database: the same file number, the same uuid, its own rows.
$node->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE postgres');
$node->safe_psql('clone', 'DELETE FROM t WHERE id % 2 = 0; VACUUM t');
fill_vectors($node, 't', dims => 8, rows => 50, first => 300000, seed => 20, db => 'clone');
agrees('in the clone', db => 'clone');
agrees('in its template');

# Unlogged and temporary tables
$node->safe_psql('postgres', "CREATE UNLOGGED TABLE u AS SELECT * FROM t; CREATE INDEX ui ON u USING $AM (v vector_l2_ops)");
by_worker($node, 'an unlogged table', sub {
	compare_sweep($node, 'u', '<->', dims => 8, queries => 1, name => 'an unlogged table');
});
my $answered = worker_stat($node, 'answered');
is($node->safe_psql('postgres', "CREATE TEMP TABLE x AS SELECT * FROM t; CREATE INDEX ON x USING $AM (v vector_l2_ops); "
		  . 'SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM x ORDER BY v <-> array_fill(0, ARRAY[8])::vector) s'),
	$node->safe_psql('postgres', 'SELECT count(*) FROM t'), 'a temporary table is answered');
is(worker_stat($node, 'answered'), $answered, 'but never by the worker');

my @methods = (['gpuflat', 'vector_l2_ops', 'v', '<->'], ['gpuivf', 'vector_l2_ops', 'v', '<->'], ['gpugraph', 'vector_l2_ops', 'v', '<->'], ['gpumatch', '', 'tags', '<#>']);

# C10, F48: two sessions have temporary tables of the same name, which go with the transaction, or whose rows do; in index scans of each access method.
if ($AM eq 'gpuflat')
{
	my @sessions = map { $node->background_psql('postgres') } 1 .. 2;
	my $copies_before = worker_stat($node, 'copies');

	$_->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET client_min_messages = error; SET vectorgpu.worker = on") for @sessions;
	for my $on_commit ('DROP', 'DELETE ROWS')
	{
		for my $method (@methods)
		{
			my ($am, $class, $column, $op) = @$method;
			my $create = "CREATE TEMP TABLE own (id int, v vector(3), tags int[]) ON COMMIT $on_commit; CREATE INDEX own_i ON own USING $am ($column $class)";
			my $query = $column eq 'v' ? "'[0,0,0]'" : "'{1,2,3}'";
			my $all = "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM own ORDER BY $column $op $query) s";
			my @seen;

			$_->query_safe($create) for $on_commit eq 'DROP' ? () : @sessions;
			for my $round (1, 2)
			{
				my @first = (1000 * $round, 2000 * $round + 5000);

				for my $i (0, 1)
				{
					$sessions[$i]->query_safe('BEGIN; ' . ($on_commit eq 'DROP' ? "$create; " : '') . "INSERT INTO own SELECT $first[$i] + i, ARRAY[i, i % 7, 1]::vector, ARRAY[i % 5, i % 3] FROM generate_series(1, 200) i");
				}
				push @seen, $sessions[0]->query_safe($all), $sessions[1]->query_safe($all);
				$sessions[0]->query_safe('COMMIT');
				push @seen, $sessions[1]->query_safe("SELECT vectorgpu_merge('own_i') IS NOT NULL; $all");
				$sessions[1]->query_safe('COMMIT');
				push @seen, $_->query_safe($on_commit eq 'DROP' ? q{SELECT coalesce(to_regclass('own')::text, 'none')} : $all) for @sessions;
				is(join(' ', splice @seen), join(' ', map({ my $f = $_; "200|@{[ $f + 1 ]}|@{[ $f + 200 ]}" } @first), "t\n200|@{[ $first[1] + 1 ]}|@{[ $first[1] + 200 ]}", ($on_commit eq 'DROP' ? 'none' : '0|0|0') x 2),
					"$am, ON COMMIT $on_commit, transaction $round: each session sees its own rows, as long as they last");
			}
			$_->query_safe('DROP TABLE IF EXISTS own') for @sessions;
		}
	}
	$_->quit for @sessions;
	is(worker_stat($node, 'answered'), $answered, 'the worker answered none of them');
	is(worker_stat($node, 'copies'), $copies_before, 'which has no copy of them');
}

# Parallel workers have sessions of their own.
is($node->safe_psql('postgres', "SET $PARALLEL_MODE = regress; SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> array_fill(0, ARRAY[8])::vector) s"),
	$node->safe_psql('postgres', 'SELECT count(*) FROM t'), 'in a parallel worker');

# Copies of dropped indexes are swept, and no statement waits for a stopped worker.
my $pid = wait_worker($node);
my $make_d = "DROP TABLE IF EXISTS d; CREATE TABLE d AS SELECT * FROM t; CREATE INDEX di ON d USING $AM (v vector_l2_ops);";
my $warm = 'SET enable_seqscan = off; SELECT id FROM d ORDER BY v <-> array_fill(0, ARRAY[8])::vector LIMIT 10';

# With a warm copy of the index and a stopped worker.
sub with_stopped_worker
{
	my ($sql, %opt) = @_;

	soon($node, $opt{seconds} // 1, "$sql with a stopped worker", $sql, prepare => sub {
		kill 'CONT', $pid;
		$node->safe_psql('postgres', $opt{before});
		$node->safe_psql($opt{scan_in} // 'postgres', $warm) if $opt{before} =~ /d;/;
		kill 'STOP', $pid;
	});
	return;
}

with_stopped_worker('EXPLAIN (COSTS OFF) SELECT id FROM d ORDER BY v <-> array_fill(0, ARRAY[8])::vector LIMIT 10', before => $make_d);
with_stopped_worker('DROP INDEX di', before => $make_d);
with_stopped_worker('DROP TABLE d', before => $make_d);
# These wait for a checkpoint.
with_stopped_worker('DROP DATABASE other', before => "$make_d CREATE DATABASE other TEMPLATE postgres", scan_in => 'other', seconds => 10);
with_stopped_worker('DROP TABLESPACE other', before => "DROP TABLESPACE IF EXISTS other; CREATE TABLESPACE other LOCATION ''; "
	  . 'ALTER INDEX i SET TABLESPACE other; ALTER INDEX i SET TABLESPACE pg_default', seconds => 10);
with_stopped_worker('CREATE DATABASE third', before => 'DROP DATABASE IF EXISTS third', seconds => 10);
kill 'CONT', $pid;
$node->safe_psql('postgres', 'DROP DATABASE clone; DROP DATABASE third; DROP TABLE d');
ok(wait_worker($node), 'the worker continues');
# A drop that is rolled back changes nothing; a committed drop removes the copy at once: the sweep interval is long, after it has
# removed the copies dropped above.
$node->append_conf('postgresql.conf', "vectorgpu.worker_sweep_interval = 1s\n");
$node->reload;
ok($node->poll_query_until('postgres', 'SELECT copies = (SELECT count(*) FROM vectorgpu_indexes WHERE resident_bytes IS NOT NULL) FROM vectorgpu_worker'),
	'the sweep takes the copies of what was dropped');
$node->append_conf('postgresql.conf', "vectorgpu.worker_sweep_interval = 1d\n");
$node->reload;
$node->safe_psql('postgres', "CREATE TABLE e AS SELECT * FROM t; CREATE INDEX ei ON e USING $AM (v vector_l2_ops)");
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('ei')");
my $copies = worker_stat($node, 'copies');
$node->safe_psql('postgres', 'BEGIN; DROP INDEX ei; ROLLBACK');
$node->safe_psql('postgres', 'BEGIN; SAVEPOINT s; DROP INDEX ei; ROLLBACK TO s; COMMIT');
compare_scans($node, 'e', '<->', query_vector($node, 2, dims => 8), limit => 10, name => 'after a drop that was rolled back');
is(worker_stat($node, 'copies'), $copies, 'its copy is still there');
$node->safe_psql('postgres', 'REINDEX INDEX ei');
ok($node->poll_query_until('postgres', "SELECT copies < $copies FROM vectorgpu_worker"), 'the copy of a rebuilt index is dropped without a sweep');
$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('ei')");
is(worker_stat($node, 'copies'), $copies, 'the new one has a copy');
$node->safe_psql('postgres', 'DROP TABLE e');
ok($node->poll_query_until('postgres', "SELECT copies < $copies FROM vectorgpu_worker"), 'the copy of a dropped index is dropped without a sweep');
$node->append_conf('postgresql.conf', "vectorgpu.worker_sweep_interval = 1s\n");
$node->reload;
$node->safe_psql('postgres', 'DROP TABLE u');
ok($node->poll_query_until('postgres', 'SELECT copies <= 1 FROM vectorgpu_worker'), 'copies of dropped indexes are swept');

# C12, F47: indexes dropped with their schema, database or extension leave nothing in the worker, even if it is killed in between. The extension is dropped in a
# separate database: this one continues to look at the worker.
if ($AM eq 'gpuflat')
{
	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
	# A copy of a file that the index had before goes with the next sweep.
	ok($node->poll_query_until('postgres', 'SELECT copies = 1 FROM vectorgpu_worker'), 'there is one copy');
	my $base = worker_stat($node, 'resident_bytes');
	cmp_ok($base, '>', 0, 'bytes of exactly the one expected copy');

	# One test: the worker has the copy of index i, and no byte more.
	sub back_to_base
	{
		my ($name) = @_;

		$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('i')");
		local $Test::Builder::Level = $Test::Builder::Level + 1;
		ok(wait_until(sub { worker_stat($node, 'resident_bytes') == $base && worker_stat($node, 'copies') == 1 }), "$name: the worker holds what it did")
		  or diag($node->safe_psql('postgres', 'SELECT copies, resident_bytes FROM vectorgpu_worker') . ", $base at first");
		return;
	}

	# A database with its own tables and indexes, and with copies of these.
	$node->safe_psql('postgres', 'CREATE DATABASE made');
	create_extension($node, 'made');
	$node->safe_psql('made', 'CREATE SCHEMA gone; CREATE TABLE gone.g AS SELECT i, ARRAY[i, i % 7, 1]::vector(3) AS v, ARRAY[i % 5] AS tags FROM generate_series(1, 100) i; '
		  . join(' ', map { "CREATE INDEX g_$_->[0] ON gone.g USING $_->[0] ($_->[2] $_->[1]);" } @methods));

	sub make_warm
	{
		$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS gone');
		$node->safe_psql('postgres', 'CREATE DATABASE gone TEMPLATE made');
		warm_again();
		return;
	}

	sub warm_again
	{
		$node->safe_psql('gone', join(';', map { "SELECT vectorgpu_prewarm('gone.g_$_->[0]')" } @methods));
		cmp_ok(worker_stat($node, 'copies'), '>=', scalar @methods, 'copies of all access methods are there');
		return;
	}

	sub kill_worker
	{
		my $pid = wait_worker($node);

		kill 'KILL', $pid;
		ok(wait_worker($node, not_pid => $pid), 'another worker');
		return;
	}

	my %drop = (SCHEMA => ['gone', 'DROP SCHEMA gone CASCADE'], DATABASE => ['postgres', 'DROP DATABASE gone'], EXTENSION => ['gone', 'DROP EXTENSION vectorgpu CASCADE']);
	for my $what (sort keys %drop)
	{
		my ($in, $sql) = @{ $drop{$what} };

		make_warm();
		$node->safe_psql($in, $sql);
		back_to_base("$sql with warm copies");

		make_warm();
		kill_worker();
		warm_again();
		$node->safe_psql($in, $sql);
		back_to_base("$sql, the worker killed before and warm again");

		# A worker that does not run is not told.
		make_warm();
		my $stopped = wait_worker($node);
		kill 'STOP', $stopped;
		$node->safe_psql($in, $sql);
		kill 'KILL', $stopped;
		ok(wait_worker($node, not_pid => $stopped), 'another worker');
		back_to_base("$sql while the worker is stopped, which is killed then");
		next if $what eq 'DATABASE';

		make_warm();
		my $session = $node->background_psql($in);
		$session->query_safe("SET client_min_messages = error; BEGIN; $sql");
		kill_worker();
		$session->query_safe('ROLLBACK');
		warm_again();
		$session->query_safe("BEGIN; $sql");
		kill_worker();
		$session->query_safe('COMMIT');
		$session->quit;
		back_to_base("$sql in a transaction, the worker killed in it");
	}
	$node->safe_psql('postgres', "DROP DATABASE $_") for 'gone', 'made';
}
agrees('at last');
is(count_restarts($node), 0, 'the server never restarted by itself');
check_resources($node, $resources);
check_stopped($node);
done_testing();
