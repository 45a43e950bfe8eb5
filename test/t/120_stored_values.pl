# Values of any size in the delta (gpumatch): an insert that fails or dies at each fault point, the part of a value that it
# leaves, and the next insert; the standby at every step, under wal_consistency_checking, with a snapshot that is older than what the primary has
# vacuumed and merged (C18, F39), and with scans over extents that were written anew (C19); huge values inserted by several
# sessions at a time. For damaged pages see 210_corruption.pl.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuTest;
use VectorgpuLoad;

my $node = make_node('values', streaming => 1,
	conf => "wal_consistency_checking = 'generic'\nrestart_after_crash = on\nautovacuum = off\nvectorgpu.auto_merge = off\nmaintenance_work_mem = '1MB'\n");

# Rows of the index scan and of the sequential scan as one text each; '' if they are the same.
my $compare = <<'SQL';
CREATE FUNCTION compare_sets(query int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	by_index text;
	by_seq text;
	plan text;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT id FROM s ORDER BY a <#> ''{1}''' INTO plan;
	IF plan !~ 'Index Scan' THEN RETURN 'no index scan'; END IF;
	SELECT string_agg(id || ':' || d, ',' ORDER BY n) INTO by_index
	FROM (SELECT id, d, row_number() OVER () n FROM (SELECT id, coalesce(a <#> query, 1) d FROM s ORDER BY a <#> query) x) y;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
	SELECT string_agg(id || ':' || d, ',' ORDER BY n) INTO by_seq
	FROM (SELECT id, d, row_number() OVER () n FROM (SELECT id, coalesce(a <#> query, 1) d FROM s ORDER BY a <#> query, ctid) x) y;
	PERFORM set_config('enable_indexscan', 'on', true);
	RETURN CASE WHEN by_index IS DISTINCT FROM by_seq THEN left(by_index, 200) || ' instead of ' || left(by_seq, 200) ELSE '' END;
END $$;
SQL
$node->safe_psql('postgres', $compare . <<'SQL');
CREATE TABLE s (id int, a int[]);
-- a set of n elements that depend on id
CREATE FUNCTION elements(id int, n int) RETURNS int[] LANGUAGE sql IMMUTABLE AS 'SELECT array_agg(id % 10 + i * 3) FROM generate_series(1, n) i';
INSERT INTO s SELECT i, elements(i, i % 20) FROM generate_series(1, 300) i;
CREATE INDEX s_a ON s USING gpumatch (a);
SQL
my $standby = make_standby($node, 'standby', conf => "max_standby_streaming_delay = 500ms\nhot_standby_feedback = off\n");

sub sound
{
	my ($what, %option) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT 'answer ' || compare_sets('{3,6,9,12,300,30000,60001}'); SELECT rows > 0 FROM vectorgpu_check('s_a', true)", on_error_stop => 0);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$out$err", "answer \nt", "$what: both scans agree, the check is clean");
	return if $option{primary_only};
	wait_standby($node, $standby);
	my $rows = "SET enable_seqscan = off; SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM s ORDER BY a <#> '{3,6,9,300,60001}') x";
	is($standby->safe_psql('postgres', $rows), $node->safe_psql('postgres', $rows), "$what: the standby answers as the primary");
	return;
}

sound('built');
# One page, two pages, four (a record), five and many (several), over chunks.
$node->safe_psql('postgres', "INSERT INTO s SELECT 1000 + n, elements(n, n) FROM unnest(ARRAY[0, 1, 8, 9, 500, 1100, 2500, 4000, 20000, 60000, 3]) n");
sound('values of all sizes in the delta');
$node->safe_psql('postgres', "DELETE FROM s WHERE id % 5 = 0; VACUUM (INDEX_CLEANUP on) s");
sound('deleted and vacuumed');

# Several sessions with huge values, small ones between: each row is contiguous.
my $load = start_load($node, {
	'huge@1'  => "INSERT INTO s SELECT (random() * 1e6)::int + 10000, elements((random() * 1e6)::int, 20000);\n",
	'large@2' => "INSERT INTO s SELECT (random() * 1e6)::int + 10000, elements((random() * 1e6)::int, 3000);\n",
	'small@6' => "INSERT INTO s SELECT (random() * 1e6)::int + 10000, elements((random() * 1e6)::int, 5) FROM generate_series(1, 3);\n",
	'abort@1' => "BEGIN;\nINSERT INTO s SELECT (random() * 1e6)::int + 10000, elements((random() * 1e6)::int, 9000);\nROLLBACK;\n",
	'scan@2'  => "SET enable_seqscan = off;\nSELECT id FROM s ORDER BY a <#> '{3,6,9}' LIMIT 5;\n" }, clients => 4, seconds => 4);
my ($transactions, $problem) = finish_load($load);
is($problem, '', "no session met an error in $transactions transactions");
sound('inserted by four sessions');
$node->safe_psql('postgres', "VACUUM s; SELECT vectorgpu_merge('s_a')");
sound('merged');

# C18, F39: an old snapshot of the standby, which the primary does not know of, has all its rows or is cancelled, by PostgreSQL or because a page was reused.
my $cancelled_by = qr/conflict with recovery|was reorganized while it was being read/;
my $order = "a <#> '{3,6,9,12,300,30000,60001}'";
my $rows = "SELECT count(*) || ' ' || md5(string_agg(id::text, ',')) FROM (SELECT id FROM u ORDER BY $order) x";
my %old_answers;
$node->safe_psql('postgres', 'CREATE TABLE u (id int, a int[]); INSERT INTO u SELECT i, elements(i, 20 + i % 20) FROM generate_series(1, 800) i; CREATE INDEX u_a ON u USING gpumatch (a)');
wait_standby($node, $standby);
for my $turn (1, 2)
{
	my $old = $standby->background_psql('postgres', on_error_stop => 0);
	my $before = $old->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off; SET enable_sort = off; $rows");
	# The first two change and remove no row: no conflict.
	my @steps = ("INSERT INTO u SELECT 10000 * $turn + i, elements(i, i) FROM generate_series(1, 50) i",
		"SELECT vectorgpu_merge('u_a'); INSERT INTO u SELECT 15000 * $turn + i, elements(i, 30) FROM generate_series(1, 20) i; SELECT vectorgpu_merge('u_a')",
		"UPDATE u SET a = a || 7 WHERE id % 3 = $turn % 3; DELETE FROM u WHERE id % 11 = $turn; VACUUM u; SELECT vectorgpu_merge('u_a')",
		"INSERT INTO u SELECT 18000 * $turn + i, elements(i, 900) FROM generate_series(1, 5) i; SELECT vectorgpu_merge('u_a'); VACUUM u; SELECT vectorgpu_merge('u_a')");

	for my $step (0 .. $#steps)
	{
		my $answer;

		$node->safe_psql('postgres', $steps[$step]);
		wait_standby($node, $standby);
		$answer = eval { $old->query($rows) } // '';
		$answer = $old->{stderr} =~ $cancelled_by ? 'cancelled' : "no answer: $old->{stderr}" if $answer eq '';
		like($answer, qr/^(\Q$before\E|cancelled)$/, "an old snapshot of the standby, turn $turn, step $step: all its rows or cancelled");
		$old_answers{ $answer eq 'cancelled' ? 'cancelled' : 'answered' }++;
		last if $answer eq 'cancelled';
	}
	eval { $old->quit };
}
note(join ', ', map { "$_ $old_answers{$_} times" } sort keys %old_answers);
cmp_ok($old_answers{answered} // 0, '>=', 2, 'it answers during inserts and merges');

# C19: without vacuum no conflict cancels a scan. A scan that is stopped on its way while the primary inserts and merges meets reused pages,
# starts over, and answers; a scan that meets them each time ends with an error.
SKIP:
{
	skip 'the library was built without FAULTS=1', 1 if !faults_enabled($standby);
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
	$standby->reload;
	my $added = 100_000;
	my $write_anew = sub {
		for my $merge (1 .. 3)
		{
			$added += 3;
			$node->safe_psql('postgres', "INSERT INTO u SELECT i, elements(i, 50) FROM generate_series($added, $added + 2) i; SELECT vectorgpu_merge('u_a')");
		}
		wait_standby($node, $standby);
		return;
	};
	my $scan_all = sub { return scan_held_up($standby, table => 'u', order => $order, faults => $_[0], write => $write_anew); };

	$write_anew->() for 1, 2;
	my ($held, $result, $right) = $scan_all->('meta_read:2:error');
	like($result, qr/^\Q$right\E$/m, 'an undisturbed scan reads the metapage once');
	($held, $result, $right) = $scan_all->('page_read:2:lock');
	is($held, 1, 'a scan is held up before it reads its second page');
	like($result, qr/^\Q$right\E$/m, 'while pages are put to another use; then it returns its snapshot');
	($held, $result) = $scan_all->('page_read:2:lock, meta_read:2:error');
	like($result, qr/fault point "meta_read" reached/, 'since it reads the metapage again');
	($held, $result) = $scan_all->(join(',', map { "page_read:@{[ 2 * $_ ]}:lock" } 1 .. 8));
	like($result, qr/was reorganized while it was being read/, "a scan that meets other pages each time ($held) is given up");
	unlike($result, qr/corrupt|conflict with recovery/, 'not for damage or a conflict');
	$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 500ms\n");
	$standby->reload;
}
is($standby->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM u ORDER BY $order) x"),
	$node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM u'), 'all rows are there then');
check_index($standby, 'u_a', name => 'and the check finds nothing');
$node->safe_psql('postgres', 'DROP TABLE u');

SKIP:
{
	skip 'the library was built without FAULTS=1', 1 if !faults_enabled($node);
	$node->safe_psql('postgres', 'DELETE FROM s WHERE id >= 10000; VACUUM s');
	my $id = 2000;
	for my $point ('delta_publish_value:1', 'delta_publish_value:2', 'delta_value_part:1', 'delta_value_part:2', 'chunk_format:1', 'delta_publish_value:4')
	{
		for my $action ('error', 'exit')
		{
			# A delta without chunks, so that each insert takes the same steps.
			$node->safe_psql('postgres', 'REINDEX INDEX s_a');
			my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:$action'; INSERT INTO s SELECT $id, elements($id, 30000)", on_error_stop => 1);
			if ($action eq 'exit')
			{
				isnt($rc, 0, "$point: the server process dies");
				wait_for_restart($node) or die 'the server did not come back';
			}
			else
			{
				like($err, qr/fault point/, "$point: the insert fails");
			}
			sound("$point:$action", primary_only => 1);
			$id++;
			# The next insert: first with an error while it cleans up.
			if ($point =~ /value_part/)
			{
				# The last writes of a dead process may not have reached the log: leave the part again, and log it.
				$node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:error'; INSERT INTO s SELECT $id, elements($id, 30000)") if $action eq 'exit';
				$node->safe_psql('postgres', 'CHECKPOINT');
				(undef, undef, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'delta_close_part:1:$action'; INSERT INTO s SELECT $id, elements($id, 7)");
				isnt($err, '', "$point:$action: and what is left is cleared away by the next insert");
				wait_for_restart($node) if $action eq 'exit';
				sound("$point:$action, then delta_close_part:$action", primary_only => 1);
			}
			$node->safe_psql('postgres', "INSERT INTO s SELECT $id, elements($id, 7); INSERT INTO s SELECT $id, elements($id, 9000); INSERT INTO s VALUES ($id, NULL)");
			sound("$point:$action, then inserts");
		}
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM s WHERE cardinality(a) = 30000'), 0, 'no row of a failed insert is there');
	# A merge and a vacuum with a part of a value at the end.
	for my $after ("SELECT vectorgpu_merge('s_a')", 'DELETE FROM s WHERE id % 7 = 0; VACUUM (INDEX_CLEANUP on) s', 'REINDEX INDEX s_a')
	{
		$node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'delta_value_part:2:error'; INSERT INTO s SELECT 3000, elements(1, 30000)");
		$node->safe_psql('postgres', $after);
		sound("$after beside a part of a value");
		$node->safe_psql('postgres', "INSERT INTO s SELECT 3001, elements(2, 12); INSERT INTO s SELECT 3001, elements(2, 12000)");
		sound("$after beside a part of a value, then inserts");
	}
	# A merge and a build that fail within the inverted lists, of more than one run.
	$node->safe_psql('postgres', 'INSERT INTO s SELECT i, elements(i, 100) FROM generate_series(4000, 6000) i');
	for my $statement ("SELECT vectorgpu_merge('s_a')", 'REINDEX INDEX s_a')
	{
		for my $point ('match_flush_run:1', 'match_flush_run:2', 'match_merge_runs:1')
		{
			for my $action ('error', 'enomem', 'exit')
			{
				my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:$action'; $statement");
				isnt($rc, 0, "$statement: $point:$action");
				wait_for_restart($node) if $action eq 'exit';
			}
		}
		sound("$statement failed");
		$node->safe_psql('postgres', $statement);
		sound($statement);
	}
	# With memory for all there is still no single run of 300,000 keys: sorting it could not be cancelled.
	my $build = "LOAD 'vectorgpu'; SET maintenance_work_mem = '1GB'; CREATE INDEX many_a ON many USING gpumatch (a)";
	$node->safe_psql('postgres', 'CREATE TABLE many AS SELECT i AS id, ARRAY(SELECT 10 * i + j FROM generate_series(0, 9) j) AS a FROM generate_series(1, 30000) i');
	my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = 'match_flush_run:3:error'; $build");
	like($err, qr/fault point "match_flush_run" reached/, 'three runs of 300,000 keys');
	$node->safe_psql('postgres', $build);
	check_index($node, 'many_a', name => 'of three runs');
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_sort = off; SELECT string_agg(id::text, ' ' ORDER BY n) FROM generate_series(1, 30000, 2999) n, }
		  . q{LATERAL (SELECT id FROM many ORDER BY a <#> ARRAY[10 * n, 10 * n + 5, 10 * n + 9] LIMIT 1) x}),
		join(' ', map { 1 + 2999 * $_ } 0 .. 10), 'the right rows');
	check_faults_reached($node);
}

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no crash of our own making');
unlike(slurp_file($standby->logfile), qr/PANIC|TRAP|inconsistent page/, 'and the standby replays the state of the primary');
$standby->stop;
$node->stop;
done_testing();
