# Helpers of the TAP tests about the worker process: who runs, waiting for it, clients that check every answer.
package VectorgpuWorker;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
  worker_file worker_pid supervisor_pid worker_stat wait_worker wait_gone start_after_kill wait_log count_restarts scan_sql
  make_answers start_clients finish_clients timed
);

# The installed executable.
sub worker_file
{
	my ($node) = @_;
	my ($folder) = split /\n/, `'@{[ $node->config_data('--bindir') ]}/pg_config' --pkglibdir`;

	return "$folder/vectorgpu_worker";
}

sub worker_stat
{
	my ($node, $column) = @_;
	my $value = $node->safe_psql('postgres', "SELECT $column FROM vectorgpu_worker");

	return $value eq '' ? undef : $value;
}

sub worker_pid { return worker_stat($_[0], 'pid'); }
sub supervisor_pid { return worker_stat($_[0], 'supervisor_pid'); }

sub scan_sql
{
	return 'SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1) LIMIT 5) s';
}

# Waits until a worker is ready; scans meanwhile, since that is what asks for one.
#   other_than  a supervisor that it must not be
sub wait_worker
{
	my ($node, $seconds, $other_than) = @_;
	my $until = time() + ($seconds // 20);

	while (time() < $until)
	{
		my $row = $node->safe_psql('postgres', 'SELECT ready, supervisor_pid FROM vectorgpu_worker');
		return 1 if $row =~ /^t\|(\d+)$/ && (!defined $other_than || $1 != $other_than);
		$node->safe_psql('postgres', scan_sql());
		sleep 0.1;
	}
	return 0;
}

# True if there is no such process, or one that only waits for being reaped.
sub is_gone
{
	my ($pid) = @_;

	return 1 unless kill(0, $pid);
	open(my $file, '<', "/proc/$pid/stat") or return 1;
	my $line = <$file> // '';
	close $file;
	return $line eq '' || $line =~ /\) [ZX] / ? 1 : 0;
}

# Waits until a process has ended. False if it does not.
sub wait_gone
{
	my ($pid, $seconds) = @_;
	my $until = time() + ($seconds // 15);

	while (!is_gone($pid))
	{
		return 0 if time() > $until;
		sleep 0.02;
	}
	return 1;
}

# Starts a server whose postmaster has been killed: possible once its processes are gone.
sub start_after_kill
{
	my ($node) = @_;
	my $until = time() + 60;

	for (;;)
	{
		$node->{_pid} = undef; # a failed start reads it from the old file
		last if $node->start(fail_ok => 1);
		die 'the server does not start' if time() > $until;
		sleep 0.2;
	}
	return;
}

sub wait_log
{
	my ($node, $pattern, $offset, $seconds) = @_;
	my $until = time() + ($seconds // 20);

	while (time() < $until)
	{
		return 1 if slurp_file($node->logfile, $offset // 0) =~ $pattern;
		sleep 0.1;
	}
	return 0;
}

# How often the server has restarted because one of its processes died.
sub count_restarts
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);

	return scalar(() = $log =~ /reinitializing/g);
}

# Table `answers`: for queries 1 .. n (rows of table t), the ids of the 10 nearest rows, found by sequential scan.
sub make_answers
{
	my ($node, $n, $db) = @_;

	$node->safe_psql($db // 'postgres', <<"SQL");
SET enable_indexscan = off;
DROP TABLE IF EXISTS answers;
CREATE TABLE answers (q int PRIMARY KEY, ids bigint[]);
INSERT INTO answers SELECT q, ARRAY(SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = q), ctid LIMIT 10)
	FROM generate_series(1, $n) q;
SQL
	return;
}

# Starts pgbench clients that compare every answer with table `answers`: a wrong one is an error to them.
#   clients, seconds, queries, options (settings as -c name=value)
sub start_clients
{
	my ($node, %opt) = @_;
	my $queries = $opt{queries} // 20;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/check.sql';
	my $options = '-c enable_seqscan=off -c enable_sort=off ' . ($opt{options} // '');

	append_to_file($script, <<"SQL");
\\set q random(1, $queries)
SELECT 1 / (ARRAY(SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = :q) LIMIT 10) = (SELECT ids FROM answers WHERE q = :q))::int;
SQL

	my %run = (out => '', err => '');
	local $ENV{PGOPTIONS} = $options;
	$run{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-f', $script, '-c', $opt{clients} // 8, '-j', 2, '-T', $opt{seconds} // 10,
			'-h', $node->host, '-p', $node->port, '-U', scalar(getpwuid($<)), $opt{db} // 'postgres' ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err}, IPC::Run::timeout(($opt{seconds} // 10) + 120));
	return \%run;
}

# Waits for the clients. Returns (transactions, text of what went wrong).
sub finish_clients
{
	my ($run) = @_;

	IPC::Run::finish($run->{handle});
	my ($done) = $run->{out} =~ /number of transactions actually processed: (\d+)/;
	my ($failed) = $run->{out} =~ /number of failed transactions: (\d+)/;
	my $wrong = IPC::Run::result($run->{handle}) != 0 ? "exit status, $run->{err}" : '';

	$wrong .= "$failed failed transactions: $run->{err}" if $failed;
	$wrong .= $run->{err} if $run->{err} =~ /error|aborted/i;
	return ($done // 0, $wrong);
}

# Seconds that a statement takes.
sub timed
{
	my ($node, $sql, $db) = @_;
	my $start = time();

	$node->safe_psql($db // 'postgres', $sql);
	return time() - $start;
}

1;
