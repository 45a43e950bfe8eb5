# pg_upgrade of databases beside pgvector, and with the extension vector of vectorgpu: their indexes are as they were. From one of these extensions vector to
# the other, pg_upgrade refuses before it changes anything. VECTORGPU_INSTALLATIONS names the folders of the servers, oldest first, as for 068.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

my @installations = split ' ', $ENV{VECTORGPU_INSTALLATIONS} // '';
my %of;

push @{ $of{ vector_of($_) } }, $_ for @installations;
plan skip_all => 'VECTORGPU_INSTALLATIONS names no servers with pgvector and with the extension vector of vectorgpu' unless $of{pgvector} && $of{vectorgpu};

my %create = (
	pgvector => 'CREATE EXTENSION vector; CREATE SCHEMA vectorgpu; CREATE EXTENSION vectorgpu SCHEMA vectorgpu; CREATE EXTENSION vectorgpu_pgvector',
	vectorgpu => 'CREATE EXTENSION vector');
my %indexes = (
	pgvector => 'CREATE INDEX t_v ON t USING gpugraph (v vector_l2_ops); CREATE INDEX t_h ON t USING gpuivf (h halfvec_cosine_ops) WITH (lists = 7); CREATE INDEX t_b ON t USING gpuflat (b bit_jaccard_ops); CREATE INDEX t_theirs ON t USING hnsw (v vector_ip_ops)',
	vectorgpu => 'CREATE INDEX t_v ON t USING hnsw (v vector_l2_ops) WITH (m = 8, ef_construction = 32); CREATE INDEX t_h ON t USING ivfflat (h halfvec_cosine_ops) WITH (lists = 7); CREATE INDEX t_b ON t USING hnsw (b bit_jaccard_ops)');
my %value = map { ($_->[0] => random_vector_sql('i', dims => $_->[2], type => $_->[1])) } [ 'v', 'vector', 8 ], [ 'h', 'halfvec', 8 ], [ 'b', 'bit', 24 ];
my $files = q{SELECT string_agg(relname || ' ' || relfilenode, ' ' ORDER BY relname) FROM pg_class WHERE relname ~ '^t_'};
my $conf = "fsync = off\nvectorgpu.worker = off\nvectorgpu.auto_merge = off\ngpuivf.probes = 0\ngpugraph.search_width = 0\n";

# 18 makes clusters with checksums, 15 to 17 without, and pg_upgrade wants both alike.
sub node_of
{
	my ($path, $name) = @_;
	return make_node($name, install_path => $path, extension => 0, checksums => 0, conf => $conf);
}

# What pg_upgrade returns and says; both clusters are stopped.
sub upgrade
{
	my ($old, $new) = @_;
	my $said = '';
	my $done = IPC::Run::run([ "$new->{path}/bin/pg_upgrade", '--no-sync', '-d', $old->{node}->data_dir, '-D', $new->{node}->data_dir, '-b', "$old->{path}/bin", '-B', "$new->{path}/bin",
			'-p', $old->{node}->port, '-P', $new->{node}->port, '-s', $old->{node}->host ], '>', \$said, '2>&1');

	return ($done, $said);
}

sub answer
{
	my ($node, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('app', $sql);

	return $rc == 0 ? $out : $err;
}

# The indexes are sound, and find the distances of a sequential scan.
sub sound
{
	my ($node, $when) = @_;
	my $check = answer($node, q{SELECT n.nspname || '.vectorgpu_check' FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid AND d.deptype = 'e' JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = pronamespace
		WHERE extname LIKE 'vector%' AND proname = 'vectorgpu_check'});

	for my $search ([ 't_v', 'v <->', 'v' ], [ 't_h', 'h <=>', 'h' ], [ 't_b', 'b <%>', 'b' ])
	{
		my ($index, $distance, $column) = @$search;
		my $query = "(SELECT $column FROM t WHERE id = 17)";
		my $sql = "SELECT string_agg(round(d::numeric, 6)::text, ' ') FROM (SELECT $distance $query AS d FROM t ORDER BY $distance $query LIMIT 40) s";
		my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET gpuivf.recall_target = 1; SET gpugraph.recall_target = 1;';

		like(answer($node, "$by_index EXPLAIN $sql"), qr/Index Scan using $index/, "$when: the planner takes $index");
		is(answer($node, "$by_index $sql"), answer($node, "SET enable_indexscan = off; $sql"), "$when: both scans agree, $index");
		is(answer($node, "SELECT count(*) FROM $check('$index', true)"), 1, "$when: vectorgpu_check of $index");
	}
	return;
}

# Of each extension a cluster of the oldest server, and an empty one of the newest.
my (%from, %to, %files);

for my $extension (qw(pgvector vectorgpu))
{
	my ($old, $new) = map { { path => $of{$extension}[$_], version => major_of($of{$extension}[$_]), node => node_of($of{$extension}[$_], ($_ == 0 ? 'old_' : 'new_') . $extension) } } 0, -1;

	$old->{node}->safe_psql('postgres', 'CREATE DATABASE app');
	is(answer($old->{node}, "$create{$extension}; CREATE TABLE t (id bigint, v vector(8), h halfvec(8), b bit(24)); INSERT INTO t SELECT i, $value{v}, $value{h}, $value{b} FROM generate_series(1, 500) i; $indexes{$extension};
		INSERT INTO t SELECT i, $value{v}, $value{h}, $value{b} FROM generate_series(501, 560) i; DELETE FROM t WHERE id % 29 = 3; VACUUM (INDEX_CLEANUP on) t"), '', "$extension: the database");
	$files{$extension} = answer($old->{node}, $files);
	$_->{node}->stop for $old, $new;
	($from{$extension}, $to{$extension}) = ($old, $new);
}

# From one extension to the other: it refuses while it checks. Both clusters are as they were, which the upgrades below show.
for my $step ([ 'pgvector', 'vectorgpu', qr{could not load library "\$libdir/vector": } ], [ 'vectorgpu', 'pgvector', qr{could not load library "\$libdir/vectorgpu_vector": } ])
{
	my ($extension, $other, $library) = @$step;
	my $name = "from $extension to $other";

  SKIP:
	{
		skip "$name: VECTORGPU_INSTALLATIONS names no later server", 4 if $to{$other}{version} < $from{$extension}{version};
		my ($done, $said) = upgrade($from{$extension}, $to{$other});

		ok(!$done, "$name: pg_upgrade refuses");
		like($said, qr/Your installation references loadable libraries that are missing from the\s+new installation/, '... since a library is missing');
		unlike($said, qr/Performing Upgrade/, '... before it begins');
		like(join('', map { slurp_file($_) } glob($to{$other}{node}->data_dir . '/pg_upgrade_output.d/*/loadable_libraries.txt')), $library, '... and names it');
	}
}

for my $extension (qw(pgvector vectorgpu))
{
	my ($old, $new) = ($from{$extension}, $to{$extension});
	my $node = $new->{node};
	my $name = ($extension eq 'pgvector' ? 'beside pgvector' : 'with pgvector\'s names') . ", $old->{version} to $new->{version}";
	my ($done, $said) = upgrade($old, $new);

	ok($done, "$name: pg_upgrade") or diag($said);
	$node->start;
	is(answer($node, $files), $files{$extension}, "$name: the files are those of before");
	sound($node, $name);
	is(answer($node, 'INSERT INTO t SELECT id + 10000, v, h, b FROM t WHERE id % 5 = 0; DELETE FROM t WHERE id % 7 = 0; VACUUM t'), '', "$name: changes");
	sound($node, "$name, changed");
	$node->stop;
}
done_testing();
