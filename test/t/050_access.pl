# Privileges (C37): every function that takes a relation on every kind of one; row level security, column grants, security barriers and SECURITY DEFINER
# over an index scan (C36, F58), what goes to the log, scans with other snapshots than MVCC ones (C20).
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

# Statements are not logged, so a vector in the log would come from another message.
my $talkative = "log_min_messages = debug1\nlog_error_verbosity = verbose\nlog_statement = none\nlog_min_error_statement = panic\n";
my $node = make_node('access', conf => $talkative);
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

# C37: the functions, role by role.
for my $call ("vectorgpu_check('t_v', false)", "vectorgpu_merge('t_v')")
{
	my $sql = "SELECT $call";
	is(state_as('stranger', $sql), '42501', "$sql is refused to a stranger");
}
is(state_as('reader', "SELECT vectorgpu_merge('t_v')"), '42501', 'merge is refused to a mere reader');

# C37: each function that takes a relation, on each kind of relation, for the superuser and for a role with EXECUTE only: each refusal has the error
# with the reason, and shows no contents.
$node->safe_psql('postgres', 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO stranger');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE broken (id bigint, v vector(4));
INSERT INTO broken VALUES (1, '[41,42,43,44]');
CREATE INDEX broken_v ON broken USING $AM (v vector_l2_ops);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken_v'::regclass;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM t LIMIT 10;
CREATE FOREIGN DATA WRAPPER far_away;
CREATE SERVER far_server FOREIGN DATA WRAPPER far_away;
CREATE FOREIGN TABLE far (id bigint, v vector(4)) SERVER far_server;
CREATE TYPE pair AS (id bigint, v vector(4));
CREATE FUNCTION outcome(kind text, call text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE 'SELECT count(*) FROM ' || call;
	RETURN kind || ' 00000';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN kind || ' ' || state || CASE WHEN message || detail || hint ~ '[[{(][0-9]|4[1-4]\\M' THEN ' ' || message || detail || hint ELSE '' END;
END \$\$;
SQL
my $owner_of_temp = $node->background_psql('postgres');
$owner_of_temp->query_safe("CREATE TEMP TABLE theirs (id bigint, v vector(4)); INSERT INTO theirs VALUES (1, '[41,42,43,44]'); CREATE INDEX theirs_v ON theirs USING $AM (v vector_l2_ops)");
my %relations = (table => q{'t'}, view => q{'seen'}, sequence => q{'counter'}, partitioned_table => q{'p'}, partitioned_index => q{'p_v'}, materialized_view => q{'kept'},
	foreign_table => q{'far'}, composite_type => q{'pair'}, btree_index => q{'t_id'}, catalog => q{'pg_class'}, catalog_index => q{'pg_class_oid_index'},
	toast_table => q{(SELECT reltoastrelid FROM pg_class WHERE relname = 't')},
	toast_index => q{(SELECT indexrelid FROM pg_index JOIN pg_class c ON indrelid = reltoastrelid WHERE relname = 't')},
	temporary_table_of_others => q{(SELECT oid FROM pg_class WHERE relname = 'theirs')}, temporary_index_of_others => q{(SELECT oid FROM pg_class WHERE relname = 'theirs_v')},
	invalid_index => q{'broken_v'}, no_oid => '999999', oid_0 => '0', null => 'NULL');
my %calls = (vectorgpu_check => 'vectorgpu_check(%s, true, true)', vectorgpu_merge => 'vectorgpu_merge(%s)', vectorgpu_recall => 'vectorgpu_recall(%s, 5, 2)',
	vectorgpu_join => q{vectorgpu_join(%s, 'pg_class', 'relname', 2)}, vectorgpu_knn_graph => 'vectorgpu_knn_graph(%s, 2)', vectorgpu_path => q{vectorgpu_path(%s, '(0,1)', '(0,2)', 2)}, vectorgpu_prewarm => 'vectorgpu_prewarm(%s)',
	vectorgpu_evict => 'vectorgpu_evict(%s)', vectorgpu_index_fallbacks => 'vectorgpu_index_fallbacks(%s)', vectorgpu_index_reach => 'vectorgpu_index_reach(%s)', vectorgpu_index_keys => 'vectorgpu_index_keys(%s)', vectorgpu_kmeans => q{vectorgpu_kmeans(%s, 'v', 1)});
is($node->safe_psql('postgres', <<'SQL'), join(' ', sort keys %calls), 'these are the functions that take a relation');
SELECT string_agg(DISTINCT p.proname, ' ' ORDER BY p.proname) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vectorgpu' WHERE 'regclass'::regtype = ANY (p.proargtypes::oid[])
SQL
for my $function (sort keys %calls)
{
	for my $role ('superuser', 'stranger')
	{
		my %expected = map { $_ => '42809' } keys %relations;

		@expected{qw(no_oid oid_0 null)} = ('42704', '42704', '00000');
		@expected{qw(temporary_index_of_others invalid_index)} = ('0A000', '55000');
		# The kind of an index is checked after the right to read its table; any role may read pg_class.
		if ($role eq 'stranger')
		{
			@expected{qw(btree_index toast_index temporary_index_of_others invalid_index)} = ('42501') x 4;
			$expected{catalog_index} = '42501' if $function eq 'vectorgpu_merge';
		}
		# Counts and no contents; NULL for a relation that is no index or hidden from the caller.
		%expected = map { $_ => '00000' } keys %relations if $function =~ /^vectorgpu_index_/;
		if ($function eq 'vectorgpu_kmeans')
		{
			@expected{qw(table view partitioned_table materialized_view)} = ($role eq 'stranger' ? '42501' : '00000') x 4;
			@expected{qw(foreign_table catalog temporary_table_of_others)} = ('55000', '42703', $role eq 'stranger' ? '42501' : '0A000');
			@expected{qw(temporary_index_of_others invalid_index btree_index toast_index catalog_index no_oid oid_0)} = (('42809') x 5, '42P01', '42P01');
		}
		my $sql = ($role eq 'stranger' ? 'SET ROLE stranger; ' : '') . 'SELECT outcome(kind, call) FROM (VALUES '
		  . join(', ', map { "('$_', format(\$f\$$calls{$function}\$f\$, \$r\$$relations{$_}\$r\$))" } sort keys %relations) . ') r (kind, call)';
		is($node->safe_psql('postgres', $sql), join("\n", map { "$_ $expected{$_}" } sort keys %relations), "$function of any relation, by a $role");
	}
}
$owner_of_temp->quit;
# Any role may read the view, which lists the indexes of readable tables.
my $listed = q{SELECT string_agg(index_name, ' ' ORDER BY index_name) FROM vectorgpu_indexes};
is($node->safe_psql('postgres', "SET ROLE reader; $listed"), 't_v', 'a reader sees the index of the table that he may read');
is($node->safe_psql('postgres', "SET ROLE stranger; $listed"), '', 'a role without rights sees none');
is($node->safe_psql('postgres', $listed), 'broken_v t_v', 'a superuser sees all');
is($node->safe_psql('postgres', <<'SQL'), '', "no function that reads an index is open to PUBLIC (merge shows nothing and asks for ownership, kmeans has its caller's rights, fallbacks, reach and keys are numbers, and NULL to strangers)");
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'vectorgpu'
WHERE p.proname LIKE 'vectorgpu%' AND p.proname NOT IN ('vectorgpu_merge', 'vectorgpu_kmeans', 'vectorgpu_index_fallbacks', 'vectorgpu_index_reach', 'vectorgpu_index_keys') AND EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a = 'regclass'::regtype)
AND has_function_privilege('public', p.oid, 'EXECUTE')
SQL
is($node->safe_psql('postgres', "SET ROLE stranger; SELECT count(*), bool_and(f IS NULL) FROM vectorgpu_index_fallbacks('t_v') f"), '1|t', 'a role without rights to the table does not see its fallbacks');
is($node->safe_psql('postgres', "SET ROLE stranger; SELECT count(*), bool_and(f IS NULL) FROM vectorgpu_index_reach('t_v') f"), '1|t', 'nor what it reaches');
is($node->safe_psql('postgres', "SET ROLE stranger; SELECT count(*), bool_and(f IS NULL) FROM vectorgpu_index_keys('t_v') f"), '1|t', 'nor its key columns');
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

# F58: a barrier keeps a function that prints its argument from hidden rows, even if these are nearest; and the index returns the same as a
# sequential scan.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION tells(id bigint, v vector) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''row %'', id; RETURN true; END';
CREATE ROLE curious;
CREATE VIEW nearest_behind WITH (security_barrier) AS SELECT id, v FROM t WHERE category = 5 ORDER BY v <-> '[0,0,0,0]';
GRANT SELECT ON barrier, nearest_behind TO curious;
SQL
like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET ROLE curious; EXPLAIN SELECT id FROM nearest_behind WHERE tells(id, v) LIMIT 15"),
	qr/Filter: tells.*Index Scan using t_v/s, 'an index scan behind a barrier');
