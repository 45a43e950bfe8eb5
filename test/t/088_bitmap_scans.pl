# Vectorgpu Filtered Scan over bitmaps of other indexes, against sequential scans: random conditions that btree, GIN, GiST, BRIN and a partial index serve,
# joined by AND and OR, beside key columns and what no index serves. For each access method, the worker off and on; bitmaps that are lossy; rows deleted,
# inserted, updated on the page and off it, which share entries; merged, vacuumed. VECTORGPU_SEED.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuWorker;

my $each = $ENV{VECTORGPU_LONG} ? 2000 : 40; # conditions a step
my $seed = $ENV{VECTORGPU_SEED} // int(rand(1e6));
my $node = make_node('bitmap_scans', conf => "fsync = off\nvectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\nvectorgpu.inline_load_size = 1GB\n");
my $n_lossy = 0;
my $has_worker = -x worker_file($node);

note("VECTORGPU_SEED=$seed");
$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/lib/bitmap_conditions.sql"));
$node->safe_psql('postgres', 'SELECT setseed(' . ($seed % 1000 / 1000) . '); SELECT add_rows(1, 2400); VACUUM ANALYZE w');

# One test: random conditions. Many have the plan.
sub try_bitmaps
{
	my ($name, $distance, $exact, %settings) = @_;
	my $set = join '', map { "SET $_ = $settings{$_};" } sort keys %settings;
	my $sql = "${set}DO 'BEGIN PERFORM setseed(" . ($seed++ % 1000 / 1000) . "); END';"
	  . "SELECT n_lossy, n_filtered > $each / 5, n_rows > n_filtered, array_to_string(wrong[1:3], E'\\n'), cardinality(wrong) FROM try_bitmaps($each, '$distance', $exact)";
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my ($wrong) = $out =~ /\|(\d+)$/;
	my ($lossy) = $out =~ /^(\d+)\|/;

	count('answers', $each);
	count('wrong', $wrong // 1);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$n_lossy += $lossy // 0;
	is("$out$err", ($lossy // q{}) . q{|t|t||0}, "$name: $each conditions") or diag("seed $seed");
	return;
}

# Access method, columns, the distance to a random %s, and whether it is exact whatever passes.
my @indexes = (
	[ 'gpuflat', 'v vector_l2_ops', 'v <-> %s', 'true' ],
	[ 'gpuflat', 'v vector_l2_ops, a, n', 'v <-> %s', 'true' ],
	[ 'gpuivf', 'v vector_l2_ops', 'v <-> %s', 'false' ],
	[ 'gpugraph', 'v vector_l2_ops', 'v <-> %s', 'false' ],
	[ 'gpumatch', 'ia', 'ia <#> %s', 'true' ]);
my $last = 2400;

for (@indexes)
{
	my ($method, $columns, $distance, $exact) = @$_;
	my $first = $last + 1;

	$node->safe_psql('postgres', "CREATE INDEX wi ON w USING $method ($columns)");
	$last += 150;
	# a later version on the page if only n and pad change, else by another entry of each index, or sharing the vector's
	$node->safe_psql('postgres', "DELETE FROM w WHERE id % 9 = 0; SELECT setseed(0.5); SELECT add_rows($first, $last); UPDATE w SET pad = 'y' WHERE id % 5 = 0; UPDATE w SET n = n + 1 WHERE id % 5 = 1;"
		  . ' UPDATE w SET b = b + 1, a = (a + 1) % 60 WHERE id % 4 = 0; UPDATE w SET a = (a + 7) % 60 WHERE id % 8 = 0');
	try_bitmaps("$method ($columns), delta", $distance, $exact, 'vectorgpu.worker' => 'off', work_mem => q{'64kB'});
	SKIP:
	{
		skip 'the worker is not installed', 2 if !$has_worker;
		wait_until(sub { return $node->safe_psql('postgres', q{SELECT count(*) FROM vectorgpu_worker WHERE ready}) || $node->safe_psql('postgres',
			'SET vectorgpu.worker = on; SET enable_seqscan = off; SELECT count(*) * 0 FROM (SELECT id FROM w ORDER BY ' . sprintf($distance, $method eq 'gpumatch' ? q{'{1}'} : q{'[1,1,1,1,1,1,1,1]'}) . ' LIMIT 1) s') });
		by_worker($node, $method, sub { try_bitmaps("$method ($columns), delta, worker", $distance, $exact, 'vectorgpu.worker' => 'on') });
	}
	$node->safe_psql('postgres', q{SELECT vectorgpu_merge('wi')});
	try_bitmaps("$method ($columns), merged", $distance, $exact, 'vectorgpu.worker' => $has_worker ? 'on' : 'off', work_mem => q{'64kB'});
	$node->safe_psql('postgres', 'VACUUM w; UPDATE w SET b = b + 1 WHERE id % 6 = 0');
	try_bitmaps("$method ($columns), vacuumed", $distance, $exact, 'vectorgpu.worker' => 'off');
	check_index($node, 'wi', name => "$method: check", recall => 0);
	$node->safe_psql('postgres', 'DROP INDEX wi; VACUUM ANALYZE w');
}

# A scan that began before a merge names rows by numbers that copies of the newer manifest do not know: it asks for one batch in vain, not for each.
SKIP:
{
	skip 'the worker is not installed', 5 if !$has_worker;
	my $scan = q{SELECT id FROM merged WHERE a = 7 ORDER BY v <-> '[1,2,3,4,5,6,7,8]'};
	my $set = q{SET enable_seqscan = off; SET enable_sort = off; SET work_mem = '64kB';};
	my $fallbacks = sub { return $node->safe_psql('postgres', q{SELECT fallbacks FROM vectorgpu_index_fallbacks('merged_v')}) };
	my $reader = $node->background_psql('postgres');
	my ($before, $answered, $last_row);

	$node->safe_psql('postgres', 'CREATE TABLE merged (id int, a int, v vector(8)) WITH (autovacuum_enabled = off);'
		  . 'INSERT INTO merged SELECT i, i % 20, ARRAY(SELECT (hashint8extended(i * 8 + d, 1) & 1023)::real FROM generate_series(1, 8) d)::vector FROM generate_series(1, 40000) i;'
		  . 'CREATE INDEX merged_v ON merged USING gpuflat (v vector_l2_ops); CREATE INDEX merged_a ON merged (a); VACUUM ANALYZE merged');
	$last_row = $node->safe_psql('postgres', "SELECT id FROM merged WHERE a = 7 ORDER BY v <-> '[1,2,3,4,5,6,7,8]' DESC LIMIT 1");
	by_worker($node, 'before a merge', sub { $node->safe_psql('postgres', "$set $scan") });
	$answered = worker_stat($node, 'answered');
	$reader->query_safe("$set BEGIN; DECLARE c CURSOR FOR $scan; FETCH 1 FROM c");
	is(worker_stat($node, 'answered'), $answered + 1, 'the first batch of a cursor: by the worker');
	$node->safe_psql('postgres', q{INSERT INTO merged SELECT id, a, v FROM merged WHERE id < 3000; SELECT vectorgpu_merge('merged_v')});
	by_worker($node, 'after a merge', sub { $node->safe_psql('postgres', "$set $scan") });
	$before = $fallbacks->();
	is($reader->query_safe('MOVE 1998 FROM c; FETCH ALL FROM c'), $last_row, 'the rest of the cursor, after a merge');
	cmp_ok($fallbacks->(), '<=', $before + 1, 'at most one fallback for two batches');
	$reader->quit;
}

cmp_ok($n_lossy, '>', 0, 'scans that checked rows of lossy pages, and dropped some');
$node->stop;
done_testing();
