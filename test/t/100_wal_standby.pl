# Primary and streaming standby: equal answers at every step of build, insert, delete, vacuum and merge, in sessions of the
# standby that stay open (C6, F38), under wal_consistency_checking (C7); old snapshots on the standby (C18, F39);
# standby scans while the primary writes, and over extents that it writes anew (C19); scans over dead rows, which write nothing to the index;
# promote under load (C33, F40).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuTest;
use VectorgpuLoad;

my $primary = make_node('primary', streaming => 1, conf => "wal_consistency_checking = 'generic'\nmax_prepared_transactions = 2\n");
create_comparer($primary);
make_table($primary, 't', dims => 12);
make_table($primary, 'wide', dims => 1100);    # more than a page a row
make_table($primary, 'n', dims => 8);          # enough rows for narrow searches to be narrow: see VectorgpuNarrow
fill_vectors($primary, 'n', dims => 8, rows => 4000);
$primary->safe_psql('postgres', "CREATE INDEX n_v ON n USING $AM (v vector_l2_ops)");

# Possible errors of a standby's query: PostgreSQL's own conflict with recovery, or our 40001 (page_recycled).
my $reorganized = qr/was reorganized while it was being read/;
my $cancelled_by = qr/conflict with recovery|$reorganized/;

my $standby = make_standby($primary, 'standby', conf => "max_standby_streaming_delay = 3s\nhot_standby_feedback = off\n");
wait_standby($primary, $standby);

my $open = $standby->background_psql('postgres');
$open->query_safe('SET enable_seqscan = off; SET enable_sort = off');

sub step
{
	my ($what, $sql) = @_;

	$primary->safe_psql('postgres', $sql);
	wait_standby($primary, $standby);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $table ('t', 'wide')
	{
		my $dims  = $table eq 't' ? 12 : 1100;
		my $query = query_vector($primary, 3, dims => $dims);
		my $rows  = "SELECT md5(string_agg(id || ':' || encode(float8send(d), 'hex'), ',')) FROM (SELECT id, coalesce(v <-> $query, 'NaN') d FROM $table ORDER BY v <-> $query) s";
		my $expected = $primary->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $rows");

		is($open->query_safe($rows), $expected, "$what: $table, an open session of the standby answers as the primary");
		answers_equal($standby, $table, dims => $dims, queries => 1, name => "$what: $table, both scans agree on the standby");
		answers_equal($primary, $table, dims => $dims, queries => 1, limits => [ 7, undef ], name => "$what: $table, and on the primary");
	}
	return;
}

sub rows_sql
{
	my ($first, $last, $seed) = @_;

	return "INSERT INTO t SELECT i, i % 10, CASE WHEN i % 41 = 0 THEN NULL ELSE " . random_vector_sql('i', dims => 12, seed => $seed) . " END FROM generate_series($first, $last) i;"
	  . "INSERT INTO wide SELECT i, 0, " . random_vector_sql('i', dims => 1100, seed => $seed) . " FROM generate_series($first, $first + ($last - $first) / 40) i;";
}

step('build on empty tables', "CREATE INDEX t_v ON t USING $AM (v vector_l2_ops); CREATE INDEX wide_v ON wide USING $AM (v vector_l2_ops)");
step('first rows', rows_sql(1, 1000, 1));
step('single rows', join('', map { "INSERT INTO t VALUES ($_, 0, array_fill(${_}::float4 / 3000, ARRAY[12])::vector);" } 2001 .. 2020));
step('delete', 'DELETE FROM t WHERE id % 3 = 0; DELETE FROM wide WHERE id % 3 = 0');
step('vacuum', 'VACUUM t; VACUUM wide');
step('rows in used places', rows_sql(3001, 3600, 2)
	  . "DELETE FROM n WHERE id % 20 = 0; VACUUM n; INSERT INTO n SELECT 4000 + i, 1, " . random_vector_sql('i', dims => 8, seed => 2) . ' FROM generate_series(1, 300) i');
