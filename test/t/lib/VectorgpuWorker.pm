# Helpers of the TAP tests about the worker process: its state, waiting for it, clients that check every answer.
package VectorgpuWorker;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuCount;

our @EXPORT = qw(
  worker_file worker_pid supervisor_pid worker_stat wait_worker wait_until wait_gone wait_log count_restarts scan_sql
  replace_file wrap_worker kill_worker by_worker make_answers start_clients finish_clients soon watch_waits count_waits
);

# A wait usually ends soon, but may take long on a busy machine: every wait is a poll with this limit, which only a failing test
# reaches.
my $patience = $PostgreSQL::Test::Utils::timeout_default;

# The installed executable.
sub worker_file
{
	my ($node) = @_;
	my ($folder) = split /\n/, `'@{[ $node->config_data('--bindir') ]}/pg_config' --pkglibdir`;

	return "$folder/vectorgpu_worker";
}

# A concurrent reader sees either the old or the new file.
sub replace_file
{
	my ($path, $content) = @_;

	open(my $file, '>', "$path.new") or die "$path.new: $!";
	print $file $content;
	close $file;
	rename "$path.new", $path or die "$path: $!";
	return;
}

# From now on a shell starts the node's workers, after a reload. Returns a function that sets commands for the shell of later workers, such as
# 'export NAME=value'.
sub wrap_worker
{
	my ($node) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my ($program, $before, $file) = ("$folder/program", "$folder/before", worker_file($node));
	my $set = sub { replace_file($before, "$_[0]\n"); };

	append_to_file($program, "#!/bin/sh\n. '$before'\nexec '$file' \"\$@\"\n");
	chmod 0755, $program;
	$set->('');
	$node->append_conf('postgresql.conf', "vectorgpu.worker_program = '$program'\n");
	return $set;
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
	my ($op) = @_;

	$op //= '<->';
	return "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v $op (SELECT v FROM t WHERE id = 1) LIMIT 5) s";
}

