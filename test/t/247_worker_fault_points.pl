# Every fault point on the server's side of the worker, at its n-th call, for n = 1, 2, ... until the log says that it did not act any more:
# failures between server and worker never reach the client; after a deliberate error session, lease and copy are in a state that gives right
# answers. For access methods that use the worker like gpuflat the quick suite stops at the first call. VECTORGPU_LONG=1: every call for
# them too, and a backend that ends there as by a crash.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuFaults;
use VectorgpuLoad;
use VectorgpuMatch;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.auto_merge = off\nvectorgpu.worker_timeout = 60s\nrestart_after_crash = on\n");
my $long = $ENV{VECTORGPU_LONG};

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
plan skip_all => 'built without FAULTS=1' unless faults_enabled($node);
create_values($node);
$node->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int, v ' . column_type(8) . ')');
fill_values($node, 't', dims => 8, rows => 400);
$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v $CLASS" . (of_match() ? ')' : ', category)'));
fill_values($node, 't', dims => 8, rows => 50, first => 1001, seed => 2);
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);
make_answers($node, 3, undef, $OP);

# Points of the supervisor, of the loader and of parallel searches are below.
my @points = grep { !/^(?:supervisor_|worker_pipe|worker_fork|loader_slice|sweep|many_)/ } faults_required();
cmp_ok(scalar @points, '>', 5, scalar(@points) . ' fault points of sessions');
my $first_only = $AM ne 'gpuflat' && !$long;
my $most_calls = 1000;      # of one point in one course: none has as many
# Timing decides whether a process waits, or a copy is loaded in the background.
sub tries { my ($point) = @_; return $point eq 'loader_register' ? 6 : !$long ? 1 : $point eq 'bridge_wait' ? 10 : 3 }
my $right = join ';', map {
	"SELECT ARRAY(SELECT id FROM t ORDER BY v $OP (SELECT v FROM t WHERE id = $_) LIMIT 10) = (SELECT ids FROM answers WHERE q = $_)"
} 1 .. 3;

# A value that is far from all others.
sub far_value { my ($n) = @_; return of_match() ? "ARRAY[100000 + $n]" : "array_fill(100 + $n, ARRAY[8])::vector"; }

# A session that reloads the copy (with tombstones), adds rows that are not in the copy, and scans. These rows are far away.
sub course
{
	my ($point, $n, $action, $before) = @_;
	my $far = far_value($n);

	$before //= '';

	return <<"SQL";
SELECT count(vectorgpu_evict('i')) AS evicted;
\\c -
$before
SET enable_seqscan = off;
SET enable_sort = off;
SET vectorgpu.spin_time_us = 0;
SET vectorgpu.fault = '$point:$n:$action';
$right;
INSERT INTO t VALUES (-$n, 0, $far);
$right;
RESET vectorgpu.spin_time_us;
SET vectorgpu.inline_load_size = 0;
DO \$\$ BEGIN PERFORM vectorgpu_evict('i'); EXCEPTION WHEN OTHERS THEN NULL; END \$\$;
$right;
DELETE FROM t WHERE id < 0;
RESET vectorgpu.fault;
$right;
SQL
}

# The same session after the worker's greeting: the worker is stopped until the point has acted. Otherwise no process might wait, and a session without a
# greeting asks nothing.
sub waiting_course
{
	my ($point, $n, $action, $offset) = @_;
	my $worker = wait_worker($node);
	my $connect = "SELECT count(vectorgpu_evict('i')) AS connected;\n";
	my $child = fork // die "fork: $!";

	if ($child == 0)
	{
		# Without END blocks.
		for (1 .. 100) { last if fault_acted($node, $point, $n, $offset); sleep 0.1; }
		kill 'CONT', $worker;
		POSIX::_exit(0);
	}
	my @result = $node->psql('postgres', course($point, $n, $action, "$connect\\! kill -STOP $worker"), on_error_stop => 0);
	waitpid $child, 0;
	return @result;
}