step('merge', "SELECT vectorgpu_merge('t_v'); SELECT vectorgpu_merge('wide_v'); SELECT vectorgpu_merge('n_v')");
{
	my $query = query_vector($primary, 5, dims => 8);
	my $ids = sub { my ($tail) = @_; return "SELECT string_agg(id::text, ',') FROM (SELECT id FROM n ORDER BY v <-> $query $tail) s" };
	my $all = $primary->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; ' . $ids->('LIMIT 200'));

	is(join(',', map { $open->query_safe($ids->('LIMIT 20 OFFSET ' . 20 * $_)) } 0 .. 9), $all, 'pages of the standby are one sequence, and the primary\'s');
	my $bounded = $open->query_safe("EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM n WHERE v <-> $query < (SELECT v <-> $query FROM n WHERE id = split_part('$all', ',', 20)::int) ORDER BY v <-> $query LIMIT 300");

	like($bounded, qr/Limit \(actual [^)]*rows=\d{2}(?:\.00)? /, 'a bound on the distance ends a scan of the standby');
	cmp_ok($bounded =~ /Rows Asked: (\d+)/ ? $1 : 9999, '<', 400, 'which asks for no more rows');
}
step('rows after merge', rows_sql(4001, 4400, 3));
step('update', "UPDATE t SET v = v + v WHERE id % 5 = 0; UPDATE wide SET category = 2");
step('delete and vacuum', 'DELETE FROM t WHERE id % 4 = 0; DELETE FROM wide WHERE id % 4 = 0; VACUUM t; VACUUM wide');
step('second merge', "SELECT vectorgpu_merge('t_v'); SELECT vectorgpu_merge('wide_v')");
step('aborted rows', 'BEGIN;' . rows_sql(5001, 5400, 4) . 'ROLLBACK');
step('reindex', 'REINDEX INDEX t_v; REINDEX INDEX CONCURRENTLY wide_v');
step('truncate and rows', 'TRUNCATE wide;' . rows_sql(6001, 6400, 5));
for my $turn (1 .. 4)
{
	step("extents used again, turn $turn",
		"DELETE FROM t WHERE id % 2 = $turn % 2; VACUUM t;" . rows_sql(7000 + 500 * $turn, 7300 + 500 * $turn, 10 + $turn) . "SELECT vectorgpu_merge('t_v'); SELECT vectorgpu_merge('wide_v')");
}
check_index($primary, $_, name => "check of $_ on the primary") for 't_v', 'wide_v', 'n_v';
check_index($standby, $_, name => "check of $_ on the standby") for 't_v', 'wide_v', 'n_v';

# On a standby a snapshot may be older than an index of REINDEX CONCURRENTLY, which then rightly lacks rows that it sees.
# By feedback the primary keeps what would cancel it; it does not wait for it.
{
	my $old = $standby->background_psql('postgres', on_error_stop => 0);

	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$standby->safe_psql('postgres', $_) for 'ALTER SYSTEM SET hot_standby_feedback = on', 'SELECT pg_reload_conf()';
	$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die 'no feedback';
	$primary->safe_psql('postgres', $_) for 'DELETE FROM n WHERE id % 50 = 7', 'REINDEX INDEX CONCURRENTLY n_v';
	wait_standby($primary, $standby);
	$old->query("SELECT vectorgpu_check('n_v', true)");
	like($old->{stderr}, qr/cannot be verified using transaction snapshot/, 'a check with an older snapshot of the standby says so');
	$old->quit;
	$standby->safe_psql('postgres', $_) for 'ALTER SYSTEM RESET hot_standby_feedback', 'SELECT pg_reload_conf()';
	check_index($standby, 'n_v', name => 'with a new one the index is whole');
}
my ($state) = psql_state($standby, "SELECT vectorgpu_merge('t_v')");
is($state, '25006', 'merge on a standby is refused as any write is');

# A scan over dead rows does not change the index file, on both servers: no hint hides a row from an older snapshot of a standby (kill_prior_tuple).
# One more row changes it, which shows that the comparison detects changes.
make_table($primary, 'k', dims => 8);
fill_vectors($primary, 'k', dims => 8, rows => 600);
$primary->safe_psql('postgres', "CREATE INDEX k_v ON k USING $AM (v vector_l2_ops)");
fill_vectors($primary, 'k', dims => 8, rows => 200, first => 601);
# 500 rows that are far, and nearer ones that are dead, in the segment and in the delta.
$primary->safe_psql('postgres', "UPDATE k SET v = array_fill((100 + id)::float4, ARRAY[8])::vector WHERE id % 8 > 2; DELETE FROM k WHERE id % 8 <= 2");

