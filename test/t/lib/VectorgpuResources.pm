# What a server with a worker holds: processes, descriptors, memory, sockets. A test notes them when the worker is ready and
# compares at its end, when its sessions are closed: nothing that was done between may have left anything behind.
package VectorgpuResources;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuWorker;

our @EXPORT = qw(note_resources check_resources check_stopped);

my $spare_fds = 2;
my $spare_kb = 16 * 1024;    # what an allocator keeps: per thread, not per request

# Open descriptors of a process, sorted by what they are: "socket:[1]" counts as socket.
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

# A worker that serves nobody but its supervisor and the one who asks; undef while it serves more.
sub quiet_worker
{
	my ($node) = @_;
	my $pid = wait_worker($node) or return undef;
	my $row = $node->safe_psql('postgres', 'SELECT sessions, pid, supervisor_pid, coalesce(resident_bytes, 0) FROM vectorgpu_worker');
	my ($sessions, $worker, $supervisor, $resident) = split /\|/, $row;

	return undef if $sessions eq '' || $sessions > 2;
	# The one who asked has left, and the worker may not have noticed yet: its descriptors count as spare ones.
	return {
		worker => $worker,
		supervisor => $supervisor,
		worker_fds => descriptors($worker),
		supervisor_fds => descriptors($supervisor),
		supervisor_kb => backend_memory_kb($supervisor),
		worker_kb => backend_memory_kb($worker) - $resident / 1024 };
}

# To be given to check_resources.
sub note_resources
{
	my ($node) = @_;

	return wait_until(sub { quiet_worker($node) }) // die 'the worker does not come to rest';
}

# Four tests: worker and supervisor hold no more than they did (or, if they are others now, than the earlier ones did), there
# is one socket, and no loader is left.
sub check_resources
{
	my ($node, $before, %opt) = @_;
	my $same = 0;
	my $now;
	my $at_rest = wait_until(sub {
		$now = quiet_worker($node) // return 0;
		return total($now->{worker_fds}) <= total($before->{worker_fds}) + 3 * $spare_fds
		  && total($now->{supervisor_fds}) <= total($before->{supervisor_fds}) + $spare_fds;
	}, $opt{seconds});

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($at_rest, 'worker and supervisor hold no more descriptors than at first')
	  or diag('worker: ' . describe($before->{worker_fds}) . '; now ' . describe($now->{worker_fds}) . "\nsupervisor: "
		  . describe($before->{supervisor_fds}) . '; now ' . describe($now->{supervisor_fds}));
	cmp_ok($now->{supervisor_kb}, '<', $before->{supervisor_kb} + $spare_kb,
		"the supervisor's memory has not grown ($before->{supervisor_kb} kB at first)");
	cmp_ok($now->{worker_kb}, '<', $before->{worker_kb} + ($opt{worker_kb} // 4 * $spare_kb),
		sprintf('nor has the worker\'s beside its copies (%d kB at first)', $before->{worker_kb}));
	is(scalar(my @sockets = glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*')), 1, 'there is one socket');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'vectorgpu loader'"),
		'no loader is left');
	return;
}

# Processes that work in a folder.
sub processes_in
{
	my ($folder) = @_;

	return grep { (readlink("$_/cwd") // '') eq $folder } glob('/proc/[0-9]*');
}

# One test: when the server has stopped, none of its processes is left, the worker included.
sub check_stopped
{
	my ($node, $mode) = @_;
	my $folder = $node->data_dir;

	$node->stop($mode // 'fast');
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_until(sub { !processes_in($folder) }), 'no process is left when the server has stopped')
	  or diag(join "\n", map { my $line = slurp_file("$_/cmdline"); "$_ $line" } processes_in($folder));
	return;
}

1;
