# Builds, a merge and a k-means with the worker (255_worker_build, 256_graph_insert, 262_worker_codes), with a fault at the n-th call of each point that
# they reach, in the server and in the worker, for n = 1, 2, … until it no longer acts: an error is that of the fault and leaves the old state; if the worker
# fails, the server process does the work with the same result, and the worker does the next one again.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuFaults;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "restart_after_crash = on\nfsync = off\nautovacuum = off\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.auto_merge = off\nvectorgpu.worker_restart_delay_max = 0\nmaintenance_work_mem = 128MB\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);
plan skip_all => 'the library was built without FAULTS=1' unless faults_enabled($node);

# Rows in 20 groups, some without a value. m has a graph large enough for merges by insertion.
my $rows_of_m = 5200;

$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION point(i int) RETURNS vector LANGUAGE sql IMMUTABLE AS \$\$
	SELECT CASE WHEN i % 97 <> 0 THEN ARRAY(SELECT (sin((i % 20) * 7.3 + j * 1.7) + 0.7 * sin(i * 12.9898 + j * 78.233 + (i * j) % 977))::real FROM generate_series(1, 12) j)::vector END \$\$;
CREATE TABLE t AS SELECT i AS id, point(i)::vector(12) AS v FROM generate_series(1, 1500) i;
CREATE TABLE m AS SELECT i AS id, point(i)::vector(12) AS v FROM generate_series(1, $rows_of_m) i;
CREATE INDEX m_g ON m USING gpugraph (v vector_l2_ops);
SQL
ok(wait_worker($node), 'the worker is ready');

# A digest of an index's rows, or of the clusters. From the pages only.
my $graph = sub { my ($index) = @_; return "SELECT md5(string_agg(g::text, '' ORDER BY source, rank)) FROM vectorgpu_knn_graph('$index', 4) g" };
my $narrow = 'SET vectorgpu.worker = off; SET gpuivf.probes = 3; SET gpugraph.search_width = 8';

# A few more rows in m, few enough for a merge by insertion; the graph is rebuilt before the changes are too many.
my ($n_changes, $last_of_m) = (0, $rows_of_m);

sub change_little
{
	my $anew = $n_changes++ % 8 == 7 ? "DELETE FROM m WHERE id > $rows_of_m; VACUUM (INDEX_CLEANUP on) m; REINDEX INDEX m_g; " : '';
	my $first = $last_of_m + 1;

	$last_of_m += 40;
	return "${anew}INSERT INTO m SELECT i, point(i) FROM generate_series($first, $last_of_m) i";
}

# A course: preparation, the statement, the worker's part, the check afterwards; the points of the server that it may reach, besides those of the bridge; those of the worker.
my %courses = (
	lists => {
		before => 'DROP INDEX IF EXISTS t_i',
		statement => 'CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 20)',
		worker => qr/the worker has trained.*the worker has assigned/s,
		index => 't_i',
		points => ['worker_build_rows'],
		worker_points => ['build'] },
	graph => {
		before => 'DROP INDEX IF EXISTS t_g',
		statement => 'CREATE INDEX t_g ON t USING gpugraph (v vector_l2_ops) WITH (degree = 12)',
		worker => qr/the worker has built the graph/,
		index => 't_g',
		same => 1,
		points => [qw(graph_worker_request graph_worker_wait)],
		worker_points => [qw(build build_graph)] },
	merge => {
		before => \&change_little,
		statement => q{SELECT vectorgpu_merge('m_g')},
		worker => qr/the worker has built the graph of \d+ rows by insertion/,
		index => 'm_g',
		points => [qw(graph_worker_request graph_worker_wait)],
		worker_points => [qw(build build_graph)] },
	merge_alone => {
		before => sub { return 'SET vectorgpu.worker = off; ' . change_little() },
		statement => q{SELECT vectorgpu_merge('m_g')},
		worker => qr/the graph of \d+ rows was made from one of/,
		index => 'm_g',
		alone => 1,
		points => ['graph_insert'],
		worker_points => [] },
	kmeans => {
		before => 'SELECT 1',
		statement => q{SELECT count(*) || ' clusters of ' || sum(size) FROM vectorgpu_kmeans('t', 'v', 12)},
		worker => qr/the worker has trained \d+ clusters/,
		says => qr/^12 clusters of 1485$/m,
		points => ['kmeans_worker_request'],
		worker_points => ['build'] });
my %states = (error => 'XX000', enomem => '53200', corrupt => '00000', exit => '08006');
my $most_calls = 2000;     # of one point in one course: none has as many

