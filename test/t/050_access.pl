# Privileges (C37), row level security over an index scan (C36), what goes to the log, wrong relation kinds, scans with
# other snapshots than MVCC ones (C20).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;

my $node = make_node('access', conf => "log_min_messages = debug1\nlog_error_verbosity = verbose\nlog_statement = none\n");
my $zero = "'[0,0,0,0]'::vector";
create_comparer($node);

make_table($node, 't', dims => 4);
fill_vectors($node, 't', dims => 4, rows => 2000);
$node->safe_psql('postgres', <<SQL);
CREATE INDEX t_v ON t USING $AM (v vector_l2_ops);
CREATE INDEX t_id ON t (category);
CREATE TABLE p (id bigint, v vector(4)) PARTITION BY RANGE (id);
CREATE INDEX p_v ON p USING $AM (v vector_l2_ops);
CREATE VIEW seen AS SELECT * FROM t;
CREATE SEQUENCE counter;
CREATE ROLE stranger LOGIN;
CREATE ROLE reader LOGIN;
CREATE ROLE owner_of_u LOGIN;
GRANT SELECT ON t TO reader;
GRANT CREATE ON SCHEMA public TO owner_of_u;
SQL

sub state_as
{
	my ($role, $sql) = @_;
	my ($state, $message) = psql_state($node, "SET ROLE $role; $sql");

	return $state;
}

# C37: the functions, role by role and relation kind by relation kind.
for my $call ("vectorgpu_check('t_v', false)", "vectorgpu_merge('t_v')")
{
	my $sql = "SELECT $call";
	is(state_as('stranger', $sql), '42501', "$sql is refused to a stranger");
}
is(state_as('reader', "SELECT vectorgpu_merge('t_v')"), '42501', 'merge is refused to a mere reader');
$node->safe_psql('postgres', 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO stranger');
is(state_as('stranger', "SELECT vectorgpu_check('t_v', true)"), '42501', 'EXECUTE alone is not enough for check');
is(state_as('stranger', "SELECT vectorgpu_merge('t_v')"), '42501', 'nor for merge');
for my $call ("vectorgpu_check('%s', false)", "vectorgpu_merge('%s')")
{
	for my $relation ('t', 't_id', 'p', 'p_v', 'seen', 'counter', 'pg_class', 'pg_class_oid_index')
	{
		my ($state, $message) = psql_state($node, 'SELECT ' . sprintf($call, $relation));
		like($state, qr/^(?:42809|0A000|22023)$/, sprintf($call, $relation) . ' is refused') or diag($message);
	}
	my ($state, $message) = psql_state($node, 'SELECT ' . sprintf($call, 'NULL') =~ s/'NULL'/NULL/r);
	is($state, '00000', sprintf($call, 'NULL') . ' is no crash') or diag($message);
	($state, $message) = psql_state($node, 'SELECT ' . sprintf($call, '999999'));
	like($state, qr/^(?:42P01|42704|XX000|42809)$/, sprintf($call, '999999') . ' is refused') or diag($message);
}
my ($rc, $out) = $node->psql('postgres', 'SET ROLE reader; SELECT count(*) FROM vectorgpu_indexes');
ok($rc != 0 || $out =~ /^\d+$/, 'the view is either readable or refused');
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM vectorgpu_indexes'), 't', 'the view lists indexes');
is($node->safe_psql('postgres', <<'SQL'), '', "no function that reads an index is open to PUBLIC (merge shows nothing and asks for ownership, kmeans has its caller's rights, fallbacks are counts and NULL to strangers)");
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vectorgpu'
WHERE p.proname LIKE 'vectorgpu%' AND p.proname NOT IN ('vectorgpu_merge', 'vectorgpu_kmeans', 'vectorgpu_index_fallbacks') AND EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a = 'regclass'::regtype)
AND has_function_privilege('public', p.oid, 'EXECUTE')
SQL
is($node->safe_psql('postgres', "SET ROLE stranger; SELECT count(*), bool_and(f IS NULL) FROM vectorgpu_index_fallbacks('t_v') f"), '1|t', 'nobody without rights to the table sees how often its scans fell back');
is($node->safe_psql('postgres', <<'SQL'), '', 'no function is LEAKPROOF');
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vectorgpu' WHERE p.proleakproof
SQL
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_available_extension_versions WHERE name = \'vectorgpu\' AND trusted'), 0, 'the extension is not trusted');
SKIP:
{
	skip 'vectorgpu.fault exists in builds with FAULTS=1 only', 1 if !faults_enabled($node);
	is(state_as('reader', "LOAD 'vectorgpu'; SET vectorgpu.fault = 'meta_read:1:error'"), '42501', 'fault points are for superusers');
}