# The bytes of the index's file once all buffers are written. A standby writes its own at a checkpoint of the primary.
sub index_bytes
{
	my ($node, $index) = @_;

	$primary->safe_psql('postgres', 'CHECKPOINT');
	wait_standby($primary, $standby);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	return $node->safe_psql('postgres', "SELECT length(f) || ' bytes ' || md5(f) FROM pg_read_binary_file(pg_relation_filepath('$index')) f");
}
my %bytes = map { $_->name => index_bytes($_, 'k_v') } $primary, $standby;
for my $node ($primary, $standby)
{
	my $name = $node->name;
	my $near = 'SELECT count(*), count(DISTINCT id), bool_and(id % 8 > 2) FROM (SELECT id FROM k ORDER BY v <-> (array_fill(0, ARRAY[8])::vector) %s) s';

	for my $limit ('LIMIT 5', 'LIMIT 5', '', '')
	{
		my $n = $limit eq '' ? 500 : 5;

		is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_sort = off; ' . sprintf($near, $limit)), "$n|$n|t", "$name: a scan over dead rows ($limit)");
	}
	is(index_bytes($node, 'k_v'), $bytes{$name}, "$name: scans over dead rows leave the index's file as it was");
}
fill_vectors($primary, 'k', dims => 8, rows => 1, first => 1001);
isnt(index_bytes($_, 'k_v'), $bytes{ $_->name }, $_->name . ': a row more changes it') for $primary, $standby;

# C18, F39: a long snapshot of the standby, no feedback. While the primary only inserts and merges, which causes no recovery conflict, it has to answer; later it
# returns all its rows or is cancelled; never fewer.
my $long = $standby->background_psql('postgres', on_error_stop => 0);
$long->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM t");
my $count = 'SELECT count(*), md5(string_agg(id::text, \',\')) FROM (SELECT id FROM t ORDER BY v <-> (array_fill(0, ARRAY[12])::vector)) s';
my $before = $long->query_safe($count);
for my $round (1 .. 3)
{
	for my $change ([ 'an insert', rows_sql(10_000 + 100 * $round, 10_060 + 100 * $round, 50 + $round) ], [ 'a merge', "SELECT vectorgpu_merge('t_v'); SELECT vectorgpu_merge('wide_v')" ])
	{
		my ($what, $sql) = @$change;

		$primary->safe_psql('postgres', $sql);
		wait_standby($primary, $standby);
		is($long->query($count), $before, "a long snapshot of the standby answers after $what, round $round, with what it had") or diag($long->{stderr});
	}
}
$primary->safe_psql('postgres', "UPDATE t SET category = category + 1, v = v + v WHERE id % 2 = 0; DELETE FROM t WHERE id % 5 = 1;" . rows_sql(9501, 9600, 21));
wait_standby($primary, $standby);
# The answer; `cancelled` if standard error says so, also for an earlier statement of the transaction; else standard error.
sub long_answer
{
	my $answer = eval { $long->query($count) } // '';

	return $answer if $answer ne '';
	return $long->{stderr} =~ $cancelled_by ? 'cancelled' : "no answer: $long->{stderr}";
}
like(long_answer(), qr/^(\Q$before\E|cancelled)$/, 'a long snapshot of the standby sees no change or was cancelled');
$primary->safe_psql('postgres', "VACUUM t; SELECT vectorgpu_merge('t_v');" . rows_sql(9701, 9800, 22) . "VACUUM t; SELECT vectorgpu_merge('t_v')");
wait_standby($primary, $standby);
my $after = long_answer();
like($after, qr/^(\Q$before\E|cancelled)$/, 'after vacuum and merge it has all its rows or was cancelled');
note($after eq 'cancelled' ? 'cancelled' : 'all rows');
eval { $long->quit };

# Scans of the standby while the primary writes, vacuums and merges. Recovery conflicts and recycled pages (40001) may
# cancel a scan; a wrong answer, a corruption report or a hang may not occur.
$primary->safe_psql('postgres', 'CREATE SEQUENCE t_id START 200000');
wait_standby($primary, $standby);
my $write = start_load($primary, {
		insert => "INSERT INTO t SELECT nextval('t_id'), 1, test_vector((random() * 1e9)::bigint, 12)::vector FROM generate_series(1, 10);\n",
		delete => "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 12);\n",
		narrow => "DELETE FROM n WHERE id IN (SELECT id FROM n ORDER BY random() LIMIT 5);\nINSERT INTO n SELECT nextval('t_id'), 1, test_vector((random() * 1e9)::bigint, 8)::vector FROM generate_series(1, 5);\n",
		'merge@1' => "SELECT vectorgpu_merge('t_v');\nSELECT vectorgpu_merge('n_v');\n",
		'vacuum@1' => "VACUUM t;\nVACUUM n;\n" },
	clients => 2, seconds => 8);
