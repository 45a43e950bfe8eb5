# EXPLAIN of scans of each access method (F53): with every option in every format; beside auto_explain, loaded before the module or after it, with nested
# statements; without ANALYZE while the worker is stopped: finite costs, at once, without asking the worker.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('explain', conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 60s\n");
my %query = (gpuflat => "v <-> '[1,2,3]'", gpuivf => "v <=> '[1,2,3]'", gpugraph => "v <-> '[3,2,1]'", gpumatch => "tags <#> '{1,2,3}'");
# The module is loaded before the first EXPLAIN, which would load it too late to list its scans if the query has no value of its types.
my $settings = "LOAD 'vectorgpu'; SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off";

for my $method (sort keys %query)
{
	my $key = $method eq 'gpumatch' ? 'tags' : $method eq 'gpuivf' ? 'v vector_cosine_ops' : 'v vector_l2_ops';

	$node->safe_psql('postgres', "CREATE TABLE $method (id int, v vector(3), tags int[]); "
		  . "INSERT INTO $method SELECT i, ARRAY[i % 7, i % 11, i]::vector, ARRAY[i % 5, i % 3] FROM generate_series(1, 400) i; CREATE INDEX ${method}_i ON $method USING $method ($key); ANALYZE $method");
}
sub scan { my ($method) = @_; return "SELECT id FROM $method ORDER BY $query{$method} LIMIT 5"; }
my $in_node = $node->pg_version >= 18;
my %asked = (gpuflat => 5, gpuivf => 10, gpugraph => 10, gpumatch => 5);
my %answer = map { $_ => $node->safe_psql('postgres', "$settings; " . scan($_)) } keys %query;

