# Life of the worker process: started by the first use or with the server, restarted when it dies, stopped with the server;
# missing or broken executables; settings. Clients always see right answers and no errors.
use strict;
use warnings;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main', conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 1\n");
my $worker_file = worker_file($node);

plan skip_all => 'the worker is not installed' unless -x $worker_file;
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
$node->safe_psql('postgres', 'CREATE TABLE other AS SELECT * FROM t');
$node->safe_psql('postgres', 'CREATE INDEX other_v ON other USING gpuflat (v vector_l2_ops)');

# Fallbacks of an index, for a reason or all.
sub index_fallbacks
{
	my ($index, $reason) = @_;
	my $column = defined $reason ? "(fallback_reasons->>'$reason')::int8" : 'fallbacks';

	return $node->safe_psql('postgres', "SELECT $column FROM vectorgpu_indexes WHERE index_name = '$index'");
}

# Beside all tests below: servers started with a missing executable, or one that is not executable (F6), and a server whose worker ends at once (F5), with the
# default of vectorgpu.worker_restart_delay_max. Checked at the end.
my $loop_program = PostgreSQL::Test::Utils::tempdir() . '/program';
my $loop = make_node('loop', conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_program = '$loop_program'\n");
make_table($loop, 't', dims => 8);
fill_vectors($loop, 't', dims => 8, rows => 500);
$loop->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
sub loop_answers
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	compare_sweep($loop, 't', '<->', dims => 8, queries => 1, strict_ties => 1, name => "$name: right answers");
	return;
}
ok(wait_log($loop, qr/WARNING:  could not start the vectorgpu worker "\Q$loop_program\E": No such file or directory/), 'started without the executable: a warning in the log');
loop_answers('started without the executable');
$loop->stop;
copy('/bin/false', $loop_program) or die "could not copy: $!";
chmod 0000, $loop_program;
my $loop_offset = -s $loop->logfile;
$loop->start;
ok(wait_log($loop, qr/WARNING:  could not start the vectorgpu worker "\Q$loop_program\E": Permission denied/, $loop_offset), 'started with one that is not executable: the same');
loop_answers('started with one that is not executable');

# Preloaded, and no background worker left for the supervisor: the server starts, scans are answered, and functions that need the worker report the reason at once.
$loop->append_conf('postgresql.conf', 'max_worker_processes = 0');
$loop_offset = -s $loop->logfile;
$loop->restart;
loop_answers('preloaded without a slot for the supervisor');
my $counted = $loop->safe_psql('postgres', 'SELECT fallbacks FROM vectorgpu_worker');
sleep 11;    # the scan that asks for a supervisor is to be one of these: the server does so once in ten seconds, and the view has just done it
is($loop->safe_psql('postgres', 'SET vectorgpu.worker_min_size = 0; SET enable_seqscan = off; SET enable_sort = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1) LIMIT 1;
	SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 2) LIMIT 1; SELECT fallbacks - ' . $counted . ' FROM vectorgpu_worker'), "1\n2\n2", 'it counts each batch once');
like(slurp_file($loop->logfile, $loop_offset), qr/scans are answered without the worker.*No background worker slot is free: see max_worker_processes/s,
	'preloaded without a slot for the supervisor: the log says so');
my $asked = time;
my (undef, undef, $no_slot) = $loop->psql('postgres', "\\set VERBOSITY verbose\nSELECT vectorgpu_prewarm('i')");
like($no_slot, qr/08006: the vectorgpu worker cannot be started.*No background worker slot is free.*Raise max_worker_processes/s, 'and a function that asks for the worker does');
cmp_ok(time - $asked, '<', 20, 'without waiting for it');
$loop->append_conf('postgresql.conf', 'max_worker_processes = 8');
$loop->stop;
chmod 0755, $loop_program;
$loop_offset = -s $loop->logfile;
$loop->start;

# Without shared_preload_libraries
# Not by the view, which itself asks for the worker.
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'vectorgpu%'}), 0,
	'nothing runs before the first scan');
