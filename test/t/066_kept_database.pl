# Indexes that an earlier release made (test/kept/VERSION), beside the rows that they were made of, in a database with that release's objects:
# updated, and without REINDEX searched, by session and worker, written, vacuumed, merged, checked. Approximate indexes keep their recall.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IO::Uncompress::Gunzip qw(gunzip);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

my $kept = "$FindBin::RealBin/../kept";
my @all_indexes = map { [ split /\|/ ] } grep { !/^#/ } split /\n/, slurp_file("$kept/indexes");
sub approximate { return $_[0] =~ /minhash|lsh/; }
my ($newest) = slurp_file("$FindBin::RealBin/../../vectorgpu.control") =~ /^default_version = '(.*)'/m;
my @versions = map { m{([^/]+)/$} } glob "$kept/*/";

is(scalar @all_indexes, 16, 'indexes');
for my $index (@all_indexes)
{
	my $first = $index->[6] // '0.2.0';

	ok(-e "$kept/$first/$index->[0].gz", "$index->[0] is kept as its first release, $first, makes it");
}
for my $version (@versions)
{
	my @indexes = grep { -e "$kept/$version/$_->[0].gz" } @all_indexes;
	my $n = @indexes;
	my @approximates = sort map { "$_->[0]_v" } grep { $_->[0] =~ /^(ivf|graph)/ } @indexes;
	my $node = make_node('kept_' . $version =~ tr/./_/r, extension => 0, checksums => 0, conf => "vectorgpu.auto_merge = off\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 2min\n");
	# The indexes have transaction ids of parked extents, which are the past in the server that they come from.
	my $sql = "DO 'BEGIN FOR i IN 1 .. 2000 LOOP BEGIN PERFORM pg_current_xact_id(); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END';\n";
	my $ask = sub {
		my ($name, $k) = @_;
		my ($index) = grep { $_->[0] eq $name } @indexes;

		return $node->safe_psql('postgres', "SELECT compare_answers('$name', '$index->[4]', " . $node->safe_psql('postgres', "SELECT quote_literal(\$q\$$index->[5]\$q\$)") . ", $k)");
	};
	# The share of the 10 nearest that a scan at the default target finds, over 40 queries.
	my $recall = sub {
		my ($name) = @_;
		my ($index) = grep { $_->[0] eq $name } @indexes;

		return $node->safe_psql('postgres', <<SQL);
SET gpuivf.probes = 0; SET gpugraph.search_width = 0;
CREATE TEMP TABLE asked AS SELECT i AS n, $index->[2] AS q FROM generate_series(5001, 5040) i;
SET enable_indexscan = off;
CREATE TEMP TABLE truth AS SELECT n, q, (SELECT max(d) FROM (SELECT v $index->[4] q AS d FROM $name ORDER BY 1 LIMIT 10) s) AS kth FROM asked;
SET enable_indexscan = on; SET enable_seqscan = off; SET enable_sort = off;
SELECT avg((SELECT count(*) FROM (SELECT v $index->[4] q AS d FROM $name ORDER BY v $index->[4] q LIMIT 10) s WHERE d <= kth) / 10.0)::float4 FROM truth;
SQL
	};
	my $all = sub {
		my ($when) = @_;

		for my $index (@indexes)
		{
			my $name = $index->[0];

			# Signatures give another order than the rows' distances: all rows are to be there.
			if (approximate($name))
			{
				is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SELECT md5(array_agg(id ORDER BY id)::text) FROM (SELECT id FROM $name ORDER BY v $index->[4] $index->[5]) s"),
					$node->safe_psql('postgres', "SELECT md5(array_agg(id ORDER BY id)::text) FROM $name"), "$version, $when: $name, all rows");
			}
			else
			{
				is($ask->($name, 20) . $ask->($name, 'NULL'), '', "$version, $when: $name, both scans agree");
			}
			check_index($node, "${name}_v", name => "$version, $when: $name, check");
			cmp_ok($recall->($name), '>=', $name =~ /flat|match/ ? 1 : 0.9, "$version, $when: $name, recall at the default target") unless approximate($name);
			is($node->safe_psql('postgres', "SET vectorgpu.worker = on; SELECT vectorgpu_prewarm('${name}_v') > 0, vectorgpu_check('${name}_v', true, true) IS NOT NULL"), 't|t', "$version, $when: $name, the worker's copy");
		}
	};

	$node->safe_psql('postgres', "CREATE EXTENSION vectorgpu VERSION '$version'");
	create_comparer($node);
	for my $index (@indexes)
	{
		my ($name, $column, $value, $definition) = @$index;
		my @command = ('psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-v', "name=$name", '-v', "index=${name}_v", '-v', "column=$column", '-v', "value=$value",
			'-v', "definition=$definition", '-f', "$kept/life.sql");
		my $err = '';

		IPC::Run::run(\@command, '>', \my $out, '2>', \$err) or die "$name: $err";
		is($node->safe_psql('postgres', "SELECT md5(string_agg(id || ' ' || ctid, ',' ORDER BY id)) FROM $name") . "\n", slurp_file("$kept/$version/$name.tids"), "$version: $name has the rows in the places that they had");
	}
	$node->safe_psql('postgres', $sql);

	# The files of the kept indexes in the place of those that this release has just made.
	my %path = map { $_->[0] => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_->[0]_v')") } @indexes;
	my $checksums = $node->safe_psql('postgres', 'SHOW data_checksums');

	$node->stop;
	system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir) if $checksums eq 'on'; # the files have none
	for my $name (sort keys %path)
	{
		my $made = slurp_file($path{$name});

		gunzip("$kept/$version/$name.gz" => \my $data) or die "$name: $IO::Uncompress::Gunzip::GunzipError";
		isnt($data, $made, "$version: $name is another file");
		open my $file, '>:raw', $path{$name} or die "$path{$name}: $!";
		print {$file} $data or die "$path{$name}: $!";
		close $file or die "$path{$name}: $!";
	}
	$node->start;

	is($node->safe_psql('postgres', "SELECT count(*), bool_and(is_valid), bool_or(needs_reindex) FROM vectorgpu_indexes"), "$n|t|f", "$version: the view under this library, before the update");
	$node->safe_psql('postgres', 'ALTER EXTENSION vectorgpu UPDATE');
	is($node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'vectorgpu'}), $newest, "$version is updated");
	is($node->safe_psql('postgres', "SELECT count(*), bool_and(is_valid), bool_or(needs_reindex) FROM vectorgpu_indexes"), "$n|t|f", "$version: no index needs REINDEX");
	is($node->safe_psql('postgres', q{SELECT string_agg(index_name, ',' ORDER BY index_name COLLATE "C") FROM vectorgpu_indexes WHERE recall_target = 0.95 AND recall_reached BETWEEN 0.5 AND 1}),
		join(',', @approximates), "$version: the view knows what they reach");
	$all->('as kept');
	for my $index (@indexes)
	{
		my ($name, undef, $value) = @$index;

		$node->safe_psql('postgres', "INSERT INTO $name SELECT i, $value FROM generate_series(1001, 1060) i; UPDATE $name SET v = (SELECT v FROM $name WHERE id = 3) WHERE id % 41 = 0; DELETE FROM $name WHERE id % 7 = 2");
	}
	$all->('written');
	# Updates of another column: rows share entries of the release that made them.
	$node->safe_psql('postgres', "CREATE INDEX ON $_->[0] (id); UPDATE $_->[0] SET id = id + 100000 WHERE id % 3 = 0; UPDATE $_->[0] SET id = id - 100000 WHERE id > 100000") for @indexes;
	is($node->safe_psql('postgres', q{SELECT string_agg(format_version::text, '' ORDER BY index_name) FROM vectorgpu_indexes WHERE index_name IN ('flat_v', 'graph_v', 'graph_rabitq_v', 'ivf_v', 'match_v')}),
		join('', map { $_ eq 'match' && $version eq '0.2.0' ? 3 : 4 } sort grep { /^(flat|graph|graph_rabitq|ivf|match)$/ } map { $_->[0] } @indexes), "$version: the format of indexes that have such rows");
	$all->('with rows that share entries');
	$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $_->[0]") for @indexes;
	$all->('vacuumed');
	is($node->safe_psql('postgres', "SELECT rows_moved > 0 FROM vectorgpu_merge('$_->[0]_v')"), 't', "$version: $_->[0] is merged") for @indexes;
	$all->('merged');
	is($node->safe_psql('postgres', 'SELECT bool_and(is_valid), bool_or(needs_reindex), sum(delta_rows) FROM vectorgpu_indexes'), 't|f|0', "$version: at the end");
	# That release would read the segments of the merge wrongly.
	is($node->safe_psql('postgres', q{SELECT bool_and(format_version = 4) FROM vectorgpu_indexes WHERE access_method IN ('gpugraph', 'gpumatch')}), 't', "$version: the format after the merges");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|ERROR:/, "$version: no error, no crash");
	$node->stop;
}
done_testing();
