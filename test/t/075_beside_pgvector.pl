# Columns of pgvector with indexes of vectorgpu: the extension vectorgpu_pgvector. Needs a server that has pgvector 0.7 or later.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('beside', extension => 0, conf => "fsync = off\ngpuivf.probes = 0\ngpugraph.search_width = 0\nshared_preload_libraries = 'vectorgpu'\nvectorgpu.worker = off\nautovacuum = off\n");

plan skip_all => 'the server has no pgvector' unless has_pgvector($node);

# psql's answer in a database; the error alone where it fails.
sub answer
{
	my ($database, $sql, %opt) = @_;
	my ($rc, $out, $err) = $node->psql($database, $sql, %opt);

	return $rc == 0 ? $out : $err;
}

my $install = 'CREATE SCHEMA vectorgpu; CREATE EXTENSION vectorgpu SCHEMA vectorgpu; CREATE EXTENSION vectorgpu_pgvector';

# The error names the statements, which work as they stand.
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(road other late hostile);
$node->safe_psql($_, 'CREATE EXTENSION vector') for qw(road other hostile);
my $refused = answer('road', 'CREATE EXTENSION vectorgpu');
like($refused, qr/ERROR:  schema "public" has a type "vector" or "halfvec" already\nDETAIL: .*\nHINT:  Beside pgvector: \Q$install\E;/, 'vectorgpu beside pgvector: the hint has the statements');
is(answer('road', 'SELECT count(*) FROM pg_extension'), 2, 'nothing is left behind');
is(answer('road', $install), '', 'they work');

# In the other order, and pgvector in a schema of its own.
is(answer('late', 'CREATE SCHEMA vectorgpu; CREATE EXTENSION vectorgpu SCHEMA vectorgpu; CREATE SCHEMA "of pgvector"; CREATE EXTENSION vectorgpu_pgvector'),
	'psql:<stdin>:1: ERROR:  required extension "vector" is not installed' . "\nHINT:  Use CREATE EXTENSION ... CASCADE to install required extensions too.", 'it needs pgvector');
is(answer('late', 'CREATE EXTENSION vector SCHEMA "of pgvector"; CREATE EXTENSION vectorgpu_pgvector'), '', 'pgvector after vectorgpu, in a schema of its own');

