# pg_dump and pg_restore (C34, F45), pg_basebackup and point-in-time recovery under load (F42), logical replication to a
# subscriber with the index (C15).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuWorker;

my $node   = make_node('origin', streaming => 1, conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $folder = PostgreSQL::Test::Utils::tempdir();
create_comparer($node);
$node->enable_archiving;
$node->restart;

$node->safe_psql('postgres', 'CREATE TABLE a (id bigint PRIMARY KEY, category int, v vector(24), h halfvec(24), b bit(24), s int[])');
$node->safe_psql('postgres', 'INSERT INTO a SELECT i, i % 10, '
	  . random_vector_sql('i', dims => 24) . ', '
	  . random_vector_sql('i', dims => 24, type => 'halfvec') . ', '
	  . random_vector_sql('i', dims => 24, type => 'bit')
	  . ", CASE WHEN i % 90 > 0 THEN ARRAY(SELECT (hashint8extended(i * 10 + e, 1) & 31)::int FROM generate_series(1, 10) e) END"
	  . ' FROM generate_series(1, 1500) i');
$node->safe_psql('postgres', <<SQL);
UPDATE a SET v = NULL WHERE id % 100 = 0;
CREATE INDEX a_v ON a USING $AM (v vector_l2_ops);
CREATE INDEX a_h ON a USING $AM (h halfvec_cosine_ops, category, id);
CREATE INDEX a_b ON a USING $AM (b bit_hamming_ops);
CREATE INDEX a_s ON a USING gpumatch (s);
CREATE SEQUENCE a_id START 100000;
SQL

# The sets of gpumatch beside them: both scans agree, and the index is sound.
sub sets_equal
{
	my ($server, $db, $name) = @_;
	my $nearest = q{FROM a ORDER BY s <#> '{1,3,5,8,13,21}' LIMIT 200};
	my $sql = "SELECT count(d) || ': ' || string_agg(d::text, ',') FROM (SELECT s <#> '{1,3,5,8,13,21}' AS d $nearest) x";
	my $by_index = 'SET enable_seqscan = off; SET enable_sort = off;';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($server->safe_psql($db, "$by_index EXPLAIN SELECT id $nearest"), qr/Index Scan using a_s/, "$name: sets by the index");
	is($server->safe_psql($db, "$by_index $sql"), $server->safe_psql($db, "SET enable_indexscan = off; $sql"), "$name: both scans of sets agree");
	check_index($server, 'a_s', db => $db, name => "$name: check of a_s");
	return;
}

# Dump and restore: text into psql, custom format with two jobs.
my $rows_sql = "SELECT count(*), md5(string_agg(id || coalesce(encode(vector_send(v), 'hex'), '-') || encode(halfvec_send(h), 'hex') || b || coalesce(s::text, '-'), ',' ORDER BY id)) FROM a";
my $rows     = $node->safe_psql('postgres', $rows_sql);
my @connect  = ('-h', $node->host, '-p', $node->port);
command_ok([ 'pg_dump', @connect, '-f', "$folder/plain.sql", 'postgres' ], 'pg_dump, plain');
command_ok([ 'pg_dump', @connect, '-Fc', '-f', "$folder/custom", 'postgres' ], 'pg_dump, custom');
my $dump = slurp_file("$folder/plain.sql");
like($dump, qr/CREATE INDEX a_v ON public\.a USING $AM \(v(?: public\.vector_l2_ops)?\)/, 'the dump holds the definition of the index');
is(scalar(() = $dump =~ /COPY /g), 1, 'and the data of the table only');
$node->safe_psql('postgres', "CREATE DATABASE $_") for 'plain', 'custom';
command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', @connect, '-d', 'plain', '-f', "$folder/plain.sql" ], 'restore, plain');
command_ok([ 'pg_restore', @connect, '-j', '4', '-d', 'custom', "$folder/custom" ], 'pg_restore -j 4');
for my $db ('plain', 'custom')
{
	is($node->safe_psql($db, $rows_sql), $rows, "$db: every bit came back");
	answers_equal($node, 'a', db => $db, dims => 24, queries => 1, name => "$db: both scans agree");
	check_index($node, $_, db => $db, name => "$db: check of $_") for 'a_v', 'a_h', 'a_b';
	sets_equal($node, $db, $db);
}

# The extension in another schema dumps and restores as well.
$node->safe_psql('postgres', 'CREATE DATABASE schema_from');
$node->safe_psql('schema_from', <<SQL);
CREATE SCHEMA ext;
CREATE EXTENSION vectorgpu SCHEMA ext;
CREATE TABLE s (id int, v ext.vector(2));
INSERT INTO s VALUES (1, '[1,2]'), (2, '[3,4]'), (3, NULL);
CREATE INDEX s_v ON s USING $AM (v ext.vector_l2_ops);
SQL
command_ok([ 'pg_dump', @connect, '-Fc', '-f', "$folder/schema", 'schema_from' ], 'pg_dump with the extension in another schema');
$node->safe_psql('postgres', 'CREATE DATABASE schema_to');
command_ok([ 'pg_restore', @connect, '-d', 'schema_to', "$folder/schema" ], 'and pg_restore');
is($node->safe_psql('schema_to', "SET enable_seqscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM s ORDER BY v OPERATOR(ext.<->) '[3,3]') s"),
	'2,1,3', 'answers from the restored index');

# Base backup and point-in-time recovery, taken while writers run.
my $load = start_load($node, {
		insert => "INSERT INTO a SELECT nextval('a_id'), 1, test_vector((random() * 1e9)::bigint, 24)::vector, NULL, NULL, ARRAY(SELECT (random() * 31)::int FROM generate_series(1, 10));\n",
		delete => "DELETE FROM a WHERE id = (SELECT min(id) FROM a WHERE id > random() * 120000);\n" },
	clients => 2, seconds => 6);
SKIP:
{
	skip 'the worker is not installed, or switched off', 1 if !-x worker_file($node) || ($ENV{VECTORGPU_WORKER} // '') eq 'off';
	ok(wait_until(sub { ($node->psql('postgres', "SELECT vectorgpu_prewarm('a_v')"))[0] == 0 && grep({ -S } glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*')) }), 'the worker runs, and its socket is there');
}
# Like $node->backup, but its output is checked: it would report a socket that it skips (C38).
my $log_start = -s $node->logfile;
my $backed_up = IPC::Run::run([ 'pg_basebackup', '-D', $node->backup_dir . '/base', @connect, '--checkpoint', 'fast', '--no-sync' ], '>', \my $said, '2>', \my $warned);
ok($backed_up, 'pg_basebackup') or diag($warned);
is($said . $warned, '', 'prints nothing about special files or anything else');
unlike(slurp_file($node->logfile, $log_start), qr/special file/, 'nor does the server');
is(join(' ', glob($node->backup_dir . '/base/pgsql_tmp*')), '', 'and leaves the socket out');
$node->safe_psql('postgres', 'VACUUM a');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('a_v'); SELECT vectorgpu_merge('a_s')");
my $target = $node->safe_psql('postgres', "SELECT pg_create_restore_point('target')");
my ($transactions, $problem) = finish_load($load);
is($problem, '', "$transactions transactions beside pg_basebackup");
$node->safe_psql('postgres', 'DELETE FROM a WHERE id % 2 = 0; VACUUM a; SELECT pg_switch_wal()');

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'target'\nrecovery_target_action = promote\narchive_mode = off\n");
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery did not end';
cmp_ok($restored->safe_psql('postgres', 'SELECT count(*) FROM a WHERE id % 2 = 0'), '>', 500, 'recovery stopped at the target');
answers_equal($restored, 'a', dims => 24, name => 'after point-in-time recovery both scans agree');
check_index($restored, $_, name => "after point-in-time recovery: check of $_") for 'a_v', 'a_h', 'a_b';
sets_equal($restored, 'postgres', 'after point-in-time recovery');
{
	# a_h has key columns; its other answers are compared by answers_equal of vectors alone.
	my $query = "SELECT string_agg(id::text, ',') FROM (SELECT id FROM a WHERE category = 3 AND id % 2 >= 0 AND id < 1200 AND h IS NOT NULL ORDER BY h <=> array_fill(1, ARRAY[24])::halfvec(24), ctid LIMIT 50) s";
	my $by_index = $query =~ s/, ctid//r;

	is($restored->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; $by_index"),
		$restored->safe_psql('postgres', "SET enable_indexscan = off; $query"), 'and by conditions on key columns');
}
$restored->safe_psql('postgres', "INSERT INTO a SELECT id + 1000000, category, v, h, b, s FROM a LIMIT 100; DELETE FROM a WHERE id % 3 = 0; VACUUM a");
answers_equal($restored, 'a', dims => 24, name => 'and after changes on the new timeline');
check_index($restored, 'a_v', name => 'check on the new timeline');
sets_equal($restored, 'postgres', 'on the new timeline');

# Logical replication: the apply worker inserts into an indexed table; here into the restored cluster.
$restored->safe_psql('postgres', "TRUNCATE a");
$node->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE a');
my $source = $node->connstr('postgres') =~ s/'/''/gr;
$restored->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$source' PUBLICATION pub");
$restored->wait_for_subscription_sync($node, 'sub');
answers_equal($restored, 'a', dims => 24, queries => 1, name => 'subscriber: after the first copy');
$node->safe_psql('postgres', <<'SQL');
INSERT INTO a SELECT id + 2000000, category, v, h, b, s FROM a WHERE id < 1000;
UPDATE a SET v = '[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]' WHERE id % 7 = 1;
UPDATE a SET s = '{1,3,5,8}' WHERE id % 17 = 1;
UPDATE a SET category = 77 WHERE id % 11 = 1;
DELETE FROM a WHERE id % 13 = 1;
BEGIN; INSERT INTO a SELECT id + 3000000, category, v, h, b, s FROM a WHERE id < 100; ROLLBACK;
SQL
$node->wait_for_catchup('sub');
is($restored->safe_psql('postgres', $rows_sql), $node->safe_psql('postgres', $rows_sql), 'subscriber: equal rows');
answers_equal($restored, 'a', dims => 24, name => 'subscriber: both scans agree');
check_index($restored, $_, name => "subscriber: check of $_") for 'a_v', 'a_h', 'a_b';
sets_equal($restored, 'postgres', 'subscriber');
$restored->safe_psql('postgres', 'DROP SUBSCRIPTION sub');

$restored->stop;
$node->stop;
done_testing();