for my $plan ('SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off', 'SET enable_indexscan = off')
{
	for my $query ("SELECT id FROM barrier WHERE tells(id, v) ORDER BY v <-> $zero LIMIT 15", 'SELECT id FROM nearest_behind WHERE tells(id, v) LIMIT 15')
	{
		my ($rc, $out, $err) = $node->psql('postgres', "$plan; SET ROLE curious; SELECT count(*), bool_and(id % 10 = 5) FROM ($query) s");
		my @told = $err =~ /row (\d+)/g;

		is($out, '15|t', "$query ($plan)");
		cmp_ok(scalar @told, '>=', 15, 'the function was told of them');
		is(join(' ', grep { $_ % 10 != 5 } @told), '', 'and of no other');
	}
}
is(state_as('curious', "SELECT id FROM t ORDER BY v <-> $zero LIMIT 1"), '42501', 'the table itself is not to be read');

# F58: column grants. A distance reads the vector, whether it is selected or sorts; the functions need the whole table.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE parts (id bigint, v vector(4), secret int);
INSERT INTO parts SELECT id, v, 7 FROM t LIMIT 100;
CREATE INDEX parts_v ON parts USING $AM (v vector_l2_ops);
CREATE ROLE ids_only;
CREATE ROLE vectors_too;
GRANT SELECT (id) ON parts TO ids_only;
GRANT SELECT (id, v) ON parts TO vectors_too;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO ids_only, vectors_too;
SQL
for my $plan ('enable_seqscan', 'enable_indexscan')
{
	is(state_as('ids_only', "SET $plan = off; SELECT id FROM parts ORDER BY v <-> $zero LIMIT 1"), '42501', "$plan = off: no order by a column that may not be read");
	is(state_as('ids_only', "SET $plan = off; SELECT id FROM parts WHERE v <-> $zero < 1"), '42501', 'nor a condition');
	is($node->safe_psql('postgres', "SET $plan = off; SET ROLE vectors_too; SELECT count(*) FROM (SELECT id FROM parts ORDER BY v <-> $zero LIMIT 9) s"), 9, 'both columns may be read');
}
is(state_as('ids_only', 'SELECT id FROM parts'), '00000', 'the column that may be read');
is(state_as('ids_only', "SELECT vectorgpu_kmeans('parts', 'v', 2)"), '42501', 'kmeans reads as its caller');
is(state_as('vectors_too', "SELECT vectorgpu_kmeans('parts', 'v', 2)"), '00000', 'and has the rights of its owner');
for my $role ('ids_only', 'vectors_too')
{
	for my $call (map { sprintf($calls{$_}, q{'parts_v'}) } grep { !/kmeans|fallbacks|reach|keys/ } sort keys %calls)
	{
		is(state_as($role, "SELECT $call"), '42501', "$call is refused to $role");
	}
	is($node->safe_psql('postgres', "SET ROLE $role; SELECT (SELECT count(*) FROM vectorgpu_indexes WHERE table_name = 'parts') + (SELECT count(*) FROM vectorgpu_index_fallbacks('parts_v') f WHERE f IS NOT NULL) + (SELECT count(recall_target) FROM vectorgpu_index_reach('parts_v')) + (SELECT count(key_columns) FROM vectorgpu_index_keys('parts_v'))"), 0,
		"nor does the view show the index to $role");
}

