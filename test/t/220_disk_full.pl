# A full disk during build, insert, merge and vacuum (F15): SQLSTATE 53100, nothing lost, and all works again after space
# is freed; and a full disk of the log (F16), which PostgreSQL answers by a PANIC. Needs a small file system: VECTORGPU_SMALL_FS names a folder on one of at most 256 MB that the test may fill;
# without it the test mounts one, which only root can.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use File::Path qw(rmtree);
use Test::More;
use VectorgpuCount;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuWorker;

my $folder = $ENV{VECTORGPU_SMALL_FS};
if (!defined $folder)
{
	my $mount_point = PostgreSQL::Test::Utils::tempdir();
	my $user        = getpwuid $<;

	$folder = $mount_point if system("sudo -n mount -t tmpfs -o size=64m,uid=$<,mode=0700 tmpfs '$mount_point' 2>/dev/null") == 0;
}
plan skip_all => 'no small file system: VECTORGPU_SMALL_FS is not set and mounting one is not allowed' if !defined $folder || !-w $folder;
my ($size_kb) = `df -k --output=size '$folder'` =~ /(\d+)\s*$/;
plan skip_all => "VECTORGPU_SMALL_FS is larger than 256 MB" if $size_kb > 256 * 1024;

my $location = "$folder/vectorgpu_" . $$;
mkdir $location or die "$location: $!";
my $node = make_node('full', conf => "fsync = off\n");
create_comparer($node);
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$location'");

my $rows = int($size_kb * 1024 / (512 * 4) * 0.6);    # the index takes 60 % of the room
make_table($node, 't', dims => 512);
$node->safe_psql('postgres', "INSERT INTO t SELECT i, 0, array_fill((i % 1000)::float4, ARRAY[512])::vector FROM generate_series(1, $rows) i");
$node->safe_psql('postgres', 'CREATE TABLE s (id bigint, category int, v vector(512)); CREATE INDEX s_v ON s USING gpuflat (v vector_l2_ops) TABLESPACE small');

sub free_kb
{
	my ($kb) = `df -k --output=avail '$folder'` =~ /(\d+)\s*$/;
	return $kb;
}
my $empty = free_kb();
my $query = "quote_literal(array_fill(3.3, ARRAY[512])::vector::text) || '::vector'";

sub sound
{
	my ($what, $table, $asked) = @_;

	$asked //= "'<->', $query";

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql('postgres', "SELECT compare_answers('$table', $asked, 20)"), '', "$what: both scans agree");
	check_index($node, "${table}_v", name => "$what: check");
	return;
}

# Two builds do not fit.
my $create = 'CREATE INDEX t_v ON t USING gpuflat (v vector_l2_ops) TABLESPACE small';
$node->safe_psql('postgres', $create);
for my $sql ('CREATE INDEX t_x ON t USING gpuflat (v vector_ip_ops) TABLESPACE small', 'REINDEX INDEX t_v', 'REINDEX INDEX CONCURRENTLY t_v')
{
	my ($state, $message) = psql_state($node, $sql);
	is($state, '53100', "$sql: disk full") or diag($message);
	sound("after $sql", 't');
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_v_ccnew; CHECKPOINT');
	cmp_ok(free_kb(), '>', $empty * 0.3, "$sql: the room was given back");
}

# Inserts until the disk is full; then room, then again.
my $insert = 'INSERT INTO s SELECT i, 0, array_fill((i %% 1000)::float4, ARRAY[512])::vector FROM generate_series(%d, %d) i';
my ($state, $message, $batch) = ('00000', '', 0);
while ($state eq '00000' && $batch < 1000)
{
	($state, $message) = psql_state($node, sprintf($insert, 500 * $batch + 1, 500 * $batch + 500));
	$batch++;
}
is($state, '53100', "insert $batch: disk full") or diag($message);
sound('after a failed insert', 's');
for my $sql ('SELECT vectorgpu_merge(\'s_v\')', 'DELETE FROM s WHERE id % 10 = 0; VACUUM (INDEX_CLEANUP on) s')
{
	($state, $message) = psql_state($node, $sql);
	like($state, qr/^(?:53100|00000)$/, "$sql on a full disk: $state") or diag($message);
	sound("after $sql on a full disk", 's');
}
$node->safe_psql('postgres', 'DROP INDEX t_v; CHECKPOINT');
$node->safe_psql('postgres', sprintf($insert, 900_001, 900_300));
$node->safe_psql('postgres', "SELECT vectorgpu_merge('s_v')");
sound('with room again', 's');
$node->safe_psql('postgres', 'DELETE FROM s; VACUUM s; CHECKPOINT');
$node->safe_psql('postgres', 'REINDEX INDEX s_v; CHECKPOINT');
cmp_ok(free_kb(), '>', $empty * 0.9, 'no file is left over');

