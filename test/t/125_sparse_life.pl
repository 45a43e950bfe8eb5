# Indexes over sparsevec under changes beside scans (vacuum, merges, CONCURRENTLY), each answer compared with the sequential scan of its snapshot;
# immediate stops, after which the acknowledged rows are there; a standby under wal_consistency_checking, promoted; dump and restore; flipped bytes.
# The same index by the name hnsw in the extension vector.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('sparse', streaming => 1, checksums => 0, conf => "wal_consistency_checking = 'generic'\nautovacuum = off\nvectorgpu.auto_merge = off\n");
my @indexes = qw(s_l2 s_ip s_cosine s_l1);
my @operators = ('<->', '<#>', '<=>', '<+>');
my $query = "'{1:2,3:-1.5,5:0.25,700:4,99999:1}/100000'::sparsevec";

create_comparer($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE s (id serial PRIMARY KEY, k int, v sparsevec(100000));
-- Up to 80 elements, half of them among the first ten indices; some rows have 2,000, which take several pages of the delta.
CREATE FUNCTION new_value() RETURNS sparsevec LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN random() < 0.05 THEN NULL ELSE ('{' || coalesce(string_agg(d || ':' || x, ','), '') || '}/100000')::sparsevec END
	FROM (SELECT DISTINCT ON (d) 1 + floor(random() * CASE WHEN j % 2 = 0 THEN 10 ELSE 100000 END)::int AS d, (random() * 8 - 4)::real AS x
		FROM generate_series(1, CASE WHEN random() < 0.03 THEN 2000 ELSE (random() * 80)::int END) j) e $$;
CREATE FUNCTION add_rows(n int) RETURNS void LANGUAGE sql AS 'INSERT INTO s (k, v) SELECT i % 10, new_value() FROM generate_series(1, n) i';
SELECT add_rows(1500);
CREATE INDEX s_l2 ON s USING gpuflat (v, k);
CREATE INDEX s_ip ON s USING gpuflat (v sparsevec_ip_ops);
CREATE INDEX s_cosine ON s USING gpuflat (v sparsevec_cosine_ops);
CREATE INDEX s_l1 ON s USING gpuflat (v sparsevec_l1_ops);
SQL

sub right
{
	my ($name, $server, $db) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $op (@operators)
	{
		is(join(' ', ($server // $node)->psql($db // 'postgres', "SELECT compare_answers('s', '$op', \$q\$$query\$q\$, k) FROM (VALUES (20), (NULL)) l (k)")), "0 \n ",
			"$name: $op, the index answers as the sequential scan");
	}
	return;
}

sub sound
{
	my ($name, $server) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	right($name, $server);
	check_index($server // $node, $_, name => "$name: check of $_") for @indexes;
	return;
}

my $scans = join '', map { "SELECT assert_answers('s', '$_', \$q\$$query\$q\$, 30);\n" } @operators;
sub start_changes
{
	my (%options) = (seconds => 3, merges => 1, @_);
	my $merges = delete $options{merges};

	return start_load($node, {
		'scan@4'   => "BEGIN ISOLATION LEVEL REPEATABLE READ;\n${scans}SELECT assert_answers('s', '<->', \$q\$$query\$q\$, 30, 'k = 3');\nCOMMIT;\n",
		'insert@4' => "SELECT add_rows(5);\n",
		'update@2' => "UPDATE s SET v = new_value() WHERE id IN (SELECT id FROM s WHERE k >= 0 ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED);\n",
		'other@2'  => "UPDATE s SET k = (k + 1) % 10 WHERE id IN (SELECT id FROM s WHERE k >= 0 ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED);\n",
		'delete@2' => "DELETE FROM s WHERE id IN (SELECT id FROM s WHERE k >= 0 ORDER BY random() LIMIT 4 FOR UPDATE SKIP LOCKED);\n",
		'abort@1'  => "BEGIN;\nSELECT add_rows(3);\nROLLBACK;\n",
		'vacuum@1' => "VACUUM s;\n",
		$merges ? ('merge@1' => "SELECT vectorgpu_merge('s_l2'), vectorgpu_merge('s_ip');\nSELECT vectorgpu_merge('s_l1'), vectorgpu_merge('s_cosine');\n") : () },
		clients => 4, %options);
}

sound('after the build');
my $load = start_changes(merges => 0);
$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY s_late ON s USING gpuflat (v)');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY s_ip');
my ($transactions, $problem) = finish_load($load);
is($problem, '', "during changes: no error and no wrong answer in $transactions transactions");
cmp_ok($transactions, '>', 20, 'work was done');
sound('afterwards');
check_index($node, 's_late', name => 'and of the index built meanwhile');
$node->safe_psql('postgres', 'DROP INDEX s_late');

# Immediate stops beside changes and merges. Rows of the test have k = -1.
for my $round (1 .. 2)
{
	my @ids;

	$load = start_changes(seconds => 30);
	push @ids, $node->safe_psql('postgres', 'INSERT INTO s (k, v) VALUES (-1, new_value()) RETURNING id') for 1 .. 10;
	sleep 0.5 + rand 1;
	crash_restart($node);
	finish_load($load);
	unlike($load->{err}, qr/ERROR:/, "immediate stop $round: no error and no wrong answer before it");
	count('checks', scalar @ids);
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SELECT count(*) FROM (SELECT id FROM s ORDER BY v <-> $query) x WHERE id IN (" . join(',', @ids) . ')'),
		scalar @ids, "immediate stop $round: the acknowledged rows are there, once");
	sound("immediate stop $round");
}

# A standby follows, and is promoted.
my $standby = make_standby($node, 'sparse_standby');
for my $change ('SELECT add_rows(200)', 'DELETE FROM s WHERE id % 5 = 2', 'VACUUM s', 'SELECT add_rows(50)', "SELECT vectorgpu_merge('s_l2'), vectorgpu_merge('s_cosine')")
{
	$node->safe_psql('postgres', $change);
	wait_standby($node, $standby);
	right("the standby after $change", $standby);
}
$standby->promote;
$standby->safe_psql('postgres', 'SELECT add_rows(50); DELETE FROM s WHERE id % 7 = 1');
$standby->safe_psql('postgres', 'VACUUM s');
sound('promoted', $standby);
$standby->stop;

# Dump and restore, into a database of the same extension.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '--no-sync', '--file', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restore');
right('restored', $node, 'restored');
is($node->safe_psql('restored', 'SELECT count(*), md5(string_agg(id || v::text, \',\' ORDER BY id)) FROM s'), $node->safe_psql('postgres', 'SELECT count(*), md5(string_agg(id || v::text, \',\' ORDER BY id)) FROM s'), 'with the same rows');

# pgvector's name for it.
SKIP:
{
	skip 'the extension vector is not the one of vectorgpu', 6 if has_pgvector($node);
	$node->safe_psql('postgres', 'CREATE DATABASE named');
	$node->safe_psql('named', 'CREATE EXTENSION vector');
	create_comparer($node, db => 'named');
	$node->safe_psql('named', "CREATE TABLE s (id int, v sparsevec(100000)); INSERT INTO s SELECT i, format('{1:%s,%s:2}/100000', i % 7 + 1, i % 99 + 2)::sparsevec FROM generate_series(1, 500) i;");
	$node->safe_psql('named', "CREATE INDEX s_$_ ON s USING hnsw (v sparsevec_${_}_ops) WITH (m = 32, ef_construction = 100)") for qw(l2 ip cosine l1);
	$node->safe_psql('named', "INSERT INTO s SELECT i, format('{1:%s,%s:2}/100000', i % 7 + 1, i % 99 + 2)::sparsevec FROM generate_series(501, 600) i; DELETE FROM s WHERE id % 3 = 0");
	$node->safe_psql('named', 'VACUUM s');
	right('hnsw', $node, 'named');
	is($node->safe_psql('named', "SELECT string_agg(access_method || ' ' || element || ' ' || dimensions, ',') FROM vectorgpu_indexes WHERE index_name = 's_l2'"), 'hnsw sparsevec 100000', 'hnsw: the view');
	is($node->safe_psql('named', "SELECT heap_rows_checked FROM vectorgpu_check('s_cosine', true)"), 400, 'hnsw: the check');
}

# A byte changed behind the header of a page, the metapage first: an error that reports it, or the right answer; never a wrong one.
$node->safe_psql('postgres', 'CREATE TABLE f AS SELECT * FROM s LIMIT 300; CREATE INDEX f_v ON f USING gpuflat (v); CHECKPOINT');
my $scan = "SET enable_seqscan = off; SET enable_sort = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM f ORDER BY v <-> $query LIMIT 20) x";
leave_unchecked($node, 'bytes of it are changed', 'f_v');
check_flipped_bytes($node, 'f_v', $scan);

# A length in the delta that no value has, under a right checksum: it is reported before memory is taken for it.
SKIP:
{
	skip 'no python3 or libxxhash', 3 if system(q{python3 -c "import ctypes; ctypes.CDLL('libxxhash.so.0')" 2>/dev/null}) != 0;
	$node->safe_psql('postgres', q{CREATE TABLE g (id int, v sparsevec(9000)); CREATE INDEX g_v ON g USING gpuflat (v); INSERT INTO g SELECT i, format('{%s:1.5,8765:-2}/9000', i)::sparsevec FROM generate_series(1, 4000) i});
	leave_unchecked($node, 'a length in it is changed', 'g_v');
	my $file = relation_file($node, 'g_v');

	$node->stop;
	system_or_bail('python3', '-c', <<'EOP', $file, unpack 'H*', pack 'Vl<2f<2', 16, 776, 8764, 1.5, -2);
import ctypes, struct, sys
xxh3 = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
with open(sys.argv[1], 'r+b') as f:
	data = bytearray(f.read())
	at = data.index(bytes.fromhex(sys.argv[2]))
	page = at // 8192 * 8192
	checksum = lambda: xxh3(bytes(data[page + 28:page + 8192]), 8192 - 28) & 0xffffffff
	assert struct.unpack_from('<I', data, page + 24)[0] == checksum(), 'the checksum is computed otherwise'
	struct.pack_into('<I', data, at, 16001 * 8)
	struct.pack_into('<I', data, page + 24, checksum())
	f.seek(0)
	f.write(data)
EOP
	$node->start;
	for my $sql ("SET enable_seqscan = off; SET enable_sort = off; SELECT id FROM g ORDER BY v <-> '{1:1}/9000' LIMIT 3", "SELECT vectorgpu_check('g_v')", "SELECT vectorgpu_merge('g_v')")
	{
		my ($state, $err) = psql_state($node, $sql);

		like("$state $err", qr/^XX002 .*is longer than any value/s, "a value of another length: $sql");
	}
}
$node->stop;
done_testing();
