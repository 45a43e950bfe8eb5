# Text and binary forms keep every bit (C34, F29): random bit patterns, denormals, FLT_MAX, minus zero, all 63488 finite
# halves, sparse values; through COPY, dump and restore.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node   = make_node('values');
my $folder = PostgreSQL::Test::Utils::tempdir();
my $seed   = 20240607;
note("seed $seed");
srand($seed);

# A COPY BINARY file of (id int4, v) rows from the wire form of each value.
sub write_binary_copy
{
	my ($file, @values) = @_;
	my $id = 0;

	open my $out, '>:raw', $file or die "$file: $!";
	print $out "PGCOPY\n\xff\r\n\0", pack('NN', 0, 0);
	print $out pack('n N N', 2, 4, ++$id), pack('N', length $_), $_ for @values;
	print $out pack('n', 0xffff);
	close $out;
	return;
}

my @patterns = (0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000);
while (@patterns < 20_000)
{
	my $bits = int(rand(65536)) << 16 | int(rand(65536));
	push @patterns, $bits if ($bits & 0x7f800000) != 0x7f800000;
}
my @values;
for (my $first = 0; $first < @patterns; $first += 100)
{
	push @values, pack('nn', 100, 0) . pack('N*', @patterns[ $first .. $first + 99 ]);
}
write_binary_copy("$folder/vectors", @values);

my @halves = grep { ($_ & 0x7c00) != 0x7c00 } 0 .. 65535;
is(scalar @halves, 63488, 'all finite halves');
@values = ();
for (my $first = 0; $first < @halves; $first += 15_872)
{
	push @values, pack('nn', 15_872, 0) . pack('n*', @halves[ $first .. $first + 15_871 ]);
}
write_binary_copy("$folder/halves", @values);

