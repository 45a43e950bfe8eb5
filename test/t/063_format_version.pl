# An index of another version of the format (docs/operations.md, "Version of the format"), of each access method: statements
# that need its pages get SQLSTATE 0A000 with both versions and a hint, and nothing is lost; the table can be read without it,
# DROP INDEX and REINDEX work. The checksum distinguishes a damaged version from another one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

plan skip_all => 'no python3' if system('python3 -c "import ctypes" 2>/dev/null') != 0;

my $node   = make_node('format_version', checksums => 0, conf => "fsync = off\n");
my $python = <<'EOP';
import ctypes, struct, sys
path, version, fill, seal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
xxh3 = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
with open(path, 'r+b') as f:
	page = bytearray(f.read(8192))
	checksum = lambda: xxh3(bytes(page[28:]), 8192 - 28) & 0xffffffff
	assert struct.unpack_from('<I', page, 24)[0] == checksum(), 'the checksum is computed otherwise'
	struct.pack_into('<I', page, 68, version)
	if fill:
		page[72:] = bytes([255]) * (8192 - 72)
	if seal:
		struct.pack_into('<I', page, 24, checksum())
	f.seek(0)
	f.write(page)
EOP

# Columns of each access method's indexes, and their queries.
my %of = (
	gpuflat  => [ 'vector(8)', 'test_vector(i, 8)::vector', "v <-> '[1,2,3,4,5,6,7,8]'" ],
	gpuivf   => [ 'vector(8)', 'test_vector(i, 8)::vector', "v <-> '[1,2,3,4,5,6,7,8]'" ],
	gpugraph => [ 'vector(8)', 'test_vector(i, 8)::vector', "v <-> '[1,2,3,4,5,6,7,8]'" ],
	gpumatch => [ 'int[]',     'ARRAY[i % 7, i % 11 + 10]', "v <#> '{3,14}'" ]);
my @methods = sort keys %of;

# Distances of the nearest rows, by the index or without it.
sub nearest
{
	my ($am, $indexscan) = @_;
	my $use = $indexscan ? 'SET enable_seqscan = off; SET enable_sort = off;' : 'SET enable_indexscan = off;';

	return $node->safe_psql('postgres', "$use SELECT string_agg(d::text, ',' ORDER BY n) FROM (SELECT d, row_number() OVER () AS n FROM (SELECT $of{$am}[2] AS d FROM t_$am ORDER BY $of{$am}[2] LIMIT 12) s) s");
}

# Writes this version to the metapage of each index; seal 0 keeps the old checksum, fill 1 overwrites the rest of the page, which
# another version may use differently.
sub set_version
{
	my ($version, $seal, $fill, @indexes) = @_;
	my %path = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } @indexes;

	$node->stop;
	for my $index (@indexes)
	{
		my $err = '';

		IPC::Run::run([ 'python3', '-c', $python, $path{$index}, $version, $fill, $seal ], '2>', \$err) or die "$index: $err";
	}
	$node->start;
	return;
}

# Statements that fail one after the other in one session, as [name, statement]: with the version and the hint?
sub fail_by_version
{
	my ($message, $hint, @cases) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join('', "\\set VERBOSITY verbose\nSET enable_seqscan = off;\n", map { "$_->[1];\n\\warn end of case\n" } @cases), on_error_stop => 0);
	my @errors = split /^end of case$/m, $err;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $i (0 .. $#cases)
	{
		my $error = $errors[$i] // 'the session was lost';

		ok($error =~ /ERROR:\s+0A000: $message\nHINT:  $hint/, $cases[$i][0]) or diag($error);
	}
	return;
}

create_comparer($node);
for my $am (@methods)
{
	my ($type, $value) = @{ $of{$am} };

	$node->safe_psql('postgres', <<SQL);
CREATE TABLE t_$am (id int PRIMARY KEY, v $type);
INSERT INTO t_$am SELECT i, $value FROM generate_series(1, 400) i;
CREATE INDEX t_${am}_v ON t_$am USING $am (v);
INSERT INTO t_$am SELECT i, $value FROM generate_series(401, 420) i;
SQL
}
my %made = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT index_name, format_version FROM vectorgpu_indexes');
my @indexes = map { "t_${_}_v" } @methods;

# Release 0.2 reads what gpuflat and gpuivf make, and would find damage or no rows in what gpugraph and gpumatch do.
is("@made{@indexes}", '3 4 3 4', "versions of new indexes: @indexes");
my ($current, $newest) = (3, 5);    # the newest: of indexes with key columns
leave_unchecked($node, 'they are given other versions; check_index looks at what REINDEX makes', @indexes);

# What release 0.2 does not understand is damage in an index of its version.
my @later = qw(t_gpugraph_v t_gpumatch_v t_texts_v t_sparse_v no_rows_v t_rabitq_v no_rows_rabitq);

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t_sparse AS SELECT format('{%s:1,7:2}/9', 1 + i % 6)::sparsevec(9) AS v FROM generate_series(1, 50) i;
CREATE INDEX t_sparse_v ON t_sparse USING gpuflat (v);
CREATE TABLE t_texts AS SELECT md5(i::text) AS v FROM generate_series(1, 50) i;
CREATE INDEX t_texts_v ON t_texts USING gpumatch (v text_gram_ops);
CREATE TABLE no_rows (v vector(8));
CREATE INDEX no_rows_v ON no_rows USING gpugraph (v);
CREATE INDEX no_rows_rabitq ON no_rows USING gpuivf (v) WITH (storage = rabitq);
CREATE TABLE t_rabitq AS SELECT id, v FROM t_gpuivf;
CREATE INDEX t_rabitq_v ON t_rabitq USING gpuivf (v) WITH (storage = rabitq, bits = 2);
SQL
is($node->safe_psql('postgres', "SELECT string_agg(format_version::text, ',') FROM vectorgpu_indexes WHERE index_name IN ('t_rabitq_v', 'no_rows_rabitq')"), '4,4',
	'storage = rabitq: release 0.2 refuses it, with rows and without');
