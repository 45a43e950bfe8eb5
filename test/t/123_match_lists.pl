# The lists and texts of a gpumatch index: a bit of each part flipped behind a right checksum (F24) is reported by vectorgpu_check against
# the table, of the structure alone where it contradicts itself, and searches end; rows of several tiles, counted in pieces that begin
# within a tile; texts of every width, without characters and without n-grams, before and after merges that make their values anew.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

plan skip_all => 'no python3' if system('python3 -c "import ctypes" 2>/dev/null') != 0;

my $node = make_node('lists', checksums => 0, conf => "fsync = off\nautovacuum = off\nvectorgpu.auto_merge = off\nwork_mem = '64kB'\n");

$node->safe_psql('postgres', q{CREATE DATABASE texts TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'});
$node->safe_psql('texts', 'CREATE EXTENSION vectorgpu');

sub sql { return $node->safe_psql('texts', @_); }

# Flips bit `number` (counted over a stream's pages and around) of a stream of an index's file.
my $python = <<'EOP';
import ctypes, struct, sys
path, stream, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
xxh3 = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
with open(path, 'r+b') as f:
	data = bytearray(f.read())
	tags = [(at, *struct.unpack_from('<IHHIII', data, at + 24)) for at in range(0, len(data), 8192)]
	pages = [(at, used, checksum) for at, checksum, role, kind, _, _, used in tags if role == 2 and kind == stream]
	at, used, checksum = pages[number % len(pages)]
	sealed = lambda: xxh3(bytes(data[at + 28:at + 8192]), 8192 - 28) & 0xffffffff
	assert checksum == sealed(), 'the checksum is computed otherwise'
	bit = number * 7919 % (used * 8)
	data[at + 64 + bit // 8] ^= 1 << bit % 8
	struct.pack_into('<I', data, at + 24, sealed())
	f.seek(0)
	f.write(data)
EOP

sql(<<'SQL');
CREATE TABLE t (id int, v text);
INSERT INTO t SELECT i, CASE i % 10 WHEN 0 THEN NULL WHEN 1 THEN left('ab', i % 3) WHEN 2 THEN left(md5(i::text), 9) || chr(228) || 'o'
	WHEN 3 THEN chr(8364) || left(md5(i::text), 11) || chr(128512) WHEN 4 THEN repeat('aba', i % 7) ELSE left(md5((i % 50)::text), 14) END
FROM generate_series(1, 600) i;
SQL

# Streams (am/gpumatch/gpumatch.hpp); each flip in an index of its own, which only queries with its condition use.
my %streams = (5 => 'keys', 6 => 'dictionary', 10 => 'lists', 8 => 'ends of texts', 9 => 'texts');
my $flips = 25;
my @damaged;

for my $stream (sort { $a <=> $b } keys %streams)
{
	push @damaged, map { { name => "i_${stream}_$_", stream => $stream, number => $_, only => $stream * 1000 + $_ } } 1 .. $flips;
}
sql("CREATE INDEX whole ON t USING gpumatch (v text_gram_ops);" . join '', map { "CREATE INDEX $_->{name} ON t USING gpumatch (v text_gram_ops) WHERE id <> -$_->{only};" } @damaged);
$_->{path} = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$_->{name}')") for @damaged;
$node->stop;
for my $index (@damaged)
{
	my $err = '';

	IPC::Run::run([ 'python3', '-c', $python, $index->{path}, $index->{stream}, $index->{number} ], '2>', \$err) or die "$index->{name}: $err";
}
$node->start;
sql(<<'SQL');
CREATE FUNCTION state_of(statement text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE statement; RETURN '00000'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
SQL
my %deep;
my %shallow;

for my $index (@damaged)
{
	my @states = split /\n/, sql("SELECT state_of('SELECT vectorgpu_check(''$index->{name}'', true)'); SELECT state_of('SELECT vectorgpu_check(''$index->{name}'')')");

	$deep{ $index->{stream} }{ $states[0] }++;
	$shallow{ $index->{stream} }{ $states[1] }++;
}
for my $stream (sort { $a <=> $b } keys %streams)
{
	is_deeply($deep{$stream}, { XX002 => $flips }, "$streams{$stream}: the check against the table reports each of $flips flipped bits");
	is(join(',', grep { !/^(00000|XX002)$/ } keys %{ $shallow{$stream} }), '', "$streams{$stream}: the check of the structure ends");
}
cmp_ok($shallow{10}{XX002} // 0, '>', $flips * 2 / 3, 'lists: most bits contradict the structure');
is(sql("SELECT state_of('SELECT vectorgpu_check(''whole'', true)')"), '00000', 'an index beside them is sound');
my $searched = 0;

for my $index (@damaged)
{
	my $search = "SELECT id FROM t WHERE id <> -$index->{only} ORDER BY v <~> 'c4ca4238a0b923' LIMIT 5";
	my ($plan, $state) = split /\n(?=\w{5}$)/, sql("SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS OFF) $search; SELECT state_of(\$q\$$search\$q\$)");

	$searched++ if $plan =~ /$index->{name}\b/ && $state =~ /^(00000|XX002)$/;
}
is($searched, scalar @damaged, 'searches of damaged indexes end');
sql('DROP TABLE t');

# Distances of the first rows, by the index or by the sequential scan.
sub first_rows
{
	my ($table, $query, $limit, $where) = @_;
	my $rows = "SELECT string_agg(id || ':' || coalesce(d::text, '-'), ',') FROM (SELECT id, v <~> ($query) AS d FROM $table WHERE " . ($where // 'true') . " ORDER BY v <~> ($query)%s LIMIT $limit) s";
	my $by_index = sql("SET enable_seqscan = off; SET enable_sort = off; " . sprintf($rows, ''));
	my $by_table = sql("SET enable_indexscan = off; " . sprintf($rows, ', ctid'));

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(sql("SET enable_seqscan = off; SET enable_sort = off; EXPLAIN (COSTS OFF) " . sprintf($rows, '')), qr/Index Scan/, "$table: an index is used");
	ok($by_index eq $by_table, "$table: the first $limit rows by " . substr($query, 0, 40)) or diag(substr($by_index, 0, 300) . "\n" . substr($by_table, 0, 300));
	return;
}

# A query of more than 255 n-grams needs counters of two bytes: 132,080 of them fit what a search takes at least, and the next ones begin within a tile.
my $long = join '', map { chr(97 + $_ * $_ % 23) . chr(97 + $_ % 7) } 1 .. 160;
sql(<<SQL);
CREATE TABLE tiles (id int, v text);
INSERT INTO tiles SELECT i, CASE WHEN i % 4000 = 17 THEN overlay('$long' placing left(md5(i::text), i % 9) from 1 + i % 90) ELSE left(md5((i % 300)::text), i % 30) END
FROM generate_series(1, 140000) i;
CREATE INDEX tiles_v ON tiles USING gpumatch (v text_gram_ops);
SQL
first_rows('tiles', "'$long'", 50);
first_rows('tiles', "'c4ca4238a0b923820dcc'", 1000);
check_index($node, 'tiles_v', db => 'texts', name => 'tiles: check');

# Values made anew of the texts in a merge are those that were inserted.
sql(<<'SQL');
CREATE TABLE odd (id int, v text);
INSERT INTO odd SELECT i, CASE i % 8 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN left('ab', 1 + i % 2) WHEN 3 THEN repeat(chr(228), i % 40) WHEN 4 THEN repeat(chr(8364) || 'x', i % 30)
	WHEN 5 THEN chr(128512) || repeat('long ', 1 + i * 7) WHEN 6 THEN left(md5(i::text), 12) ELSE chr(1) || chr(127) || chr(128) || chr(2047) || chr(2048) || chr(65535) || chr(1114111) || i END
FROM generate_series(1, 400) i;
CREATE INDEX odd_2 ON odd USING gpumatch (v text_gram_ops (n = 2)) WHERE id <> -2;
CREATE INDEX odd_16 ON odd USING gpumatch (v text_gram_ops (n = 16)) WHERE id <> -16;
INSERT INTO odd SELECT id + 1000, v FROM odd WHERE id % 3 = 0;
DELETE FROM odd WHERE id % 11 = 5;
VACUUM (INDEX_CLEANUP on) odd;
SQL
for my $round (1 .. 3)
{
	for my $n (2, 16)
	{
		my $index = "odd_$n";

		is(sql("INSERT INTO odd VALUES (2000 + $round, chr(8364) || '$index'); SELECT rows_moved > 0 FROM vectorgpu_merge('$index')"), 't', "$index: merge $round");
		check_index($node, $index, db => 'texts', name => "$index: check $round");
		first_rows('odd', q{chr(228) || 'bc' || chr(128512)}, 600, "id <> -$n");
		first_rows('odd', q{repeat(chr(8364) || 'x', 17)}, 100, "id <> -$n");
	}
}
sql('DELETE FROM odd; INSERT INTO odd VALUES (1, \'one row\')');
sql('VACUUM (INDEX_CLEANUP on) odd');
sql("SELECT vectorgpu_merge('$_')") for 'odd_2', 'odd_16';
check_index($node, $_, db => 'texts', name => "$_: check of one row") for 'odd_2', 'odd_16';
first_rows('odd', q{'a row'}, 5, "id <> -$_") for 2, 16;
$node->stop;
done_testing();