# C36: policies. The index runs below the policy; a role still gets all its rows, nearest first.
$node->safe_psql('postgres', <<'SQL');
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON t FOR SELECT TO reader USING (category = 3 AND id > 1500);
SQL
my $rows = 'SELECT count(*), count(DISTINCT id), bool_and(category = 3 AND id > 1500) FROM (SELECT id, category FROM t ORDER BY v <-> %s %s) s';
my $settings = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET ROLE reader;';
like($node->safe_psql('postgres', "$settings EXPLAIN SELECT id FROM t ORDER BY v <-> $zero LIMIT 10"), qr/Index Scan using t_v/, 'a query under a policy uses the index');
is($node->safe_psql('postgres', $settings . sprintf($rows, $zero, 'LIMIT 10')), '10|10|t', 'LIMIT 10 under a policy that hides nearly all rows returns 10');
is($node->safe_psql('postgres', $settings . sprintf($rows, $zero, '')), '50|50|t', 'no LIMIT: all the visible rows, no other');
is($node->safe_psql('postgres', "SET ROLE reader; SELECT compare_answers('t', '<->', quote_literal(test_vector(5, 4)) || '::vector', 20)"), '', 'both scans agree under the policy');
is(state_as('reader', "SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> '[1,2]' LIMIT 1"), '22000', 'wrong dimensions under a policy');
like(state_as('reader', "SELECT vectorgpu_check('t_v', true)"), qr/^42501$/, 'check is refused where policies apply');
$node->safe_psql('postgres', 'CREATE VIEW barrier WITH (security_barrier) AS SELECT id, v FROM t WHERE category = 5; GRANT SELECT ON barrier TO stranger');
is($node->safe_psql('postgres', "SET ROLE stranger; SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM (SELECT id FROM barrier ORDER BY v <-> $zero LIMIT 15) s"), 15, 'a security barrier view');

# The owner of a table may use the functions on it.
$node->safe_psql('postgres', 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO owner_of_u');
is(state_as('owner_of_u', "CREATE TABLE u (id int, v vector(2)); CREATE INDEX u_v ON u USING $AM (v vector_l2_ops); SELECT vectorgpu_merge('u_v')"), '00000', 'the owner may merge');
is(state_as('owner_of_u', "SELECT vectorgpu_check('u_v', true)"), '00000', 'and check');

# No vector in the server log, whatever goes wrong.
$node->psql('postgres', "SET enable_seqscan = off; INSERT INTO t VALUES (1, 1, '[0.123456789,7.654321,1,1]')");
$node->safe_psql('postgres', "SET enable_seqscan = off; INSERT INTO t VALUES (77777, 1, '[5.4321987,7,7,7]'); SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 77777) LIMIT 1; VACUUM t; SELECT vectorgpu_merge('t_v'); REINDEX INDEX t_v");
my $log = join "\n", grep { !/STATEMENT:|DETAIL:  Failing row|statement:/ } split /\n/, slurp_file($node->logfile);
unlike($log, qr/5\.4321987|5\.43219/, 'the server log holds no vector');

# C20: a scan with another snapshot. Unique and exclusion checks scan with a dirty snapshot, but ask for index kinds that
# these access methods are not; core's other users of such snapshots cannot reach it from SQL. 020_snapshots hands them over by a function of its own.
my ($state) = psql_state($node, "ALTER TABLE u ADD EXCLUDE USING $AM (v WITH <->)");
isnt($state, '00000', 'an exclusion constraint, which would scan with a dirty snapshot, is refused');

$node->stop;
done_testing();