# Polls until CODE returns a true value; returns it, or the last value at the time limit. If CODE dies (such as while the server
# restarts) this counts as false.
sub wait_until
{
	my ($code, $seconds) = @_;
	my $until = time() + ($seconds // $patience);

	for (;;)
	{
		my $value = eval { $code->() };

		return $value if $value;
		if (time() > $until)
		{
			diag("waited in vain: $@") if $@;
			return $value;
		}
		sleep 0.1;
	}
}

# Waits until a living worker is ready; scans meanwhile, since scans request a worker. Returns its process id.
#   not_pid, not_supervisor  processes that the worker and its supervisor must not be
sub wait_worker
{
	my ($node, %opt) = @_;

	return wait_until(sub {
		my ($rc, $row) = $node->psql('postgres', 'SELECT ready, pid, supervisor_pid FROM vectorgpu_worker');

		my ($ready, $pid, $supervisor) = split /\|/, $row // '';

		# A worker that was just killed may still be in the view.
		return $pid
		  if $rc == 0 && $ready eq 't' && $pid ne '' && !is_gone($pid) && $pid != ($opt{not_pid} // 0)
		  && $supervisor != ($opt{not_supervisor} // 0);
		$node->psql('postgres', scan_sql());
		return 0;
	});
}

# One test: the worker answers CODE, which compares answers and may add tests of its own. A scan that finds the worker
# slow rightly answers from the pages, so CODE runs again until the worker has answered.
sub by_worker
{
	my ($node, $name, $code) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(wait_until(sub {
		my $before = worker_stat($node, 'answered');

		$code->();
		return worker_stat($node, 'answered') > $before;
	}), "$name: by the worker");
}

# Ends the worker, if there is one, and waits for its end.
sub kill_worker
{
	my ($node) = @_;
	my $pid = worker_pid($node);

	return if !defined $pid;
	kill 'KILL', $pid;
	wait_gone($pid);
	return;
}

# True if there is no such process, or only a zombie.
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

	return wait_until(sub { is_gone($pid) }, $seconds);
}

# Waits for a line in the server's log after an offset.
sub wait_log
{
	my ($node, $pattern, $offset) = @_;

	return wait_until(sub { slurp_file($node->logfile, $offset // 0) =~ $pattern });
}

# How often the server has restarted because one of its processes died.
sub count_restarts
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);

	return scalar(() = $log =~ /reinitializing/g);
}

# Table `answers`: for queries 1 .. n (rows of table t), the ids of the 10 nearest rows by an operator (<->), found by sequential scan.
sub make_answers
{
	my ($node, $n, $db, $op) = @_;

	$op //= '<->';

	$node->safe_psql($db // 'postgres', <<"SQL");
SET enable_indexscan = off;
DROP TABLE IF EXISTS answers;
CREATE TABLE answers (q int PRIMARY KEY, ids bigint[]);
INSERT INTO answers SELECT q, ARRAY(SELECT id FROM t ORDER BY v $op (SELECT v FROM t WHERE id = q), ctid LIMIT 10)
	FROM generate_series(1, $n) q;
SQL
	return;
}

my $n_clients = 0;

# Starts pgbench clients that compare every answer with table `answers`: a wrong answer is an error of the client.
#   clients, seconds, queries, options (settings as -c name=value), op (<->)
#   watched  1: use watched_scan (watch_waits)
#   extra    more arguments of pgbench, such as -C for a new session for each scan
sub start_clients
{
	my ($node, %opt) = @_;
	my $queries = $opt{queries} // 20;
	my $op = $opt{op} // '<->';
	my $is_right = $opt{watched} ? 'watched_scan(:q)'
	  : "ARRAY(SELECT id FROM t ORDER BY v $op (SELECT v FROM t WHERE id = :q) LIMIT 10) = (SELECT ids FROM answers WHERE q = :q)";
	my $script = PostgreSQL::Test::Utils::tempdir() . '/check.sql';
	my $options = '-c enable_seqscan=off -c enable_sort=off ' . ($opt{options} // '');

	append_to_file($script, <<"SQL");
\\set q random(1, $queries)
SELECT 1 / ($is_right)::int;
SQL

	# To files: of two runs beside each other by pipes, the second was waited for in vain with Perl 5.38.
	my $files = PostgreSQL::Test::Utils::tempdir() . '/clients' . $n_clients++;
	my %run = (files => $files);
	local $ENV{PGOPTIONS} = $options;
	$run{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-f', $script, '-c', $opt{clients} // 8, '-j', 2, '-T', $opt{seconds} // 10, @{ $opt{extra} // [] },
			'-h', $node->host, '-p', $node->port, '-U', scalar(getpwuid($<)), $opt{db} // 'postgres' ],
		'<', \undef, '>', "$files.out", '2>', "$files.err", IPC::Run::timeout(($opt{seconds} // 10) + $patience));
	return \%run;
}

# Waits for the clients. Returns (transactions, text of errors).
sub finish_clients
{
	my ($run) = @_;

	IPC::Run::finish($run->{handle});
	$run->{$_} = slurp_file("$run->{files}.$_") for qw(out err);
	my ($done) = $run->{out} =~ /number of transactions actually processed: (\d+)/;
	my ($failed) = $run->{out} =~ /number of failed transactions: (\d+)/;
	my $wrong = IPC::Run::result($run->{handle}) != 0 ? "exit status, $run->{err}" : '';

	$wrong .= "$failed failed transactions: $run->{err}" if $failed;
	$wrong .= $run->{err} if $run->{err} =~ /error|aborted/i;
	# A wrong answer is a division by zero: see start_clients.
	my $n_wrong = () = $run->{err} =~ /division by zero/g;
	count('answers', ($done // 0) + $n_wrong);
	count('wrong', $n_wrong);
	return ($done // 0, $wrong);
}

# Creates watched_scan(q): whether the answer to a query is that of table `answers`; table `watched` has how long each such scan took. For count_waits.
sub watch_waits
{
	my ($node, $op) = @_;

	$op //= '<->';
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE watched (seconds float8);
CREATE FUNCTION watched_scan(query int) RETURNS bool LANGUAGE plpgsql AS \$\$
DECLARE
	began timestamptz := clock_timestamp();
	found bigint[];
BEGIN
	EXECUTE format('SELECT ARRAY(SELECT id FROM t ORDER BY v $op (SELECT v FROM t WHERE id = %s) LIMIT 10)', query) INTO found;
	INSERT INTO watched VALUES (extract(epoch FROM clock_timestamp() - began));
	RETURN found = (SELECT ids FROM answers WHERE q = query);
END \$\$;
SQL
	return;
}

# For the scans by watched_scan since the last call: their number, and how many took at least this long.
sub count_waits
{
	my ($node, $seconds) = @_;
	my ($n, $waits) = split /\|/, $node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE seconds >= $seconds) FROM watched");

	$node->safe_psql('postgres', 'TRUNCATE watched');
	return ($n, $waits);
}

# One test: in the best of several tries a statement takes less than this many seconds more than an idle session. A statement that waits for a
# process that does not answer takes longer in each try; delays by a busy machine do not occur in each. PREPARE runs before each try.
sub soon
{
	my ($node, $seconds, $name, $sql, %opt) = @_;
	my $best;

	for (1 .. 10)
	{
		$opt{prepare}->() if defined $opt{prepare};
		my $begin = time();
		$node->safe_psql($opt{db} // 'postgres', 'SELECT 1');
		my $start = time();
		$node->safe_psql($opt{db} // 'postgres', $sql);
		my $took = time() - $start - ($start - $begin);

		$best = $took if !defined $best || $took < $best;
		last if $best < $seconds;
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($best < $seconds, sprintf('%s: in time (%.2f s)', $name, $best));
}

1;
