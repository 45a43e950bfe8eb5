# Limits of the session: a storm of statement timeouts with known answers (F36), a client that goes away in the middle of a
# scan (F37), no memory left in the backend (F19), terminated and cancelled maintenance.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuMatch;

my $node = make_node('limits', conf => "fsync = off\n");
my $long = $ENV{VECTORGPU_LONG} || $AM eq 'gpuflat';    # else fewer of each: what the access methods share is the same
my $rows = $long ? 10_000 : 2_500;
my %of_table = (dims => 64, op => $OP, type => $CAST);
create_values($node);
$node->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY, category int NOT NULL, v ' . column_type(64) . ')');
fill_values($node, 't', dims => 64, rows => $rows * 0.8);
$node->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v $CLASS)");
fill_values($node, 't', dims => 64, rows => $rows * 0.2, first => $rows * 0.8 + 1);

# The order of rows for a query number, in SQL.
sub by_query { my ($number) = @_; return "v $OP test_vector($number, 64)::$CAST"; }

# F36: timeouts at any moment of a scan; whatever ends in time is right. Searches that look at few lists, or follow edges, give what they give without
# a timeout.
my $narrow = 'SET gpuivf.probes = 2; SET gpugraph.search_width = 16;';
my $index_only = 'SET enable_seqscan = off; SET enable_sort = off;';
for my $way ([ 'all rows', '', 'SET enable_indexscan = off;', ', ctid' ], $AM =~ /ivf|graph/ ? [ 'few rows', $narrow, $index_only, '' ] : ())
{
	my ($what, $width, $settings, $ties) = @$way;
	my %known = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		"$settings $width SELECT q, (SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY " . by_query('q') . "$ties LIMIT 10) s) FROM generate_series(1, 20) q");
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my ($ended, $cancelled, @wrong) = (0, 0);
	my ($slowest, $n_slow) = (0, 0);

	is(scalar keys %known, 20, "$what: answers are known");
	$session->query_safe("$index_only $width");
	for my $try (1 .. ($long ? 400 : 100))
	{
		my $q     = $try % 20 + 1;
		my $ms    = 1 + $try % 7;
		my $start = time;
		my $answer = $session->query("SET statement_timeout = '${ms}ms'; SELECT 'ids:' || string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY " . by_query($q) . ' LIMIT 10) s') // '';
		$slowest = time - $start if time - $start > $slowest;
		$n_slow++ if time - $start > 1.5;
		# The timeout holds for the statement that ends it too, which on a busy machine may be cancelled itself.
		until (($session->query("SET statement_timeout = 0; SHOW statement_timeout") // '') =~ /^0$/m) { $session->{stderr} = ''; }
		$session->{stderr} = '';
		if ($answer =~ /ids:([\d,]+)/) { $ended++; push @wrong, "$q: $1" if $1 ne $known{$q}; }
		else                           { $cancelled++; }
	}
	is("@wrong", '', "statement_timeout storm, $what: $ended answers, all right; $cancelled cancelled");
	# A few may be held up by what else the machine does.
	cmp_ok($n_slow, '<', 20, sprintf('a cancel takes effect at once (%d later than after 1.5 s, slowest %.0f ms)', $n_slow, $slowest * 1000));
	is($session->query_safe("SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY " . by_query(3) . ' LIMIT 10) s'), $known{3}, 'the session goes on');
	$session->quit;
}

# F37: the client goes away in the middle of an open cursor.
for my $round (1 .. 5)
{
	my $gone = $node->background_psql('postgres');
	$gone->query_safe("BEGIN; SET enable_seqscan = off; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY " . by_query($round) . '; FETCH 5 FROM c');
	$gone->{run}->kill_kill(grace => 0);
}
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"), 'sessions of clients that went away end');

# F19: the address space of a backend is limited to a little more than it has.
SKIP:
{
	skip 'prlimit is not there', 1 if system('command -v prlimit >/dev/null') != 0;
	my @problems;
	my $scan       = 'SELECT count(*) FROM (SELECT id FROM t ORDER BY ' . by_query(1) . '%s) s';
	my %statements = (
		scan   => sprintf($scan, ''),
		top    => sprintf($scan, ' LIMIT ' . $rows * 0.9),
		build  => "BEGIN; CREATE INDEX t_x ON t USING $AM (v " . (of_match() ? '' : 'vector_ip_ops') . '); ROLLBACK',
		merge  => "SELECT vectorgpu_merge('t_v')",
		check  => "SELECT vectorgpu_check('t_v', true)",
		vacuum => 'VACUUM (INDEX_CLEANUP on) t');
	$statements{narrow} = "$narrow " . sprintf($scan, ' LIMIT 10') if $AM =~ /ivf|graph/;
	for my $kind (sort keys %statements)
	{
		for my $spare ($long ? (64, 512, 1024, 4096, 16384) : (64, 1024, 4096))    # kB
		{
			my $limited = $node->background_psql('postgres', on_error_stop => 0);
			my $backend = session_pid($limited);
			$limited->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET maintenance_work_mem = '64MB'; LOAD 'vectorgpu'");
			my ($kb) = slurp_file("/proc/$backend/status") =~ /VmSize:\s+(\d+)/;
			system('prlimit', "--as=" . ($kb + $spare) * 1024 . ":", '--pid', $backend) == 0 or die 'prlimit failed';
			$limited->{stderr} = '';
			$limited->query("\\set VERBOSITY verbose\n$statements{$kind}");
			my $error = $limited->{stderr};
			push @problems, "$kind with $spare kB: $error" if $error =~ /ERROR/ && $error !~ /53200/;
			push @problems, "$kind with $spare kB: session lost: $error" if $error =~ /terminated|server closed/;
			system('prlimit', "--as=unlimited:", '--pid', $backend);
			my $again = eval { $limited->query('ROLLBACK; RESET gpuivf.probes; RESET gpugraph.search_width; ' . sprintf($scan, '')) } // '';
			push @problems, "$kind with $spare kB: the session does not go on: $again" if $again !~ /\b$rows\b/;
			eval { $limited->quit };
		}
	}
	is(join("\n", @problems), '', 'out of memory is SQLSTATE 53200, the session goes on');
}
answers_equal($node, 't', %of_table, name => 'afterwards both scans agree');
check_index($node, 't_v');

# Maintenance terminated at random moments.
for my $sql ("SELECT vectorgpu_merge('t_v')", 'VACUUM (INDEX_CLEANUP on) t', "SELECT vectorgpu_check('t_v', true)", 'REINDEX INDEX t_v')
{
	my @problems;
	for my $ms ($long ? (1, 2, 4, 7, 12, 20) : (2, 7, 20))
	{
		$node->safe_psql('postgres', "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 30); INSERT INTO t SELECT 100000 * $ms + i, 0, test_vector(i, 64)::$CAST FROM generate_series(1, 40) i ON CONFLICT DO NOTHING");
		my ($state, $message) = psql_state($node, "SET statement_timeout = '${ms}ms'; $sql");
		push @problems, "$ms ms: $message" if $state !~ /^(?:00000|57014)$/;
	}
	is("@problems", '', "$sql cancelled at random moments");
	answers_equal($node, 't', %of_table, queries => 1, name => "$sql cancelled: both scans agree");
	check_index($node, 't_v', name => "$sql cancelled: check");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process crashed');

$node->stop;
done_testing();