# What EXPLAIN says of the scans of ours: after the plan, from 18 on in their nodes.
sub scans_of
{
	my ($json) = @_;
	my ($plan) = @{ decode_json($json) };
	my @nodes = ($plan->{Plan});

	for (my $i = 0; $i < @nodes; $i++)
	{
		push @nodes, @{ $nodes[$i]{Plans} // [] };
	}
	return @{ $plan->{'Vectorgpu Scans'} // [] }, map { { 'Index Name' => $_->{'Index Name'}, %{ $_->{'Vectorgpu Scan'} } } } grep { $_->{'Vectorgpu Scan'} } @nodes;
}

# Values of costs, in any format.
sub costs { my ($text) = @_; return ($text =~ /cost=(\S+?)\.\.(\S+)/g, $text =~ /(?:Startup|Total)[ -]Cost"?(?:: |>)([^<,\s]+)/g); }

# Each option separately, in every format.
for my $method (sort keys %query)
{
	for my $format ('TEXT', 'JSON', 'XML', 'YAML')
	{
		my $plan = $node->safe_psql('postgres', "$settings; EXPLAIN (ANALYZE, VERBOSE, BUFFERS, SETTINGS, WAL, FORMAT $format) " . scan($method));
		my $name = "$method, $format";
		my @costs = costs($plan);

		cmp_ok(scalar @costs, '>=', 4, "$name: two nodes have costs");
		is(join(' ', grep { !/^\d+(?:\.\d+)?$/ } @costs), '', "$name: all of them finite");
		is(() = $plan =~ /${method}_i/g, $in_node ? 1 : 2, "$name: the scan is there");
		is(() = $plan =~ /(?<!\/)Answered.By/g, 1, "$name: and what it did");
		like($plan, qr/enable.seqscan/i, "$name: settings");
		if ($format eq 'JSON')
		{
			my @scans = scans_of($plan);

			is(scalar @scans, 1, "$name: one scan of ours");
			is($scans[0]{'Rows Asked'}, $asked{$method}, "$name: of five rows, or the first step of ranks");
		}
		elsif ($format eq 'XML')
		{
			my $file = PostgreSQL::Test::Utils::tempdir() . "/$method.xml";

			append_to_file($file, $plan);
			command_ok([ 'python3', '-c', 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])', $file ], "$name: well-formed");
		}
	}
}

# Beside auto_explain: a plan of each statement in the log, nested ones too; EXPLAIN and answers unchanged. Loaded before the module, and after it.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION nested() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	SELECT count(*) INTO n FROM gpuflat a, LATERAL (SELECT id FROM gpugraph b ORDER BY b.v <-> a.v LIMIT 2) s WHERE a.id < 5;
	RETURN n;
END $$;
SQL
for my $first ('auto_explain', 'vectorgpu')
{
	my $auto = "LOAD '$first'; LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_nested_statements = on; "
	  . 'SET auto_explain.log_buffers = on; SET auto_explain.log_wal = on; SET auto_explain.log_settings = on; SET auto_explain.log_verbose = on; SET auto_explain.log_triggers = on';

	for my $format ('text', 'json', 'xml', 'yaml')
	{
		my $name = "$first first, $format";
		my $start = -s $node->logfile;
		my $got = $node->safe_psql('postgres', "$auto; SET auto_explain.log_format = $format; $settings; " . join('; ', map { scan($_) } sort keys %query) . '; SELECT nested()');
		my $log = slurp_file($node->logfile, $start);

		is($got, join("\n", map({ $answer{$_} } sort keys %query), 8), "$name: answers");
		is(join(' ', grep { $log !~ /Index.Name[>": ]+${_}_i|Index Scan using ${_}_i/ } sort keys %query), '', "$name: plans of all access methods in the log");
		like($log, qr/LATERAL/, "$name: and of the nested statement");
		is(() = $log =~ /LOG:  duration: [\d.]+ ms  plan:/g, 6, "$name: of each one");
		is(() = $log =~ /(?<!\/)Answered.By/g, $in_node ? 5 : 0, "$name: what the scans did, if they can add to plans");
	}
	for my $method (sort keys %query)
	{
		my $plan = $node->safe_psql('postgres', "$auto; $settings; EXPLAIN (ANALYZE, FORMAT JSON) " . scan($method));

		is(join(',', map { "$_->{'Index Name'} $_->{'Rows Asked'}" } scans_of($plan)), "${method}_i $asked{$method}", "$first first: EXPLAIN ANALYZE of $method beside it");
	}
	my $plan = $node->safe_psql('postgres', "$auto; $settings; EXPLAIN (ANALYZE, FORMAT JSON) SELECT nested() FROM (SELECT FROM gpumatch ORDER BY $query{gpumatch} LIMIT 1) s");
	is(join(',', map { $_->{'Index Name'} } scans_of($plan)), 'gpumatch_i', "$first first: of the statement alone, not of those in it");
}

# EXECUTE, and the option that leaves our properties out.
SKIP:
{
	skip 'no hook for nodes of a plan before PostgreSQL 18', 4 unless $in_node;

	my $prepared = "$settings; PREPARE near AS " . scan('gpuivf');

	is(join(',', map { $_->{'Rows Asked'} } scans_of($node->safe_psql('postgres', "$prepared; EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE near"))), $asked{gpuivf}, 'EXPLAIN EXECUTE');
	like($node->safe_psql('postgres', "$prepared; EXPLAIN (ANALYZE, VECTORGPU) EXECUTE near"), qr/Answered By/, 'the option on');
	unlike($node->safe_psql('postgres', "$prepared; EXPLAIN (ANALYZE, VECTORGPU off) EXECUTE near"), qr/Answered By/, 'the option off');
	is(($node->psql('postgres', "$settings; EXPLAIN (VECTORGPU 7) SELECT 1"))[0], 3, 'no other value');
}

SKIP:
{
	skip 'the worker is not installed', 1 unless -x worker_file($node);

	# Plain EXPLAIN while the worker is stopped.
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'vectorgpu'\n");
	$node->restart;
	$node->safe_psql('postgres', "CREATE VIEW t AS SELECT * FROM gpuflat"); # scan_sql's
	my $pid = wait_worker($node);
	ok($pid, 'the worker is ready');
	$node->safe_psql('postgres', "$settings; SELECT vectorgpu_prewarm('${_}_i'); " . scan($_)) for sort keys %query;

	# Texts compared with the query are rows whose distance was computed, by backend or worker: some, not all, and
	# about equally many: a session compares rows of several bounds together, as many as were compared before, or 16. A GPU compares all.
	my $on_gpu = worker_stat($node, 'engine') eq 'cuda';
	$node->safe_psql('postgres', "CREATE TABLE words AS SELECT i AS id, md5(i::text) AS w FROM generate_series(1, 1000) i; CREATE INDEX words_i ON words USING gpumatch (w text_gram_ops); ANALYZE words");
	my $near = "SELECT id FROM words ORDER BY w <~> substr(md5('500'), 1, 30) LIMIT 1";
	my %texts;

	$node->safe_psql('postgres', "$settings; SELECT vectorgpu_prewarm('words_i')");
	for my $worker ('off', 'on')
	{
		my $scan;

		# A worker that is slow to answer is not waited for.
		wait_until(sub {
			($scan) = scans_of($node->safe_psql('postgres', "$settings; SET vectorgpu.worker = $worker; EXPLAIN (ANALYZE, FORMAT JSON) $near"));
			return $worker eq 'off' || $scan->{'Answered By'} eq 'worker';
		});
		is($scan->{'Answered By'}, $worker eq 'on' ? 'worker' : 'backend', "worker $worker: what answers");
		cmp_ok($scan->{Rescored}, '>', 0, "worker $worker: texts are compared");
		cmp_ok($scan->{Rescored}, '<', 1000, "worker $worker: not all of them") unless $on_gpu && $worker eq 'on';
		is($scan->{Candidates}, $scan->{Rescored}, "worker $worker: those that their grams name");
		$texts{$worker} = $scan->{Rescored};
	}
	if ($on_gpu)
	{
		is($texts{on}, 1000, 'the worker compares all texts');
	}
	else
	{
		cmp_ok($texts{on}, '<=', $texts{off}, 'the worker compares no more texts than the session does');
		cmp_ok($texts{off}, '<=', 2 * $texts{on} + 16, 'which compares few more');
	}

	my $asked = sub { return $node->safe_psql('postgres', 'SELECT answered, fallbacks FROM vectorgpu_worker'); };
	my $before = $asked->();
	my $session = $node->background_psql('postgres');
	my $backend = session_pid($session);
	my $sockets = sub { return scalar grep { (readlink($_) // '') =~ /^socket:/ } glob("/proc/$backend/fd/*"); };
	my $n = $sockets->();

	$session->query_safe($settings);
	kill 'STOP', $pid;
	for my $method (sort keys %query)
	{
		for my $options ('', '(VERBOSE, SETTINGS, BUFFERS)', '(FORMAT JSON)', '(FORMAT XML)', '(FORMAT YAML)')
		{
			my $plan = $session->query_safe("EXPLAIN $options " . scan($method));
			my @costs = costs($plan);

			like($plan, qr/${method}_i/, "$method, $options, with a stopped worker: a plan");
			ok(@costs >= 4 && !grep({ !/^\d+(?:\.\d+)?$/ || $_ > 1e7 } @costs), "$method, $options: its costs are finite") or diag("@costs");
		}
		soon($node, 1, "EXPLAIN of $method with a stopped worker", "$settings; EXPLAIN " . scan($method));
		$session->query_safe("PREPARE p_$method AS " . scan($method) . "; EXPLAIN EXECUTE p_$method");
	}
	is($sockets->(), $n, 'the session has no connection to the worker');
	kill 'CONT', $pid;
	is($asked->(), $before, 'the worker was not asked');
	is($session->query_safe(scan('gpuflat')), $answer{gpuflat}, 'it goes on');
	cmp_ok($sockets->(), '>', $n, 'with a connection, by which it is asked');
	cmp_ok(worker_stat($node, 'answered'), '>', (split /\|/, $before)[0], 'and counted');
	$session->quit;
}
is(count_restarts($node), 0, 'the server never restarted by itself');
$node->stop;
done_testing();
