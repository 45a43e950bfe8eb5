# Tables distributed by Citus: searches by each access method before and after shards move, reference tables, and a node that is lost. Needs a server with Citus,
# named by CITUS_PG_CONFIG, of the major version of the server in PATH: a copy of the latter gets its files.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

my $config = $ENV{CITUS_PG_CONFIG} // '';

plan(skip_all => 'CITUS_PG_CONFIG names no server with Citus') if $config eq '';
sub folder
{
	my ($program, $which) = @_;
	chomp(my $folder = `$program --$which`);

	-d $folder or die "$program names no folder for $which";
	return $folder;
}
plan(skip_all => 'CITUS_PG_CONFIG is of another version than the server') if `$config --version` !~ /^PostgreSQL ${\ server_major()}\b/;

# The folders of the copy are to each other as those of the server are, which finds its own by that.
my $copy = PostgreSQL::Test::Utils::tempdir_short();

for my $which ('bindir', 'pkglibdir', 'sharedir')
{
	my $from = folder('pg_config', $which);

	system_or_bail('mkdir', '-p', "$copy$from");
	system_or_bail('cp', '-a', "$from/.", "$copy$from/");
}
my ($libraries, $shared) = (folder($config, 'pkglibdir'), folder($config, 'sharedir'));
system_or_bail('sh', '-c', "cp -a $libraries/citus* $copy" . folder('pg_config', 'pkglibdir') . "/ && cp -a $shared/extension/citus* $copy" . folder('pg_config', 'sharedir') . '/extension/');
$ENV{PATH} = $copy . folder('pg_config', 'bindir') . ":$ENV{PATH}";

my $conf = "shared_preload_libraries = 'citus, vectorgpu'\nlisten_addresses = 'localhost'\nwal_level = logical\ncitus.node_conninfo = 'sslmode=disable'\nmax_prepared_transactions = 20\n";
my ($front, @workers) = map { make_node($_, conf => $conf, extension => 0) } ('front', 'first', 'second');

$_->safe_psql('postgres', 'CREATE EXTENSION citus; CREATE EXTENSION vectorgpu') for $front, @workers;
$front->safe_psql('postgres', "SELECT citus_set_coordinator_host('localhost', " . $front->port . "); SELECT citus_add_node('localhost', " . $workers[0]->port . ')');

my %indexes = (
	flat => 'USING gpuflat (v vector_l2_ops)',
	ivf => 'USING gpuivf (v vector_l2_ops) WITH (lists = 5)',
	graph => 'USING gpugraph (v vector_l2_ops)',
	match => 'USING gpumatch (s)');
