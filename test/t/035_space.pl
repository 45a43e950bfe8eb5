# VACUUM gives space back: the file stays small over rounds of updates; readers of the old blocks, on the primary and on a standby, keep them
# until they end; old snapshots, parallel VACUUM, vacuum_truncate = off; errors and crashes at each point of it.
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
use VectorgpuMatch;
use VectorgpuWorker;

plan skip_all => 'for vectors' if of_match();
my $node = make_node('space', streaming => 1,
	conf => "restart_after_crash = on\nvectorgpu.auto_merge = off\nmin_parallel_index_scan_size = 0\n");
my $rows = 4000;

create_comparer($node);
make_table($node, 't', dims => 128);
fill_vectors($node, 't', dims => 128, rows => $rows, null_every => 50);
$node->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");

sub size_of
{
	my ($index, $on) = @_;
	return ($on // $node)->safe_psql('postgres', "SELECT pg_relation_size('$index')");
}

my $fresh = size_of('t_v');
my $vacuum = 'VACUUM (INDEX_CLEANUP on, PARALLEL 0) t';
my $vectors = 'UPDATE t SET category = category + 1, v = v + array_fill(0.01::float4, ARRAY[128])::vector';

# Two updates of every row, which leave a file of three times the size.
sub grow
{
	$node->safe_psql('postgres', "$vectors; $vectors");
	return size_of('t_v') / $fresh;
}

sub is_small
{
	my ($name) = @_;
	my $times = size_of('t_v') / $fresh;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($times, '<=', 1.5, "$name: the file is small again");
	answers_equal($node, 't', dims => 128, queries => 1, limits => [ 10, undef ], name => "$name: both scans agree");
	check_index($node, 't_v', name => "$name: check");
	return;
}

# A session that has scanned before, and keeps where it read each block.
my $warm = $node->background_psql('postgres');
my $query = query_vector($node, 3, dims => 128);
my $all = "SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM t ORDER BY v <-> $query) s";
$warm->query_safe('SET enable_seqscan = off; SET enable_sort = off');
is($warm->query_safe($all), "$rows|$rows", 'a scan before');

for my $round (1 .. 10)
{
	cmp_ok(grow(), '>', 2.5, "round $round: updates make the file longer");
	$node->safe_psql('postgres', $vacuum);
	cmp_ok(size_of('t_v') / $fresh, '<=', 1.5, "round $round: VACUUM makes it short");
	is($warm->query_safe($all), "$rows|$rows", "round $round: a session that has scanned before");
}
is_small('after ten rounds');

# One update a round, which the delta's limit in rows would leave in it every other time.
for my $round (1 .. 4)
{
	$node->safe_psql('postgres', "$vectors; $vacuum");
	cmp_ok(size_of('t_v') / $fresh, '<=', 1.5, "one update, round $round: the file is small");
}
is_small('after rounds of one update');

# A cursor that reads the old blocks: VACUUM leaves them to it.
grow();
my $reader = $node->background_psql('postgres');
$reader->query_safe("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> $query");
my @first = split /\n/, $reader->query_safe('FETCH 100 FROM c');
$node->safe_psql('postgres', "$vectors; $vacuum");
cmp_ok(size_of('t_v') / $fresh, '>', 2, 'VACUUM beside a cursor does not make the file short');
my %seen = map { $_ => 1 } @first, split /\n/, $reader->query_safe('FETCH ALL FROM c');
is(scalar keys %seen, $rows, 'the cursor returns all rows');
$reader->query_safe('COMMIT');
$node->safe_psql('postgres', $vacuum);
is_small('after the cursor');

# A snapshot from before that has not scanned the index yet keeps its rows, not the blocks.
grow();
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SELECT count(*) FROM pg_class');
my $sum = $node->safe_psql('postgres', 'SELECT sum(category) FROM t');
$node->safe_psql('postgres', "$vectors; $vacuum");
cmp_ok(size_of('t_v') / $fresh, '<=', 4.5, 'VACUUM beside an older snapshot');
is($reader->query_safe("SELECT sum(category) FROM (SELECT category FROM t ORDER BY v <-> $query) s"), $sum, 'the snapshot sees its rows');
$reader->query_safe('COMMIT');
$reader->quit;
$node->safe_psql('postgres', $vacuum);
is_small('after the snapshot');

# The table's option; workers of VACUUM.
grow();
$node->safe_psql('postgres', "ALTER TABLE t SET (vacuum_truncate = off); $vacuum");
cmp_ok(size_of('t_v') / $fresh, '>', 2, 'not with vacuum_truncate = off');
$node->safe_psql('postgres', "ALTER TABLE t RESET (vacuum_truncate); CREATE INDEX t_ip ON t USING $AM (v vector_ip_ops)");
grow();
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on, PARALLEL 2) t');
ok($node->poll_query_until('postgres', "SELECT max(pg_relation_size(i)) <= 1.5 * $fresh FROM unnest('{t_v,t_ip}'::regclass[]) i"),
	'after a parallel VACUUM a background worker does it');