# F58: SECURITY DEFINER. The function has the rights of its owner, more or fewer than the caller's.
$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION nearest_part(q vector) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS 'SELECT id FROM parts ORDER BY v <-> q LIMIT 1';
CREATE FUNCTION parts_checked() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS 'SELECT heap_rows_checked FROM vectorgpu_check(''parts_v'', true)';
CREATE FUNCTION parts_listed() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public AS 'SELECT count(*) FROM vectorgpu_indexes WHERE table_name = ''parts''';
SQL
my $called = "SELECT nearest_part($zero) IS NOT NULL, parts_checked(), parts_listed()";
is($node->safe_psql('postgres', "SET enable_seqscan = off; SET ROLE stranger; $called"), 't|100|1', "functions with their owner's rights, called by a stranger");
$node->safe_psql('postgres', join ';', map { "ALTER FUNCTION $_ OWNER TO ids_only" } "nearest_part(vector)", 'parts_checked()', 'parts_listed()');
for my $call ("nearest_part($zero)", 'parts_checked()')
{
	my ($state) = psql_state($node, "SELECT $call");

	is($state, '42501', "$call of an owner without rights, called by a superuser");
}
is($node->safe_psql('postgres', 'SELECT parts_listed()'), 0, 'nor does the view show it to such a function');