my $rows = 'SELECT i, i % 10, ' . random_vector_sql('i', dims => 8) . ", ARRAY[i % 5, i % 7, i % 11, 20] FROM generate_series(1, 4000) i";
my $near = 'v <-> ' . query_vector($front, 1, dims => 8);
my %order = ((map { $_ => $near } 'flat', 'ivf', 'graph'), match => q{s <#> '{1,2,3,20}'});

$front->safe_psql('postgres', "CREATE TABLE plain (id bigint, category int, v vector(8), s int[]); INSERT INTO plain $rows");
for my $name (sort keys %indexes)
{
	$front->safe_psql('postgres', <<SQL);
CREATE TABLE d_$name (LIKE plain);
SELECT create_distributed_table('d_$name', 'id', shard_count => 4, colocate_with => 'none');
INSERT INTO d_$name SELECT * FROM plain;
CREATE INDEX i_$name ON d_$name $indexes{$name};
SQL
}
$front->safe_psql('postgres', 'CREATE TABLE r (LIKE plain); INSERT INTO r SELECT * FROM plain');
$front->safe_psql('postgres', q{SELECT create_reference_table('r'); CREATE INDEX i_r ON r USING gpuflat (v vector_l2_ops)});

# Each search, also after its condition, equals the local one.
sub searches_hold
{
	my ($when) = @_;

	for my $name (sort keys %indexes)
	{
		for my $tail ("ORDER BY $order{$name}, id LIMIT 20", "WHERE category < 3 ORDER BY $order{$name}, id LIMIT 20 OFFSET 5")
		{
			is($front->safe_psql('postgres', "SELECT id FROM d_$name $tail"), $front->safe_psql('postgres', "SELECT id FROM plain $tail"), "$name, $when: $tail");
		}
		my $distances = "SELECT $order{$name} AS d FROM d_$name ORDER BY d LIMIT 20";
		is($front->safe_psql('postgres', $distances), $front->safe_psql('postgres', $distances =~ s/d_$name/plain/r), "$name, $when: by the index");
		my $plan = $front->safe_psql('postgres', "SET citus.explain_all_tasks = on; EXPLAIN (COSTS OFF) SELECT id FROM d_$name ORDER BY $order{$name} LIMIT 10");
		my $scans = () = $plan =~ /Limit\n(?:\s*-> )?\s*.*Index Scan using i_$name/g;
		is($scans, 4, "$name, $when: each shard uses its index, under a LIMIT") or diag $plan;
	}
	is($front->safe_psql('postgres', "SELECT id FROM r ORDER BY $near LIMIT 20"), $front->safe_psql('postgres', "SELECT id FROM plain ORDER BY $near, id LIMIT 20"), "a reference table, $when");
	is($front->safe_psql('postgres', "SELECT d.id, n.id FROM d_flat d JOIN (SELECT id, category FROM r ORDER BY $near LIMIT 3) n ON d.id = n.id ORDER BY 1"),
		$front->safe_psql('postgres', "SELECT id, id FROM (SELECT id FROM plain ORDER BY $near LIMIT 3) n ORDER BY 1"), "a search of a reference table, joined, $when");
	return;
}

sub nodes_with_shards { return $front->safe_psql('postgres', q{SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'd_flat'::regclass}); }

searches_hold('on one node');
is(nodes_with_shards(), 1, 'one node has all shards');
$front->safe_psql('postgres', "SELECT citus_add_node('localhost', " . $workers[1]->port . "); SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')");
is(nodes_with_shards(), 2, 'the shards are on two nodes');
searches_hold('after shards have moved');

$front->safe_psql('postgres', 'UPDATE plain SET v = NULL WHERE id % 100 = 0; DELETE FROM plain WHERE id % 7 = 0');
$front->safe_psql('postgres', "UPDATE d_$_ SET v = NULL WHERE id % 100 = 0; DELETE FROM d_$_ WHERE id % 7 = 0") for sort keys %indexes;
$front->safe_psql('postgres', 'UPDATE r SET v = NULL WHERE id % 100 = 0; DELETE FROM r WHERE id % 7 = 0; VACUUM r');
searches_hold('after changes');
for my $name (sort keys %indexes)
{
	# A shard's index has the shard's number behind its name.
	is($front->safe_psql('postgres', "SELECT count(*), bool_and(success), min(result) <> '' FROM run_command_on_shards('d_$name', \$\$SELECT rows FROM vectorgpu_check((replace('%s', 'd_', 'i_'))::regclass, true)\$\$)"),
		'4|t|t', "$name: each shard's index is sound");
}

# Searches for each row, and what Citus refuses, as docs/scale-out.md says.
my $each = "SELECT p.id, n.id FROM FROM_TABLE p, LATERAL (SELECT id FROM OF_TABLE o ORDER BY o.v <-> p.v, id LIMIT 3) n WHERE p.id < 30 ORDER BY 1, 2";
my $prepare = 'PREPARE near(vector, int) AS SELECT id FROM d_flat ORDER BY v <-> $1 LIMIT $2;';
my $execute = "EXECUTE near('[0,0,0,0,0,0,0,0]', 5);";

is($front->safe_psql('postgres', $each =~ s/FROM_TABLE/d_flat/r =~ s/OF_TABLE/r/r), $front->safe_psql('postgres', $each =~ s/(?:FROM|OF)_TABLE/plain/gr),
	'the nearest rows of a reference table for each row of a distributed one');
my ($state, $error) = psql_state($front, $each =~ s/FROM_TABLE/d_flat/r =~ s/OF_TABLE/d_graph/r);
is($state, '0A000', 'the nearest rows of a distributed table for each row are refused');
like($error, qr/complex joins are only supported/, 'with a reason');
($state, $error) = psql_state($front, $prepare . $execute x 7);
is($state, '00000', 'prepared statements with a parameter as LIMIT are planned with its value') or diag $error;
($state, $error) = psql_state($front, "SET plan_cache_mode = force_generic_plan; $prepare $execute");
is($state, '0A000', 'generic plans of them are refused');

# A node that is lost: an error and no rows; a reference table is still searched.
$workers[1]->stop('immediate');
($state, $error, my $out) = psql_state($front, "SELECT id FROM d_flat ORDER BY $near LIMIT 10");
is("$state '$out'", "08006 ''", 'a node is down: an error, no rows');
like($error, qr/connection to the remote node .*failed/, 'its message');
is($front->safe_psql('postgres', "SELECT count(*) FROM (SELECT id FROM r ORDER BY $near LIMIT 10) n"), 10, 'a reference table is searched without it');
$workers[1]->start;
searches_hold('after the node is back');

$_->stop for $front, @workers;
done_testing();