is_small('after a parallel VACUUM');
check_index($node, 't_ip', name => 'and check of the other index');
$node->safe_psql('postgres', 'DROP INDEX t_ip');

# Inserters and readers beside VACUUM.
my $load = start_load($node, {
		write => "INSERT INTO t SELECT 1000000 + (random() * 1e12)::bigint, 0, array_fill(random()::float4, ARRAY[128])::vector FROM generate_series(1, 5);\n",
		read  => "\\set q random(1, 1000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_answers('t', '<->', quote_literal(test_vector(:q, 128)) || '::vector', 20);\nCOMMIT;\n" },
	clients => 3, seconds => 8);
for my $i (1 .. 5)
{
	$node->safe_psql('postgres', "UPDATE t SET category = 5 WHERE id <= $rows; $vacuum");
}
my ($transactions, $problem) = finish_load($load);
is($problem, '', "no wrong answer in $transactions transactions beside VACUUM");
$node->safe_psql('postgres', "DELETE FROM t WHERE id > $rows; $vacuum; SELECT vectorgpu_merge('t_v'); $vacuum");
is_small('after the load');

# A standby: an open reader of the blocks that are cut off holds up replay or is cancelled; afterwards both are as the primary.
my $standby = make_standby($node, 'standby', conf => "max_standby_streaming_delay = 1s\nhot_standby_feedback = off\n");
wait_standby($node, $standby);
my $idle = $standby->background_psql('postgres');
$idle->query_safe('SET enable_seqscan = off; SET enable_sort = off');
is($idle->query_safe($all), "$rows|$rows", 'a scan of the standby before');
grow();
wait_standby($node, $standby);
my $open = $standby->background_psql('postgres', on_error_stop => 0);
$open->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> $query");
@first = split /\n/, $open->query_safe('FETCH 100 FROM c');
$node->safe_psql('postgres', $vacuum);
my $rest = eval { $open->query('FETCH ALL FROM c') } // '';    # dies if recovery has ended the session
%seen = map { $_ => 1 } @first, split /\n/, $rest;
ok(scalar keys %seen == $rows || slurp_file($standby->logfile) =~ /conflict with recovery/, 'a reader of the standby gets all rows or is cancelled')
  or diag($open->{stderr}, scalar keys %seen);
eval { $open->quit };
wait_standby($node, $standby);
is(size_of('t_v', $standby), size_of('t_v'), 'the standby has cut off the same blocks');
is($idle->query_safe($all), "$rows|$rows", 'an open session of the standby that has scanned before');
$idle->quit;
answers_equal($standby, 't', dims => 128, queries => 1, name => 'both scans agree on the standby');
check_index($standby, 't_v', name => 'check on the standby');
$standby->stop;
is_small('beside a standby');
$warm->quit;

if (faults_enabled($node))
{
	for my $point ('shrink_release', 'shrink_cut', 'shrink_copy', 'shrink_publish')
	{
		for my $action ('error', 'exit')
		{
			grow();
			my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:1:$action'; $vacuum");
			wait_for_restart($node) if $action eq 'exit';
			answers_equal($node, 't', dims => 128, queries => 1, limits => [10], name => "$point, $action: both scans agree");
			check_index($node, 't_v', narrow => 0, name => "$point, $action: check");
			$node->safe_psql('postgres', "SELECT pg_current_xact_id(); $vacuum");
			is_small("$point, $action");
		}
	}
	check_faults_reached($node);
}
$node->stop;
done_testing();
