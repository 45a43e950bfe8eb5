# Incremental backups (PostgreSQL 17 and later): of a cluster whose indexes are changed, vacuumed, merged and rebuilt between the backups. The combined backup
# answers as the server did, and its indexes are sound.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

plan(skip_all => 'PostgreSQL ' . server_major() . ' has no incremental backup') if server_major() < 17;

my $node = make_node('origin', streaming => 1, conf => "summarize_wal = on\nvectorgpu.auto_merge = off\n");
my $rows = sub { my ($first, $last) = @_; return "SELECT i, i % 10, " . random_vector_sql('i', dims => 16) . ", ARRAY(SELECT (hashint8extended(i * 10 + e, 1) & 31)::int FROM generate_series(1, 10) e) FROM generate_series($first, $last) i"; };
my @indexes = ('a_flat', 'a_lists', 'a_codes', 'a_graph', 'a_sets');
my $answer = sub {
	my ($server) = @_;
	my @md5;

	for my $index (@indexes)
	{
		my $order = $index eq 'a_sets' ? "s <#> '{1,3,5,8,13}'" : 'v <-> test_vector(7, 16)::vector';
		my $only = join '; ', map { $_ eq $index ? () : "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '$_'::regclass" } @indexes;

		# The other indexes are hidden from the planner in this transaction.
		push @md5, "$index " . $server->safe_psql('postgres', "BEGIN; $only; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM a ORDER BY $order LIMIT 300) x; ROLLBACK");
	}
	return join "\n", @md5;
};

create_comparer($node);
$node->safe_psql('postgres', 'CREATE TABLE a (id bigint PRIMARY KEY, category int, v vector(16), s int[]); INSERT INTO a ' . $rows->(1, 2000));
$node->safe_psql('postgres', <<SQL);
CREATE INDEX a_flat ON a USING gpuflat (v vector_l2_ops);
CREATE INDEX a_lists ON a USING gpuivf (v vector_l2_ops) WITH (lists = 10);
CREATE INDEX a_codes ON a USING gpuivf (v vector_l2_ops) WITH (lists = 10, storage = sq8);
CREATE INDEX a_graph ON a USING gpugraph (v vector_l2_ops);
CREATE INDEX a_sets ON a USING gpumatch (s);
SQL

my @backups = ($node->backup_dir . '/full');
$node->command_ok([ 'pg_basebackup', '-D', $backups[0], '-c', 'fast', '--no-sync' ], 'the full backup');
my @changes = (
	'INSERT INTO a ' . $rows->(2001, 2200) . '; DELETE FROM a WHERE id % 7 = 0',
	'VACUUM (INDEX_CLEANUP on) a; INSERT INTO a ' . $rows->(2201, 2300),
	join('; ', map { "SELECT vectorgpu_merge('$_')" } @indexes) . '; DELETE FROM a WHERE id % 11 = 0',
	'REINDEX TABLE a; VACUUM a; INSERT INTO a ' . $rows->(2301, 2400));
for my $i (1 .. @changes)
{
	my $backup = $node->backup_dir . "/incremental$i";

	$node->safe_psql('postgres', $_) for split /; /, $changes[ $i - 1 ];
	$node->command_ok([ 'pg_basebackup', '-D', $backup, '-c', 'fast', '--no-sync', '--incremental', "$backups[-1]/backup_manifest" ], "incremental backup $i");
	push @backups, $backup;
	my $expected = $answer->($node);
	my $combined = $node->backup_dir . "/combined$i";
	my $restored = PostgreSQL::Test::Cluster->new("restored$i");

	$node->command_ok([ 'pg_combinebackup', '--no-sync', '-o', $combined, @backups ], "the backups up to $i are combined");
	$restored->init_from_backup($node, "combined$i");
	$restored->start;
	is($answer->($restored), $expected, "backup $i: the answers");
	check_index($restored, $_, narrow => 0, name => "backup $i: check of $_") for @indexes;
	$restored->safe_psql('postgres', 'INSERT INTO a ' . $rows->(5001, 5050) . '; DELETE FROM a WHERE id % 13 = 0');
	$restored->safe_psql('postgres', 'VACUUM a');
	check_index($restored, $_, narrow => 0, name => "backup $i, changed: check of $_") for @indexes;
	$restored->stop;
}

$node->stop;
done_testing();
