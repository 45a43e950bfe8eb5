# gpumatch in the situations that other files test for the other access methods: arrays, documents, tuples and texts under inserts,
# updates, deletes, vacuum, merges and CREATE INDEX CONCURRENTLY, each answer compared with the sequential scan of its snapshot; a worker
# that is killed meanwhile; immediate stops under load (F14), after which every acknowledged row is there, and with asynchronous commit (F13); a
# background load; a standby with a worker of its own, promoted; dump and restore; flipped bytes.
# VECTORGPU_CRASH_ROUNDS (2): stops under load; VECTORGPU_LONG: 100 of them, 20 with asynchronous commit, a minute of changes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $long = $ENV{VECTORGPU_LONG};
my $seconds = $long ? 60 : 3;
my $crashes = $ENV{VECTORGPU_CRASH_ROUNDS} // ($long ? 100 : 2);
my $lost_commits = $long ? 20 : 1;
# No page is evicted, which would flush the log first: asynchronous commits stay in memory.
my $node = make_node('life', streaming => 1, checksums => 0,
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\n"
	  . "vectorgpu.worker_timeout = 60s\nautovacuum = off\nvectorgpu.auto_merge = off\n"
	  . "shared_buffers = 32MB\nsynchronous_commit = off\nbgwriter_lru_maxpages = 0\nwal_writer_delay = 10s\nwal_writer_flush_after = 1GB\n");