$node->safe_psql('postgres', 'INSERT INTO t SELECT -1000 - i, 0, ' . far_value(500) . ' FROM generate_series(1, 10) i');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id < -1000; VACUUM t');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 399; VACUUM t');
make_answers($node, 3, undef, $OP);
for my $point (@points)
{
	for my $action (qw(corrupt error enomem))
	{
		my $problems = '';
		my $try = sub {
			my ($n) = @_;
			my $offset = -s $node->logfile;
			my ($rc, $out, $err) = $point eq 'bridge_wait' && $n == 1 ? waiting_course($point, $n, $action, $offset)
			  : $node->psql('postgres', course($point, $n, $action), on_error_stop => 0);
			my $errors = () = $err =~ /ERROR:/g;
			my $n_right = () = $out =~ /^t$/mg;
			my $n_wrong = () = $out =~ /^f$/mg;

			$problems .= "call $n: $n_wrong wrong answers; " if $n_wrong > 0;
			# An error that the DO block has caught was the fault as well.
			$problems .= "call $n: $errors errors: $err; " if $errors > ($action eq 'corrupt' ? 0 : 1);
			$problems .= "call $n: $n_right of 12 answers; " if $n_right < 12 - $errors;
			return fault_acted($node, $point, $n, $offset);
		};
		my ($last, $unbounded) = $first_only ? (0, '') : calls_until_clean($try, most => $most_calls, tries => tries($point));

		for (1 .. $first_only ? tries($point) : 0) { last if $last = $try->(1); }

		is($problems . $unbounded, '', "$point, $action: right answers" . ($last ? " (up to call $last)" : ''));
	}
}