# The other access methods: builds and merges of gpuivf and gpugraph write lists and edges besides; of gpumatch rows in the delta are values of any
# size. With little room left over, so that it is soon full.
my $ballast = "$folder/ballast_$$";
sub fill_disk
{
	my ($spare_kb) = @_;

	system("dd if=/dev/zero of='$ballast' bs=1024 count=" . (free_kb() - $spare_kb) . ' 2>/dev/null') == 0 or die 'ballast';
	return;
}

my $vectors = 'array_fill((i %% 1000)::float4, ARRAY[512])::vector';
my $arrays = '(SELECT array_agg(i %% 700 + 3 * d) FROM generate_series(1, CASE WHEN i %% 100 = 0 THEN 9000 ELSE 90 END) d)';
my @others = (
	# name, type, values of i, index definition, another index, a query
	[ 'gpuivf', 'vector(512)', $vectors, '(v vector_l2_ops) WITH (lists = 10)', '(v vector_ip_ops) WITH (lists = 10)', "'<->', $query" ],
	[ 'gpuivf', 'vector(512)', $vectors, "(v vector_l2_ops) WITH (lists = 10, storage = 'sq8')", "(v vector_ip_ops) WITH (lists = 10, storage = 'pq', refine = 'none')", "'<->', $query" ],
	[ 'gpugraph', 'vector(512)', $vectors, '(v vector_l2_ops)', '(v vector_ip_ops)', "'<->', $query" ],
	[ 'gpumatch', 'int[]', $arrays, '(v)', '(v)', q{'<#>', '''{1,2,3,500,1000}''::int[]'} ]);
for my $other (@others)
{
	my ($method, $type, $value, $made, $second, $asked) = @$other;
	my $name = "$method $made";
	my $add = "INSERT INTO g SELECT i, 0, $value FROM generate_series(%d, %d) i";

	$node->safe_psql('postgres', "CREATE TABLE g (id bigint, category int, v $type); " . sprintf($add, 1, 500) . "; CREATE INDEX g_v ON g USING $method $made TABLESPACE small; CHECKPOINT");
	fill_disk(2048);
	for ($state = '00000', $batch = 0; $state eq '00000' && $batch < 1000; $batch++)
	{
		($state, $message) = psql_state($node, sprintf($add, 1000 + 100 * $batch, 1099 + 100 * $batch));
	}
	is($state, '53100', "$name, insert $batch: disk full") or diag($message);
	sound("$name, after a failed insert", 'g', $asked);
	for my $sql (q{SELECT vectorgpu_merge('g_v')}, 'DELETE FROM g WHERE id % 10 = 0; VACUUM (INDEX_CLEANUP on) g', 'REINDEX INDEX g_v', "CREATE INDEX g_x ON g USING $method $second TABLESPACE small")
	{
		($state, $message) = psql_state($node, $sql);
		like($state, $sql =~ /VACUUM/ ? qr/^(?:53100|00000)$/ : qr/^53100$/, "$name: $sql on a full disk: $state") or diag($message);
		sound("$name, after $sql on a full disk", 'g', $asked);
	}
	unlink $ballast or die $!;
	$node->safe_psql('postgres', sprintf($add, 900_001, 900_100) . q{; SELECT vectorgpu_merge('g_v'); CHECKPOINT});
	sound("$name, with room again", 'g', $asked);
	$node->safe_psql('postgres', 'DROP TABLE g; CHECKPOINT');
	cmp_ok(free_kb(), '>', $empty * 0.9, "$name: no file is left over");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process crashed');

$node->safe_psql('postgres', 'DROP TABLE s; DROP TABLE t; CHECKPOINT; DROP TABLESPACE small');
$node->stop;
rmdir $location;

# --- the disk of the log: PostgreSQL ends with PANIC; after space is freed it recovers, and committed rows are there.
my $wal = PostgreSQL::Test::Cluster->new('wal');
$wal->init(extra => [ "--waldir=$folder/wal_$$", '--wal-segsize=1' ]);
$wal->append_conf('postgresql.conf', "max_wal_size = 1GB\ncheckpoint_timeout = 1h\nautovacuum = off\nfsync = off\n");
$wal->start;
create_extension($wal);
expect_crash($wal, qr/PANIC:  .*No space left on device/, qr/was terminated by signal 6\b/);
create_comparer($wal);
my @methods = ('gpuflat (v vector_l2_ops)', 'gpuivf (v vector_l2_ops) WITH (lists = 4)', 'gpugraph (v vector_l2_ops)', 'gpumatch (v)');
sub value_of
{
	my ($i) = @_;

	return $methods[$i] =~ /gpumatch/ ? '(SELECT array_agg(i % 1000 + d) FROM generate_series(1, 64) d)' : 'array_fill((i % 1000)::float4, ARRAY[64])::vector';
}
for my $i (0 .. $#methods)
{
	$wal->safe_psql('postgres', "CREATE TABLE w$i (id bigint, category int, v " . ($methods[$i] =~ /gpumatch/ ? 'int[]' : 'vector(64)') . "); INSERT INTO w$i SELECT i, 0, " . value_of($i) . " FROM generate_series(1, 200) i; CREATE INDEX w${i}_v ON w$i USING $methods[$i]");
}
fill_disk(12 * 1024);
my ($committed, $ended) = (0, '00000');
for ($batch = 0; $batch < 2000; $batch++)
{
	my $i = $batch % @methods;
	($ended) = psql_state($wal, "INSERT INTO w$i SELECT i, 1, " . value_of($i) . ' FROM generate_series(' . (1000 + 400 * $batch) . ', ' . (1399 + 400 * $batch) . ') i');
	last if $ended ne '00000';
	$committed++;
}
isnt($ended, '00000', "the log's disk is full after $committed inserts ($ended)");
like(slurp_file($wal->logfile), qr/PANIC:.*No space left on device/, 'PostgreSQL gave up');
unlink $ballast or die $!;

# Its own attempts to recover may have failed for lack of space; then it has ended.
# Before the postmaster notices, it still takes connections.
ok(wait_until(sub { slurp_file($wal->logfile) =~ /was terminated by signal 6/ }), 'the postmaster has noticed');
my $up;
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	my ($rc, $out) = $wal->psql('postgres', 'SELECT 1');
	$up = $rc == 0 && $out eq '1' and last;
	system('pg_ctl', '-s', '-w', '-D', $wal->data_dir, '-l', $wal->logfile, 'start') if !-e $wal->data_dir . '/postmaster.pid';
	select undef, undef, undef, 0.1;
}
ok($up, 'it is back after space is freed');
$wal->_update_pid(1);
is($wal->safe_psql('postgres', 'SELECT ' . join(' + ', map { "(SELECT count(*) FROM w$_ WHERE category = 1)" } 0 .. $#methods)), 400 * $committed, 'the committed rows are there, and no others');
for my $i (0 .. $#methods)
{
	is($wal->safe_psql('postgres', "SET gpuivf.probes = 4; SET gpugraph.search_width = 4000; SELECT compare_answers('w$i', " . ($methods[$i] =~ /gpumatch/ ? q{'<#>', '''{3,4,70,500}''::int[]'} : q{'<->', quote_literal(array_fill(3.3, ARRAY[64])::vector::text) || '::vector'}) . ', 20)'), '', "$methods[$i]: both scans agree");
	check_index($wal, "w${i}_v", name => "$methods[$i]: check");
}
unlike(slurp_file($wal->logfile), qr/TRAP|signal 11/, 'nothing else crashed');
$wal->stop;
rmtree("$folder/wal_$$");
system("sudo -n umount '$folder' 2>/dev/null") if !defined $ENV{VECTORGPU_SMALL_FS};
done_testing();
