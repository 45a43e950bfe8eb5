# A merge beside others: inserters do not wait for the file to grow, and the maintenance worker gives way while it reads.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuFaults;
use VectorgpuTest;
use VectorgpuWorker;

# With enough background workers for every merge request, however fast the requests come.
my $node = make_node('main', conf => "autovacuum = off\nmax_worker_processes = 64\nvectorgpu.auto_merge = off\nvectorgpu.worker = off\n");

plan skip_all => 'fault points are not built in' unless faults_enabled($node);
make_table($node, 't', dims => 128);
fill_vectors($node, 't', dims => 128, rows => 3000);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');

sub look
{
	my ($columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM vectorgpu_indexes WHERE index_name = 'i'");
}

sub insert_rows
{
	my ($first, $rows) = @_;
	return "INSERT INTO t SELECT i, 0, array_fill((i % 1000)::real, ARRAY[128])::vector FROM generate_series($first, $first + $rows - 1) i";
}

$node->safe_psql('postgres', insert_rows(5001, 100));

# The merge sleeps for five seconds between two slices. A session that waits for its lock meanwhile gets an error.
my $bytes = look('index_bytes');
my $merger = $node->background_psql('postgres', on_error_stop => 0);
$merger->query_safe("LOAD 'vectorgpu'; SET vectorgpu.fault = 'merge_extend:2:sleep'");
$merger->{stdin} .= "SELECT 'merged ' || rows_moved FROM vectorgpu_merge('i');\n";
$merger->{run}->pump_nb;
ok($node->poll_query_until('postgres', "SELECT index_bytes > $bytes FROM vectorgpu_indexes WHERE index_name = 'i'"),
	'a merge makes the file longer');
is($node->safe_psql('postgres', "SET lock_timeout = '3s';" . insert_rows(10_001, 4000) . '; SELECT count(*) FROM t'), 7100,
	'inserts that need new chunks do not wait for it');
like($merger->query("SELECT 'end'"), qr/^merged 3100\n.*end$/s, 'the merge ends');
$merger->quit;
is(look('rows, delta_rows, segments'), '7100|4000|1', 'it has taken the rows from before, and the others are in the delta');
check_index($node, 'i', name => 'after a merge during inserts');

# A merge that is cancelled between two slices leaves blocks that the next one uses.
$node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'merge_extend:3:error'; SELECT vectorgpu_merge('i')");
check_index($node, 'i', name => 'after a merge that stopped while it made the file longer');
$bytes = look('index_bytes');
$node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'merge_extend:2:error'; SELECT vectorgpu_merge('i')");
cmp_ok(look('index_bytes') - $bytes, '<=', 2 * 128 * 8192, 'the file does not grow again with each attempt');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
is(look('rows, delta_rows, segments, leaked_blocks'), '7100|0|1|0', 'the next merge succeeds');
check_index($node, 'i', name => 'after all merges');

# The maintenance worker holds the table's lock while it reads the delta; another session waits for the lock.
$node->append_conf('postgresql.conf', "vectorgpu.auto_merge = on\nvectorgpu.merge_delta_size = 64kB\nvectorgpu.fault = 'sort_delta_read:1:sleep'\n");
$node->reload;
my $gave_way = 0;
for my $attempt (1 .. 5)
{
	my $before = look('segments, index_bytes');

	$node->safe_psql('postgres', insert_rows(20_000 + 10_000 * $attempt, 2000));
	my $after_insert = look('segments, index_bytes');
	next unless $node->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE backend_type = 'vectorgpu maintenance' AND l.relation = 't'::regclass AND l.mode = 'ShareUpdateExclusiveLock')");
	$node->safe_psql('postgres', 'BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE; COMMIT');
	# No block was taken: it stopped before it began to write.
	$gave_way = look('segments, index_bytes') eq $after_insert && look('delta_rows') >= 2000;
	last if $gave_way;
	note("on attempt $attempt it had finished before the lock was asked for: $before, $after_insert");
}
ok($gave_way, 'the maintenance worker gives way while it reads');
$node->append_conf('postgresql.conf', "vectorgpu.fault = ''\nvectorgpu.auto_merge = off\n");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance')"),
	'and ends');
check_index($node, 'i', name => 'at last');

# If a request leads to no merge, sessions ask again with each page of inserted rows, not only when the delta has grown by a quarter: rows of one
# statement, and indexes of one table, whose merges exclude each other.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE two (id bigint, v vector(64), a int[]);
CREATE INDEX two_flat ON two USING gpuflat (v vector_l2_ops);
CREATE INDEX two_lists ON two USING gpuivf (v vector_l2_ops);
CREATE INDEX two_graph ON two USING gpugraph (v vector_l2_ops) WITH (degree = 8);
CREATE INDEX two_sets ON two USING gpumatch (a);
SQL
my $more = sub {
	my ($first, $n) = @_;
	return "INSERT INTO two SELECT i, array_fill((i % 1000)::real, ARRAY[64])::vector, ARRAY[i % 7, 100 + i % 11] FROM generate_series($first, $first + $n - 1) i";
};
$node->safe_psql('postgres', $more->(1, 20_000));
my %deltas = map { split /\|/ } split /\n/, $node->safe_psql('postgres', "SELECT index_name, delta_bytes FROM vectorgpu_indexes WHERE index_name ~ '^two_'");
my $least = (sort { $a <=> $b } values %deltas)[0];
cmp_ok($least, '>', 300_000, 'deltas of four indexes: ' . join(', ', map { "$_ $deltas{$_}" } sort keys %deltas));
my $session = $node->background_psql('postgres');
$session->query_safe("LOAD 'vectorgpu'; SET vectorgpu.auto_merge = on; SET vectorgpu.merge_delta_size = '256kB'");
my $added = 20_000;
ok(wait_until(sub {
	# While one is merged, requests for the others fail, and then come less often.
	return 0 if $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance'") > 0;
	$session->query_safe($more->($added + 1, 60));
	$added += 60;
	sleep 1;
	return $node->safe_psql('postgres', "SELECT max(delta_bytes) FROM vectorgpu_indexes WHERE index_name ~ '^two_'") < 256 * 1024;
}), 'few rows at a time are enough for the merge of each');
cmp_ok($added, '<', 24_000, "$added rows, fewer than a chunk has");
$session->quit;
check_index($node, "two_$_", name => "two_$_ after that") for qw(flat lists graph sets);