my ($scans, $cancelled, @wrong) = (0, 0);
my $slowest = 0;
my $until   = time + 8;
my $number  = 0;
while (time < $until)
{
	my $start = time;
	my ($rc, $out, $err) = $standby->psql('postgres', join(';', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
			(map { $number++; "SELECT assert_answers('t', '<->', quote_literal(test_vector($number, 12)) || '::vector', 15)" } 1 .. 5),
			'COMMIT')); # a hang ends the test
	$slowest = time - $start if time - $start > $slowest;
	$scans++;
	next if $rc == 0;
	if   ($err =~ $cancelled_by) { $cancelled++; }
	else                         { push @wrong, $err; }
}
my ($writes, $problem) = finish_load($write);
is($problem, '', "the primary did $writes transactions");
is("@wrong[0 .. ($#wrong < 2 ? $#wrong : 2)]", '', "no wrong answer in $scans rounds of standby scans ($cancelled cancelled)");
cmp_ok($scans, '>', $cancelled, sprintf('replay and scans do not block each other (slowest round %.1f s)', $slowest));
wait_standby($primary, $standby);
answers_equal($standby, 't', dims => 12, name => 'after the load: both scans agree on the standby');
check_index($standby, $_, name => "after the load: check of $_ on the standby") for 't_v', 'n_v';
is($standby->safe_psql('postgres', "SELECT compare_answers('t', '<->', quote_literal(test_vector(1, 12)) || '::vector')"), '', 'after the load, all rows');
unlike(slurp_file($standby->logfile), qr/inconsistent page found|PANIC/, 'wal_consistency_checking found no difference');

# C19: a standby scan is stopped between the manifest and the pages while the primary rewrites the extents.
SKIP:
{
	skip 'needs a build with FAULTS=1', 2 if !faults_enabled($standby);
	# The rows left by the load may be too few for a stop at a second page.
	$primary->safe_psql('postgres', rows_sql(390_001, 391_000, 39) . "SELECT vectorgpu_merge('t_v')");
	wait_standby($primary, $standby);
	my $held = $standby->background_psql('postgres', on_error_stop => 0);
	my $pid  = session_pid($held);
	my $rows = $held->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM t");

	$held->{stdin} .= "SET vectorgpu.fault = 'page_read:2:sleep'; SELECT 'rows ' || count(*) || '/' || count(DISTINCT id) FROM (SELECT id FROM t ORDER BY v <-> (array_fill(0, ARRAY[12])::vector)) s;\n";
	$held->{run}->pump_nb;
	$standby->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND state = 'active' AND query ~ '^SELECT .rows'")
	  or die 'the scan does not begin';
	sleep 0.2;
	for my $turn (1 .. 4)
	{
		$primary->safe_psql('postgres', "DELETE FROM t WHERE id % 7 = $turn; VACUUM t;" . rows_sql(400_000 + 1000 * $turn, 400_300 + 1000 * $turn, 40 + $turn) . "SELECT vectorgpu_merge('t_v')");
	}
	my $answer = eval { $held->query("SELECT 'end'") } // '';    # a recovery conflict may end the session
	my $error = $held->{stderr} // '';
	ok($answer =~ m{rows $rows/$rows\b} || $error =~ $cancelled_by,
		'a scan over recycled extents returns its snapshot or is cancelled') or diag("expected $rows rows: $answer\n$error");
	unlike($error, qr/corrupt/, 'and does not speak of corruption');
	note("$answer $error");
	eval { $held->quit };
	wait_standby($primary, $standby);
	answers_equal($standby, 't', dims => 12, name => 'afterwards both scans agree on the standby');
}