compare_scans($node, 't', '<->', query_vector($node, 1, dims => 8), limit => 10, name => 'the first scan is answered');
cmp_ok(index_fallbacks('i', 'not_running'), '>', 0, 'it counts for its index that there was no worker');
is(index_fallbacks('other_v'), 0, 'and for no other');
ok(wait_worker($node), 'a scan has started the supervisor and the worker');
my $resources = note_resources($node);
by_worker($node, 'scans with the worker', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with the worker');
});
like(worker_stat($node, 'engine'), qr/^(cpu|cuda)$/, 'the view names the engine');

my $socket_folder = $node->data_dir . '/pgsql_tmp_vectorgpu';
is(sprintf('%o', (stat $socket_folder)[2] & 07777), '700', 'only the owner may enter the folder of the socket');
my @sockets = glob("$socket_folder/pgsql_tmp_w.*");
is(scalar @sockets, 1, 'there is one socket');
is(sprintf('%o', (stat $sockets[0])[2] & 07777), '600', 'and it is the owner\'s alone');
# A process that the kernel takes first has higher values of both: the adjustment, and the score computed from it and from memory.
my $backend = $node->background_psql('postgres');
$backend->query_safe(scan_sql());
my ($of_backend, $of_worker) = (session_pid($backend), worker_pid($node));
for my $score ('oom_score_adj', 'oom_score')
{
	my ($backend_score, $worker_score) = map { slurp_file("/proc/$_/$score") + 0 } $of_backend, $of_worker;

	# A score is at most 1000, which all processes have in some containers.
	cmp_ok($worker_score, $backend_score < 1000 ? '>' : '>=', $backend_score, "the kernel takes the worker before a backend when memory runs out ($score)");
}
$backend->quit;
is(scalar(grep { !/^(0|1|2|3)$/ && (readlink($_) // '') =~ /\/base\// } glob('/proc/' . worker_pid($node) . '/fd/*')),
	0, 'the worker holds no file of a database');

# Death
expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal (?:6|11)\b/);
for my $signal (qw(KILL SEGV ABRT TERM))
{
	my $pid = wait_worker($node);

	kill $signal, $pid;
	ok(wait_gone($pid), "SIG$signal ends the worker");
	compare_scans($node, 't', '<->', query_vector($node, 2, dims => 8), limit => 10,
		name => "right answers right after SIG$signal");
	ok(wait_worker($node, not_pid => $pid), "a new worker after SIG$signal");
}
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with the new worker');

# Functions of the worker, in a session whose worker has just been killed: they ask the next one.
for (['prewarm', "vectorgpu_prewarm('i') > 0", 't'], ['evict', "vectorgpu_evict('i')", 'f'], ['check', "cache_rows_checked FROM vectorgpu_check('i', false, true)", 0])
{
	my ($name, $expression, $result) = @$_;
	my ($rc, $out, $err) = $node->psql('postgres', <<"SQL");
SET vectorgpu.worker_timeout = '60s';
SELECT vectorgpu_prewarm('i') > 0;
SELECT pid AS worker FROM vectorgpu_worker \\gset
\\setenv WORKER :worker
\\! kill -KILL \$WORKER
SELECT $expression;
SQL
	is("$rc $err", '0 ', "$name right after the worker was killed: no error");
	is($out, "t\n$result", "$name: the next worker has answered");
}

# The supervisor
my $old = worker_pid($node);
my $supervisor = supervisor_pid($node);
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($supervisor)"), 't', 'the supervisor can be terminated');
ok(wait_gone($old), 'the worker ends with its supervisor');
compare_scans($node, 't', '<->', query_vector($node, 3, dims => 8), limit => 10, name => 'right answers without a supervisor');
ok(wait_worker($node, not_supervisor => $supervisor), 'another supervisor and worker come');

# Settings
$old = worker_pid($node);
$node->append_conf('postgresql.conf', "vectorgpu.worker_memory = 64MB\n");
$node->reload;
ok(wait_worker($node, not_pid => $old), 'a change of worker_memory restarts the worker');
ok($node->poll_query_until('postgres', "SELECT CASE engine WHEN 'cpu' THEN memory_bytes = 64 << 20 ELSE memory_bytes > 64 << 20 END FROM vectorgpu_worker"), 'with the new size');

$old = wait_worker($node);
$node->append_conf('postgresql.conf', "vectorgpu.worker = off\n");
$node->reload;
ok(wait_gone($old), 'the worker ends when the setting is off');
compare_scans($node, 't', '<->', query_vector($node, 4, dims => 8), limit => 10, name => 'right answers with the worker off');
ok($node->poll_query_until('postgres', 'SELECT pid IS NULL FROM vectorgpu_worker'), 'no worker while vectorgpu.worker is off');
for my $function ("vectorgpu_prewarm('i')", "vectorgpu_evict('i')", "vectorgpu_check('i', false, true)")
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT $function", on_error_stop => 0,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($err, qr/08006: the vectorgpu worker is switched off.*DETAIL.*HINT/s, "$function says that the worker is off");
}
# Sessions that still want it: each scan counts.
my $wanting = 'SET vectorgpu.worker = on; SET enable_seqscan = off; SET enable_sort = off;';
my $scan = q{SELECT id FROM %s ORDER BY v <-> array_fill(1, ARRAY[8])::vector LIMIT 1;};
my ($of_server, $of_index) = (worker_stat($node, 'fallbacks'), index_fallbacks('i'));
$node->safe_psql('postgres', $wanting . sprintf($scan, 't') x 3 . sprintf($scan, 'other') x 2);
is(index_fallbacks('i') . ' ' . index_fallbacks('other_v', 'not_running'), ($of_index + 3) . ' 2', 'scans count for their own index');
is(worker_stat($node, 'fallbacks'), $of_server + 5, 'and once for the server');
$node->safe_psql('postgres', 'REINDEX INDEX other_v');
is(index_fallbacks('other_v'), 2, 'with another file it is the same index');
$node->safe_psql('postgres', 'TRUNCATE other; INSERT INTO other SELECT * FROM t');
is(index_fallbacks('other_v'), 2, 'and with other rows too');

# More indexes than can be counted: the one counted longest ago is replaced.
my @many = map { "many_$_" } 1 .. 140;
$node->safe_psql('postgres', join '', map { "CREATE TABLE $_ AS SELECT id, v FROM t LIMIT 1; CREATE INDEX ${_}_v ON $_ USING gpuflat (v vector_l2_ops);" } @many);
$node->safe_psql('postgres', $wanting . join '', map { sprintf($scan, $_) x 2 . sprintf($scan, 'other') } @many);
is($node->safe_psql('postgres', q{SELECT count(*), min(fallbacks), max(fallbacks) FROM vectorgpu_indexes WHERE index_name LIKE 'many%' AND fallbacks > 0}),
	'127|2|2', 'the last 127, and the one that was counted all the time');
is(index_fallbacks('other_v'), 142, 'which has all of its counts');
is(index_fallbacks('i') . ' ' . index_fallbacks('many_1_v'), '0 0', 'the first ones start anew');
is(worker_stat($node, 'fallbacks'), $of_server + 5 + 140 * 3, 'the count of the server lost none');
$node->safe_psql('postgres', 'DROP TABLE ' . join ', ', @many);
$node->append_conf('postgresql.conf', "vectorgpu.worker = on\n");
$node->reload;
ok(wait_worker($node), 'it is back when the setting is on again');

# Stops of the server
for my $mode (qw(fast immediate smart))
{
	$old = wait_worker($node);
	$node->stop($mode);
	ok(wait_gone($old), "the worker ends with the server ($mode)");
	$node->start;
	$node->safe_psql('postgres', scan_sql());
	ok(wait_worker($node), "and another one starts (after $mode)");
}
is(scalar(my @left = glob("$socket_folder/pgsql_tmp_w.*")), 1, 'no socket is left over');

# With shared_preload_libraries
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'vectorgpu'\n");
$node->restart;
ok(wait_worker($node), 'preloaded, the worker starts with the server');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree with a preloaded module');
$supervisor = supervisor_pid($node);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($supervisor)");
ok(wait_worker($node, not_supervisor => $supervisor), 'the preloaded supervisor comes back as well');

# The postmaster killed
$old = wait_worker($node);
kill 'KILL', $node->safe_psql('postgres', 'SELECT pg_read_file(\'postmaster.pid\')') =~ /^(\d+)/;
ok(wait_gone($old), 'the worker ends when the postmaster is killed');
start_after_kill($node);
ok(wait_worker($node), 'the next server has a worker');

# Executables that are missing, not executable, or end at once
my $program = PostgreSQL::Test::Utils::tempdir() . '/program';
my $log_offset = -s $node->logfile;
$old = wait_worker($node);
$node->append_conf('postgresql.conf', "vectorgpu.worker_program = '$program'\n");
$node->reload;
ok(wait_log($node, qr/could not start the vectorgpu worker/, $log_offset), 'a missing executable is a warning in the log');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'right answers without the executable');
cmp_ok(index_fallbacks('i', 'not_running'), '>', 0, 'preloaded, they count for their index');
is(index_fallbacks('other_v'), 0, 'and for no other');
cmp_ok($node->safe_psql('postgres', q{SELECT size FROM pg_shmem_allocations WHERE name = 'vectorgpu fallbacks'}), '>', 1024 * 11 * 8, 'with room for more indexes');
my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_prewarm('i')", on_error_stop => 0,
	extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/08006: the vectorgpu worker cannot be started.*DETAIL.*HINT/s, 'a function that needs the worker reports it');

