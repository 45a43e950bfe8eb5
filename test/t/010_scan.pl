# Scans against the sequential scan: all operators and types, NULL and zero rows (C28), cursors (C25, C26), dead and
# aborted rows before the nearest (C16), own changes (C3), HOT chains (C29), prepared plans (F50), huge and odd limits
# (F31, F32), rows longer than a page, near ties over partitions (C23).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node = make_node('scan');
create_comparer($node);

# Every operator, type and operator class of the access method; part of the rows by build, part by insert, then merged.
my @classes = (
	[ 'vector',  '<->', 'vector_l2_ops' ],      [ 'vector',  '<#>', 'vector_ip_ops' ],
	[ 'vector',  '<=>', 'vector_cosine_ops' ],  [ 'vector',  '<+>', 'vector_l1_ops' ],
	[ 'halfvec', '<->', 'halfvec_l2_ops' ],     [ 'halfvec', '<#>', 'halfvec_ip_ops' ],
	[ 'halfvec', '<=>', 'halfvec_cosine_ops' ], [ 'halfvec', '<+>', 'halfvec_l1_ops' ],
	[ 'bit',     '<~>', 'bit_hamming_ops' ],    [ 'bit',     '<%>', 'bit_jaccard_ops' ]);
for my $class (@classes)
{
	my ($type, $op, $opclass) = @$class;
	# 37 elements: no multiple of any vector width. Few levels make many ties.
	my %shape = (type => $type, dims => 37, seed => 5);
	my @limits = $AM eq 'gpuflat' ? () : (limits => [ 10, undef ]);
	$shape{levels}     = 3 if $type ne 'bit';
	$shape{zero_every} = 50 if $type ne 'bit';

	make_table($node, 'a', %shape);
	fill_vectors($node, 'a', %shape, rows => 300, null_every => 31);
	$node->safe_psql('postgres', "CREATE INDEX a_v ON a USING $AM (v $opclass)");
	fill_vectors($node, 'a', %shape, rows => 200, first => 301, null_every => 17);
	compare_sweep($node, 'a', $op, %shape, @limits, queries => 1, strict_ties => 1, name => "$opclass: built and inserted rows");
	check_index($node, 'a_v', name => "$opclass: check");
	$node->safe_psql('postgres', "DELETE FROM a WHERE id % 7 = 0; VACUUM a; SELECT vectorgpu_merge('a_v')");
	compare_sweep($node, 'a', $op, %shape, @limits, queries => 1, strict_ties => 1, name => "$opclass: after delete, vacuum and merge");
	check_index($node, 'a_v', name => "$opclass: check after merge");
	$node->safe_psql('postgres', 'DROP TABLE a');
}

