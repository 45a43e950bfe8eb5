# The fault points inside the worker that test/worker_faults.txt gives this file, end to end: what goes wrong there, and a worker that dies or
# sleeps there, changes no answer and reaches no client.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuResources;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.worker_timeout = 500ms\nvectorgpu.auto_merge = off\n");
my $worker_file = worker_file($node);

plan skip_all => 'the worker is not installed' unless -x $worker_file;
plan skip_all => 'built without FAULTS=1' unless faults_enabled($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 400);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
fill_vectors($node, 't', dims => 8, rows => 50, first => 1001, seed => 2);
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 50 = 0; VACUUM t');
fill_vectors($node, 't', dims => 8, rows => 20, first => 2001, seed => 3);
make_answers($node, 20);
# The same rows in lists, which a copy has besides.
$node->safe_psql('postgres', 'CREATE TABLE u (LIKE t, PRIMARY KEY (id)); INSERT INTO u SELECT * FROM t; CREATE INDEX u_i ON u USING gpuivf (v vector_l2_ops) WITH (lists = 5)');

# The worker reads its faults from its environment.
my $folder = PostgreSQL::Test::Utils::tempdir();
my $program = "$folder/program";
append_to_file("$folder/fault", "\n");
append_to_file($program, "#!/bin/sh\nVECTORGPU_WORKER_FAULT=\$(cat '$folder/fault') exec '$worker_file' \"\$@\"\n");
chmod 0755, $program;
$node->append_conf('postgresql.conf', "vectorgpu.worker_program = '$program'\n");
my $first = wait_worker($node);
$node->reload;
ok(wait_worker($node, not_pid => $first), 'the worker is ready');
my $resources = note_resources($node);

sub set_fault
{
	my ($fault) = @_;
	my $pid = worker_pid($node);

	open(my $file, '>', "$folder/fault.new") or die "could not write: $!";
	print $file "$fault\n";
	close $file;
	rename "$folder/fault.new", "$folder/fault" or die "could not rename: $!";
	kill 'KILL', $pid if defined $pid;
	wait_gone($pid) if defined $pid;
	return;
}

# Scans that load the copy, in three sessions, so that whatever was refused once is tried again.
my @asked = (map({ [ 't', $_ ] } 1 .. 6), map { [ 'u', $_ ] } 1 .. 2);
my $right = join ';', 'SET enable_seqscan = off', 'SET enable_sort = off', map {
	my ($table, $q) = @$_;
	"SELECT ARRAY(SELECT id FROM $table ORDER BY v <-> (SELECT v FROM $table WHERE id = $q) LIMIT 10) = (SELECT ids FROM answers WHERE q = $q)"
} @asked;

sub problems_with
{
	my ($fault, $must_be_reached, $seconds) = @_;
	my $problems = '';
	my $offset = -s $node->logfile;
	my $ask = sub {
		my ($session) = @_;
		my ($rc, $out, $err) = $node->psql('postgres', $right);

		$problems .= "session $session: $err" if $rc != 0 || $err ne '';
		$problems .= "session $session: " . join(',', split /\n/, $out) if $out ne join("\n", ('t') x @asked);
	};

	set_fault($fault);
	for my $session (1 .. 3)
	{
		$ask->($session);
		# The supervisor starts a worker that has died, and greets one that has not been greeted. With a GPU a start takes seconds.
		wait_until(sub { $node->safe_psql('postgres', 'SELECT ready FROM vectorgpu_worker') eq 't' }, $seconds) if $session < 3;
	}
	# The worker has been there if it has ended there.
	return $problems if !$must_be_reached;
	my $ended = $fault =~ /:exit$/ ? qr/vectorgpu worker \(PID \d+\) ended with status 3/ : $fault =~ /:abort$/ ? qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/ : qr//;
	# The three sessions may have come before a worker that takes seconds to start; further ones ask it.
	$problems .= 'it was not reached; ' if !wait_until(sub { slurp_file($node->logfile, $offset) =~ $ended || do { $ask->('late'); 0 } }, 20);
	return $problems;
}

# One test a point: at the first call, or at the second where the first is the supervisor's; in long runs at each (0) as well.
expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/); # action abort
for my $point (qw(accept make_slot send_welcome receive create load_segment load_structure seal append_delta tombstones manifest search reply))
{
	my $problems = '';

	for my $action (qw(error enomem corrupt exit abort))
	{
		my $call = $point =~ /^(?:accept|make_slot|send_welcome|receive|reply)$/ ? 2 : 1;

		for my $nth ($ENV{VECTORGPU_LONG} ? (1, 2, 0) : $call)
		{
			my $problem = problems_with("$point:$nth:$action", $nth == $call || $nth == 0, $nth == $call ? 20 : 1);
			$problems .= "call $nth, $action: $problem; " if $problem ne '';
		}
	}
	is($problems, '', "$point: right answers, no error");
}

# F4: every search takes five seconds, and so, in long runs, every load, or every reply. Nobody waits for more than the deadline; and no more scans
# wait for it than there are sessions at a time, and then one of the server now and then, though each comes in a session of its own.
$node->append_conf('postgresql.conf', "vectorgpu.worker_timeout = 1s\n");
$node->reload;
watch_waits($node);
my ($clients, $tries) = (8, 4); # in ten seconds a pause is over three times, at 2, 5 and 10
for my $point ('search', $ENV{VECTORGPU_LONG} ? ('create', 'reply') : ())
{
	set_fault("$point:0:sleep");
	# One that replies so late is never found ready.
	$point eq 'reply' ? wait_until(sub { defined worker_pid($node) }) : wait_worker($node);
	my ($done, $wrong) = finish_clients(start_clients($node, clients => $clients, seconds => $ENV{VECTORGPU_LONG} ? 10 : 6, watched => 1, extra => ['-C']));
	is($wrong, '', "no client error, no wrong row while each $point takes five seconds ($done transactions)");
	my ($n, $waits) = count_waits($node, 1);
	cmp_ok($n, '>', 50, "$point: clients are answered from the pages");
	cmp_ok($waits, '>', 0, "$point: it was waited for") if $point ne 'reply';
	cmp_ok($waits, '<=', $clients + $tries, "$point: by $waits of $n scans");
}

# A single search that takes so long: the same worker is asked again once it has passed.
set_fault('search:1:sleep');
my $slow = wait_worker($node);
my $before = $node->safe_psql('postgres', "SELECT fallback_reasons->>'silent' FROM vectorgpu_worker");
$node->safe_psql('postgres', $right);
cmp_ok($node->safe_psql('postgres', "SELECT fallback_reasons->>'silent' FROM vectorgpu_worker"), '>=', $before + @asked, 'one search has taken five seconds: the others of its session do without the worker');
by_worker($node, 'when it has passed', sub { $node->safe_psql('postgres', scan_sql()) });
is(worker_pid($node), $slow, 'the same one');

set_fault('');
ok(wait_worker($node), 'a sound worker is back');
by_worker($node, 'at last', sub {
	compare_sweep($node, 't', '<->', dims => 8, strict_ties => 1, name => 'scans agree at last');
});
is(count_restarts($node), 0, 'the server never restarted by itself');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $resources);
check_stopped($node);
done_testing();
