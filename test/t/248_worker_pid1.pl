# The postmaster as process 1 of a PID namespace, as in a container: it inherits every orphan and takes the death of a child
# that it does not know, by a signal, for that of a backend. The worker and its supervisor die in every way; the server
# restarts only after SIGKILL of the supervisor, as for any of its processes, and every process is reaped.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuCount;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

# With a user namespace, so that it needs no privilege if the kernel allows that.
my @unshare = qw(unshare --user --map-current-user --pid --fork --mount-proc --kill-child);
plan skip_all => 'this machine does not allow a PID namespace' if system(join(' ', @unshare, 'true 2>/dev/null')) != 0;

my $node = PostgreSQL::Test::Cluster->new('pid1');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\njit = off\nrestart_after_crash = on\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 60s\nshared_preload_libraries = 'vectorgpu'\n");
plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# Not by pg_ctl, which would take process 1 of this test's own namespace for the postmaster.
my $listing = PostgreSQL::Test::Utils::tempdir() . '/processes';
my $server;

# A failed test leaves no server behind: unshare ends process 1, and that ends the rest.
END
{
	my $status = $?;

	eval { $server->kill_kill(grace => 0) } if defined $server;
	$? = $status;
}

sub start_server
{
	$server = IPC::Run::start([ @unshare, $node->installed_command('postgres'), '-D', $node->data_dir ],
		'<', \undef, '>>', $node->logfile, '2>&1');
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not start';
	return;
}

# The process that has a number in the server's namespace, as this one sees it; 0 if there is none.
sub host_pid
{
	my ($pid) = @_;
	my $namespace = sub { readlink("/proc/$_[0]/ns/pid") // '' };
	my ($first) = map { /^(\d+) $server->{KIDS}[0]{PID} / ? $1 : () } process_lines(split /\n/, `cat /proc/[0-9]*/stat 2>/dev/null`);

	for my $folder (glob('/proc/[0-9]*'))
	{
		my ($host) = $folder =~ /(\d+)$/;
		my $status = eval { slurp_file("$folder/status") } // '';

		return $host if $status =~ /^NSpid:.*\s$pid$/m && $namespace->($host) eq $namespace->($first);
	}
	return 0;
}

# Runs a command in the server's namespace. Its kill may end the session too.
sub inside
{
	my ($command, %opt) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "COPY (SELECT WHERE false) TO PROGRAM \$\$$command\$\$");

	die $err if $rc != 0 && !$opt{deadly};
	return;
}

# Lines "pid ppid state name" from lines of /proc/PID/stat.
sub process_lines
{
	return map { /^(\d+) \((.*)\) (\S) (\d+)/ ? "$1 $4 $3 $2" : () } @_;
}

# The server's processes, as such lines.
sub processes
{
	inside("cat /proc/[0-9]*/stat > $listing || true");
	return process_lines(split /\n/, slurp_file($listing));
}

sub nothing_left
{
	my ($what) = @_;
	my ($workers, $zombies);
	my $good = wait_until(sub {
		my @all = processes();

		$workers = join ', ', grep { /vectorgpu_worke/ } @all;
		$zombies = join ', ', grep { /^\d+ \d+ Z/ } @all;
		return $workers =~ /^\d+ \d+ [^,]*$/ && $zombies eq '';
	});

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($good, "$what: one worker, nothing unreaped") or diag("workers: $workers; zombies: $zombies");
	return;
}

# Waits for a worker that is ready; process ids are the namespace's, so VectorgpuWorker's own wait cannot look at them.
sub wait_ready
{
	my ($not_pid) = @_;

	return wait_until(sub {
		my ($ready, $pid) = split /\|/, $node->safe_psql('postgres', 'SELECT ready, pid FROM vectorgpu_worker');
		return $ready eq 't' && $pid ne ($not_pid // '') ? $pid : 0;
	});
}

sub agrees
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	by_worker($node, $what, sub {
		compare_sweep($node, 't', '<->', dims => 8, queries => 1, strict_ties => 1, name => "$what: scans agree");
	});
	return;
}

start_server();
create_extension($node);
make_table($node, 't', dims => 8);
fill_vectors($node, 't', dims => 8, rows => 500);
$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
make_answers($node, 20);
my $pid = wait_ready();
ok($pid, 'the worker is ready');
my %ours = (ready => sub { wait_ready() }, host_pid => \&host_pid);
my $resources = note_resources($node, %ours);
my ($postmaster) = grep { /^1 / } processes();
like($postmaster, qr/^1 0 \S+ postgres(?:\.alone)?$/, 'the postmaster is process 1');
agrees('at first');

expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 11\b/);
for my $signal (qw(KILL SEGV TERM))
{
	inside("kill -$signal $pid");
	my $next = wait_ready($pid);
	ok($next, "another worker after SIG$signal of the worker");
	$pid = $next;
	nothing_left("SIG$signal of the worker");
}
my $run = start_clients($node, clients => 6, seconds => 6);
for (1 .. 4)
{
	inside("kill -KILL $pid");
	$pid = wait_ready($pid);
}
my ($done, $wrong) = finish_clients($run);
is($wrong, '', "no client error, no wrong row while the worker dies ($done transactions)");
nothing_left('killed under clients');

# The supervisor terminated, by SQL and by a signal; with the worker at work, and with a stopped one.
for my $way ('SQL', 'TERM', 'STOP')
{
	my $supervisor = supervisor_pid($node);

	inside("kill -STOP $pid") if $way eq 'STOP';
	if   ($way eq 'TERM') { inside("kill -TERM $supervisor"); }
	else                  { $node->safe_psql('postgres', "SELECT pg_terminate_backend($supervisor)"); }
	my $next = wait_ready($pid);
	ok($next, "$way: another worker after the end of the supervisor");
	isnt(supervisor_pid($node), $supervisor, "$way: another supervisor");
	$pid = $next;
	nothing_left("$way: end of the supervisor");
	agrees("$way: after the supervisor's end");
}
is(count_restarts($node), 0, 'the server never restarted by itself');

# SIGKILL of the supervisor is a crash of the server, as of any of its processes. The worker goes with it and is reaped.
my $supervisor = supervisor_pid($node);
inside("kill -KILL $supervisor", deadly => 1);
ok(wait_for_restart($node), 'SIGKILL of the supervisor restarts the server');
$pid = wait_ready($pid);
ok($pid, 'another worker comes');
nothing_left('SIGKILL of the supervisor');
agrees('after SIGKILL of the supervisor');

# The same with a worker that is stopped: only its parent's death can end it.
my $restarts = count_restarts($node);
inside("kill -STOP $pid; kill -KILL " . supervisor_pid($node), deadly => 1);
ok(wait_until(sub { count_restarts($node) > $restarts }), 'SIGKILL of the supervisor of a stopped worker restarts the server');
$pid = wait_ready($pid);
ok($pid, 'another worker comes');
nothing_left('SIGKILL of the supervisor of a stopped worker');
agrees('after that');
note(count_restarts($node) . ' restarts after two SIGKILLs of a supervisor');
cmp_ok(count_restarts($node), '<=', 4, 'restarts end');
check_index($node, 'i');
check_resources($node, $resources, %ours);
check_all($node); # no other code stops this server

# A stop ends all processes.
my $host_pid = host_pid(1);
inside('kill -INT 1', deadly => 1);
ok(wait_gone($host_pid), 'a fast shutdown ends process 1, and with it the namespace');
eval { IPC::Run::finish($server) };
done_testing();
