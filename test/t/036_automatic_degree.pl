# degree = 0 of gpugraph: 64 edges where 32 do not serve, which a fault point says here; kept by merges; 32 again where 64 do not serve either.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuTest;

my $node = make_node('degree', conf => "fsync = off\nvectorgpu.worker = off\nvectorgpu.auto_merge = off\nautovacuum = off\nmax_parallel_maintenance_workers = 0\n");

plan skip_all => 'built without FAULTS=1' unless faults_enabled($node);

# Run a statement under faults; return the degree of the graph that it makes.
my $degree = sub {
	my ($faults, $statement) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET vectorgpu.fault = '$faults'; SET client_min_messages = debug1; $statement");

	is($rc, 0, $statement) or diag($err);
	return $err =~ /graph of (\d+) edges a row/ ? $1 : "none: $err";
};
my $found = sub {
	my ($index) = @_;

	return $node->safe_psql('postgres', <<SQL);
UPDATE pg_index SET indisvalid = indexrelid = '$index'::regclass WHERE indrelid = 't'::regclass;
SET enable_seqscan = off;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 77) LIMIT 20) s
	WHERE id IN (SELECT id FROM (SELECT id, v <-> (SELECT v FROM t WHERE id = 77) AS d FROM t) x ORDER BY d LIMIT 20);
UPDATE pg_index SET indisvalid = true WHERE indrelid = 't'::regclass;
SQL
};
my $create = sub { my ($index, $options) = @_; return "CREATE INDEX $index ON t USING gpugraph (v vector_l2_ops) $options" };
my $few = 'graph_few_edges:1:corrupt';
my $never = "$few, graph_many_edges:1:corrupt";

make_table($node, 't', dims => 24);
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, 0, ' . random_vector_sql('i', dims => 24) . ' FROM generate_series(1, 4000) i');

is($degree->('', $create->('t_auto', '')), 32, '32 edges are the usual degree');
is($degree->($few, $create->('t_more', '')), 64, 'where they do not serve, 64 are taken');
is($degree->($never, $create->('t_kept', '')), 32, 'where these do not serve either, 32 stay');
is($degree->($few, $create->('t_given', 'WITH (degree = 32)')), 32, 'a degree that was given is never changed');
cmp_ok($found->($_), '>=', 18, "$_ finds the nearest rows") for qw(t_auto t_more t_kept);

# A small merge keeps the degree; one that doubles the rows asks again, although it has a graph to start from.
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, 0, ' . random_vector_sql('i', dims => 24) . ' FROM generate_series(4001, 4400) i');
my %merged = (t_auto => 32, t_more => 64, t_kept => 32, t_given => 32);
is($degree->($few, "SELECT vectorgpu_merge('$_')"), $merged{$_}, "a small merge of $_ keeps its degree") for sort keys %merged;
check_index($node, $_, recall => 0) for qw(t_auto t_more t_kept);
cmp_ok($found->($_), '>=', 18, "$_ finds the nearest rows after a merge") for qw(t_auto t_more t_kept);
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, 0, ' . random_vector_sql('i', dims => 24) . ' FROM generate_series(4401, 10000) i');
is($degree->($few, "SELECT vectorgpu_merge('t_kept')"), 64, 'a large merge asks again');
is($degree->($never, "SELECT vectorgpu_merge('t_auto')"), 32, 'and keeps the graph of 32 where 64 do not serve');
is($degree->('', "SELECT vectorgpu_merge('t_more')"), 64, 'the degree of the largest segment stays');
is($degree->($few, "SELECT vectorgpu_merge('t_given')"), 32, 'one that was given stays, too');
check_index($node, $_, recall => 0) for sort keys %merged;
cmp_ok($found->($_), '>=', 18, "$_ finds the nearest rows after a large merge") for sort keys %merged;
is($degree->('', 'REINDEX INDEX t_kept'), 32, 'a REINDEX asks again');
check_faults_reached($node);
$node->stop;
done_testing();
