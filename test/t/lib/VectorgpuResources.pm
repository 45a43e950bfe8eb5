# Resources of a server with a worker: processes, descriptors, memory, sockets. A test notes them when the worker is ready and
# compares at its end, when its sessions are closed: the test must not have left any behind.
package VectorgpuResources;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuWorker;

our @EXPORT = qw(note_resources check_resources check_stopped left_behind);

my $spare_fds = 2;
my $spare_kb  = 16 * 1024;    # what an allocator keeps, not per request,
my $thread_kb = 1024;         # and for each of the worker's threads

# Open descriptors of a process by kind: "socket:[1]" counts as socket.
sub descriptors
{
	my ($pid) = @_;
	my %n;

	for my $fd (glob("/proc/$pid/fd/*"))
	{
		my $what = readlink $fd // next;
		$what =~ s/:?\[\d+\]$//;
		$what = 'memfd' if $what =~ /^\/memfd:/;
		$n{$what}++;
	}
	return \%n;
}

sub total { my ($n) = @_; my $sum = 0; $sum += $_ for values %$n; return $sum; }

sub describe { my ($n) = @_; return join ', ', map { "$n->{$_} $_" } sort keys %$n; }

# Entries of /dev/shm that are ours: by name, or because one of the processes has them open or mapped. There are none, since slots and doorbells are
# anonymous memory (memfd). PostgreSQL's own are PostgreSQL.NUMBER, and the supervisor has those like any process of a server.
sub shared_memory
{
	my (@pids) = @_;
	my %ours = map { $_ => 1 } grep { /vectorgpu/i } glob('/dev/shm/*');

	for my $pid (@pids)
	{
		my $maps = eval { slurp_file("/proc/$pid/maps") } // '';

		$ours{$_} = 1 for grep { m{^/dev/shm/} } map({ readlink($_) // '' } glob("/proc/$pid/fd/*")), $maps =~ m{(/dev/shm/.*)$}mg;
	}
	return grep { !m{^/dev/shm/PostgreSQL\.\d+} } sort keys %ours;
}

# A worker that serves only its supervisor and the asking session; undef while it serves more.
#   ready     waits for a worker that is ready; default: wait_worker
#   host_pid  maps process ids of the view to this process's PID namespace, if the server has its own
sub quiet_worker
{
	my ($node, %opt) = @_;
	my $pid = ($opt{ready} // \&wait_worker)->($node) or return undef;
	my $row = $node->safe_psql('postgres', 'SELECT sessions, pid, supervisor_pid, coalesce(resident_bytes, 0) FROM vectorgpu_worker');
	my ($sessions, $worker, $supervisor, $resident) = split /\|/, $row;

	return undef if $sessions eq '' || $sessions > 2;
	($worker, $supervisor) = map { $opt{host_pid}->($_) } $worker, $supervisor if defined $opt{host_pid};
	# The asking session has closed, and the worker may not have noticed yet: its descriptors count as spare ones.
	return {
		worker => $worker,
		supervisor => $supervisor,
		worker_fds => descriptors($worker),
		supervisor_fds => descriptors($supervisor),
		shared_memory => [ shared_memory($worker, $supervisor) ],
		supervisor_kb => backend_memory_kb($supervisor),
		worker_kb => backend_memory_kb($worker) - $resident / 1024,
		worker_threads => scalar(my @tasks = glob("/proc/$worker/task/*")) };
}

# Argument of check_resources.
sub note_resources
{
	my ($node, %opt) = @_;

	return wait_until(sub { quiet_worker($node, %opt) }) // die 'the worker does not come to rest';
}

# Six tests: worker and supervisor hold no more than before (or, if they are new processes, than the earlier ones), there is
# one socket and no named shared memory, and no loader is left.
#   seconds    limit of the wait for that
#   worker_kb  allowed growth of the worker's memory apart from its copies
#   ready, host_pid  see quiet_worker
sub check_resources
{
	my ($node, $before, %opt) = @_;
	my $same = 0;
	my $now;
	my $at_rest = wait_until(sub {
		$now = quiet_worker($node, %opt) // return 0;
		return total($now->{worker_fds}) <= total($before->{worker_fds}) + 3 * $spare_fds
		  && total($now->{supervisor_fds}) <= total($before->{supervisor_fds}) + $spare_fds;
	}, $opt{seconds});

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($at_rest, 'worker and supervisor hold no more descriptors than at first')
	  or diag('worker: ' . describe($before->{worker_fds}) . '; now ' . describe($now->{worker_fds}) . "\nsupervisor: "
		  . describe($before->{supervisor_fds}) . '; now ' . describe($now->{supervisor_fds}));
	cmp_ok($now->{supervisor_kb}, '<', $before->{supervisor_kb} + $spare_kb + kept_memory_kb(),
		"the supervisor's memory has not grown ($before->{supervisor_kb} kB at first)");
	cmp_ok($now->{worker_kb}, '<', $before->{worker_kb} + ($opt{worker_kb} // 4 * $spare_kb) + $thread_kb * $now->{worker_threads},
		sprintf('nor has the worker\'s beside its copies (%d kB at first)', $before->{worker_kb}));
	is(scalar(my @sockets = glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*')), 1, 'there is one socket');
	is("@{ $now->{shared_memory} }", '', 'there is no shared memory of ours in /dev/shm');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'vectorgpu loader'"),
		'no loader is left');
	return;
}

# Processes with this working directory.
sub processes_in
{
	my ($folder) = @_;

	return grep { (readlink("$_/cwd") // '') eq $folder } glob('/proc/[0-9]*');
}

# Stops the server; returns its leftovers: processes, including the worker, and named shared memory.
sub left_behind
{
	my ($node, $mode) = @_;
	my $folder = $node->data_dir;

	$node->stop($mode // 'fast');
	wait_until(sub { !processes_in($folder) });
	return (map({ my $line = slurp_file("$_/cmdline"); "$_ $line" } processes_in($folder)), shared_memory());
}

# One test: a stopped server leaves nothing behind.
sub check_stopped
{
	my ($node, $mode) = @_;
	my @left = left_behind($node, $mode);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(!@left, 'no process is left when the server has stopped') or diag(join "\n", @left);
	return;
}

1;