$log_offset = -s $node->logfile;
copy('/bin/false', "$program.new") or die "could not copy: $!";
chmod 0755, "$program.new";
rename("$program.new", $program) or die "could not rename: $!";
ok(wait_log($node, qr/vectorgpu worker \(PID \d+\) ended with status 1/, $log_offset), 'a crash loop is tried and logged');
compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'right answers during a crash loop');
chmod 0000, $program;
compare_scans($node, 't', '<->', query_vector($node, 5, dims => 8), limit => 10, name => 'right answers, not executable');
unlink $program;
symlink($worker_file, $program) or die "could not link: $!";
ok(wait_worker($node), 'the worker is back with its executable');
by_worker($node, 'with its executable', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'and answers');
});
is(count_restarts($node), 0, 'the server never restarted by itself');
check_resources($node, $resources);
check_stopped($node);

# The crash loop: starts are at least 1, 2, 4 and 8 seconds apart, up to a minute. The log has a line for each end, one about growing pauses, and no other.
my ($loop_log, @ends);
ok(wait_until(sub {
	$loop_log = slurp_file($loop->logfile, $loop_offset);
	@ends = map { my ($h, $m, $s) = split /:/; 3600 * $h + 60 * $m + $s } $loop_log =~ /^[\d-]+ (\d+:\d+:[\d.]+) .*LOG:  vectorgpu worker \(PID \d+\) ended with status 1$/mg;
	return @ends >= 5 && $loop_log =~ /ended early/ && $loop->safe_psql('postgres', 'SELECT restarts FROM vectorgpu_worker') == $#ends;
}), 'a worker that ends at once is started again and again, and each end is in the log');
loop_answers('during the crash loop');
my @pauses = map { my $pause = $ends[$_] - $ends[ $_ - 1 ]; $pause < 0 ? $pause + 86400 : $pause } 1 .. $#ends;
my ($least, @short) = (1);
for my $pause (@pauses)
{
	# An end is noticed, and the pause begins, a moment before the line is written.
	push @short, sprintf('%.1f s instead of %d', $pause, $least) if $pause < $least - 0.5;
	$least = $least < 32 ? 2 * $least : 60;
}
is(join(', ', @short[ 0 .. ($#short < 5 ? $#short : 5) ]), '', 'after ' . join(', ', map { sprintf '%.1f', $_ } @pauses[ 0 .. 3 ]) . ' s and so on');
is(scalar(() = $loop_log =~ /vectorgpu worker/g), @ends + 1, 'a line for each of ' . @ends . ' ends, and one more');
is(scalar(() = $loop_log =~ /LOG:  vectorgpu worker ended early 5 times in a row/g), 1, 'which reports growing pauses');
like($loop_log, qr/longer and longer pauses, up to 60 seconds/, 'and how long they may be');

# A repaired setting is tried at once, not after a pause that is 16 seconds long by now.
$loop->append_conf('postgresql.conf', "vectorgpu.worker_program = ''\n");
my $repaired = time;
$loop->reload;
ok(wait_worker($loop), 'with a valid program there is a worker');
cmp_ok(time - $repaired, '<', 10, sprintf('at once (%d s)', time - $repaired));
is(count_restarts($loop), 0, 'the server never restarted by itself');
check_stopped($loop);
done_testing();