my @indexes = qw(m_a m_d m_r m_w);

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE m (id serial, k int, a int[], d tsvector, w text, c text);
CREATE FUNCTION add_rows(n int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO m (k, a, d, w, c)
	SELECT (random() * 100)::int, array(SELECT (random() * 300)::int FROM generate_series(1, (random() * 12)::int) WHERE i > 0),
		to_tsvector('simple', 'foo' || (random() * 13)::int || ' bar' || (random() * 7)::int),
		'w' || (random() * 5000)::int || chr(97 + (random() * 20)::int), 'c' || (random() * 9)::int
	FROM generate_series(1, n) i $$;
SELECT add_rows(2000);
INSERT INTO m (k) VALUES (NULL);
CREATE INDEX m_a ON m USING gpumatch (a);
CREATE INDEX m_d ON m USING gpumatch (d);
CREATE INDEX m_r ON m USING gpumatch (matchrow(k, c));
CREATE INDEX m_w ON m USING gpumatch (w text_gram_ops (n = 2));
-- Raises an error if an index answers otherwise than the sequential scan: rows, distances, order.
CREATE FUNCTION assert_matches(k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	distance text;
	body text := 'SELECT string_agg(id || '':'' || coalesce(v::text, ''-''), '','') FROM (SELECT id, %1$s AS v FROM m ORDER BY %1$s%2$s LIMIT %3$s) s';
	by_index text;
	by_seq text;
	line text;
	used boolean;
BEGIN
	FOREACH distance IN ARRAY ARRAY['a <#> ''{1,2,3,4,5,6,7,100,200}''', 'd <#> ''foo3 bar2''', 'matchrow(k, c) <#> matchquery(int4range(10, 40), ''c3''::text)',
		'w <~> ''w123c''']
	LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true);
		used := false;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(body, distance, '', k) LOOP
			used := used OR line ~ 'Index Scan using m_';
		END LOOP;
		IF NOT used THEN
			RAISE EXCEPTION 'wrong answer for %: no index is used', distance;
		END IF;
		EXECUTE format(body, distance, '', k) INTO by_index;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format(body, distance, ', ctid', k) INTO by_seq;
		IF by_index IS DISTINCT FROM by_seq THEN
			RAISE EXCEPTION 'wrong answer for %: % instead of %', distance, left(by_index, 300), left(by_seq, 300);
		END IF;
	END LOOP;
	RETURN 'right';
END $$;
SQL
my $resources;
SKIP:
{
	skip 'the worker is not installed', 1 unless -x worker_file($node);
	ok(wait_worker($node), 'the worker is ready');
	$resources = note_resources($node);
}

sub right
{
	my ($name, $server) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(' ', ($server // $node)->psql('postgres', 'SELECT assert_matches(150)')), '0 right ', "$name: the indexes answer as the sequential scan");
	check_index($server // $node, $_, name => "$name: check of $_") for @indexes;
	return;
}

sub start_changes
{
	my (%options) = (merges => 1, @_);
	my $merges = delete $options{merges};

	return start_load($node, {
		'scan@4'   => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_matches(50);\nCOMMIT;\n",
		'insert@4' => "SELECT add_rows(5);\n",
		'update@2' => "UPDATE m SET a = a || 5, w = w || 'x' WHERE id IN (SELECT id FROM m WHERE k IS DISTINCT FROM -1 ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED);\n",
		'delete@2' => "DELETE FROM m WHERE id IN (SELECT id FROM m WHERE k IS DISTINCT FROM -1 ORDER BY random() LIMIT 4 FOR UPDATE SKIP LOCKED);\n",
		'abort@1'  => "BEGIN;\nSELECT add_rows(3);\nROLLBACK;\n",
		'vacuum@1' => "VACUUM m;\n",
		$merges ? ('merge@1' => "SELECT vectorgpu_merge('m_a'), vectorgpu_merge('m_r');\nSELECT vectorgpu_merge('m_w'), vectorgpu_merge('m_d');\n") : () },
		clients => 4, seconds => $seconds, %options);
}

# Changes beside scans, the worker dying, and an index that is built meanwhile. No merges: a merge that waits for the lock of a build by
# CONCURRENTLY has a snapshot for which that build waits.
my $load = start_changes(merges => 0);
for my $round (1 .. $seconds - 1)
{
	my $pid = worker_pid($node);

	kill 'KILL', $pid if defined $pid && $pid =~ /^\d+$/;
	$node->safe_psql('postgres', $round % 2 ? 'DROP INDEX IF EXISTS m_late; CREATE INDEX CONCURRENTLY m_late ON m USING gpumatch (a)' : 'REINDEX INDEX CONCURRENTLY m_w');
	sleep 1;
}
my ($transactions, $problem) = finish_load($load);
is($problem, '', "during changes and with a dying worker: no error and no wrong answer in $transactions transactions");
cmp_ok($transactions, '>', 20, 'work was done');
right('afterwards');
check_index($node, 'm_late', name => 'and of the index built meanwhile');
$node->safe_psql('postgres', 'DROP INDEX m_late');

# Rows of the test, which the load does not touch (k = -1): each has an element that no other row has. Returns the id once it is committed.
my $element = 1_000_000;
sub own_row
{
	my ($commit) = @_;

	$element++;
	return $node->safe_psql('postgres', "SET synchronous_commit = $commit; INSERT INTO m (k, a, d, w, c) VALUES (-1, ARRAY[1, 2, $element], to_tsvector('simple', 'own$element'), 'own$element', 'own') RETURNING id");
}

# The existing rows among these, ascending, by the table and by each of two indexes.
sub present
{
	my ($elements) = @_;
	my $list = join ',', @$elements;
	my $n = 2 * @$elements + 10;

	return map { $node->safe_psql('postgres', "SET enable_seqscan = $_->[0]; SET enable_sort = $_->[0]; SET enable_indexscan = $_->[1]; SELECT string_agg(id::text, ',' ORDER BY id) FROM (SELECT id, $_->[2] AS v FROM m ORDER BY $_->[2] LIMIT $n) x WHERE v < 0") }
	  [ 'on', 'off', "a <#> '{$list}'" ], [ 'off', 'on', "a <#> '{$list}'" ], [ 'off', 'on', "d <#> '" . join(' ', map { "own$_" } @$elements) . "'" ];
}

# Immediate stops during the load: committed rows are there, once, and no earlier answer was wrong.
for my $round (1 .. $crashes)
{
	my (@ids, @elements);

	$load = start_changes(seconds => 30);
	for (my $until = time + 0.5 + rand 1.5; time < $until;)
	{
		push @ids, own_row('on');
		push @elements, $element;
	}
	crash_restart($node);
	finish_load($load);
	unlike($load->{err}, qr/ERROR:/, "immediate stop $round: no error and no wrong answer before it");
	my $acknowledged = join ',', @ids;
	count('checks', scalar @ids);
	for my $found (present(\@elements))
	{
		is($found, $acknowledged, "immediate stop $round: the " . @ids . ' acknowledged rows are there, once') or count('lost');
	}
	right("immediate stop $round");
}

# Asynchronous commit: rows in the worker's copies may be gone after the stop, and other rows take their TIDs.
my $lost_rows = 0;
for my $round (1 .. $lost_commits)
{
	my @elements;

	# The first commit wakes the WAL writer, which writes it at once and then waits for its delay.
	own_row('off');
	sleep 0.5;
	for (1 .. 3)
	{
		own_row('off');
		push @elements, $element;
	}
	is((present(\@elements))[1] =~ tr/,//, 2, "asynchronous commit, round $round: the index finds the rows");
	crash_restart($node);
	my ($left, @found) = present(\@elements);
	is("@found", "$left $left", "asynchronous commit, round $round: only rows that the stop left ($left)");
	$lost_rows += 3 - (() = $left =~ /\d+/g);
	wait_worker($node) if -x worker_file($node);
	own_row('off') for 1 .. 3;
	($left, @found) = present(\@elements);
	is("@found", "$left $left", "asynchronous commit, round $round: nor after others came");
	right("asynchronous commit, round $round");
}
note("asynchronous commit: $lost_rows of " . 3 * $lost_commits . ' rows were lost');
cmp_ok($lost_rows, '>', 0, 'asynchronous commits were lost, so that there was something to get wrong') if $long;

# A background load brings the same rows as a load by a scan.
SKIP:
{
	skip 'the worker is not installed', 1 unless -x worker_file($node);
	$node->safe_psql('postgres', "ALTER SYSTEM SET vectorgpu.inline_load_size = 0; SELECT pg_reload_conf()");
	ok(wait_worker($node), 'the worker is ready');
	$node->safe_psql('postgres', "SELECT vectorgpu_evict(i) FROM unnest('{" . join(',', @indexes) . "}'::regclass[]) i");
	by_worker($node, 'copies loaded in the background', sub { right('copies loaded in the background') });
	ok($node->poll_query_until('postgres', 'SELECT background_loads > 0 FROM vectorgpu_worker'), 'by the loader');
	for my $index (@indexes)
	{
		ok(wait_until(sub { ($node->psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('$index', true, true)"))[1] eq 't' }),
			"$index: the copy equals the pages");
	}
}

# A standby follows, with a worker of its own, and is promoted.
my $standby = make_standby($node, 'life_standby');
for my $change ('SELECT add_rows(300)', 'DELETE FROM m WHERE id % 5 = 2', 'VACUUM m', 'SELECT add_rows(100)', "SELECT vectorgpu_merge('m_a'), vectorgpu_merge('m_w')")
{
	$node->safe_psql('postgres', $change);
	wait_standby($node, $standby);
	is(join(' ', $standby->psql('postgres', 'SELECT assert_matches(150)')), '0 right ', "the standby answers rightly after $change");
}
if (-x worker_file($node))
{
	ok(wait_worker($standby), 'the standby has a worker');
	by_worker($standby, 'the standby', sub { right('the standby by its worker', $standby) });
}
$standby->promote;
$standby->safe_psql('postgres', 'SELECT add_rows(50); DELETE FROM m WHERE id % 7 = 1');
$standby->safe_psql('postgres', 'VACUUM m');
right('promoted', $standby);
check_stopped($standby);

# Dump and restore
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '--no-sync', '--file', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restore');
is($node->safe_psql('restored', 'SELECT assert_matches(150)'), 'right', 'restored: the indexes answer as the sequential scan');
check_resources($node, $resources) if defined $resources;

# A byte changed behind the header of a page, the metapage first: an error that reports it, or the right answer; never a wrong one.
$node->safe_psql('postgres', "CREATE TABLE s AS SELECT * FROM m WHERE a IS NOT NULL LIMIT 100; CREATE INDEX s_a ON s USING gpumatch (a); CHECKPOINT");
$node->safe_psql('postgres', 'ALTER SYSTEM SET vectorgpu.worker = off; SELECT pg_reload_conf()');
my $query = q{SELECT string_agg(id::text, ',') FROM (SELECT id FROM s ORDER BY a <#> '{1,2,3,4,5}' LIMIT 20) x};
my $scan = "SET enable_seqscan = off; SET enable_sort = off; $query";
leave_unchecked($node, 'bytes of it are changed', 's_a');
check_flipped_bytes($node, 's_a', $scan);
check_stopped($node);
done_testing();