leave_unchecked($node, 'they are given other versions', qw(t_sparse_v t_texts_v no_rows_v t_rabitq_v no_rows_rabitq));
for my $version ($current, 4)
{
	set_version($version, 1, 0, @later);
	for my $index (@later)
	{
		my ($state, $err) = psql_state($node, "SELECT vectorgpu_check('$index')");

		is($state, $version == 4 ? '00000' : 'XX002', "$index with version $version") or diag($err);
		like($err, qr/The metapage has the version of an earlier release/, "$index with version $version: what is wrong") if $version != 4;
	}
}

# A newer one that keeps the rest of the page, a newer one with another page, an older one.
my $deleted = 420;
for my $case ([ $newest + 1, 0, 'newer' ], [ $newest + 7, 1, 'newer, with an unknown page' ], [ $current - 1, 0, 'older' ])
{
	my ($version, $fill, $what) = @$case;

	set_version($version, 1, $fill, @indexes);
	$deleted--;
	for my $am (@methods)
	{
		my ($index, $table, $order) = ("t_${am}_v", "t_$am", $of{$am}[2]);
		my $message = qr/index "$index" has format version $version, this release reads versions $current to $newest/;
		my $rows    = $node->safe_psql('postgres', "SELECT count(*) FROM $table");

		is($node->safe_psql('postgres', "SELECT format_version, needs_reindex, is_valid, rows FROM vectorgpu_indexes WHERE index_name = '$index'"),
			"$version|t|t|", "$am, $what: vectorgpu_indexes has the version, and needs_reindex");
		fail_by_version($message, $version > $newest ? 'A newer release wrote it: connect again if that release is installed, install it, or rebuild the index with REINDEX INDEX\.' : 'Rebuild it with REINDEX INDEX\.',
			[ "$am, $what: INSERT is refused", "INSERT INTO $table SELECT i, $of{$am}[1] FROM generate_series(1000, 1002) i" ],
			[ "$am, $what: so is UPDATE", "UPDATE $table SET v = (SELECT v FROM $table WHERE id = 2) WHERE id = 1" ],
			[ "$am, $what: a query that the index serves is refused", "SELECT id FROM $table ORDER BY $order LIMIT 3" ],
			[ "$am, $what: vectorgpu_check says so", "SELECT vectorgpu_check('$index')" ],
			[ "$am, $what: vectorgpu_merge says so", "SELECT vectorgpu_merge('$index')" ],
			[ "$am, $what: vectorgpu_prewarm says so", "SELECT vectorgpu_prewarm('$index')" ],
			[ "$am, $what: DELETE works, VACUUM is refused", "DELETE FROM $table WHERE id = $deleted;\nVACUUM (INDEX_CLEANUP on) $table" ]);
		is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE v IS NOT NULL"), $rows - 1, "$am, $what: the table can be read, and has no row of the INSERT");
	}
}

# A version that the checksum does not match is damage, and not shown as a version.
set_version($newest + 1, 0, 0, @indexes);
for my $am (@methods)
{
	my ($state, $err) = psql_state($node, "SELECT vectorgpu_check('t_${am}_v')");

	is($state, 'XX002', "$am: a damaged version is not another version") or diag($err);
	is($node->safe_psql('postgres', "SELECT format_version, needs_reindex FROM vectorgpu_indexes WHERE index_name = 't_${am}_v'"), '|t', "$am: vectorgpu_indexes does not show it");
}

# REINDEX, as a new release requires.
$node->safe_psql('postgres', join ';', map { "REINDEX INDEX $_" } @indexes);
for my $how ('REINDEX INDEX', 'REINDEX INDEX CONCURRENTLY', 'DROP INDEX')
{
	set_version($newest + 1, 1, 1, @indexes);
	for my $am (@methods)
	{
		my ($index, $table) = ("t_${am}_v", "t_$am");

		$node->safe_psql('postgres', "$how $index");
		$node->safe_psql('postgres', "DELETE FROM $table WHERE id >= 1000; INSERT INTO $table SELECT i, $of{$am}[1] FROM generate_series(1000, 1002) i; VACUUM (INDEX_CLEANUP on) $table");
		is($node->safe_psql('postgres', "SELECT count(*) FROM $table"), 420, "$am: after $how the table can be written");
		next if $how eq 'DROP INDEX';
		is($node->safe_psql('postgres', "SELECT format_version, needs_reindex, rows FROM vectorgpu_indexes WHERE index_name = '$index'"), "$made{$index}|f|420", "$am: $how makes the index one of this release");
		is(nearest($am, 1), nearest($am, 0), "$am: which answers right");
		check_index($node, $index);
	}
}
$node->stop;
done_testing();
