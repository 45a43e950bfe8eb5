# Copies of a cluster by the server's own programs: pg_upgrade --link (F45), pg_rewind (F42), replay by a process that has never loaded the
# library, and by a server without the library (F41), a postmaster that was stopped (F60). One index of each access method; answers equal those of a
# sequential scan, and checks are clean.
use strict;
use warnings;

use File::Basename qw(dirname);
use FindBin;
use lib "$FindBin::RealBin/../t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuTest;
use VectorgpuWorker;

my %indexes = (
	flat  => 'USING gpuflat (v vector_l2_ops)',
	ivf   => 'USING gpuivf (v vector_l2_ops) WITH (lists = 20)',
	graph => 'USING gpugraph (v vector_l2_ops)',
	match => 'USING gpumatch (a)');

sub fill
{
	my ($node) = @_;

	for my $name (sort keys %indexes)
	{
		$node->safe_psql('postgres', "CREATE TABLE t_$name (id int, v vector(8), a int[])");
		insert($node, $name, 1, 1000);
		$node->safe_psql('postgres', "CREATE INDEX i_$name ON t_$name $indexes{$name}");
		insert($node, $name, 1001, 1100);
	}
	return;
}

sub insert
{
	my ($node, $name, $first, $last) = @_;

	$node->safe_psql('postgres', "INSERT INTO t_$name SELECT i, (SELECT array_agg((hashint4(i * 8 + d) & 255)::float4) FROM generate_series(1, 8) d)::vector, ARRAY[i % 7, 10 + i % 11, 30 + i % 13] FROM generate_series($first, $last) i");
	return;
}

# Both scans of each table, by distance, and the check; the worker has copies of the indexes, if it is installed.
sub verify
{
	my ($node, $what) = @_;
	my @wrong;
	my $has_worker = -x worker_file($node) ? 'true' : '';
	my $prewarm = 'SELECT ' . join(', ', map { "vectorgpu_prewarm('i_$_')" } sort keys %indexes);

	wait_until(sub { ($node->psql('postgres', $prewarm))[0] == 0 }) or die 'no worker' if $has_worker;
	my $answered = $has_worker ? worker_stat($node, 'answered') : 0;

	for my $name (sort keys %indexes)
	{
		my $order = $name eq 'match' ? q{a <#> '{1,12,33}'} : q{v <-> '[1,50,100,150,200,250,20,70]'};
		my $query = "SELECT string_agg(d::text, ' ') FROM (SELECT $order AS d FROM t_$name ORDER BY $order LIMIT 200) s";
		my $exact = $node->safe_psql('postgres', "SET enable_indexscan = off; $query");
		my $settings = 'SET enable_seqscan = off; SET enable_sort = off; SET gpuivf.probes = 20; SET gpugraph.search_width = 4000;';
		my $found = $node->safe_psql('postgres', "LOAD 'vectorgpu'; $settings $query");

		push @wrong, $name if $exact ne $found || $exact eq '';
		$node->safe_psql('postgres', "SELECT vectorgpu_check('i_$name', true, @{[ $has_worker || 'false' ]})");
	}
	is("@wrong", '', "$what: answers are right, checks clean");
	cmp_ok(worker_stat($node, 'answered'), '>', $answered, "$what: by the worker") if $has_worker;
	return;
}

# A copy of the server's installation without the library and its worker; returns the folder of its programs. PostgreSQL finds its files by their
# path relative to the program's.
sub bare_server
{
	my ($node) = @_;
	my ($bin, $lib, $share) = map { $node->config_data($_) } qw(--bindir --pkglibdir --sharedir);
	my $copy = PostgreSQL::Test::Utils::tempdir();

	system_or_bail('mkdir', '-p', map { "$copy$_" } $bin, $lib, $share);
	system_or_bail('sh', '-c', "cp -a '$bin/.' '$copy$bin/' && ln -s '$lib'/* '$copy$lib/' && ln -s '$share'/* '$copy$share/'");
	unlink glob("$copy$lib/vectorgpu*") or die "$lib has no vectorgpu";
	return $copy . dirname($bin);
}

# --- pg_upgrade, within one version: the files are linked, the catalogs are new ------------------------
my $old = make_node('old', conf => "vectorgpu.worker_min_size = 0\n");
my $new = PostgreSQL::Test::Cluster->new('new');

fill($old);
verify($old, 'before pg_upgrade');
$old->stop;
$new->init;
$new->append_conf('postgresql.conf', "vectorgpu.worker_min_size = 0\n");
my $bin = $old->config_data('--bindir');
command_ok([ 'pg_upgrade', '--no-sync', '--link', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin, '-s', $new->host, '-p', $old->port, '-P', $new->port ],
	'pg_upgrade --link') or diag(`find @{[ $new->data_dir ]} -name '*.log' -exec tail -n 20 {} +`);
$new->start;
verify($new, 'after pg_upgrade');
insert($new, $_, 2001, 2050) for sort keys %indexes;
$new->safe_psql('postgres', 'VACUUM');
verify($new, 'after inserts and VACUUM');
$new->stop;

# --- replay without the library, promotion, pg_rewind -------------------------------------------------------
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "wal_log_hints = on\nwal_keep_size = 512MB\nautovacuum = off\nvectorgpu.worker_min_size = 0\n");
$primary->start;
create_extension($primary);
fill($primary);
$primary->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'copy', has_streaming => 1);
$standby->start;
my $bare = PostgreSQL::Test::Cluster->new('bare', install_path => bare_server($primary));
$bare->init_from_backup($primary, 'copy', has_streaming => 1);
$bare->start;
insert($primary, $_, 3001, 3100) for sort keys %indexes;
$primary->safe_psql('postgres', "DELETE FROM t_$_ WHERE id % 10 = 0") for sort keys %indexes;
$primary->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on)');
$primary->safe_psql('postgres', "SELECT vectorgpu_merge('i_$_')") for sort keys %indexes;
$primary->safe_psql('postgres', 'CREATE TABLE plain AS SELECT 1 AS i');
$primary->wait_for_catchup($_) for $standby, $bare;
my $startup = $standby->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'});
unlike(slurp_file("/proc/$startup/maps"), qr{/vectorgpu\.so}, 'the process that replays has not loaded the library');
like(slurp_file("/proc/$startup/maps"), qr/postgres/, 'and its maps could be read');
verify($standby, 'on the standby');

