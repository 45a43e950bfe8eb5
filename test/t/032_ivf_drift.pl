# Drift of gpuivf: a merge measures the rows inserted since the training separately, however many old rows there are.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

my $node = make_node('main', conf => "vectorgpu.auto_merge = off\nvectorgpu.worker = off\n");

# Rows near some of 40 points, at a distance of `spread`; their last element is 0.
sub rows
{
	my ($first, $last, $spread, $seed) = @_;

	return "INSERT INTO t SELECT i, (ARRAY(SELECT (100 * sin((i % 40) * j + j) + $spread * (((i * $seed + j * 31) * 7919 % 2003) / 1001.0 - 1))::real"
	  . " FROM generate_series(1, 8) j) || 0::real)::vector FROM generate_series($first, $last) i";
}

# The lists of the index before and after a merge, whether they changed, and list_drift afterwards.
sub merged
{
	my ($with, $more) = @_;
	my $before;

	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS t; CREATE TABLE t (id int, v vector(9));' . rows(1, 10000, 5, 1));
	$node->safe_psql('postgres', "CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 40$with)");
	$before = drift();
	is($before, 1, 'a new index has no drift');
	$node->safe_psql('postgres', "$more; SELECT vectorgpu_merge('t_i')");
	is($node->safe_psql('postgres', "SELECT count(vectorgpu_check('t_i', true))"), '1', 'the index passes the check');
	return drift();
}

sub drift
{
	return $node->safe_psql('postgres', "SELECT round(list_drift::numeric, 3)::float8 FROM vectorgpu_indexes WHERE index_name = 't_i'");
}

# A merge that trains leaves a drift of 1.
cmp_ok(abs(merged('', rows(10001, 11000, 5, 3)) - 1), '<', 0.1, 'rows of the same kind: little drift');
is(merged('', rows(10001, 11000, 9, 3)), 1, 'a tenth of other rows, three times as far (1.2 in the mean of all): trained again');
isnt(merged('', rows(10001, 10300, 9, 3)), 1, 'three in a hundred: not for so few');
# Beyond the ranges of SQ8 in the last element, hardly farther from the centroids: their share of the new rows counts, not of all rows.
my $out = rows(10001, 11000, 5, 3) . q{; UPDATE t SET v = (v::real[])[1:8] || 1::real WHERE id > 10000 AND id % 8 = 0};

is(merged(q{, storage = 'sq8'}, $out), 1, 'rows beyond the ranges of bytes: trained again');
# Distances that overflow: rows without one do not hide the others.
$node->safe_psql('postgres', 'DROP TABLE t; CREATE TABLE t (id int, v vector(9));' . rows(1, 10000, 5, 1));
$node->safe_psql('postgres', "INSERT INTO t VALUES (0, '[3e30,0,0,0,0,0,0,0,0]'), (0, '[-3e30,0,0,0,0,0,0,0,0]'), (0, '[0,3e30,0,0,0,0,0,0,0]')");
$node->safe_psql('postgres', 'CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 40)');
unlike(drift(), qr/inf|nan/i, 'drift is a number');
# A segment beside the one that the model was trained for: its own error is shown, without a correction by the other's.
{
	my $uniform = sub { 'INSERT INTO t SELECT i, ' . random_vector_sql('i', dims => 9, seed => 4) . " FROM generate_series($_[0], $_[1]) i" };

	$node->safe_psql('postgres', 'DROP TABLE t; CREATE TABLE t (id int, v vector(9)); ' . $uniform->(1, 4000)
		  . '; CREATE INDEX t_i ON t USING gpuivf (v vector_l2_ops) WITH (lists = 160)');
	$node->safe_psql('postgres', $uniform->(4001, 9100));
	$node->safe_psql('postgres', 'VACUUM t');
	is($node->safe_psql('postgres', "SELECT segments FROM vectorgpu_indexes WHERE index_name = 't_i'"), '2', 'VACUUM makes a segment of the new rows');
	cmp_ok(drift(), '<', 1.3, 'which are of the same kind');
}
$node->stop;
done_testing();
