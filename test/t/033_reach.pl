# An index that cannot reach the default recall target says so in the server's log: at a build, and at the first background merge after which
# that is so, once. The regression test reach has the other ways.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('reach', conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker = off\nvectorgpu.merge_delta_size = '128kB'\n");
my $warning = sub {
	my ($index, $of, $setting) = @_;

	return qr/WARNING:  searches of $of do not reach the default recall target of index "$index"\n.*DETAIL:  The widest ones found 0\.\d{3} of the nearest rows\. Where $setting is higher than that \(it is 0\.95 by default\), scans look at all rows, and take longer\.\n.*HINT:  Use [^\n]+, or a lower recall target\./;
};
my $count = sub { my ($index) = @_; return scalar(() = slurp_file($node->logfile) =~ /WARNING:  searches of [^\n]* recall target of index "$index"/g) };
my $rows = sub { my ($from, $to) = @_; return 'SELECT i, i % 10, ' . random_vector_sql('i', dims => 96) . " FROM generate_series($from, $to) i" };

# The statement's own message has detail and hint; so has the log.
make_table($node, 't', dims => 96);
$node->safe_psql('postgres', 'INSERT INTO t ' . $rows->(1, 3000));
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE INDEX t_graph ON t USING gpugraph (v vector_l2_ops) WITH (degree = 4)');
like($err, $warning->('t_graph', 'its graph', 'gpugraph.recall_target'), 'CREATE INDEX of gpugraph: a warning, its detail and hint');
($rc, $out, $err) = $node->psql('postgres', 'CREATE INDEX t_lists ON t USING gpuivf (v vector_l2_ops) WITH (lists = 2)');
like($err, $warning->('t_lists', 'a part of its lists', 'gpuivf.recall_target'), 'CREATE INDEX of gpuivf: a warning, its detail and hint');
like(slurp_file($node->logfile), $warning->($_->[0], $_->[1], $_->[2]), "the log has it: $_->[0]") for [ 't_graph', 'its graph', 'gpugraph.recall_target' ], [ 't_lists', 'a part of its lists', 'gpuivf.recall_target' ];
$node->safe_psql('postgres', 'DROP TABLE t');

# Background merges of an index that was made empty.
make_table($node, 'm', dims => 96);
$node->safe_psql('postgres', 'CREATE INDEX m_graph ON m USING gpugraph (v vector_l2_ops) WITH (degree = 4)');
my $generation = sub { return $node->safe_psql('postgres', q{SELECT manifest_generation FROM vectorgpu_indexes WHERE index_name = 'm_graph'}) };
my $merged_by_itself = sub {
	my ($from, $to) = @_;
	my $before = $generation->();

	$node->safe_psql('postgres', "INSERT INTO m $_") for map { $rows->($_, $_ + 499) } grep { ($_ - $from) % 500 == 0 } $from .. $to;
	return wait_until(sub { $node->safe_psql('postgres', 'INSERT INTO m ' . $rows->($to + 1, $to + 1) . ' ON CONFLICT DO NOTHING'); return $generation->() > $before });
};
is($count->('m_graph'), 0, 'nothing is said of an index without rows');
ok($merged_by_itself->(1, 3000), 'rows are merged in the background');
is($node->safe_psql('postgres', q{SELECT vectorgpu_merge('m_graph') IS NOT NULL}), 't', 'and the rest of them');
is($count->('m_graph'), 1, 'that is said once');
ok($merged_by_itself->(4001, 5000), 'more rows are merged in the background');
$node->safe_psql('postgres', 'DELETE FROM m WHERE id % 3 = 0; VACUUM m');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('m_graph')");
$node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT id FROM m ORDER BY v <-> ' . query_vector($node, 5, dims => 96) . ' LIMIT 10') for 1 .. 5;
is($count->('m_graph'), 1, 'and not again, neither at merges nor at scans');
check_index($node, 'm_graph', recall => 0);
is($node->safe_psql('postgres', q{SELECT recall_target, recall_reached < 0.94 FROM vectorgpu_indexes WHERE index_name = 'm_graph'}), '0.95|t', 'the view shows it');

# Another default in the configuration file.
$node->append_conf('postgresql.conf', "gpugraph.recall_target = 0.5\n");
$node->restart;
is($node->safe_psql('postgres', q{SELECT recall_target, recall_reached > 0.5 FROM vectorgpu_indexes WHERE index_name = 'm_graph'}), '0.5|t', 'another default in the configuration file');
$node->safe_psql('postgres', 'REINDEX INDEX m_graph');
is($count->('m_graph'), 1, 'which the index reaches');
$node->stop;
done_testing();