# Many searches in one request, which make a graph of nearest neighbours.
if (!of_match())
{
	my $graph = q{SELECT md5(string_agg(k::text, ',' ORDER BY k::text)) FROM vectorgpu_knn_graph('i', 3) k};
	my $known = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $graph");

	for my $action (qw(corrupt error enomem))
	{
		my $problems = '';
		my $try = sub {
			my ($n) = @_;
			my $offset = -s $node->logfile;
			my ($rc, $out, $err, $acted);

			# On a busy machine the worker's answer may be too late: then pages are searched.
			for (1 .. ($n <= 2 ? 5 : 1))
			{
				($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = 'many_receive:$n:$action'; $graph");
				$acted = fault_acted($node, 'many_receive', $n, $offset);
				last if $acted || "$rc$out" ne "0$known";
			}
			my $answer = $err =~ /ERROR: +(.*)/ ? $1 : $out;

			$problems .= "call $n: $answer; " if $answer ne ($acted ? { corrupt => $known, error => 'fault point "many_receive" reached', enomem => 'out of memory' }->{$action} : $known);
			$problems .= "then $answer; " if ($answer = $node->safe_psql('postgres', $graph)) ne $known;
			return $acted;
		};
		my ($last, $unbounded) = $long ? calls_until_clean($try, most => 5000) : (scalar(grep { $try->($_) } 1, 2), '');

		is($problems . $unbounded, '', "many_receive, $action: the graph is right, or the error is the fault's, and then it is right (calls that acted: $last)");
		cmp_ok($last, '>=', 2, "many_receive, $action: it was reached");
	}
}

# A backend that ends at the point, as by a crash: the server restarts, and later answers are right.
my $exits = 0;
for my $point ($long ? @points : ())
{
	my $problems = '';
	my $try = sub {
		my ($n) = @_;
		my $offset = -s $node->logfile;
		my ($rc, $out, $err) = $node->psql('postgres', course($point, $n, 'exit'), on_error_stop => 0);
		my $acted = fault_acted($node, $point, $n, $offset);

		$problems .= "call $n: wrong answers; " if $out =~ /^f$/m;
		$problems .= "call $n: $err; " if !$acted && $err ne '';
		return 0 if !$acted;
		$exits++;
		wait_for_restart($node) or die 'the server does not come back';
		$problems .= "call $n: no worker; " if !wait_worker($node);
		($rc, $out, $err) = $node->psql('postgres', "DELETE FROM t WHERE id < 0; SET enable_seqscan = off; SET enable_sort = off; $right");
		$problems .= "call $n, then: $out $err; " if "$out$err" ne "t\nt\nt";
		return 1;
	};
	my ($last, $unbounded) = calls_until_clean($try, most => $most_calls, tries => tries($point));

	is($problems . $unbounded, '', "$point, exit: right answers afterwards" . ($last ? " (up to call $last)" : ''));
}

# A module that is loaded by first use has to request a supervisor. The next request is ten seconds later: see the end.
my $late;
if ($AM eq 'gpuflat')
{
	$late = make_node('late', conf => "vectorgpu.worker_min_size = 0\n");
	make_table($late, 't', dims => 8);
	fill_vectors($late, 't', dims => 8, rows => 100);
	$late->safe_psql('postgres', "SET vectorgpu.worker = off; CREATE INDEX i ON t USING $AM (v vector_l2_ops)");
	make_answers($late, 3);
	my ($rc, $out, $err) = $late->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'supervisor_register:1:corrupt'; SET enable_seqscan = off; SET enable_sort = off; $right");

	is("$rc $err " . join(',', split /\n/, $out), '0  t,t,t', 'no slot for a supervisor: right answers');
	is($late->safe_psql('postgres', "SELECT (fallback_reasons ->> 'not_running')::int > 0 FROM vectorgpu_worker"), 't', 'no slot for a supervisor: counted');
}

# Points of the supervisor and of the loader. A supervisor's calls have no end: the first few.
# loader_slice at the end: the error of loader_register has left the loader's place taken for half a minute.
my @background = qw(sweep:1:error worker_pipe:1:corrupt worker_fork:1:corrupt bridge_connect:1:error loader_slice:1:error);
@background = (
	map({ my $n = $_; map { "sweep:$n:$_" } qw(error enomem) } 1 .. 3), map({ my $n = $_; map { ("worker_pipe:$n:$_", "worker_fork:$n:$_") } qw(corrupt error enomem) } 1 .. 3),
	map({ "loader_slice:1:$_" } qw(error enomem)), map({ "bridge_connect:1:$_" } qw(corrupt error enomem)),
	map { "$_:1:exit" } qw(sweep worker_pipe worker_fork loader_slice bridge_connect)) if $long;
for my $setting (@background)
{
	my ($point, $n, $action) = split /:/, $setting;
	my $offset = -s $node->logfile;
	my $ask = "SET vectorgpu.fault = ''; SET vectorgpu.inline_load_size = 0; SET enable_seqscan = off; SET enable_sort = off; $right";

	# The supervisor may reach the point before these sessions have their answer; if it ends there, they end too.
	$node->psql('postgres', "ALTER SYSTEM SET vectorgpu.fault = '$setting'; SELECT pg_reload_conf()", on_error_die => $action ne 'exit');
	# A supervisor that ends begins again after five seconds; another worker, without copies, is there at once.
	if (!$long && $point =~ /^(?:worker_|loader_)/) { kill_worker($node); }
	else { $node->psql('postgres', "SET vectorgpu.fault = ''; SELECT pg_terminate_backend(supervisor_pid) FROM vectorgpu_worker", on_error_die => $action ne 'exit'); }
	if ($action ne 'exit')
	{
		my ($rc, $out, $err) = $node->psql('postgres', $ask);
		is("$rc $err " . join(',', split /\n/, $out), '0  t,t,t', "$setting in the background: right answers");
	}
	ok(wait_until(sub {
		$node->psql('postgres', $ask);
		# Another worker, another load, a removed file: the processes may not have read the setting yet.
		if (($n > 1 || !$long) && $point =~ /^worker_/) { my $pid = worker_pid($node); kill 'KILL', $pid if $pid; }
		$node->psql('postgres', "SET vectorgpu.fault = ''; SELECT vectorgpu_evict('i')") if !$long && $point =~ /^loader_/;
		$node->psql('postgres', "SET vectorgpu.fault = ''; CREATE TABLE gone (LIKE t); CREATE INDEX ON gone USING $AM (v $CLASS); DROP TABLE gone") if $n > 1 && $point eq 'sweep';
		return fault_acted($node, $point, $n, $offset);
	}), "$setting in the background: it was reached");
	# If the supervisor ends at each start, there is no time for SQL.
	if ($action eq 'exit')
	{
		$node->append_conf('postgresql.auto.conf', "vectorgpu.fault = ''\n");
		$node->reload;
	}
	ok($action ne 'exit' || wait_for_restart($node), "$setting in the background: the server is there");
	ok(wait_until(sub { $node->safe_psql('postgres', "SET vectorgpu.fault = ''; ALTER SYSTEM RESET vectorgpu.fault; SELECT pg_reload_conf()"); 1 }), "$setting: is reset");
	ok(wait_worker($node), "$setting: there is a worker afterwards");
	# It may have ended another process before it was reset.
	$exits = count_restarts($node) if $action eq 'exit';
}
answers_equal($node, 't', dims => 8, op => $OP, type => $CAST, name => 'scans agree at last');
ok(wait_until(sub {
	$node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $right"); # it brings the copy
	return $node->safe_psql('postgres', "SELECT cache_rows_checked > 0 FROM vectorgpu_check('i', true, true)") eq 't';
}), 'the copy equals the pages');
is(count_restarts($node), $exits, 'the server restarted for those exits only');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $resources);

if (defined $late)
{
	$late->psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $right");
	ok(wait_worker($late), 'then there is a worker');
}
check_faults_reached($node, defined $late ? $late : ());
check_stopped($node);
done_testing();
