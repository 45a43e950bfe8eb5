# The shared library in a backend (C44): no start-up code that changes floating point arithmetic, no
# GPU or BLAS library, no C++ exception that escapes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node    = make_node('library');
my $library = $node->config_data('--pkglibdir') . '/vectorgpu.so';

ok(-f $library, 'the library is installed');
my $symbols = `nm --defined-only '$library' 2>/dev/null` . `nm -D --defined-only '$library' 2>/dev/null`;
like($symbols, qr/_PG_init/, 'nm reads the library');
unlike($symbols, qr/set_fast_math/, 'the library was not linked with -ffast-math');
my $needed = `ldd '$library'`;
like($needed, qr/libc\.so/, 'ldd reads the library');
unlike($needed, qr/libcuda|libcudart|libcublas|libopenblas|libblas|libgomp/, 'no GPU, BLAS or OpenMP library in a backend');

# Denormal numbers, before and after the library is in the process. A table keeps the planner from folding constants.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE denormal (d float8, f float4);
INSERT INTO denormal VALUES (9.88131291682493e-324, 2.8e-45), (2.2250738585072014e-308, 1.17549435e-38);
SQL
my $arithmetic = "SELECT string_agg(encode(float8send(d * 1.0) || float8send(d / 2) || float4send((f * 1::float4)::float4) || float4send(f / 2::float4), 'hex'), ' ' ORDER BY d) FROM denormal";
my $before = $node->safe_psql('postgres', $arithmetic);
my $after  = $node->safe_psql('postgres', "LOAD 'vectorgpu'; $arithmetic");
is($after, $before, 'denormal arithmetic is unchanged by LOAD');
like($before, qr/^0000000000000002/, 'denormals were not flushed before either');

make_table($node, 't', dims => 16);
fill_vectors($node, 't', rows => 500, dims => 16);
$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING gpuflat (v vector_l2_ops)');
my $query = query_vector($node, 1, dims => 16);
$after = $node->safe_psql('postgres',
	"SET enable_seqscan = off; SELECT count(id) FROM (SELECT id FROM t ORDER BY v <-> $query LIMIT 100) s; $arithmetic");
is($after, "100\n$before", 'nor by a search');
is($node->safe_psql('postgres', "SELECT '[1e-40,0]'::vector <+> '[0,0]'::vector > 0, vector_send('[1e-40]'::vector * '[1]'::vector) = vector_send('[1e-40]'::vector)"),
	't|t', 'denormal elements count in distances');

# Errors inside the library, of an operator and of a scan, have their SQLSTATE, and the session continues; the same for a failed allocation.
my $settings = 'SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker = off';
my $search = "SELECT string_agg(id::text, ',') FROM (SELECT id FROM t ORDER BY v <-> %s LIMIT 10) s";
my $right = $node->safe_psql('postgres', "SET enable_indexscan = off; " . sprintf($search, $query));
my @errors = (
	[ 'an operator', '22000', "SELECT '[1,2]'::vector <-> '[1]'::vector" ],
	[ 'a scan', '22000', sprintf($search, q{'[1,2]'}) ]);
push @errors, [ 'a failed allocation', '53200', "SET vectorgpu.fault = 'page_read:1:enomem'; " . sprintf($search, $query) ] if faults_enabled($node);
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = session_pid($session);
$session->query_safe("LOAD 'vectorgpu'; $settings; \\set VERBOSITY verbose");
for (@errors)
{
	my ($what, $state, $sql) = @$_;

	is($session->query($sql), '', "$what: no answer");
	like($session->{stderr}, qr/ERROR:  $state: /, "$what: an ordinary error with its SQLSTATE");
	$session->{stderr} = '';
	$session->query_safe('RESET vectorgpu.fault') if faults_enabled($node);
	is($session->query_safe(sprintf($search, $query)), $right, "$what: the session goes on");
	is(session_pid($session), $pid, "$what: it is the same process");
}
$session->quit;

$node->stop;
done_testing();