my ($rc, $out, $err) = $bare->psql('postgres', q{SELECT '[1,2]'::vector});
like($err, qr/could not (?:access|load) (?:file|library) .*vectorgpu/, 'the standby without the library has none');
# Planning looks at the indexes of a table.
($rc, $out, $err) = $bare->psql('postgres', 'SELECT count(*) FROM t_flat');
like($err, qr/could not (?:access|load) (?:file|library) .*vectorgpu/, 'nor can it ask tables that have such an index');
is($bare->safe_psql('postgres', 'SELECT count(*) FROM plain'), '1', 'others it can, and it has replayed all');
$bare->restart;
insert($primary, $_, 3501, 3510) for sort keys %indexes;
$primary->wait_for_catchup($bare);
leave_unchecked($bare, 'it has no library');
$bare->stop;
# The library is installed.
delete $bare->{_install_path};
$bare->start;
verify($bare, 'on the standby that had no library');
$bare->promote;
insert($bare, $_, 3601, 3610) for sort keys %indexes;
verify($bare, 'promoted');
$bare->stop;

$standby->promote;
insert($standby, $_, 4001, 4100) for sort keys %indexes;
$standby->safe_psql('postgres', 'VACUUM');
# The old primary has diverged meanwhile.
insert($primary, $_, 5001, 5300) for sort keys %indexes;
$primary->safe_psql('postgres', "SELECT vectorgpu_merge('i_$_')") for sort keys %indexes;
verify($primary, 'the old primary, with diverging rows');
$standby->safe_psql('postgres', 'CHECKPOINT');
$primary->stop;
command_ok([ 'pg_rewind', '--no-sync', '--source-server', $standby->connstr('postgres'), '--target-pgdata', $primary->data_dir ], 'pg_rewind');
$primary->append_conf('postgresql.conf', 'port = ' . $primary->port . "\n");
$primary->append_conf('postgresql.conf', "primary_conninfo = '" . $standby->connstr . "'\n");
$primary->set_standby_mode;
$primary->start;
insert($standby, $_, 6001, 6010) for sort keys %indexes;
$standby->wait_for_catchup($primary);
verify($primary, 'after pg_rewind');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM t_flat WHERE id BETWEEN 5001 AND 5300'), '0', 'its own rows are gone');
$primary->stop;

# --- the postmaster is stopped ---------------------------------------------------------------------------------
my $session = $standby->background_psql('postgres');
my $postmaster = (split /\n/, slurp_file($standby->data_dir . '/postmaster.pid'))[0];
my $ask = q{SET enable_seqscan = off; SELECT count(*) FROM (SELECT v <-> '[1,2,3,4,5,6,7,8]' FROM t_flat ORDER BY 1 LIMIT 50) s;};

is($session->query_safe($ask), '50', 'a session');
kill 'STOP', $postmaster;
for my $second (1 .. 60)
{
	$session->query_safe($ask) eq '50' or fail("second $second");
	sleep 1;
}
kill 'CONT', $postmaster;
pass('it goes on for a minute while the postmaster is stopped');
$session->quit;
verify($standby, 'after the postmaster went on');
unlike(slurp_file($standby->logfile), qr/reinitializing|PANIC|TRAP/, 'no restart');
$standby->stop;
done_testing();