# The owner of a table may use the functions on it.
$node->safe_psql('postgres', 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO owner_of_u');
is(state_as('owner_of_u', "CREATE TABLE u (id int, v vector(2)); CREATE INDEX u_v ON u USING $AM (v vector_l2_ops); SELECT vectorgpu_merge('u_v')"), '00000', 'the owner may merge');
is(state_as('owner_of_u', "SELECT vectorgpu_check('u_v', true)"), '00000', 'and check');

# No vector is in the server log, with statements that fail or are cancelled, from the pages and by the worker, also while the worker is stopped or
# dies. Errors name only the one number that a type refuses, as core's types do (and a text that is no vector at all, not tested here).
unlike(slurp_file($node->logfile), qr/41,42,43,44/, 'the server log holds no vector of those relations');
my $secret = make_node('secret', conf => "${talkative}shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\n"
	  . "vectorgpu.worker_timeout = 60s\nvectorgpu.auto_merge = off\n");
my $has_worker = -x worker_file($secret);
my @elements;

# A literal without equal elements. SHAPE: a pattern of its elements and separators.
sub new_vector
{
	my ($shape) = @_;

	return "'" . (($shape // '[?,?,?,?]') =~ s/\?/my $n = push @elements, sprintf('%d.%03d214', 1 + @elements % 9, 137 * @elements % 1000); $elements[$n - 1]/ger) . "'";
}

# The elements of these vectors that a text contains, rounded or not, or as bytes.
sub elements_in
{
	my ($text) = @_;
	my $pattern = join '|', map { ('(?<![\d.])' . quotemeta(substr($_, 0, 6)), unpack('H*', pack('f<', $_)), unpack('H*', pack('f>', $_))) } @elements;

	return join ' ', $text =~ /($pattern)/gi;
}

my $far = 1_000_000;
# Statements with new vectors: [ SQLSTATE, statement ]; no SQLSTATE if it succeeds.
sub statements
{
	my ($way) = @_;
	my $search = 'SELECT id FROM t ORDER BY v <-> %s LIMIT 3';

	$far += 10;
	return (
		[ '',    sprintf($search, new_vector()) ],
		[ '',    "INSERT INTO t VALUES ($far, 1, " . new_vector() . "), ($far + 1, 1, " . new_vector() . ')' ],
		[ '',    "UPDATE t SET v = " . new_vector() . " WHERE id = $far" ],
		[ '',    sprintf($search, "(SELECT v FROM t WHERE id = $far)") ],
		[ '',    "SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> " . new_vector() . ') s' ],
		[ '',    'EXPLAIN (ANALYZE, VERBOSE) ' . sprintf($search, new_vector()) ],
		[ '',    'PREPARE p(vector) AS ' . sprintf($search, '$1') . '; EXECUTE p(' . new_vector() . '); DEALLOCATE p' ],
		[ 23505, "INSERT INTO t VALUES ($far, 1, " . new_vector() . ')' ],
		[ 22000, "INSERT INTO t VALUES ($far + 2, 1, " . new_vector('[?,?]') . ')' ],
		[ 22000, sprintf($search, new_vector('[?,?,?]')) ],
		[ 22000, sprintf($search, new_vector('[?,NaN,?,?]')) ],
		[ 22000, sprintf($search, new_vector('[?,?,-Infinity,?]')) ],
		[ 22003, sprintf($search, new_vector('[?,?,?,1e400]')) ],
		[ 22004, sprintf($search, 'array_append(' . new_vector('{?,?,?}') . '::float4[], NULL)::vector') ],
		[ 22003, 'SELECT ' . new_vector('[?,70000,?,?]') . '::vector::halfvec' ],
		[ 22003, 'SELECT ' . new_vector('[?,3e38,?,?]') . '::vector + ' . new_vector('[?,3e38,?,?]') . '::vector' ],
		[ 22012, 'SELECT 1 / (id - id) FROM t ORDER BY v <-> ' . new_vector() . ' LIMIT 3' ],
		# The scan is open when it is cancelled. The timeout goes with the transaction.
		[ 57014, q{BEGIN; SET LOCAL statement_timeout = '200ms'; SELECT id FROM t WHERE pg_sleep(600 + 0 * id) IS NULL ORDER BY v <-> } . new_vector() . ' LIMIT 3; ROLLBACK' ],
		$way eq 'off' && faults_enabled($secret) ? map({ my ($state, $action) = @$_; [ $state, "SET vectorgpu.fault = 'page_read:1:$action'; " . sprintf($search, new_vector()) . '; RESET vectorgpu.fault' ] }
			[ XX002 => 'corrupt' ], [ 53200 => 'enomem' ], [ XX000 => 'error' ]) : (),
		[ '', "DELETE FROM t WHERE id = $far; VACUUM t; SELECT vectorgpu_merge('t_v'); SELECT vectorgpu_check('t_v', true); SELECT vectorgpu_recall('t_v', 5, 2); REINDEX INDEX t_v" ],
		[ '', sprintf($search, new_vector()) ]);
}

# All of them in one session. BEFORE: its first statements, after one search.
sub in_one_session
{
	my ($way, $before) = @_;
	my @statements = statements($way);
	my $sql = 'SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker = ' . ($way eq 'off' ? 'off' : 'on') . ";\n$statements[0][1];\n$before\n"
	  . join('', map { "$_->[1];\n" } @statements);
	my ($rc, $out, $err) = $secret->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(' ', $err =~ /ERROR:  (\w{5}):/g), join(' ', grep { $_ ne '' } map { $_->[0] } @statements), "worker $way: what has to fail fails, and nothing else") or diag($err);
	return;
}

make_table($secret, 't', dims => 4);
fill_vectors($secret, 't', dims => 4, rows => 300);
$secret->safe_psql('postgres', "CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");
in_one_session('off', '');
SKIP:
{
	skip 'the worker is not installed', 1 unless $has_worker;
	my $pid = wait_worker($secret);
	# Scans of all rows of lists of codes are answered from the pages.
	my $asked = sub { my ($name, $column, $code) = @_; ok(wait_until(sub { my $n = worker_stat($secret, $column); $code->(); return worker_stat($secret, $column) > $n }), $name) };

	ok($pid, 'the worker is ready');
	pages_answer() ? in_one_session('on', '') : $asked->('the worker answers', 'answered', sub { in_one_session('on', '') });

	# Cancelled while it waits for a stopped worker.
	my $cancelled = sub { return wait_until(sub {
		my ($rc, $out, $err) = $secret->psql('postgres', "SET enable_seqscan = off; SET vectorgpu.worker_timeout = '10min'; SELECT id FROM t ORDER BY v <-> " . new_vector() . " LIMIT 3;\n\\! kill -STOP $pid\n"
			  . "BEGIN; SET LOCAL statement_timeout = '200ms'; SELECT id FROM t ORDER BY v <-> " . new_vector() . " LIMIT 3; ROLLBACK;\n\\! kill -CONT $pid\n", on_error_stop => 0);
		return $err =~ /canceling statement due to statement timeout/;
	}) };
	ok($cancelled->(), 'a scan that waits for a stopped worker is cancelled') unless pages_answer();

	# The supervisor logs that the worker is silent, too.
	my $offset = -s $secret->logfile;
	$secret->safe_psql('postgres', q{ALTER SYSTEM SET vectorgpu.worker_timeout = '1s'; SELECT pg_reload_conf()});
	my $stopped = sub { $pid = wait_worker($secret); in_one_session('stopped', "\\! kill -STOP $pid"); kill 'CONT', $pid };
	pages_answer() ? $stopped->() : $asked->('of a stopped one the pages answer', 'fallbacks', $stopped);
	$pid = wait_worker($secret);
	kill 'STOP', $pid;
	ok(wait_log($secret, qr/vectorgpu worker \(PID \d+\) does not answer/, $offset), 'the supervisor logs that it does not answer');
	kill 'CONT', $pid;
	$secret->safe_psql('postgres', q{ALTER SYSTEM RESET vectorgpu.worker_timeout; SELECT pg_reload_conf()});

	$pid = wait_worker($secret);
	in_one_session('killed', "\\! kill -KILL $pid");
	ok(wait_gone($pid), 'the worker was killed');
	ok(wait_worker($secret, not_pid => $pid), 'and another one is ready');
}
is(elements_in(slurp_file($secret->logfile)), '', 'the server log holds nothing of ' . @elements . ' elements');
# The search finds vectors in the log: a statement is logged now.
my $shown = new_vector();
$secret->psql('postgres', "SET log_min_error_statement = error; SELECT 1 / (id - id), v <-> $shown FROM t");
like(elements_in(slurp_file($secret->logfile)), qr/\Q@{[substr $elements[-1], 0, 6]}\E$/, 'which are found where they are logged');
my %logged = map { $_ => 1 } slurp_file($secret->logfile) =~ /ERROR:  (\w{5}): /g;
is(join(' ', grep { $_ ne '' && !$logged{$_} } map { $_->[0] } statements('on')), '', 'each kind of error is in the log');
$secret->stop;

# C20: a scan with another snapshot. Unique and exclusion checks scan with a dirty snapshot, but need other kinds of indexes;
# core's other users of such snapshots cannot reach the access method from SQL. 020_snapshots passes them by a function of test builds.
my ($state) = psql_state($node, "ALTER TABLE u ADD EXCLUDE USING $AM (v WITH <->)");
isnt($state, '00000', 'an exclusion constraint, which would scan with a dirty snapshot, is refused');

$node->stop;
done_testing();