# What it contains does not depend on the order, nor on the database.
my $members = q{SELECT string_agg(replace(pg_describe_object(classid, objid, 0), '"of pgvector"', 'public'), E'\n' ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C")
	FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vectorgpu_pgvector') AND deptype = 'e'};
my $of_road = answer('road', "SET search_path = vectorgpu, public; $members");

is(answer('late', "SET search_path = vectorgpu, \"of pgvector\"; $members"), $of_road, 'the same objects in any order');
is(scalar(() = $of_road =~ /^operator class/mg), 37, 'there are 37 operator classes');
is(answer('road', q{SELECT count(*), bool_and(amvalidate(c.oid)) FROM pg_opclass c JOIN pg_namespace n ON n.oid = opcnamespace JOIN pg_am a ON a.oid = opcmethod WHERE amname LIKE 'gpu%' AND nspname = 'public'}), '37|t', 'all valid, in the schema of pgvector');

# Objects of others in the path are not taken for those meant.
is(answer('hostile', <<'SQL'), '', 'objects that lie in wait');
CREATE ROLE mallory;
CREATE SCHEMA bad;
CREATE FUNCTION bad.format(text, text, text, text) RETURNS text LANGUAGE sql AS $$SELECT 'ALTER ROLE mallory SUPERUSER'$$;
CREATE FUNCTION bad.quote_ident(name) RETURNS text LANGUAGE sql AS $$SELECT 'bad'$$;
CREATE FUNCTION bad.to_regtype(text) RETURNS regtype LANGUAGE sql AS $$SELECT NULL::regtype$$;
CREATE FUNCTION public.pgvector_vector_l2_shape() RETURNS int4 LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION bad.is_equal(name, text) RETURNS bool LANGUAGE sql AS $$SELECT false$$;
CREATE OPERATOR bad.= (LEFTARG = name, RIGHTARG = text, FUNCTION = bad.is_equal);
CREATE SCHEMA vectorgpu;
SET search_path = bad, public, pg_catalog;
CREATE EXTENSION vectorgpu SCHEMA vectorgpu;
CREATE EXTENSION vectorgpu_pgvector SCHEMA bad;
SQL
is(answer('hostile', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'they got nothing');
is(answer('hostile', "SET search_path = vectorgpu, public; $members"), $of_road, 'the same objects');

# An application's own table, its operators, its search_path. Reals that are not whole numbers: distances are rounded.
my $half = 'ARRAY(SELECT (hashint8extended(i * 40 + d, 1) & 65535) / 65536.0 FROM generate_series(1, 40) d)::real[]';

is(answer('road', <<"SQL"), '', 'the table');
CREATE TABLE t AS SELECT i AS id, $half\::vector(40) AS v, ($half\::vector(40))::halfvec(40) AS h, (SELECT string_agg((hashint8extended(i * 40 + d, 2) & 1)::text, '')::bit(40) FROM generate_series(1, 40) d) AS b,
	ARRAY(SELECT CASE WHEN hashint4(i * 300 + d) % 5 = 0 THEN (hashint4(i * 300 + d) % 1000) / 700.0 ELSE 0 END FROM generate_series(1, 300) d)::real[]::sparsevec(300) AS s
	FROM generate_series(1, 3000) i;
INSERT INTO t VALUES (-1, NULL, NULL, NULL, NULL), (-2, array_fill(0::real, '{40}')::vector(40), array_fill(0::real, '{40}')::vector(40)::halfvec(40), 0::bit(40), '{}/300');
SQL

my %operator = (l2 => '<->', ip => '<#>', cosine => '<=>', l1 => '<+>', hamming => '<~>', jaccard => '<%>');
my %column = (v => 'vector', h => 'halfvec', b => 'bit', s => 'sparsevec');

# Distances of the first rows by the index, and without it. Ties of rounded distances may come in another order.
sub same_distances
{
	my ($name, $column, $operator, $limit, $condition) = @_;
	my $query = "(SELECT $column FROM t WHERE id = 17)";
	my $sql = sub { return "SELECT string_agg(round(d::numeric, 5)::text, ' ') FROM (SELECT $column $operator $query AS d FROM t WHERE $_[0] ORDER BY $column $operator $query LIMIT $limit) s" };
	my $by_index = answer('road', "SET enable_seqscan = off; SET gpuivf.recall_target = 1; SET gpugraph.recall_target = 1; " . $sql->($condition));

	is($by_index, answer('road', 'SET enable_indexscan = off; ' . $sql->($condition)), $name);
	return;
}

for my $method (qw(gpuflat gpuivf gpugraph))
{
	for my $column (qw(v h b), $method eq 'gpuflat' ? 's' : ())
	{
		for my $distance ($column eq 'b' ? qw(hamming jaccard) : qw(l2 ip cosine l1))
		{
			my $class = "$column{$column}_${distance}_ops";
			my $operator = $operator{$distance};

			is(answer('road', "CREATE INDEX CONCURRENTLY i ON t USING $method ($column $class)"), '', "CREATE INDEX, $method, $class");
			like(answer('road', "SET enable_seqscan = off; EXPLAIN SELECT id FROM t ORDER BY $column $operator (SELECT $column FROM t WHERE id = 17) LIMIT 5"), qr/Index Scan using i/, 'the planner takes it');
			like(answer('road', "SET enable_seqscan = off; EXPLAIN SELECT id FROM t ORDER BY 1 - ($column $operator (SELECT $column FROM t WHERE id = 17)) DESC LIMIT 5"), qr/Filtered Scan/, '... for similarity, too');
			# Rows that pgvector finds equally far may be apart in the index.
			unlike(answer('road', "SET enable_seqscan = off; EXPLAIN SELECT id FROM t ORDER BY 1 - ($column $operator (SELECT $column FROM t WHERE id = 17)) DESC, id LIMIT 5"), qr/Filtered Scan/, '... not with a second key');
			same_distances('the same rows', $column, $operator, 20, 'true');

			# The bound is the distance of a row: it passes by <=, and not by <.
			my $bound = answer('road', "SET extra_float_digits = 3; SELECT $column $operator (SELECT $column FROM t WHERE id = 17) FROM t WHERE id > 0 ORDER BY 1 OFFSET 9 LIMIT 1");
			my $distance_of = "$column $operator (SELECT $column FROM t WHERE id = 17)";

			for my $comparison ('<', '<=')
			{
				my $rows = "SELECT count(*), sum(id) FROM (SELECT id FROM t WHERE $distance_of $comparison $bound ORDER BY $distance_of LIMIT 100000) s";

				is(answer('road', "SET enable_seqscan = off; SET gpuivf.recall_target = 1; SET gpugraph.recall_target = 1; $rows"), answer('road', "SET enable_indexscan = off; $rows"), "... and those at distances $comparison that of a row");
			}
			is(answer('road', 'DROP INDEX i'), '', '... is gone');
		}
	}
}

# Hashes of vectors: the rows that an index on our own type finds, in its order, and all of those before a bound.
for my $distance (qw(l2 l1 cosine))
{
	my ($theirs, $ours) = ('v', '(v::real[]::vectorgpu.vector(40))');
	my $operator = $operator{$distance};
	my $nearest = sub { my ($column, $by) = @_; return answer('road', "SET enable_seqscan = off; SET enable_sort = off; SELECT string_agg(id::text, ' ') FROM (SELECT id FROM t ORDER BY $column $by (SELECT $column FROM t WHERE id = 17) LIMIT 20) s") };
	my $distance_of = "v $operator (SELECT v FROM t WHERE id = 17)";
	my $bound = answer('road', "SET extra_float_digits = 3; SELECT $distance_of FROM t WHERE id > 0 ORDER BY 1 OFFSET 30 LIMIT 1");
	my $rows = "SELECT count(*), sum(id) FROM (SELECT id FROM t WHERE $distance_of <= $bound ORDER BY $distance_of LIMIT NULL) s";

	is(answer('road', "CREATE INDEX i ON t USING gpumatch ($theirs vector_lsh_${distance}_ops (hashes = 32)); CREATE INDEX o ON t USING gpumatch ($ours vectorgpu.vector_lsh_${distance}_ops (hashes = 32))"), '', "CREATE INDEX, gpumatch, vector_lsh_${distance}_ops");
	is(answer('road', "SELECT count(*) FROM vectorgpu.vectorgpu_check('i', true)"), 1, '... vectorgpu_check');
	like(answer('road', "SET enable_seqscan = off; EXPLAIN SELECT id FROM t ORDER BY $distance_of LIMIT 5"), qr/Index Scan using i/, '... the planner takes it');
	is($nearest->($theirs, $operator), $nearest->($ours, "OPERATOR(vectorgpu.$operator)"), '... it finds what an index on our own type finds');
	is(answer('road', "SET enable_seqscan = off; SET enable_sort = off; $rows"), answer('road', "SET enable_indexscan = off; $rows"), '... and all rows at distances <= that of a row');
	is(answer('road', 'DROP INDEX i, o'), '', '... is gone');
}

# Settings of pgvector: a search is at least as wide; bounds of effort are said to have no effect, once.
is(answer('road', 'CREATE INDEX graph ON t USING gpugraph (v vector_l2_ops); CREATE INDEX lists ON t USING gpuivf (v vector_cosine_ops) WITH (lists = 100)'), '', 'two indexes');
# At the default target a search of this table looks at all rows.
my $low = 'SET gpugraph.recall_target = 0.5';
my $compared = sub {
	my ($settings, $operator, %opt) = @_;
	my $plan = answer('road', "SET enable_seqscan = off; $low; $settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM t ORDER BY v $operator (SELECT v FROM t WHERE id = 17) LIMIT 10", %opt);

	return $plan =~ /Compared: (\d+)/ ? $1 : "none: $plan";
};
my ($graph_usual, $forty, $narrow, $own) = map { $compared->("LOAD 'vector'; $_", '<->') } 'SELECT 1', 'SET hnsw.ef_search = 40',
	'SET hnsw.ef_search = 1', 'SET gpugraph.search_width = 10; SET hnsw.ef_search = 40';

is($forty, $graph_usual, 'hnsw.ef_search is 40 by default');
cmp_ok($graph_usual, '>', 2 * $narrow, "... which compares more than hnsw.ef_search = 1: $graph_usual and $narrow rows");
cmp_ok($own, '<', $forty, 'gpugraph.search_width alone decides, where it is set');
is($compared->("SET hnsw.ef_search = 1; LOAD 'vector'", '<->'), $narrow, '... set before pgvector is loaded, after vectorgpu');
is($compared->('SET hnsw.ef_search = 1', '<->'), $narrow, '... and where the query loads it');
is($compared->("SET hnsw.ef_search = 1; LOAD 'vector'; RESET hnsw.ef_search", '<->'), $graph_usual, '... and reset');
my ($usual, $wide) = map { $compared->("LOAD 'vector'; $_", '<=>') } 'SELECT 1', 'SET ivfflat.probes = 80';
cmp_ok($wide, '>', $usual, "ivfflat.probes = 80: $usual -> $wide rows compared");
like(answer('road', "LOAD 'vector'; SET hnsw.ef_search = 'banana'"), qr/invalid value for parameter "hnsw.ef_search"/, 'values are checked by pgvector');
my ($rc, $out, $err) = $node->psql('road', "LOAD 'vector'; SET enable_seqscan = off; SET hnsw.max_scan_tuples = 5; SELECT count(*) FROM (SELECT 1 FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 1000) s; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 1");
is($out, "1000\n17", 'hnsw.max_scan_tuples ends no scan');
is(scalar(() = $err =~ /WARNING:  hnsw\.max_scan_tuples does not bound scans of vectorgpu's indexes/g), 1, 'which is said once');
is(answer('road', 'CREATE ROLE app LOGIN; GRANT SELECT ON t TO app; ALTER ROLE app SET hnsw.ef_search = 1'), '', 'ALTER ROLE SET');
is($compared->('SELECT 1', '<->', extra_params => [ '-U', 'app' ]), $narrow, '... acts for the role');

# Parallel workers: a scan in one has the settings of the session, distances and builds are theirs too. A worker that is the first to load pgvector would
# leave its settings at their defaults, for pgvector's own indexes as well.
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2; SET max_parallel_maintenance_workers = 2';

$node->safe_psql('road', compared_function());
my ($leader, $scanned) = split /\n/, answer('road', "LOAD 'vector'; SET enable_seqscan = off; SET max_parallel_workers_per_gather = 2; SET $PARALLEL_MODE = on; $low; SET hnsw.ef_search = 1; SELECT pg_backend_pid(); SELECT compared('SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 10')");
like($scanned, qr/^(?!$leader )\d+ $narrow$/, "a scan in a parallel worker: hnsw.ef_search = 1");
my $distances = 'SELECT count(*), sum(v <-> (SELECT v FROM t WHERE id = 17))::numeric(20, 4) FROM t WHERE id > 0';
like(answer('road', "$parallel; EXPLAIN $distances"), qr/Parallel Seq Scan/, 'distances in parallel workers');
is(answer('road', "$parallel; $distances"), answer('road', $distances), '... are the same');
cmp_ok(workers_started($node, sub { $node->safe_psql('road', "$parallel; REINDEX INDEX graph") }), '>=', 2, 'a build has parallel workers');
same_distances('rows by an index that they built', 'v', '<->', 30, 'true');

# The worker, writes, vacuum, the check.
$node->safe_psql('road', 'DELETE FROM t WHERE id % 3 = 0; INSERT INTO t SELECT id + 10000, v, h, b FROM t WHERE id % 5 = 0; VACUUM t');
is(answer('road', "SELECT (SELECT count(*) FROM vectorgpu.vectorgpu_check('graph', true)), (SELECT count(*) FROM vectorgpu.vectorgpu_check('lists', true))"), '1|1', 'vectorgpu_check');
same_distances('rows after writes and VACUUM', 'v', '<->', 30, 'id % 2 = 0');
is(answer('other', 'CREATE TABLE u (v vector(2)); CREATE INDEX ON u USING hnsw (v vector_l2_ops); INSERT INTO u VALUES (\'[1,2]\'); SET enable_seqscan = off; SELECT v FROM u ORDER BY v <-> \'[1,1]\''), '[1,2]', 'a database with pgvector alone, vectorgpu preloaded');

# Without preloading, in both orders. The setting was made before either.
$narrow = $compared->('SET hnsw.ef_search = 1', '<->');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is($compared->("SET hnsw.ef_search = 1; LOAD 'vector'; LOAD 'vectorgpu'", '<->'), $narrow, 'pgvector is loaded, then vectorgpu');
is($compared->("SET hnsw.ef_search = 1; LOAD 'vectorgpu'; LOAD 'vector'", '<->'), $narrow, 'vectorgpu is loaded, then pgvector');
if (-x $node->config_data('--pkglibdir') . '/vectorgpu_worker')
{
	$node->append_conf('postgresql.conf', "vectorgpu.worker = on\nvectorgpu.worker_min_size = 0\nvectorgpu.device = 'cpu'\n");
	$node->restart;
	ok(wait_until(sub { answer('road', "SET enable_seqscan = off; SELECT count(*) FROM (SELECT 1 FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 10) s; SELECT loads > 0 FROM vectorgpu.vectorgpu_indexes WHERE index_name = 'graph'") =~ /t$/ }), 'the worker holds an index of a column of pgvector');
	same_distances('rows by the worker', 'v', '<->', 30, 'true');
}

# A dump comes back, and the way back is open: pgvector's own indexes, and no trace.
my $dump = $node->basedir . '/road.sql';

$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('road') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'it is restored without errors');
is(answer('restored', "SELECT (SELECT count(*) FROM vectorgpu.vectorgpu_check('graph', true)), (SELECT count(*) FROM vectorgpu.vectorgpu_check('lists', true))"), '1|1', 'with its indexes');
is(answer('restored', 'DROP INDEX graph, lists; CREATE INDEX ON t USING hnsw (v vector_l2_ops); DROP EXTENSION vectorgpu_pgvector; DROP EXTENSION vectorgpu; SELECT count(*) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname LIKE \'gpu%\''), 0, 'the way back');
like(answer('road', 'DROP EXTENSION vector'), qr/cannot drop extension vector because other objects depend on it/, 'pgvector is held by it');

$node->stop;
done_testing();