# A session that fills many indexes, such as those of a table's partitions, makes at most 16 requests in three seconds, and asks for a ninth merge when one of eight has ended.
$node->append_conf('postgresql.conf', "log_min_messages = debug1\n");
$node->reload;
$node->safe_psql('postgres', join ';', map { "CREATE TABLE many_$_ (id bigint, v vector(64)); CREATE INDEX many_i_$_ ON many_$_ USING gpuflat (v vector_l2_ops)" } 1 .. 40);
my $into_many = sub {
	my ($k, $first) = @_;
	return "INSERT INTO many_$k SELECT i, array_fill((i % 1000)::real, ARRAY[64])::vector FROM generate_series($first, $first + 39) i";
};
my $merging = "LOAD 'vectorgpu'; SET vectorgpu.auto_merge = on; SET vectorgpu.merge_delta_size = '64kB'";

# Merges requested after that place of the log, and the most that ran at the same time, by the postmaster's log, which may be late.
sub requests
{
	my ($server, $offset) = @_;
	my ($n, $most, %now) = (0, 0);
	my $log = slurp_file($server->logfile, $offset);

	while ($log =~ /\b((?:un)?registering) background worker "vectorgpu maintenance of index (\d+)"/g)
	{
		if ($1 eq 'registering') { $n++; $now{$2} = 1 }
		else { delete $now{$2} }
		$most = keys %now if keys %now > $most;
	}
	return ($n, $most);
}

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE ' . join(', ', map { "many_$_" } 1 .. 40) . ' IN SHARE UPDATE EXCLUSIVE MODE');    # no merge comes of it
my $offset = -s $node->logfile;
my $started = time;
$node->safe_psql('postgres', join ';', $merging, map { my $round = $_; map { $into_many->($_, 1 + 40 * $round) } 1 .. 40 } 1 .. 40);
my $most_asked = 16 * (1 + int((time - $started) / 3));
# All 40 grow past merge_delta_size; the first eight that do get their requests.
ok(wait_until(sub { (requests($node, $offset))[0] >= 8 }), '1,600 inserts into 40 indexes, tables locked: merges are asked for');
sleep 1;
my ($asked, $at_once) = requests($node, $offset);
cmp_ok($asked, '<=', $most_asked, "$asked, at most $most_asked");
cmp_ok($at_once, '<=', 8, "$at_once at a time, at most 8");
$holder->quit;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance')"), 'they end');

# No merge ends by itself.
$node->append_conf('postgresql.conf', "vectorgpu.fault = 'sort_delta_read:1:lock'\n");
$node->reload;
my $gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(1)');
$offset = -s $node->logfile;
$node->safe_psql('postgres', join ';', $merging, map { $into_many->($_, 5001) } 1 .. 40);
ok(wait_until(sub { (requests($node, $offset))[0] >= 8 }), '40 indexes to be merged, tables free: merges are asked for');
sleep 1;
is((requests($node, $offset))[0], 8, 'eight merges while none has ended');
$gate->quit;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance')"), 'they end');
$node->stop;

# The only background worker is taken. A failed request is repeated soon after it is free, sooner than after requests that led to no merge.
$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 0\n");
$node->start;
$gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(1)');
$offset = -s $node->logfile;
$node->safe_psql('postgres', join ';', map { my $first = 6001 + 40 * $_; map { $into_many->($_, $first) } 39, 40 } 1 .. 10);    # past merge_delta_size
$node->safe_psql('postgres', join ';', $merging, $into_many->(39, 7001));
ok(wait_until(sub { fault_acted($node, 'sort_delta_read', 1, $offset) }), 'a merge that has begun, and does not end');
my $waiter = $node->background_psql('postgres');
my $row = 8001;
my $more_rows = sub {
	$waiter->query_safe($into_many->(40, $row));
	$row += 40;
	sleep 0.5;
};
$offset = -s $node->logfile;
$waiter->query_safe($merging);
$more_rows->() for 1 .. 20;    # ten seconds: three requests, if those in vain counted, and the next one only eleven seconds later
is((requests($node, $offset))[0], 0, 'no other merge starts meanwhile');
$gate->quit;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance')"), 'it ends');
my $rounds = 0;
ok(wait_until(sub { $more_rows->(); $rounds++; return (requests($node, $offset))[0] > 0 }), "and the other's begins");
cmp_ok($rounds, '<=', 4, "with the next rows ($rounds times)");
$waiter->quit;
$node->append_conf('postgresql.conf', "vectorgpu.fault = ''\n");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'vectorgpu maintenance')"), 'and ends');
check_index($node, "many_i_$_", name => "many_i_$_") for 1, 39, 40;
done_testing();
