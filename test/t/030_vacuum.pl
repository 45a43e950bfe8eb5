# VACUUM: no wrong row after line pointers are reused (C2, F35), every entry visited (C17), options and limits of
# VACUUM, merges, bounded size.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node = make_node('vacuum', conf => "max_parallel_maintenance_workers = 2\nmin_parallel_index_scan_size = 0\n");
create_comparer($node);

# C2: the same TIDs hold other rows after each round. A second session has scanned before and keeps its caches.
make_table($node, 't', dims => 8);
$node->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");
my $warm = $node->background_psql('postgres');
$warm->query_safe('SET enable_seqscan = off; SET enable_sort = off');
my $reused = 0;
for my $round (1 .. 8)
{
	my $first = 1000 * $round;

	fill_vectors($node, 't', dims => 8, rows => 400, first => $first, seed => $round);
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('t_v')") if $round % 3 == 0;
	$node->safe_psql('postgres', 'REINDEX INDEX t_v') if $round == 5;
	my $query = query_vector($node, $round, dims => 8);
	my $sql = "SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> $query LIMIT 50) s";
	is($warm->query_safe($sql), $node->safe_psql('postgres', "SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> $query, ctid LIMIT 50) s"),
		"round $round: nearest rows in a session that has scanned before");
	answers_equal($node, 't', dims => 8, queries => 1, name => "round $round: both scans agree");
	my $place = $node->safe_psql('postgres', "SELECT min(ctid) FROM t WHERE id >= $first");
	$reused++ if $place eq '(0,1)';
	$node->safe_psql('postgres', "DELETE FROM t WHERE id % 4 <> 0 OR id < $first; VACUUM t");
	is($warm->query_safe("SELECT count(*), count(DISTINCT id), bool_and(id % 4 = 0 AND id >= $first) FROM (SELECT id FROM t ORDER BY v <-> $query) s"),
		'100|100|t', "round $round: no stranger after vacuum");
	check_index($node, 't_v', name => "round $round: check");
}
cmp_ok($reused, '>', 2, "places were used again ($reused rounds began at (0,1))");
$warm->quit;

# Options: index cleanup off, parallel, little memory (several index passes), FREEZE, failsafe.
make_table($node, 'p', dims => 4);
fill_vectors($node, 'p', dims => 4, rows => 6000, null_every => 40);
$node->safe_psql('postgres', "CREATE INDEX p_l2 ON p USING $AM (v vector_l2_ops); CREATE INDEX p_ip ON p USING $AM (v vector_ip_ops); CREATE INDEX p_cos ON p USING $AM (v vector_cosine_ops)");
fill_vectors($node, 'p', dims => 4, rows => 1000, first => 6001);
my @vacuums = (
	[ 'INDEX_CLEANUP off', 'VACUUM (INDEX_CLEANUP off) p' ],
	[ 'PARALLEL 2',        'VACUUM (PARALLEL 2, INDEX_CLEANUP on) p' ],
	[ '1 MB of memory',    "SET maintenance_work_mem = '1MB'; VACUUM (INDEX_CLEANUP on) p" ],
	[ 'FREEZE',            'VACUUM (FREEZE, INDEX_CLEANUP on) p' ],
	[ 'failsafe',          'SET vacuum_failsafe_age = 0; SET vacuum_multixact_failsafe_age = 0; VACUUM p' ],
	[ 'ANALYZE',           'VACUUM (ANALYZE) p' ],
	[ 'nothing to do',     'VACUUM p' ]);
my $round = 0;
for my $vacuum (@vacuums)
{
	$round++;
	$node->safe_psql('postgres', "DELETE FROM p WHERE id % 29 = $round") if $vacuum->[0] ne 'nothing to do';
	$node->safe_psql('postgres', $vacuum->[1]);
	answers_equal($node, 'p', dims => 4, queries => 1, name => "VACUUM, $vacuum->[0]: both scans agree");
	answers_equal($node, 'p', dims => 4, queries => 1, op => '<#>', limits => [undef], name => "VACUUM, $vacuum->[0]: the second index");
	check_index($node, $_, name => "VACUUM, $vacuum->[0]: check of $_") for 'p_l2', 'p_ip', 'p_cos';
}
is($node->safe_psql('postgres', "SELECT count(*) FROM p") , $node->safe_psql('postgres', "SELECT reltuples FROM pg_class WHERE relname = 'p_l2'"),
	'the index has the right row count after VACUUM');

# Everything deleted, then filled again: no old row is found, and the file stops growing.
my @sizes;
for my $turn (1 .. 6)
{
	$node->safe_psql('postgres', 'DELETE FROM p; VACUUM p');
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM p ORDER BY v <-> '[0,0,0,0]') s}), 0, "turn $turn: empty after DELETE and VACUUM");
	# Like other transactions: only transactions younger than the next one may write to extents that vacuum has parked.
	$node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
	fill_vectors($node, 'p', dims => 4, rows => 3000, first => 1, seed => $turn);
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('p_l2'); SELECT vectorgpu_merge('p_ip'); SELECT vectorgpu_merge('p_cos')");
	push @sizes, $node->safe_psql('postgres', "SELECT pg_relation_size('p_l2')");
}
answers_equal($node, 'p', dims => 4, name => 'after six turns');
check_index($node, 'p_l2', name => 'check after six turns');
note("sizes: @sizes");
cmp_ok($sizes[5], '<=', $sizes[2] * 1.5, 'parked extents are used again');

# CREATE STATISTICS-like readers and a dead index: vacuum over an invalid index leaves it usable after REINDEX.
$node->safe_psql('postgres', "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'p_cos'::regclass");
fill_vectors($node, 'p', dims => 4, rows => 100, first => 9001);
$node->safe_psql('postgres', 'DELETE FROM p WHERE id % 3 = 0; VACUUM p; REINDEX INDEX p_cos');
answers_equal($node, 'p', dims => 4, op => '<=>', name => 'an invalid index, vacuumed and rebuilt');
check_index($node, 'p_cos', name => 'its check');

# Autovacuum beside writers, TIDs reused all the time (F35).
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1s\nautovacuum_vacuum_cost_delay = 0\n");
$node->restart;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE f (id bigint, category int, v vector(8)) WITH (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX f_v ON f USING $AM (v vector_l2_ops);
CREATE SEQUENCE f_id;
SQL
my $load = start_load($node, {
		write => "INSERT INTO f SELECT nextval('f_id'), 0, test_vector((random() * 1e9)::bigint, 8)::vector FROM generate_series(1, 20);\nDELETE FROM f WHERE id IN (SELECT id FROM f ORDER BY random() LIMIT 20) OR id < currval('f_id') - 300;\n",
		read  => "\\set q random(1, 1000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_answers('f', '<->', quote_literal(test_vector(:q, 8)) || '::vector', 20);\nCOMMIT;\n" },
	clients => 3, seconds => 8);
my ($transactions, $problem) = finish_load($load);
is($problem, '', "no wrong answer in $transactions transactions during autovacuum");
ok($node->poll_query_until('postgres', "SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'f'"), 'autovacuum came by');
$node->safe_psql('postgres', 'VACUUM f');
check_index($node, 'f_v', name => 'check after autovacuum');

$node->stop;
done_testing();
