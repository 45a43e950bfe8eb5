# Crash recovery: immediate stop at random moments of a mixed load (F14), with asynchronous commit (C4, F13), a backend
# killed in the middle of a build, an insert and a vacuum (C45, F9, F11), a killed postmaster (F12), unlogged tables
# crashed twice (C9, F49), wal_level = minimal (C8). After each: no lost row, answers as the sequential scan, check clean. VECTORGPU_LONG: 75 killed builds,
# of 50 CREATE INDEX.
# A worker that is on (VECTORGPU_WORKER) has answered before each immediate stop under load, and a new worker answers after it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IPC::Run;
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuBuilds;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuMatch;
use VectorgpuWorker;

my $rounds = $ENV{VECTORGPU_CRASH_ROUNDS} // 4;
my $seed   = $ENV{VECTORGPU_SEED}         // time ^ $$;
my $node   = make_node('crash', conf => "wal_writer_delay = 200ms\ncheckpoint_timeout = 30s\nmax_wal_size = 64MB\n");
note("seed $seed");
srand($seed);
my $worker = ($ENV{VECTORGPU_WORKER} // '') eq 'on' && !pages_answer();
plan skip_all => 'the worker is not installed' if $worker && !-x worker_file($node);
my %type = map { $_ => column_type($_) } 8, 16, 64, 1500;
create_values($node);

sub sound
{
	my ($what, %tables) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $table (sort keys %tables)
	{
		answers_equal($node, $table, dims => $tables{$table}, op => $OP, type => $CAST, queries => 1, limits => [ 10, undef ], name => "$what: both scans of $table agree");
		check_index($node, "${table}_v", name => "$what: check of ${table}_v");
	}
	return;
}

# One table has rows across pages, so that an insert is more than one WAL record. About 40 of these exist after a while.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE s (id bigint, category int, v $type{16});
CREATE TABLE w (id bigint, category int, v $type{1500});
CREATE INDEX s_v ON s USING $AM (v $CLASS);
CREATE INDEX w_v ON w USING $AM (v $CLASS);
CREATE SEQUENCE ids;
-- A row of the test's own, of a negative id, which the load leaves alone.
CREATE FUNCTION own_row() RETURNS bigint LANGUAGE sql AS \$\$
	INSERT INTO s SELECT i, 2, test_vector(i, 16)::$CAST FROM (SELECT -nextval('ids') AS i) x RETURNING id \$\$;
SQL
# Enough rows for narrow searches to be narrow: see VectorgpuNarrow.
$node->safe_psql('postgres', "CREATE TABLE n (id bigint PRIMARY KEY, category int NOT NULL, v $type{8})");
fill_values($node, 'n', dims => 8, rows => 4000);
$node->safe_psql('postgres', "CREATE INDEX n_v ON n USING $AM (v $CLASS)");
my %load = (
	'insert@10' => "INSERT INTO s SELECT nextval('ids'), 1, test_vector((random() * 1e9)::bigint, 16)::$CAST FROM generate_series(1, 5);\n",
	'wide@6'    => "INSERT INTO w SELECT nextval('ids'), 1, test_vector((random() * 1e6)::bigint, 1500)::$CAST;\n",
	'delete@4'  => "DELETE FROM s WHERE id IN (SELECT id FROM s WHERE id > 0 ORDER BY random() LIMIT 10);\nDELETE FROM w WHERE id IN (SELECT id FROM w ORDER BY random() LIMIT (SELECT CASE WHEN count(*) > 40 THEN 2 ELSE 1 END FROM w));\n",
	'abort@2'   => "BEGIN;\nINSERT INTO s SELECT nextval('ids'), 1, test_vector((random() * 1e9)::bigint, 16)::$CAST FROM generate_series(1, 5);\nROLLBACK;\n",
	'narrow@4'  => "INSERT INTO n SELECT 4000 + nextval('ids'), 1, test_vector((random() * 1e9)::bigint, 8)::$CAST FROM generate_series(1, 5);\nDELETE FROM n WHERE id IN (SELECT id FROM n ORDER BY random() LIMIT 3);\n",
	'near@3'    => "\\set q random(1, 1000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_answers('s', '$OP', quote_literal(test_vector(:q, 16)) || '::$CAST', 10);\nCOMMIT;\n",
	'vacuum@1'  => "VACUUM s;\nVACUUM w;\nVACUUM n;\n",
	'merge@1'   => "SELECT vectorgpu_merge('s_v');\nSELECT vectorgpu_merge('w_v');\nSELECT vectorgpu_merge('n_v');\n",
	'reindex@1' => "REINDEX INDEX s_v;\n");

# Ids of own rows, ascending, as the table has them and as the index finds them.
sub own_rows
{
	return map { $node->safe_psql('postgres', "SET enable_seqscan = $_->[0]; SET enable_sort = $_->[0]; SET enable_indexscan = $_->[1]; SET enable_bitmapscan = off;"
		  . "SELECT string_agg(id::text, ',' ORDER BY id) FROM (SELECT id FROM s ORDER BY v $OP test_vector(-1, 16)::$CAST) x WHERE id < 0") } [ 'on', 'off' ], [ 'off', 'on' ];
}

my $by_worker = 0;
for my $round (1 .. $rounds)
{
	my $pause = 0.5 + rand 2;
	my $load  = start_load($node, \%load, clients => 4, seconds => 60);

	# Sessions that commit one row after another, until the stop: rows that psql has printed are acknowledged.
	my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
	for my $session (@sessions)
	{
		$session->{timeout}->start;
		$session->{stdin} .= "SELECT own_row();\nSELECT pg_sleep(0.01);\n" x 1000;
		$session->{run}->pump_nb;
	}
	sleep $pause;
	for my $session (@sessions)
	{
		wait_until(sub { $session->{run}->pump_nb; return $session->{stdout} =~ /^-\d+\n/m }) or die 'a session commits nothing';
	}
	sleep 0.01 + rand 0.3;
	if ($worker)
	{
		wait_until(sub { (worker_stat($node, 'answered') // 0) > 0 });
		$by_worker += worker_stat($node, 'answered') > 0;
	}
	$node->stop('immediate');
	finish_load($load);
	unlike($load->{err}, qr/wrong answer/, "round $round: no wrong answer before the stop");
	my @acknowledged;
	for my $session (@sessions)
	{
		$session->{timeout}->start;
		eval { $session->{run}->finish };    # which has lost its server
		push @acknowledged, $session->{stdout} =~ /^(-\d+)\n/mg;
		unlike($session->{stderr}, qr/ERROR:/, "round $round: no session had an error before the stop");
	}
	$node->start;
	wait_worker($node) if $worker;
	count('checks', scalar @acknowledged);
	my @found = own_rows();
	for my $number (0, 1)
	{
		# A row that was not acknowledged may be there as well.
		my %there = map { $_ => 1 } split /,/, $found[$number];
		my @lost = grep { !$there{$_} } @acknowledged;

		is("@lost", '', "round $round: each of " . @acknowledged . ' acknowledged rows of ' . @sessions . ' sessions is ' . ($number == 0 ? 'in the table' : 'found by the index')) or count('lost', scalar @lost);
	}
	is($found[1], $found[0], "round $round: the index finds those that the table has, each once");
	my $last = $acknowledged[-1];
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SELECT id FROM s ORDER BY v $OP test_vector($last, 16)::$CAST LIMIT 1"),
		$last, "round $round: as the nearest to itself");
	sound(sprintf('round %d, stopped after %.2f s', $round, $pause), s => 16, w => 1500, n => 8);
	$node->safe_psql('postgres', "DELETE FROM s WHERE id < 0; VACUUM s; VACUUM w; SELECT vectorgpu_merge('s_v'); SELECT vectorgpu_merge('w_v'); VACUUM n; SELECT vectorgpu_merge('n_v')");
	sound("round $round, after vacuum and merge", s => 16, w => 1500, n => 8);
	by_worker($node, "round $round, after the stop", sub { answers_equal($node, 's', dims => 16, op => $OP, type => $CAST, queries => 1, limits => [10], name => "round $round: both scans agree") }) if $worker;
}
is($by_worker, $rounds, 'the worker had answered before each of the stops') if $worker;

# Asynchronous commit: rows that a session has seen in the index may be gone after the stop, others take their place. A few more rounds if none was lost:
# the WAL writer decides when it writes a commit that no session waits for.
$node->append_conf('postgresql.conf', "synchronous_commit = off\nbgwriter_lru_maxpages = 0\nwal_writer_delay = 10s\nwal_writer_flush_after = 1GB\n");
$node->restart;
my ($lost_rows, $until) = (0);
for (my $round = 1; $round <= 3 || ($lost_rows == 0 && time < ($until //= time + $PostgreSQL::Test::Utils::timeout_default)); $round++)
{
	my $first = 1_000_000 * $round;

	# The first write after a start is flushed at once; then the WAL writer sleeps for its delay.
	my $position = $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn(); INSERT INTO s VALUES ($first, 3, test_vector($first, 16)::$CAST)");
	$node->poll_query_until('postgres', "SELECT pg_current_wal_flush_lsn() > '$position'") or die 'the WAL is not flushed';
	$node->safe_psql('postgres', "INSERT INTO s SELECT $first + i, 3, test_vector($first + i, 16)::$CAST FROM generate_series(1, 50) i");
	my $seen = $node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM s ORDER BY v $OP test_vector($first + 1, 16)::$CAST LIMIT 10) x WHERE id = $first + 1");
	crash_restart($node);
	my $left = $node->safe_psql('postgres', "SELECT count(*) FROM s WHERE id > $first AND id <= $first + 50");
	is($seen, 1, "asynchronous commit, round $round: seen before, $left of 50 rows after the stop");
	$lost_rows += 50 - $left;
	# They belonged to one transaction.
	like($left, qr/^(?:0|50)$/, "asynchronous commit, round $round: all of them or none");
	$node->safe_psql('postgres', "INSERT INTO s SELECT $first + 500 + i, 3, test_vector($first + 500 + i, 16)::$CAST FROM generate_series(1, 30) i");
	sound("asynchronous commit, round $round", s => 16);
}
cmp_ok($lost_rows, '>', 0, "asynchronous commit: $lost_rows rows were lost, so that there was something to get wrong");
$node->append_conf('postgresql.conf', "synchronous_commit = on\nbgwriter_lru_maxpages = 100\nwal_writer_delay = 200ms\n");
$node->restart;

# Killed backends. The server restarts by itself; the statement has no effect. Core does not remove the file of a crashed CREATE INDEX, which has no
# visible row in pg_class: at most this orphaned file remains; builds by CONCURRENTLY have such a row and leave nothing.
$node->append_conf('postgresql.conf', "restart_after_crash = on\nremove_temp_files_after_crash = on\n");
$node->restart;
$node->safe_psql('postgres', "CREATE TABLE b (id bigint PRIMARY KEY, category int NOT NULL, v $type{64})");
fill_values($node, 'b', dims => 64, rows => 15_000);
$node->safe_psql('postgres', 'CHECKPOINT');
my $create = "CREATE INDEX b_v ON b USING $AM (v $CLASS)";
my %killed = (
	'CREATE INDEX'              => $create,
	'CREATE INDEX CONCURRENTLY' => "CREATE INDEX CONCURRENTLY b_v ON b USING $AM (v $CLASS)",
	'REINDEX CONCURRENTLY'      => 'REINDEX INDEX CONCURRENTLY b_v');
my $started = time;
$node->safe_psql('postgres', $create);
my $build_time = time - $started;
my $size = $node->safe_psql('postgres', q{SELECT pg_relation_size('b_v')});
$node->safe_psql('postgres', 'DROP INDEX b_v');
my ($n_killed, $n_halfway) = (0, 0);
my $before = unowned_bytes($node) - sum0(values %{ { orphans($node) } });
for my $what ($ENV{VECTORGPU_LONG} ? (map { ('CREATE INDEX', 'CREATE INDEX', $_ % 2 ? 'CREATE INDEX CONCURRENTLY' : 'REINDEX CONCURRENTLY') } 1 .. 25) : ('CREATE INDEX', 'CREATE INDEX', 'CREATE INDEX CONCURRENTLY', 'REINDEX CONCURRENTLY'))
{
	$node->safe_psql('postgres', $create) if $what eq 'REINDEX CONCURRENTLY';
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid     = session_pid($session);
	my %before  = orphans($node);
	my $moment  = rand $build_time;

	$session->{stdin} .= with_storage("$killed{$what};\n");
	$session->{run}->pump_nb;
	sleep $moment;
	kill 'KILL', $pid;
	ok(wait_for_restart($node), sprintf('%s killed after %.2f s: the server is back', $what, $moment));
	eval { $session->quit };
	$n_killed++;
	my %state = map { /^(\w+)\|([tf])$/ ? ($1 => $2 eq 't' ? 'complete' : 'invalid') : () } split /\n/, $node->safe_psql('postgres', "SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'b'::regclass");
	my $state = $state{b_v} // 'absent';
	my $new = join ' ', map { "$_ $state{$_}" } grep { /^b_v/ } sort keys %state;
	my $plan = $node->safe_psql('postgres', "SET enable_seqscan = off; EXPLAIN (COSTS OFF) SELECT id FROM b ORDER BY v $OP (SELECT v FROM b WHERE id = 1) LIMIT 1");
	isnt($state, 'invalid', "$what killed: the index is $state") if $what eq 'CREATE INDEX';
	is($state, 'complete', "$what killed: the index is there ($new)") if $what eq 'REINDEX CONCURRENTLY';
	# A half-built index exists, takes inserts and answers no scan.
	is($plan =~ /Index Scan using b_v\b/ ? 'used' : 'not used', $state eq 'complete' ? 'used' : 'not used', "$what killed: the index is $state");
	$n_halfway++ if $state ne 'complete' || exists $state{b_v_ccnew} || exists $state{b_v_ccold};
	fill_values($node, 'b', dims => 64, rows => 20, first => $node->safe_psql('postgres', 'SELECT max(id) + 1 FROM b'));
	sound("$what killed", b => 64) if $what eq 'REINDEX CONCURRENTLY';
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS b_v_ccnew; DROP INDEX IF EXISTS b_v_ccold; DROP INDEX IF EXISTS b_v; CHECKPOINT');
	my %left = orphans($node);
	delete @left{ keys %before };
	cmp_ok(scalar keys %left, '<=', $what eq 'CREATE INDEX' ? 1 : 0, "$what killed: the only files without a relation are those that core leaves");
	cmp_ok($_, '<', $size * 1.3, "$what killed: such a file is no larger than the index ($_ bytes)") for values %left;
	is(scalar(glob($node->data_dir . '/base/pgsql_tmp/*')) // '', '', "$what killed: no temporary file is left");
	$node->safe_psql('postgres', $create);
	sound("$what killed, then built", b => 64);
	$node->safe_psql('postgres', 'DROP INDEX b_v');
}
is(unowned_bytes($node) - sum0(values %{ { orphans($node) } }), $before, 'the data folder has only its relations and those files');
cmp_ok($n_halfway, '>', $n_killed / 4, "builds were killed before they were done: $n_halfway of $n_killed") if $ENV{VECTORGPU_LONG};

# A backend killed at random in a mixed load of inserts, deletes, vacuums and merges.
for my $round (1 .. 2)
{
	my $load = start_load($node, \%load, clients => 3, seconds => 60);

	sleep 0.7 + rand 1;
	my ($pid, $until) = ('', time + $PostgreSQL::Test::Utils::timeout_default);
	while ($pid eq '')
	{
		die 'no client is at work' if time > $until;
		$pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1");
	}
	kill 'KILL', $pid;
	finish_load($load);
	unlike($load->{err}, qr/wrong answer/, "backend killed in a mixed load, round $round: no wrong answer before");
	ok(wait_for_restart($node), "backend killed in a mixed load, round $round: the server is back");
	sound("backend killed in a mixed load, round $round", s => 16, w => 1500, n => 8);
}

# The postmaster killed under load. Without parallel VACUUM: a leader that finds the postmaster gone ends in the middle of its transaction, where a server
# with assertions aborts (pgstat_report_stat, whatever the indexes are).
my $load = start_load($node, { %load, 'vacuum@1' => $load{'vacuum@1'} =~ s/VACUUM/VACUUM (PARALLEL 0)/gr }, clients => 3, seconds => 60);
sleep 1.2;
$node->kill9;
finish_load($load);
unlike($load->{err}, qr/wrong answer/, 'postmaster killed: no wrong answer before');
start_after_kill($node);
sound('postmaster killed', s => 16, w => 1500, n => 8);
$node->safe_psql('postgres', "VACUUM s; VACUUM w; SELECT vectorgpu_merge('s_v'); SELECT vectorgpu_merge('w_v'); VACUUM n; SELECT vectorgpu_merge('n_v')");
sound('postmaster killed, after vacuum and merge', s => 16, w => 1500, n => 8);

# Unlogged: two crashes with other rows between; empty after each, right after new rows; then logged.
$node->safe_psql('postgres', "CREATE UNLOGGED TABLE u (id bigint PRIMARY KEY, category int NOT NULL, v $type{8})");
$node->safe_psql('postgres', "CREATE INDEX u_v ON u USING $AM (v $CLASS)");
for my $round (1 .. 3)
{
	fill_values($node, 'u', dims => 8, rows => 300 + 50 * $round, first => 1, seed => $round);
	$node->safe_psql('postgres', "DELETE FROM u WHERE id % 9 = 0; VACUUM u; SELECT vectorgpu_merge('u_v')") if $round == 2;
	$node->safe_psql('postgres', 'REINDEX INDEX u_v') if $round == 3;
	sound("unlogged, round $round", u => 8);
	$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
	crash_restart($node);
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM u ORDER BY v $OP test_vector(1, 8)::$CAST) x"), 0,
		"unlogged, round $round: empty after a crash");
	check_index($node, 'u_v', name => "unlogged, round $round: check of the empty index");
}
fill_values($node, 'u', dims => 8, rows => 200, seed => 9);
$node->restart;
sound('unlogged over a clean restart', u => 8);
$node->safe_psql('postgres', 'ALTER TABLE u SET LOGGED');
crash_restart($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), 200, 'SET LOGGED: rows survive a crash');
sound('SET LOGGED', u => 8);

# wal_level = minimal: a build in the transaction that makes the table writes no WAL and is fsynced instead.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = 0\n");
$node->restart;
my $vector = "test_vector(i + 4000000, 16)::$CAST";
$node->safe_psql('postgres', <<SQL);
BEGIN;
CREATE TABLE m (id bigint, category int, v $type{16});
INSERT INTO m SELECT i, 0, $vector FROM generate_series(1, 2000) i;
CREATE INDEX m_v ON m USING $AM (v $CLASS);
INSERT INTO m SELECT i, 0, $vector FROM generate_series(2001, 2500) i;
COMMIT;
SQL
crash_restart($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), 2500, 'wal_level = minimal: rows survive a crash');
sound('wal_level = minimal', m => 16);
$node->safe_psql('postgres', "BEGIN; TRUNCATE m; INSERT INTO m SELECT i, 0, $vector FROM generate_series(1, 700) i; SAVEPOINT a; INSERT INTO m SELECT i, 0, $vector FROM generate_series(701, 900) i; ROLLBACK TO a; COMMIT; DELETE FROM m WHERE id % 8 = 0; VACUUM m; SELECT vectorgpu_merge('m_v')");
crash_restart($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), 700 - 87, 'wal_level = minimal: TRUNCATE and vacuum survive');
sound('wal_level = minimal, after TRUNCATE, vacuum, merge', m => 16);

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|server process .* was terminated by signal (?:4|6|7|8|11)\b/, 'no crash of our own making');
$node->stop;
done_testing();
