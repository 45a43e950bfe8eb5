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

my $node = make_node('limits', conf => "fsync = off\n");
create_comparer($node);
make_table($node, 't', dims => 64);
fill_vectors($node, 't', dims => 64, rows => 8000);
$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING gpuflat (v vector_l2_ops)');
fill_vectors($node, 't', dims => 64, rows => 2000, first => 8001);

# F36: timeouts at any moment of a scan; whatever ends in time is right.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE known AS SELECT q, (SELECT array_agg(id) FROM (SELECT id FROM t ORDER BY v <-> test_vector(q, 64)::vector, ctid LIMIT 10) s) AS ids FROM generate_series(1, 20) q;
SQL
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = session_pid($session);
$session->query_safe('SET enable_seqscan = off; SET enable_sort = off');
my ($ended, $cancelled, @wrong) = (0, 0);
my ($slowest, $n_slow) = (0, 0);
my %known = map { split /\|/ } split /\n/, $node->safe_psql('postgres', "SELECT q, array_to_string(ids, ',') FROM known");
for my $try (1 .. 400)
{
	my $q     = $try % 20 + 1;
	my $ms    = 1 + $try % 7;
	my $start = time;
	my $answer = $session->query("SET statement_timeout = '${ms}ms'; SELECT 'ids:' || string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> test_vector($q, 64)::vector LIMIT 10) s") // '';
	$slowest = time - $start if time - $start > $slowest;
	$n_slow++ if time - $start > 1.5;
	# The timeout holds for the statement that ends it too, which on a busy machine may be cancelled itself.
	until (($session->query("SET statement_timeout = 0; SHOW statement_timeout") // '') =~ /^0$/m) { $session->{stderr} = ''; }
	$session->{stderr} = '';
	if ($answer =~ /ids:([\d,]+)/) { $ended++; push @wrong, "$q: $1" if $1 ne $known{$q}; }
	else                           { $cancelled++; }
}
is("@wrong", '', "statement_timeout storm: $ended answers, all right; $cancelled cancelled");
# A few may be held up by what else the machine does.
cmp_ok($n_slow, '<', 20, sprintf('a cancel takes effect at once (%d later than after 1.5 s, slowest %.0f ms)', $n_slow, $slowest * 1000));
is($session->query_safe("SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> test_vector(3, 64)::vector LIMIT 10) s"), $known{3}, 'the session goes on');
$session->quit;

# F37: the client goes away in the middle of an open cursor.
for my $round (1 .. 5)
{
	my $gone = $node->background_psql('postgres');
	$gone->query_safe("BEGIN; SET enable_seqscan = off; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> test_vector($round, 64)::vector; FETCH 5 FROM c");
	$gone->{run}->kill_kill(grace => 0);
}
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"), 'sessions of clients that went away end');

# F19: the address space of a backend is limited to a little more than it has.
SKIP:
{
	skip 'prlimit is not there', 1 if system('command -v prlimit >/dev/null') != 0;
	my @problems;
	my %statements = (
		scan   => "SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> test_vector(1, 64)::vector) s",
		top    => "SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> test_vector(1, 64)::vector LIMIT 9000) s",
		build  => 'BEGIN; CREATE INDEX t_x ON t USING gpuflat (v vector_ip_ops); ROLLBACK',
		merge  => "SELECT vectorgpu_merge('t_v')",
		check  => "SELECT vectorgpu_check('t_v', true)",
		vacuum => 'VACUUM (INDEX_CLEANUP on) t');
	for my $kind (sort keys %statements)
	{
		for my $spare (64, 512, 1024, 4096, 16384)    # kB
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
			my $again = eval { $limited->query('ROLLBACK; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> test_vector(1, 64)::vector) s') } // '';
			push @problems, "$kind with $spare kB: the session does not go on: $again" if $again !~ /10000/;
			eval { $limited->quit };
		}
	}
	is(join("\n", @problems), '', 'out of memory is SQLSTATE 53200, the session goes on');
}
answers_equal($node, 't', dims => 64, name => 'afterwards both scans agree');
check_index($node, 't_v');

# Maintenance terminated at random moments.
for my $sql ("SELECT vectorgpu_merge('t_v')", 'VACUUM (INDEX_CLEANUP on) t', "SELECT vectorgpu_check('t_v', true)", 'REINDEX INDEX t_v')
{
	my @problems;
	for my $ms (1, 2, 4, 7, 12, 20)
	{
		$node->safe_psql('postgres', "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY random() LIMIT 30); INSERT INTO t SELECT 100000 * $ms + i, 0, test_vector(i, 64)::vector FROM generate_series(1, 40) i ON CONFLICT DO NOTHING");
		my ($state, $message) = psql_state($node, "SET statement_timeout = '${ms}ms'; $sql");
		push @problems, "$ms ms: $message" if $state !~ /^(?:00000|57014)$/;
	}
	is("@problems", '', "$sql cancelled at random moments");
	answers_equal($node, 't', dims => 64, queries => 1, name => "$sql cancelled: both scans agree");
	check_index($node, 't_v', name => "$sql cancelled: check");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process crashed');

$node->stop;
done_testing();
