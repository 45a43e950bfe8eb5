# From pgvector to the extension vector of vectorgpu, and back: dumps, and logical replication in text and in binary, by the commands of docs/pgvector.md.
# VECTORGPU_INSTALLATIONS names the folders of the servers, oldest first, as for 068; some have pgvector, the others the extension vector of this tree.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

my @installations = split ' ', $ENV{VECTORGPU_INSTALLATIONS} // '';
my ($of_pgvector) = grep { vector_of($_) eq 'pgvector' } @installations;
my ($later) = grep { vector_of($_) eq 'vectorgpu' && major_of($_) >= major_of($of_pgvector // $_) } @installations;
my $back = (grep { vector_of($_) eq 'pgvector' } @installations)[-1];

plan skip_all => 'VECTORGPU_INSTALLATIONS names no server with pgvector' unless defined $of_pgvector;
plan skip_all => 'VECTORGPU_INSTALLATIONS names no later server with the extension vector of vectorgpu' unless defined $later;

my $conf = "fsync = off\nvectorgpu.worker = off\nwal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n";
my $publisher = make_node('publisher', install_path => $of_pgvector, extension => 0, conf => $conf);
my $subscriber = make_node('subscriber', install_path => $later, extension => 0, conf => $conf);
my %value = map { ($_->[0] => random_vector_sql('i', dims => $_->[2], type => $_->[1])) } [ 'v', 'vector', 12 ], [ 'h', 'halfvec', 12 ], [ 'b', 'bit', 24 ];
my $tables = <<'SQL';
CREATE EXTENSION vector;
CREATE TABLE items (id bigint PRIMARY KEY, note text, v vector(12), h halfvec(12), b bit(24));
CREATE TABLE whole (v vector(3), note text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE several (id int PRIMARY KEY, v vector(2)[]);
SQL
my $indexes = <<'SQL';
CREATE INDEX items_v ON items USING hnsw (v vector_cosine_ops) WITH (m = 24, ef_construction = 80);
CREATE INDEX items_h ON items USING ivfflat (h halfvec_l2_ops) WITH (lists = 5);
CREATE INDEX items_b ON items USING hnsw (b bit_hamming_ops);
CREATE INDEX items_quantized ON items USING ivfflat (((binary_quantize(v))::bit(12)) bit_hamming_ops) WITH (lists = 2);
CREATE INDEX whole_v ON whole USING ivfflat (v) WITH (lists = 1);
SQL

sub rows
{
	my ($from, $to) = @_;
	return "INSERT INTO items SELECT i, 'row ' || i, $value{v}, $value{h}, $value{b} FROM generate_series($from, $to) i";
}

# All values of the tables, by their own output.
my $everything = q{SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text COLLATE "C")) FROM (SELECT items::text AS t FROM items UNION ALL SELECT 'whole ' || whole::text FROM whole UNION ALL SELECT 'several ' || several::text FROM several) s};

# Our indexes of a database: sound, and with the distances of a sequential scan.
sub sound
{
	my ($database, $when) = @_;

	for my $search ([ 'items_v', 'v <=>', 'v' ], [ 'items_h', 'h <->', 'h' ], [ 'items_b', 'b <~>', 'b' ])
	{
		my ($index, $distance, $column) = @$search;
		my $sql = "SELECT string_agg(d::text, ' ') FROM (SELECT $distance (SELECT $column FROM items WHERE id = 17) AS d FROM items ORDER BY $distance (SELECT $column FROM items WHERE id = 17) LIMIT 50) s";
		my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET gpuivf.recall_target = 1; SET gpugraph.recall_target = 1;';

		like($subscriber->safe_psql($database, "$by_index EXPLAIN $sql"), qr/Index Scan using $index/, "$when: the planner takes $index");
		is($subscriber->safe_psql($database, "$by_index $sql"), $subscriber->safe_psql($database, "SET enable_indexscan = off; $sql"), "$when: both scans agree, $index");
	}
	is($subscriber->safe_psql($database, "SELECT count(*) FROM pg_class, vectorgpu_check(oid::regclass, true) WHERE relname IN ('items_v', 'items_h', 'items_b', 'items_quantized', 'whole_v')"), 5, "$when: vectorgpu_check");
	return;
}

# The commands of the document, with the addresses of these servers.
my $page = slurp_file("$FindBin::RealBin/../../docs/pgvector.md");
my ($section) = $page =~ /^## Move a database\n(.*?)^## /ms or die 'the document has no such section';
my %address = (old => 'host=' . $publisher->host . ' port=' . $publisher->port, new => '-h ' . $subscriber->host . ' -p ' . $subscriber->port);
my ($by_dump, $schema) = map { s/-h new/$address{new}/gr } $section =~ /^```sh\n(.*?)^```$/msg;
my ($publication, $subscription) = map { s/host=old/$address{old}/gr } $section =~ /^```postgresql\n(.*?)^```$/msg;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $commands_of = sub { return [ 'bash', '-euc', "cd '$folder'; export PGHOST='" . $publisher->host . "' PGPORT=" . $publisher->port . " PATH='$later/bin':\$PATH\n$_[0]" ] };

$publisher->safe_psql('postgres', 'CREATE DATABASE app');
$publisher->safe_psql('app', $tables . rows(1, 600) . "; INSERT INTO items (id) VALUES (-1); INSERT INTO items SELECT -2, NULL, array_fill(0, '{12}')::vector(12), array_fill(0, '{12}')::vector(12)::halfvec(12), 0::bit(24);
	INSERT INTO whole SELECT ARRAY[i % 7, i, 1]::vector(3), 'whole ' || i FROM generate_series(1, 40) i; INSERT INTO several VALUES (1, ARRAY['[1,2]', '[3,4]']::vector(2)[]); $indexes");

# A dump: every statement works, and the indexes have the same definitions.
my $definitions = q{SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid IN ('items'::regclass, 'whole'::regclass)};
my $defined = $publisher->safe_psql('app', $definitions);

command_ok($commands_of->($by_dump), 'a dump of pgvector is restored without an error');
is($subscriber->safe_psql('app', $definitions), $defined, '... with the same indexes');
is($subscriber->safe_psql('app', $everything), $publisher->safe_psql('app', $everything), '... and the same rows');
sound('app', 'restored');

# And back.
my $target = $back eq $of_pgvector ? $publisher : make_node('back', install_path => $back, extension => 0, conf => $conf);

$target->safe_psql('postgres', 'CREATE DATABASE returned');
command_ok([ "$back/bin/pg_dump", '-Fc', '-f', "$folder/back.dump", '-d', $subscriber->connstr('app') ], 'a dump of the extension vector');
command_ok([ "$back/bin/pg_restore", '--exit-on-error', '-d', $target->connstr('returned'), "$folder/back.dump" ], '... is restored on pgvector without an error');
is($target->safe_psql('returned', $definitions), $defined, '... with the same indexes');
is($target->safe_psql('returned', $everything), $publisher->safe_psql('app', $everything), '... and the same rows');
is($target->safe_psql('returned', 'SET enable_seqscan = off; SET enable_sort = off; SELECT id FROM items ORDER BY v <=> (SELECT v FROM items WHERE id = 17) LIMIT 1'), 17, '... which pgvector finds');
$subscriber->safe_psql('postgres', 'DROP DATABASE app');

# Logical replication: rows that were there before, and what comes after them.
command_ok($commands_of->($schema), 'the schema');
$subscriber->safe_psql('postgres', 'CREATE DATABASE in_text TEMPLATE app');
$publisher->safe_psql('app', $publication);
$subscriber->safe_psql('app', $subscription);
my $text = $subscription =~ s/ WITH \(binary = true\)//r =~ s/SUBSCRIPTION to_new/SUBSCRIPTION in_text/r;
isnt($text, $subscription, 'the document says it in binary');
$subscriber->safe_psql('in_text', $text);
my @ways = ([ 'app', 'to_new' ], [ 'in_text', 'in_text' ]);

for my $way (@ways)
{
	my ($database, $name) = @$way;

	$subscriber->wait_for_subscription_sync($publisher, $name, $database);
	is($subscriber->safe_psql($database, $everything), $publisher->safe_psql('app', $everything), "$name: the first copy");
}
$publisher->safe_psql('app', rows(601, 900) . <<'SQL');
;
UPDATE items SET v = h::vector, h = v::halfvec WHERE id % 7 = 1;
UPDATE items SET b = ~b, v = NULL WHERE id % 11 = 1;
UPDATE items SET note = 'changed' WHERE id % 5 = 1;
DELETE FROM items WHERE id % 13 = 1;
UPDATE whole SET v = v + '[0,0,0.5]' WHERE note = 'whole 3';
UPDATE whole SET note = 'changed' WHERE v = '[5,5,1]';
DELETE FROM whole WHERE v <-> '[1,1,1]' < 8;
UPDATE several SET v = v || '[5,6]'::vector;
BEGIN;
INSERT INTO items (id) VALUES (-3);
ROLLBACK;
SQL
for my $way (@ways)
{
	my ($database, $name) = @$way;

	$publisher->wait_for_catchup($name);
	is($subscriber->safe_psql($database, $everything), $publisher->safe_psql('app', $everything), "$name: the same rows after INSERT, UPDATE and DELETE");
	sound($database, $name);
}
is($subscriber->safe_psql('app', 'SELECT count(*) FROM items WHERE id = -1 AND v IS NULL AND b IS NULL'), 1, 'NULL arrives as NULL');

is($subscriber->safe_psql('app', 'SELECT v FROM several'), '{"[1,2]","[3,4]","[5,6]"}', 'an array of vectors');
$subscriber->safe_psql($_->[0], "DROP SUBSCRIPTION $_->[1]") for @ways;

$_->stop for $target == $publisher ? () : $target, $subscriber, $publisher;
done_testing();