# C19 without conflicts: the primary only inserts and merges, which cancels no query of a standby, and replay would wait
# for one. A scan that is stopped on its way meets reused pages, starts over, and answers; only a scan
# that meets them each time ends, with our 40001.
SKIP:
{
	skip 'needs a build with FAULTS=1', 1 if !faults_enabled($standby);
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
	$standby->reload;
	make_table($primary, 'u', dims => 12);
	fill_vectors($primary, 'u', dims => 12, rows => 1500);
	$primary->safe_psql('postgres', "CREATE INDEX u_v ON u USING $AM (v vector_l2_ops)");

	# Few enough rows that a new segment fits the space of an old one; each merge but the first few reuses space of an earlier one.
	my $added = 0;
	my $write_anew = sub {
		for my $merge (1 .. 3)
		{
			$added += 3;
			fill_vectors($primary, 'u', dims => 12, rows => 3, first => 10_000 + $added);
			$primary->safe_psql('postgres', "SELECT vectorgpu_merge('u_v')");
		}
		wait_standby($primary, $standby);
		return;
	};
	my $blocks = sub {
		return split /,/, $primary->safe_psql('postgres', "CHECKPOINT; SELECT string_agg(md5(substr(f, 1 + 8192 * b, 8192)), ',' ORDER BY b) "
			  . "FROM pg_read_binary_file(pg_relation_filepath('u_v')) f, generate_series(0, length(f) / 8192 - 1) b");
	};
	my $scan_all = sub {
		return scan_held_up($standby, table => 'u', order => 'v <-> (array_fill(0, ARRAY[12])::vector)', faults => $_[0], write => $write_anew);
	};

	$write_anew->() for 1, 2;
	my ($held, $result, $right) = $scan_all->('meta_read:2:error');
	like($result, qr/^\Q$right\E$/m, 'an undisturbed scan reads the metapage once');
	my @before = $blocks->();
	($held, $result, $right) = $scan_all->('page_read:2:lock');
	my @after = $blocks->();
	my $rewritten = grep { $before[$_] ne $after[$_] } 0 .. $#before;

	is($held, 1, 'a scan is held up before it reads its second page');
	# The inserts themselves change two or three.
	cmp_ok($rewritten, '>', @before / 4, "meanwhile blocks are put to another use ($rewritten of " . @before . ' are written anew)');
	like($result, qr/^\Q$right\E$/m, 'then it returns its snapshot');
	($held, $result) = $scan_all->('page_read:2:lock, meta_read:2:error');
	# Not during planning, nor at its first read, which is before a second page.
	is($held, 1, 'held up there once more');
	like($result, qr/fault point "meta_read" reached/, 'since it reads the metapage again');
	($held, $result) = $scan_all->(join(',', map { "page_read:$_:lock" } 2 .. 9));
	like($result, $reorganized, "a scan that meets other pages each time ($held) is given up");
	unlike($result, qr/corrupt|conflict with recovery/, 'not for damage or a conflict');
	answers_equal($standby, 'u', dims => 12, name => 'both scans agree on the standby then');
	check_index($standby, 'u_v', name => 'and the check finds nothing');
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 3s\n");
	$standby->reload;
}

# Promote while the primary writes; the standby becomes a primary that can be changed, merged and checked.
$write = start_load($primary, {
		insert => "INSERT INTO t SELECT nextval('t_id'), 1, test_vector((random() * 1e9)::bigint, 12)::vector;\n",
		merge  => "SELECT vectorgpu_merge('t_v');\n" },
	clients => 2, seconds => 4);
sleep 2;
$standby->promote;
is($open->query_safe("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (array_fill(0, ARRAY[12])::vector)) s"),
	$standby->safe_psql('postgres', 'SELECT count(*) FROM t'), 'promoted: a session from before sees all rows');
answers_equal($standby, 't', dims => 12, name => 'promoted: both scans agree');
$standby->safe_psql('postgres', rows_sql(300_001, 300_400, 30) . "DELETE FROM t WHERE id % 6 = 0; VACUUM t; SELECT vectorgpu_merge('t_v')");
is($open->query_safe("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (array_fill(0, ARRAY[12])::vector)) s"),
	$standby->safe_psql('postgres', 'SELECT count(*) FROM t'), 'promoted: after changes too');
answers_equal($standby, 't', dims => 12, name => 'promoted: both scans agree after changes');
check_index($standby, $_, name => "promoted: check of $_") for 't_v', 'n_v';
($writes, $problem) = finish_load($write);
is($problem, '', 'the old primary was not disturbed');
$open->quit;
$standby->stop;
$primary->stop;
done_testing();