# C28: rows without a distance come last, in every kind of query.
make_table($node, 'n', dims => 3);
$node->safe_psql('postgres', <<SQL);
INSERT INTO n VALUES (1, 0, '[1,2,3]'), (2, 0, NULL), (3, 0, '[0,0,0]'), (4, 0, '[3,2,1]'), (5, 0, NULL), (6, 0, '[0,0,0]');
CREATE INDEX n_cos ON n USING $AM (v vector_cosine_ops);
INSERT INTO n SELECT id + 6, category, v FROM n;
SQL
answers_equal($node, 'n', dims => 3, op => '<=>', limits => [ 1, 3, 5, 9, 12, 13, undef ], name => 'NULL and zero rows under cosine');
is($node->safe_psql('postgres', q{SELECT compare_answers('n', '<=>', '''[0,0,0]''::vector', NULL)}), '', 'a zero query');
# For a literal NULL the planner sorts. A NULL parameter of a generic plan reaches the index scan.
sub null_query
{
	my ($name) = @_;
	my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;';
	my $by_sequence = 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;';

	for my $limit ('ALL', 5)
	{
		# In this order: state left by a scan with a vector does not affect a scan without one, and vice versa.
		my $execute = "EXECUTE q(NULL); EXECUTE q('[1,1,1]'); EXECUTE q(NULL)";
		my $prepare = "PREPARE q(vector) AS SELECT id, coalesce(encode(float8send(v <=> \$1), 'hex'), 'null') FROM n ORDER BY v <=> \$1";

		like($node->safe_psql('postgres', "$by_index $prepare LIMIT $limit; EXPLAIN (COSTS OFF) EXECUTE q(NULL)"), qr/Index Scan using n_cos.*Order By: \(v <=> \$1\)/s,
			"$name, LIMIT $limit: a NULL parameter goes to the index");
		is($node->safe_psql('postgres', "$by_index $prepare LIMIT $limit; $execute"), $node->safe_psql('postgres', "$by_sequence $prepare, ctid LIMIT $limit; $execute"),
			"$name, LIMIT $limit: rows and order are the sequential scan's");
	}
	# One rescan with and one without a vector.
	my $lateral = "FROM (VALUES (1, '[1,1,1]'::vector), (2, NULL), (3, '[3,1,0]'), (4, NULL)) q (n, q), LATERAL (SELECT id FROM n ORDER BY v <=> q.q%s LIMIT 7) s";
	like($node->safe_psql('postgres', "$by_index EXPLAIN (COSTS OFF) SELECT q.n, s.id " . sprintf($lateral, '')), qr/Index Scan using n_cos/, "$name: an index scan for each row of another table");
	is($node->safe_psql('postgres', "$by_index SELECT q.n, s.id " . sprintf($lateral, '')), $node->safe_psql('postgres', "$by_sequence SELECT q.n, s.id " . sprintf($lateral, ', ctid')),
		"$name: some are NULL");
	return;
}
null_query('NULL query, rows built and inserted');
$node->safe_psql('postgres', q{SELECT vectorgpu_merge('n_cos')});
null_query('NULL query, merged');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM n WHERE v IS NULL}), 4, 'IS NULL');

# F31, F32: few rows, equal rows, odd limits.
make_table($node, 'few', dims => 4);
$node->safe_psql('postgres', "CREATE INDEX few_v ON few USING $AM (v vector_l2_ops)");
answers_equal($node, 'few', dims => 4, name => 'an empty table');
$node->safe_psql('postgres', "INSERT INTO few VALUES (1, 0, '[1,1,1,1]')");
answers_equal($node, 'few', dims => 4, name => 'one row');
$node->safe_psql('postgres', "INSERT INTO few SELECT i, 0, '[1,1,1,1]' FROM generate_series(2, 3000) i; REINDEX INDEX few_v");
answers_equal($node, 'few', dims => 4, limits => [ 0, 1, 2999, 3000, 3001, 1_000_000, undef ], name => 'equal rows and odd limits');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_sort = off;
	SELECT count(*) FROM (SELECT id FROM few ORDER BY v <-> '[0,0,0,0]' OFFSET 2990 LIMIT 100) s}), 10, 'OFFSET near the end');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_sort = off;
	SELECT count(*) FROM (SELECT id FROM few ORDER BY v <-> '[0,0,0,0]' OFFSET 1000000) s}), 0, 'OFFSET past the end');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_sort = off;
	SELECT count(*), bool_and(id = n) FROM (SELECT id, row_number() OVER () n FROM (SELECT id FROM few ORDER BY v <-> '[0,0,0,0]') s) s}),
	'3000|t', 'ties come in the order of their places');

# Rows over several pages, 16,000 dimensions included; limits beyond the types are refused.
make_table($node, 'long', dims => 16000);
fill_vectors($node, 'long', dims => 16000, rows => 12, null_every => 5);
$node->safe_psql('postgres', "CREATE INDEX long_v ON long USING $AM (v vector_ip_ops)");
fill_vectors($node, 'long', dims => 16000, rows => 9, first => 13);
answers_equal($node, 'long', dims => 16000, op => '<#>', queries => 1, name => '16,000 dimensions');
$node->safe_psql('postgres', "DELETE FROM long WHERE id IN (3, 15); VACUUM long; SELECT vectorgpu_merge('long_v')");
answers_equal($node, 'long', dims => 16000, op => '<#>', queries => 1, name => '16,000 dimensions, merged');
check_index($node, 'long_v');
my ($state, $message) = psql_state($node, q{SET enable_seqscan = off; SELECT id FROM long ORDER BY v <#> '[1,2]' LIMIT 1});
is($state, '22000', 'a query of other dimensions is refused (F28)') or diag($message);
answers_equal($node, 'long', dims => 16000, op => '<#>', queries => 1, limits => [5], name => 'and the index is intact');

# C16: aborted, dead and filtered rows nearer than every live one.
make_table($node, 'c', dims => 8);
fill_vectors($node, 'c', dims => 8, rows => 2000);
$node->safe_psql('postgres', "CREATE INDEX c_v ON c USING $AM (v vector_l2_ops)");
my $near = "INSERT INTO c SELECT i, 0, array_fill(0.0::float4, ARRAY[8])::vector FROM generate_series(10001, 10500) i";
$node->safe_psql('postgres', "BEGIN; $near; ROLLBACK");
$node->safe_psql('postgres', "BEGIN; SAVEPOINT a; $near; ROLLBACK TO a; INSERT INTO c VALUES (9001, 1, '[0,0,0,0,0,0,0,1]'); COMMIT");
$node->safe_psql('postgres', "$near; DELETE FROM c WHERE id > 10000");
my $zero = "'[0,0,0,0,0,0,0,0]'::vector";
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM c ORDER BY v <-> $zero LIMIT 10) s"),
	10, 'LIMIT 10 over 1,500 aborted and deleted nearer rows returns 10');
is($node->safe_psql('postgres', "SELECT compare_answers('c', '<->', quote_literal('[0,0,0,0,0,0,0,0]') || '::vector', 10)"), '', 'the right 10');
answers_equal($node, 'c', dims => 8, filter => 'category = 3', limits => [ 10, 500, undef ], name => 'a filter keeps all its rows');
answers_equal($node, 'c', dims => 8, filter => 'id % 97 = 0', name => 'a narrow filter');
# 64 nested aborted subtransactions (F56).
my $nested = 'BEGIN;';
$nested .= "SAVEPOINT s$_; INSERT INTO c VALUES (20000 + $_, 0, $zero);" for 1 .. 64;
$nested .= 'ROLLBACK TO s33; COMMIT;';
$node->safe_psql('postgres', $nested);
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*), count(*) FILTER (WHERE id BETWEEN 20001 AND 20032) FROM (SELECT id FROM c ORDER BY v <-> $zero LIMIT 32) s"),
	'32|32', 'rows of released subtransactions are found, those of aborted ones are not');

# C3: a transaction sees its own changes, step by step.
is($node->safe_psql('postgres', <<SQL), "7001\n7002\n7001\n20001\n7001\n20001", 'own inserts, savepoints and deletes');
SET enable_seqscan = off;
UPDATE c SET v = '[1,1,1,1,1,1,1,1]' WHERE id > 20001 AND id <= 20032;
BEGIN;
INSERT INTO c VALUES (7001, 0, '[0,0,0,0,0,0,0,0.0001]');
SELECT id FROM c WHERE id < 20000 ORDER BY v <-> $zero LIMIT 1;
SAVEPOINT a;
INSERT INTO c VALUES (7002, 0, $zero);
SELECT id FROM c WHERE id < 20000 ORDER BY v <-> $zero LIMIT 1;
ROLLBACK TO a;
SELECT id FROM c WHERE id < 20000 ORDER BY v <-> $zero LIMIT 1;
SELECT id FROM c ORDER BY v <-> $zero LIMIT 1;
UPDATE c SET v = '[2,2,2,2,2,2,2,2]' WHERE id = 20001;
SELECT id FROM c ORDER BY v <-> $zero LIMIT 1;
ROLLBACK;
SELECT id FROM c ORDER BY v <-> $zero LIMIT 1;
SQL

# C25, C26: cursors continue over inserts, deletes, vacuum and merge; no row twice, none missing.
my $cursor = $node->background_psql('postgres');
my $expected = $node->safe_psql('postgres', "SELECT string_agg(id::text, ',' ORDER BY id) FROM c");
$cursor->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off; SET enable_sort = off;
	DECLARE one CURSOR FOR SELECT id FROM c ORDER BY v <-> '[0.1,0,0,0,0,0,0,0]'::vector");
my @fetched = split /\n/, $cursor->query_safe('FETCH 10 FROM one');
$node->safe_psql('postgres', "INSERT INTO c SELECT i, 0, '[0.1,0,0,0,0,0,0,0.001]' FROM generate_series(30001, 30200) i");
push @fetched, split /\n/, $cursor->query_safe('FETCH 100 FROM one');
$node->safe_psql('postgres', 'DELETE FROM c WHERE id % 3 = 0; VACUUM c');
push @fetched, split /\n/, $cursor->query_safe('FETCH 500 FROM one');
$node->safe_psql('postgres', "SELECT vectorgpu_merge('c_v'); INSERT INTO c SELECT i, 0, '[0.1,0,0,0,0,0,0,0.5]' FROM generate_series(30301, 30400) i");
push @fetched, split /\n/, $cursor->query_safe('FETCH ALL FROM one');
is(join(',', sort { $a <=> $b } @fetched), $expected, 'a cursor over inserts, vacuum and merge returns its snapshot exactly');
$cursor->query_safe('COMMIT');

is($cursor->query_safe(<<SQL), $node->safe_psql('postgres', "WITH o AS (SELECT id, row_number() OVER (ORDER BY v <-> $zero, ctid) n FROM c) SELECT id FROM o WHERE n IN (1, 2, 5) ORDER BY n DESC"), 'SCROLL goes backward');
BEGIN;
DECLARE two SCROLL CURSOR FOR SELECT id FROM c ORDER BY v <-> $zero;
MOVE FORWARD 4 FROM two;
FETCH FORWARD 1 FROM two;
MOVE BACKWARD 2 FROM two;
FETCH BACKWARD 1 FROM two;
FETCH BACKWARD 1 FROM two;
COMMIT;
SQL
my $ordered = $node->safe_psql('postgres', "SELECT id FROM c ORDER BY v <-> $zero, ctid LIMIT 20");
$cursor->query_safe("BEGIN; DECLARE three CURSOR WITH HOLD FOR SELECT id FROM c ORDER BY v <-> $zero LIMIT 20; FETCH 3 FROM three; COMMIT");
$node->safe_psql('postgres', 'DELETE FROM c WHERE id > 20000; VACUUM c');
my $held = $cursor->query_safe('FETCH ALL FROM three');
is($held, join("\n", (split /\n/, $ordered)[ 3 .. 19 ]), 'WITH HOLD keeps its rows over delete and vacuum');
$cursor->quit;
answers_equal($node, 'c', dims => 8, name => 'after the cursors');
check_index($node, 'c_v', name => 'check after the cursors');

# C29: HOT chains. One entry a chain, for any number of versions.
make_table($node, 'h', dims => 8, with => 'WITH (fillfactor = 50)');
fill_vectors($node, 'h', dims => 8, rows => 300);
$node->safe_psql('postgres', "CREATE INDEX h_v ON h USING $AM (v vector_l2_ops)");
$node->safe_psql('postgres', "DO 'BEGIN FOR i IN 1 .. 1000 LOOP UPDATE h SET category = category + 1 WHERE id = i % 300 + 1; END LOOP; END'");
ok($node->poll_query_until('postgres', "SELECT n_tup_hot_upd > 100 FROM pg_stat_user_tables WHERE relname = 'h'"), 'updates were HOT');
answers_equal($node, 'h', dims => 8, name => 'HOT chains');
$node->safe_psql('postgres', 'VACUUM h; UPDATE h SET category = category + 1; REINDEX INDEX h_v');
answers_equal($node, 'h', dims => 8, name => 'HOT chains after REINDEX');
check_index($node, 'h_v');

# F50: prepared statements over DROP INDEX, REINDEX and new rows.
my $prepared = $node->background_psql('postgres');
$prepared->query_safe("SET enable_seqscan = off; PREPARE p(vector) AS SELECT id FROM h ORDER BY v <-> \$1 LIMIT 5");
my $right = $node->safe_psql('postgres', "SELECT id FROM h ORDER BY v <-> $zero, ctid LIMIT 5");
my $wrong = 0;
for my $round (1 .. 10)
{
	$wrong++ if $prepared->query_safe("EXECUTE p($zero)") ne $right;
	$node->safe_psql('postgres', 'REINDEX INDEX h_v') if $round == 7;
	$node->safe_psql('postgres', 'DROP INDEX h_v')    if $round == 8;
	$node->safe_psql('postgres', "CREATE INDEX h_v ON h USING $AM (v vector_l2_ops)") if $round == 9;
}
is($wrong, 0, 'ten executions over REINDEX, DROP and CREATE INDEX');
$prepared->quit;

# C23: MergeAppend over partitions with distances one unit in the last place apart, 4,096 dimensions.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE parts (id bigint, category int, v vector(4096)) PARTITION BY HASH (id);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO parts SELECT i, 0, ((SELECT array_agg(1 + (((i * 31 + d * 17) % 3) * 1.1920929e-07)::float4) FROM generate_series(1, 4096) d))::vector FROM generate_series(1, 120) i;
CREATE INDEX parts_l2 ON parts USING $AM (v vector_l2_ops);
CREATE INDEX parts_cos ON parts USING $AM (v vector_cosine_ops);
CREATE INDEX parts_ip ON parts USING $AM (v vector_ip_ops);
CREATE INDEX parts_l1 ON parts USING $AM (v vector_l1_ops);
SQL
for my $op ('<->', '<=>', '<#>', '<+>')
{
	answers_equal($node, 'parts', dims => 4096, op => $op, queries => 1, limits => [ 10, undef ], name => "near ties over partitions for $op");
}

$node->stop;
done_testing();
