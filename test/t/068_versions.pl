# From one version of PostgreSQL to the next: pg_upgrade through all of them in turn, and a dump of each restored on each later one. Indexes of every access
# method, with a delta, dead rows and several segments, are valid after pg_upgrade without REINDEX, and take changes. VECTORGPU_INSTALLATIONS names the
# folders of the servers, oldest first, each with this tree's module; scripts/test sets it in the part versions.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

my @installations = split ' ', $ENV{VECTORGPU_INSTALLATIONS} // '';
plan(skip_all => 'VECTORGPU_INSTALLATIONS does not name two servers') if @installations < 2;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $vectors = random_vector_sql('i', dims => 8);
# table, type of v, key, a value of i, operator and a query
my @kinds = (
	[ 'flat', 'vector(8)', 'gpuflat (v vector_l2_ops)', $vectors, "'<->', quote_literal(test_vector(7, 8)) || '::vector'" ],
	[ 'lists', 'vector(8)', 'gpuivf (v vector_l2_ops) WITH (lists = 10)', $vectors, "'<->', quote_literal(test_vector(7, 8)) || '::vector'" ],
	[ 'codes', 'vector(8)', 'gpuivf (v vector_l2_ops) WITH (lists = 10, storage = sq8)', $vectors, "'<->', quote_literal(test_vector(7, 8)) || '::vector'" ],
	[ 'graph', 'vector(8)', 'gpugraph (v vector_l2_ops)', $vectors, "'<->', quote_literal(test_vector(7, 8)) || '::vector'" ],
	[ 'sets', 'int[]', 'gpumatch (v)', '(SELECT array_agg(d * 10 + (hashint8extended(i * 8 + d, 5) & 7)::int) FROM generate_series(1, 8) d)', "'<#>', '''{11,22,33,47,50}''::int[]'" ]);

# One node of each version; 18 makes clusters with checksums, 15 to 17 without, and pg_upgrade wants both alike.
sub node_of
{
	my ($path, $name, %opt) = @_;
	my $version = major_of($path);

	return (make_node("$name$version", install_path => $path, checksums => 0, conf => "vectorgpu.auto_merge = off\n", %opt), $version);
}

# An index scan and a sequential scan agree on each table, each index is sound, and none needs REINDEX.
sub sound
{
	my ($node, $db, $when) = @_;

	for my $kind (@kinds)
	{
		my ($table, undef, undef, undef, $asked) = @$kind;

		is($node->safe_psql($db, "SELECT compare_answers('$table', $asked, 20) || compare_answers('$table', $asked)"), '', "$when: $table, both scans agree");
		check_index($node, "${table}_v", db => $db, name => "$when: $table, check");
	}
	is($node->safe_psql($db, 'SELECT count(*), bool_and(is_valid), bool_or(needs_reindex), min(delta_rows) > 0, min(dead_rows) > 0 FROM vectorgpu_indexes'),
		scalar(@kinds) . '|t|f|t|t', "$when: valid, with rows in the delta and dead rows");
	return;
}

# Dead rows in the segments, and rows in the delta.
sub change
{
	my ($node, $db) = @_;

	for my $kind (@kinds)
	{
		my ($table, undef, undef, $value) = @$kind;
		my $next = $node->safe_psql($db, "SELECT max(id) + 1 FROM $table");
		my $rows = sub { my ($n) = @_; $next += $n; return "INSERT INTO $table SELECT i, i % 10, $value FROM generate_series($next - $n, $next - 1) i"; };

		$node->safe_psql($db, $rows->(60));
		$node->safe_psql($db, "SELECT vectorgpu_merge('${table}_v')");
		$node->safe_psql($db, "DELETE FROM $table WHERE id % 29 = $next % 29");
		$node->safe_psql($db, $rows->(20));
		$node->safe_psql($db, "VACUUM (INDEX_CLEANUP on) $table");
		$node->safe_psql($db, $rows->(10));
	}
	return;
}

my ($node, $version) = node_of($installations[0], 'pg');

$node->safe_psql('postgres', 'CREATE DATABASE chain');
create_extension($node, 'chain');
create_comparer($node, db => 'chain');
for my $kind (@kinds)
{
	my ($table, $type, $index, $value) = @$kind;

	$node->safe_psql('chain', "CREATE TABLE $table (id bigint, category int, v $type); INSERT INTO $table SELECT i, i % 10, $value FROM generate_series(1, 500) i; CREATE INDEX ${table}_v ON $table USING $index");
}
change($node, 'chain');
sound($node, 'chain', "$version");

my %dumps;
my $files = sub { my ($server) = @_; return $server->safe_psql('chain', "SELECT string_agg(relname || ' ' || relfilenode, ',' ORDER BY relname) FROM pg_class WHERE relname ~ '_v\$'"); };
for my $path (@installations[ 1 .. $#installations ])
{
	# Data of each earlier version into this one.
	my ($next, $next_version) = node_of($path, 'pg', extension => 0);

	$dumps{$version} = "$folder/$version.dump";
	command_ok([ $path . '/bin/pg_dump', '-h', $node->host, '-p', $node->port, '-Fc', '-f', $dumps{$version}, 'chain' ], "pg_dump of $version by $next_version");
	my ($target) = node_of($path, 'restored', extension => 0);
	for my $from (sort keys %dumps)
	{
		$target->safe_psql('postgres', "CREATE DATABASE from_$from");
		command_ok([ $path . '/bin/pg_restore', '-h', $target->host, '-p', $target->port, '--exit-on-error', '-d', "from_$from", $dumps{$from} ], "$from restored on $next_version");
		change($target, "from_$from");
		sound($target, "from_$from", "$from restored on $next_version");
	}
	$target->stop;

	# The cluster itself.
	my $before = $files->($node);
	my $answers = "SET enable_seqscan = off; SET enable_sort = off; SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM graph ORDER BY v <-> test_vector(9, 8)::vector) s";
	my $answer = $node->safe_psql('chain', $answers);

	$node->stop;
	$next->stop;
	command_ok([ $path . '/bin/pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $next->data_dir, '-b', $node->config_data('--bindir'), '-B', $path . '/bin',
			'-p', $node->port, '-P', $next->port, '-s', $node->host ], "pg_upgrade from $version to $next_version");
	$next->start;
	is($files->($next), $before, "$next_version: the files are those of before");
	is($next->safe_psql('chain', $answers), $answer, "$next_version: the same answer");
	sound($next, 'chain', "upgraded to $next_version");
	change($next, 'chain');
	sound($next, 'chain', "upgraded to $next_version, and changed");
	($node, $version) = ($next, $next_version);
}
is($node->safe_psql('chain', "SELECT extversion = default_version FROM pg_extension JOIN pg_available_extensions ON name = extname WHERE extname = 'vectorgpu'"), 't', 'the version of the extension');

$node->stop;
done_testing();