# Runs a course: SQLSTATE of its statement, its messages and output.
sub run_course
{
	my ($course, $setting) = @_;
	my $before = ref $course->{before} ? $course->{before}->() : $course->{before};
	my $fault = $setting eq '' ? '' : "SET vectorgpu.fault = '$setting';\n";
	my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu';\n$before;\nSET client_min_messages = debug1;\n$fault$course->{statement};\n\\echo state :SQLSTATE\n", on_error_stop => 0);
	my ($state) = $out =~ /^state (\S+)$/m;

	return ($state // '08006', $err, $out);
}

# The problem of the index or the answer, '' if none.
sub problem
{
	my ($course, $state, $out) = @_;

	return $state ne '00000' || $out =~ $course->{says} ? '' : "it says $out" if $course->{says};
	return '' if $node->safe_psql('postgres', "SELECT to_regclass('$course->{index}') IS NULL") eq 't';
	my ($rc, $checked, $err) = $node->psql('postgres', "SELECT count(vectorgpu_check('$course->{index}', true))");
	return "check: $err" if $rc != 0;
	return '' if !$course->{same} || $state ne '00000';
	my $found = $node->safe_psql('postgres', "$narrow; " . $graph->($course->{index}));
	return $found eq $course->{found} ? '' : 'another graph';
}

for my $name (sort keys %courses)
{
	my $course = $courses{$name};
	my ($state, $said, $out) = run_course($course, '');

	is("$state " . ($said =~ $course->{worker} ? '' : $said), '00000 ', "$name: the worker has its part" . ($course->{alone} ? ', or none' : ''));
	$course->{found} = $node->safe_psql('postgres', "$narrow; " . $graph->($course->{index})) if $course->{same};
	is(problem($course, $state, $out), '', "$name: what is made is sound");
}
my $resources = note_resources($node);
my ($exits, $n_tries) = (0, 0);

# The server's side.
for my $name (sort keys %courses)
{
	my $course = $courses{$name};

	for my $point (@{ $course->{points} }, $course->{alone} ? () : qw(bridge_send bridge_receive))
	{
		for my $action (qw(error enomem exit corrupt))
		{
			next if $action eq 'corrupt' && $point !~ /^bridge/;
			my $problems = '';
			my $try = sub {
				my ($n) = @_;
				my $offset = -s $node->logfile;
				my ($state, $said, $out) = run_course($course, "$point:$n:$action");
				my $acted = fault_acted($node, $point, $n, $offset);
				my $wanted = $acted ? $states{$action} : '00000';

				$n_tries++;
				if ($state eq '08006')
				{
					wait_for_restart($node) or die 'the server did not come back';
					$exits++;
				}
				$problems .= "call $n: SQLSTATE $state instead of $wanted: $said; " if $state ne $wanted;
				my $wrong = problem($course, $state, $out);
				$problems .= "call $n: $wrong; " if $wrong ne '';
				return 0 if !$acted;
				# A worker ended by a damaged session or a restart of the server is back, and does the next course.
				wait_worker($node) or $problems .= "call $n: no worker; ";
				($state, $said, $out) = run_course($course, '');
				$wrong = problem($course, $state, $out);
				$problems .= "after call $n: $state $wrong; " if "$state $wrong" ne '00000 ';
				$problems .= "after call $n: not by the worker: $said; " if $said !~ $course->{worker};
				return 1;
			};
			my ($last, $unbounded) = calls_until_clean($try, most => $most_calls, tries => $point eq 'graph_worker_wait' ? 6 : 2);

			is($problems . $unbounded, '', "$name, $point, $action: the fault's error or the same result, and then by the worker (up to call $last)");
			cmp_ok($last, '>', 0, "$name, $point, $action: it was reached") unless $point eq 'graph_worker_wait';
		}
	}
}
is(count_restarts($node), $exits, 'the server restarted for those exits only');

# The same inside the worker, which reads its faults from its environment and does not log them: if one acts, the worker does none or only a part of the work.
my $set_surroundings = wrap_worker($node);
$node->reload;
expect_crash($node, qr/vectorgpu worker \(PID \d+\) ended by signal 6\b/); # abort

sub restart_with
{
	my ($fault) = @_;

	$set_surroundings->("export VECTORGPU_WORKER_FAULT='$fault'");
	kill_worker($node);
	return wait_worker($node);
}

for my $name (sort keys %courses)
{
	my $course = $courses{$name};

	for my $point (@{ $course->{worker_points} })
	{
		for my $action (qw(exit abort error enomem))
		{
			my $problems = '';
			my $try = sub {
				my ($n) = @_;

				restart_with("$point:$n:$action") or die 'no worker';
				my $offset = -s $node->logfile;
				my ($state, $said, $out) = run_course($course, '');
				my $acted = $said !~ $course->{worker};
				my $wrong = problem($course, $state, $out);

				$n_tries++;
				$problems .= "call $n: $state $said; " if $state ne '00000';
				$problems .= "call $n: $wrong; " if $wrong ne '';
				$problems .= "call $n: it did not end; " if $acted && $action eq 'exit' && !wait_log($node, qr/vectorgpu worker \(PID \d+\) ended with status 3/, $offset);
				$problems .= "call $n: it did not end; " if $acted && $action eq 'abort' && !wait_log($node, qr/vectorgpu worker \(PID \d+\) ended by signal 6/, $offset);
				return $acted;
			};
			my ($last, $unbounded) = calls_until_clean($try, most => 200, tries => 2);

			is($problems . $unbounded, '', "$name, $point in the worker, $action: the same result (up to call $last)");
			cmp_ok($last, '>', 0, "$name, $point in the worker, $action: it was reached");
		}
	}
}
restart_with('') or die 'no worker';
for my $name (sort keys %courses)
{
	my ($state, $said, $out) = run_course($courses{$name}, '');

	is("$state " . problem($courses{$name}, $state, $out), '00000 ', "$name: in the end");
	like($said, $courses{$name}{worker}, "$name: in the end by the worker");
}
note("$n_tries faults were tried");
cmp_ok($n_tries, '>', 100, 'faults were tried');
is(count_restarts($node), $exits, 'no death of the worker restarted the server');
$node->safe_psql('postgres', 'DROP INDEX t_i, t_g');
check_resources($node, $resources);
check_stopped($node);
done_testing();
