# Conditions on key columns (filter classes) against sequential scans: random predicates over every type of a filter class, with constants of the other
# types of its family, NULLs, subqueries, parameters of generic plans, expressions, LIKE; ordered, unordered and bitmap scans; rows built, inserted, updated,
# deleted, vacuumed, merged; the worker off, on, killed all the time; several time zones; labels added to an enum. VECTORGPU_SEED.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $each = $ENV{VECTORGPU_LONG} ? 5000 : 160; # conditions a step
my $seed = $ENV{VECTORGPU_SEED} // int(rand(1e6));
my $node = make_node('key_conditions', conf => "fsync = off\nvectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\nvectorgpu.worker_restart_delay_max = 0\n");
my $has_worker = -x worker_file($node);
my $icu = $node->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_collation WHERE collname = 'en-x-icu'}) eq 't';

note("VECTORGPU_SEED=$seed");
$node->safe_psql('postgres', 'CREATE COLLATION tongue ' . ($icu ? q{(provider = icu, locale = 'und')} : 'FROM "C"'));
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/lib/key_conditions.sql"));

# One test: n random conditions. Returns how many there were.
sub try_conditions
{
	my ($name, %opt) = @_;
	my $n = $opt{n} // $each;
	my $sql = "SET vectorgpu.worker = " . ($opt{worker} // 'off') . "; SET TimeZone = '" . ($opt{zone} // 'UTC') . "'; DO 'BEGIN PERFORM setseed(" . ($seed++ % 1000 / 1000) . "); END';"
	  . "SELECT n_tried, n_conditions > n_tried * 0.9, n_bitmaps > 0, n_narrow > n_empty AND n_empty < n_tried / 2, n_rows > n_tried, array_to_string(wrong[1:3], E'\\n'), cardinality(wrong) FROM try_conditions($n)";
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my ($wrong) = $out =~ /\|(\d+)$/;

	count('answers', $n);
	count('wrong', $wrong // 1);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("$out$err", "$n|t|t|t|t||0", "$name: $n conditions") or diag("seed $seed");
	return;
}

$node->safe_psql('postgres', 'SELECT setseed(' . ($seed % 1000 / 1000) . '); SELECT add_rows(1, 1200); ANALYZE k; SELECT note_facts()');
$node->safe_psql('postgres', "CREATE INDEX ki ON k USING $AM (v vector_l2_ops, b, c, i2, i4, i8, o, f4, f8, n, dy, t, ts, tz, s, l, vc, u, y, e, a, dom, (m->>'tenant'), (i4 % 10), ta, tl, ia)");
try_conditions('built');
try_conditions('built, New York', zone => 'America/New_York');
check_index($node, 'ki', name => 'built: check', recall => 0);

# Rows in the delta, beside dead ones; updates of the vector only, of key columns only, of a column that is in no index.
$node->safe_psql('postgres', <<'SQL');
SELECT setseed(0.7);
DELETE FROM k WHERE id % 7 = 0;
SELECT add_rows(2001, 2500);
UPDATE k SET i4 = i4 / 2, s = word(), ta = ta || word(), ia = ia[2:] WHERE id % 5 = 0;
UPDATE k SET v = v + v WHERE id % 11 = 1;
UPDATE k SET v = NULL WHERE id % 50 = 1;
UPDATE k SET id = id + 100000 WHERE id % 13 = 1;
BEGIN;
SELECT add_rows(3001, 3100);
SAVEPOINT a;
UPDATE k SET dom = 7;
ROLLBACK;
SQL
try_conditions('inserted');
try_conditions('inserted, Samoa', zone => 'Pacific/Apia');
$node->safe_psql('postgres', q{ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok'; ALTER TYPE mood ADD VALUE 'low' BEFORE 'sad'});
$node->safe_psql('postgres', q{SELECT setseed(0.8); SELECT add_rows(4001, 4200); SELECT note_facts()});
try_conditions('labels added');
check_index($node, 'ki', name => 'inserted: check', recall => 0);
$node->safe_psql('postgres', 'VACUUM k');
try_conditions('vacuumed', zone => 'America/New_York');

SKIP:
{
	skip 'the worker is not installed', 4 if !$has_worker;
	ok(wait_until(sub { return $node->safe_psql('postgres', q{SELECT count(*) FROM vectorgpu_worker WHERE ready}) || $node->safe_psql('postgres',
		q{SET vectorgpu.worker = on; SET enable_seqscan = off; SELECT count(*) * 0 FROM (SELECT id FROM k ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 1) s}) }), 'there is a worker');
	by_worker($node, 'vacuumed', sub { try_conditions('vacuumed, worker', worker => 'on', n => 400); }) if !pages_answer();

	# Killed as long as the conditions run.
	my $session = $node->background_psql('postgres');
	my $deaths = 0;
	$session->{stdin} .= "SELECT setseed(0.3); SET vectorgpu.worker = on; SELECT 'wrong ' || cardinality(wrong) || ' of ' || n_tried || array_to_string(wrong[1:2], E'\\n') FROM try_conditions(" . 3 * $each . ");\n\\echo over\n";
	for (;;)
	{
		$session->{run}->pump_nb;
		last if $session->{stdout} =~ /^over$/m;
		my $pid = eval { worker_pid($node) };
		$deaths++ if defined $pid && kill 'KILL', $pid;
		select undef, undef, undef, 0.2;
	}
	like($session->{stdout}, qr/^wrong 0 of @{[ 3 * $each ]}$/m, "killed: $deaths times");
	count('answers', 3 * $each);
	$session->quit;
}

$node->safe_psql('postgres', q{SELECT vectorgpu_merge('ki')});
try_conditions('merged');
try_conditions('merged, worker', worker => 'on', zone => 'Pacific/Apia');
check_index($node, 'ki', name => 'merged: check', recall => 0);
$node->safe_psql('postgres', 'REINDEX INDEX ki');
try_conditions('rebuilt');

$node->stop;
done_testing();