# Sparse values store the same patterns but the zeros, each at an index of its own.
my @stored = grep { $_ & 0x7fffffff } @patterns;
@values = (pack('NNN', 1, 0, 0), pack('NNN', 1_000_000_000, 0, 0));
for (my $first = 0; $first < @stored; $first += 700)
{
	my @part = @stored[ $first .. ($first + 699 < $#stored ? $first + 699 : $#stored) ];
	push @values, pack('NNN', 1_000_000_000, scalar @part, 0) . pack('N*', map { $_ * 1_000_000 + int(rand(1_000_000)) } 0 .. $#part) . pack('N*', @part);
}
write_binary_copy("$folder/sparse", @values);

$node->safe_psql('postgres', <<SQL);
CREATE TABLE vectors (id int PRIMARY KEY, v vector(100));
CREATE TABLE halves (id int PRIMARY KEY, v halfvec(15872));
COPY vectors FROM '$folder/vectors' (FORMAT binary);
COPY halves FROM '$folder/halves' (FORMAT binary);
CREATE TABLE sparse (id int PRIMARY KEY, v sparsevec);
COPY sparse FROM '$folder/sparse' (FORMAT binary);
SQL

my %send = (vectors => 'vector_send', halves => 'halfvec_send', sparse => 'sparsevec_send');
my %type = (vectors => 'vector', halves => 'halfvec', sparse => 'sparsevec');
for my $table ('vectors', 'halves', 'sparse')
{
	my $send = $send{$table};
	my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM $table");

	cmp_ok($rows, '>', 3, "$table: rows were read");
	$node->safe_psql('postgres', "COPY $table TO '$folder/$table.again' (FORMAT binary)");
	is(slurp_file("$folder/$table.again"), slurp_file("$folder/$table"), "$table: COPY BINARY gives back the file, byte for byte");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE $send(v::text::$type{$table}) = $send(v)"),
		$rows, "$table: the text form keeps every bit");
	is($node->safe_psql('postgres', "SET extra_float_digits = 0; SELECT count(*) FROM $table WHERE $send(v::text::$type{$table}) = $send(v)"),
		$rows, "$table: with extra_float_digits = 0 too");
	$node->safe_psql('postgres', <<SQL);
CREATE TABLE ${table}_text (LIKE $table);
COPY $table TO '$folder/$table.text';
COPY ${table}_text FROM '$folder/$table.text';
SQL
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table a JOIN ${table}_text b USING (id) WHERE $send(a.v) = $send(b.v)"),
		$rows, "$table: so does text COPY");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM vectors WHERE (SELECT string_agg(float4send(x), '' ORDER BY n) FROM unnest(v::real[]) WITH ORDINALITY u(x, n)) = substr(vector_send(v), 5)"),
	200, 'the cast to real[] keeps every bit');
is($node->safe_psql('postgres', 'SELECT count(*) FROM vectors WHERE vector_send(v::real[]::vector) = vector_send(v)'),
	200, 'and the cast back');
is($node->safe_psql('postgres', 'SELECT count(*) FROM halves WHERE halfvec_send(v::vector::halfvec) = halfvec_send(v)'),
	4, 'halfvec to vector and back keeps every bit');
is($node->safe_psql('postgres', 'SELECT count(*) FROM vectors WHERE id > 1 AND vector_send(v::sparsevec::vector) = vector_send(v)'),
	199, 'vector to sparsevec and back keeps every bit but that of -0');

# An index over such rows: sums of squares overflow, distances are infinite or NaN-free as in a sequential scan.
create_comparer($node);
$node->safe_psql('postgres', 'CREATE INDEX vectors_v ON vectors USING gpuflat (v vector_l2_ops)');
check_index($node, 'vectors_v');
for my $op ('<->')
{
	is($node->safe_psql('postgres', "SELECT compare_answers('vectors', '$op', quote_literal(v::text) || '::vector', NULL) FROM vectors WHERE id IN (1, 77)"),
		"\n", "extreme values: index and sequential scans agree for $op");
}

# Refused input (F28, F29): the SQLSTATE, and the table is as it was.
my %refused = (
	'NaN element'          => [ "INSERT INTO vectors VALUES (1001, '[NaN]')", '22P02|22000|22003' ],
	'infinite element'     => [ "INSERT INTO vectors VALUES (1001, '[Infinity]')", '22P02|22000|22003' ],
	'too large an element' => [ "SELECT '[1e39]'::vector", '22003' ],
	'wrong dimensions'     => [ "INSERT INTO vectors VALUES (1001, '[1,2]')", '22000' ],
	'no bracket'           => [ "SELECT '1,2'::vector", '22P02' ],
	'no elements'          => [ "SELECT '[]'::vector", '22000' ],
	'array with NULL'      => [ "SELECT ARRAY[1, NULL]::vector", '22004' ],
	'typmod 0'             => [ 'CREATE TABLE x (v vector(0))', '22023' ],
	'typmod 16001'         => [ 'CREATE TABLE x (v vector(16001))', '22023' ]);
for my $what (sort keys %refused)
{
	my ($state, $message) = psql_state($node, $refused{$what}[0]);
	like($state, qr/^(?:$refused{$what}[1])$/, "$what is refused") or diag($message);
}
my %bad_wire = (
	'NaN'               => pack('nnN', 1, 0, 0x7fc00000),
	'infinity'          => pack('nnN', 1, 0, 0x7f800000),
	'unused not 0'      => pack('nnN', 1, 1, 0x3f800000),
	'no dimensions'     => pack('nn', 0, 0),
	'65535 dimensions'  => pack('nn', 65535, 0),
	'short of elements' => pack('nnN', 2, 0, 0x3f800000),
	'extra bytes'       => pack('nnNN', 1, 0, 0x3f800000, 0));
$node->safe_psql('postgres', 'CREATE TABLE wire (id int, v vector)');
for my $what (sort keys %bad_wire)
{
	write_binary_copy("$folder/bad", $bad_wire{$what});
	my ($state, $message) = psql_state($node, "COPY wire FROM '$folder/bad' (FORMAT binary)");
	like($state, qr/^(?:22000|22003|22P02|22P03|08P01|54000)$/, "binary value with $what is refused") or diag($message);
}
my %bad_sparse = (
	'no dimensions'          => [ pack('NNN', 0, 0, 0), '22000', 'sparsevec must have at least 1 dimension' ],
	'too many dimensions'    => [ pack('NNN', 1_000_000_001, 0, 0), '54000', 'sparsevec cannot have more than 1000000000 dimensions' ],
	'4294967295 dimensions'  => [ pack('NNN', 0xffffffff, 0, 0), '22000', 'sparsevec must have at least 1 dimension' ],
	'-1 elements'            => [ pack('NNN', 5, 0xffffffff, 0), '22000', 'sparsevec cannot have negative number of elements' ],
	'too many elements'      => [ pack('NNN', 20_000, 16_001, 0), '54000', 'sparsevec cannot have more than 16000 non-zero elements' ],
	'elements of 1 too many' => [ pack('NNN', 1, 2, 0), '54000', 'sparsevec cannot have more elements than dimensions' ],
	'unused not 0'           => [ pack('NNN', 1, 0, 0xffffffff), '22000', 'expected unused to be 0, not -1' ],
	'index out of bounds'    => [ pack('NNNNN', 5, 1, 0, 5, 0x3f800000), '22000', 'sparsevec index out of bounds' ],
	'index -1'               => [ pack('NNNNN', 5, 1, 0, 0xffffffff, 0x3f800000), '22000', 'sparsevec index out of bounds' ],
	'descending indices'     => [ pack('NNNNNNN', 5, 2, 0, 3, 2, 0x3f800000, 0x3f800000), '22000', 'sparsevec indices must be in ascending order' ],
	'an index twice'         => [ pack('NNNNNNN', 5, 2, 0, 2, 2, 0x3f800000, 0x3f800000), '22000', 'sparsevec indices must not contain duplicates' ],
	'NaN'                    => [ pack('NNNNN', 5, 1, 0, 2, 0x7fc00000), '22000', 'NaN not allowed in sparsevec' ],
	'infinity'               => [ pack('NNNNN', 5, 1, 0, 2, 0xff800000), '22000', 'infinite value not allowed in sparsevec' ],
	'0'                      => [ pack('NNNNN', 5, 1, 0, 2, 0), '22000', 'binary representation of sparsevec cannot contain zero values' ],
	'-0'                     => [ pack('NNNNN', 5, 1, 0, 2, 0x80000000), '22000', 'binary representation of sparsevec cannot contain zero values' ],
	'elements missing'       => [ pack('NNNN', 5, 1, 0, 2), '08P01', 'insufficient data left in message' ],
	'extra bytes'            => [ pack('NNNN', 5, 0, 0, 2), '22P03', 'incorrect binary data format' ]);
$node->safe_psql('postgres', 'CREATE TABLE sparse_wire (id int, v sparsevec)');
for my $what (sort keys %bad_sparse)
{
	my ($bytes, $expected_state, $expected_message) = @{ $bad_sparse{$what} };

	write_binary_copy("$folder/bad", $bytes);
	my ($state, $message) = psql_state($node, "COPY sparse_wire FROM '$folder/bad' (FORMAT binary)");
	is($state, $expected_state, "binary sparsevec with $what is refused");
	like($message, qr/\Q$expected_message\E/, "... the message says why");
}

$node->stop;
done_testing();
