# The extension vector that comes with vectorgpu: pgvector's names without pgvector. Needs a server without pgvector, with `make install-vector`.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

# Without checksums, so that a file can be changed.
my $node = make_node('names', extension => 0, checksums => 0, conf => "fsync = off\ngpuivf.probes = 0\ngpugraph.search_width = 0\nvectorgpu.worker = off\n");

plan skip_all => 'the extension vector of this server is not ours'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'vector' AND comment LIKE 'vectorgpu %'}) == 0;

sub answer
{
	my ($database, $sql, %opt) = @_;
	my ($rc, $out, $err) = $node->psql($database, $sql, %opt);

	return $rc == 0 ? $out : $err;
}

$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE app OWNER owner; CREATE DATABASE ours; CREATE DATABASE hostile; CREATE DATABASE restored; CREATE DATABASE from_pgvector');
ok(!-e $node->config_data('--pkglibdir') . '/vector.so', 'no library has the name of pgvector\'s');

# As applications create it: the owner of the database, without CASCADE, in public.
my @owner = (extra_params => [ '-U', 'owner' ]);

is(answer('app', 'CREATE EXTENSION IF NOT EXISTS vector', @owner), '', 'the owner of a database creates the extension');
is(answer('app', q{SELECT extversion, n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'}), '0.8.6|public', 'its version is that of the pgvector it stands for');
like(answer('app', 'CREATE SCHEMA s; CREATE EXTENSION vectorgpu SCHEMA s'), qr/ERROR:  the extension "vector" of this database has the objects of vectorgpu already\nDETAIL: .*\nHINT:  This "vector" is not pgvector/, 'vectorgpu is there with it');
like(answer('app', 'CREATE EXTENSION vectorgpu_pgvector'), qr/required extension "vectorgpu" is not installed/, 'vectorgpu_pgvector is not for it');
like(answer('app', 'CREATE EXTENSION vectorgpu_pgvector CASCADE'), qr/HINT:  This "vector" is not pgvector: it needs neither "vectorgpu" nor "vectorgpu_pgvector"/, '... which CASCADE tells');
is(answer('ours', 'CREATE EXTENSION vectorgpu'), '', 'vectorgpu in another database');
like(answer('ours', 'CREATE SCHEMA s; CREATE EXTENSION vector SCHEMA s'), qr/ERROR:  the extension "vectorgpu" of this database has the objects of vectorgpu already\nDETAIL: .*\nHINT:  Use gpugraph for hnsw .* drop "vectorgpu" first/, 'vector is there with it');
is(answer('app', q{SELECT string_agg(amname || ' ' || opcname || CASE WHEN opcdefault THEN ' default' ELSE '' END, ', ' ORDER BY amname, opcname) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname IN ('hnsw', 'ivfflat') AND amvalidate(c.oid)}),
	join(', ', (map { "hnsw $_" } qw(bit_hamming_ops bit_jaccard_ops halfvec_cosine_ops halfvec_ip_ops halfvec_l1_ops halfvec_l2_ops sparsevec_cosine_ops sparsevec_ip_ops sparsevec_l1_ops sparsevec_l2_ops vector_cosine_ops vector_ip_ops vector_l1_ops vector_l2_ops)),
		(map { "ivfflat $_" } 'bit_hamming_ops', 'halfvec_cosine_ops', 'halfvec_ip_ops', 'halfvec_l2_ops', 'vector_cosine_ops', 'vector_ip_ops', 'vector_l2_ops default')), 'operator classes and defaults of pgvector');

# Everything of vectorgpu: the same objects but for pgvector's access methods.
my $objects = q{SELECT string_agg(d, E'\n' ORDER BY d COLLATE "C") FROM (SELECT pg_describe_object(classid, objid, 0) AS d FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname IN ('vector', 'vectorgpu'))) s WHERE d !~ '(hnsw|ivfflat)'};
is(answer('app', $objects), answer('ours', $objects), 'it contains all of vectorgpu');

# Objects of others in the path are not taken for those meant.
is(answer('hostile', <<'SQL'), '', 'the extension in a schema where objects lie in wait');
CREATE SCHEMA bad;
CREATE FUNCTION bad.current_schema() RETURNS name LANGUAGE sql AS $$SELECT 'nowhere'::name$$;
CREATE FUNCTION bad.float8larger(float8, float8) RETURNS float8 LANGUAGE sql AS 'SELECT NULL::float8';
CREATE FUNCTION bad.is_equal(name, name) RETURNS bool LANGUAGE sql AS $$SELECT true$$;
CREATE OPERATOR bad.= (LEFTARG = name, RIGHTARG = name, FUNCTION = bad.is_equal);
CREATE FUNCTION bad.taken() RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE 'taken'; END$$;
CREATE FUNCTION bad.is_same(oid, int4) RETURNS bool LANGUAGE sql AS 'SELECT bad.taken()';
CREATE OPERATOR bad.= (LEFTARG = oid, RIGHTARG = int4, FUNCTION = bad.is_same);
CREATE FUNCTION bad.vectorgpu_index_reach(oid, OUT recall_target float8, OUT recall_reached float8) LANGUAGE sql AS 'SELECT 1.0::float8, 1.0::float8 WHERE bad.taken()';
CREATE FUNCTION bad.vectorgpu_index_keys(oid, OUT key_columns int4, OUT key_bytes int8) LANGUAGE sql AS 'SELECT 1, 1::int8 WHERE bad.taken()';
CREATE FUNCTION bad.vectorgpu_index_fallbacks(oid, OUT fallbacks int8, OUT fallback_reasons text) LANGUAGE sql AS $$SELECT 1::int8, '{}' WHERE bad.taken()$$;
SET search_path = bad, pg_catalog;
CREATE EXTENSION vector SCHEMA bad;
SQL
is(answer('hostile', 'SET search_path = bad, public; CREATE TABLE public.t (v vector(2)); CREATE INDEX ON public.t USING hnsw (v vector_l2_ops); SELECT count(*) FROM vectorgpu_indexes WHERE rows >= 0 AND copy_delta_end IS NULL AND fallbacks >= 0'), 1, 'the view calls none of them');

# Storage parameters are checked as pgvector checks them.
my $real = 'ARRAY(SELECT (hashint8extended(i * 40 + d, 1) & 65535) / 65536.0 FROM generate_series(1, 40) d)::real[]';

$node->safe_psql('app', "CREATE TABLE t AS SELECT i AS id, $real\::vector(40) AS v, ($real\::vector(40))::halfvec(40) AS h, (SELECT string_agg((hashint8extended(i * 40 + d, 2) & 1)::text, '')::bit(40) FROM generate_series(1, 40) d) AS b FROM generate_series(1, 3000) i; GRANT ALL ON t TO owner; ALTER TABLE t OWNER TO owner");
my $index = sub { my ($method, $with) = @_; return answer('app', "CREATE INDEX i ON t USING $method (v vector_l2_ops) WITH ($with)") };

like($index->('hnsw', 'm = 1'), qr/value 1 out of bounds for option "m"\nDETAIL:  Valid values are between "2" and "100"/, 'm is checked');
like($index->('hnsw', 'ef_construction = 1001'), qr/value 1001 out of bounds for option "ef_construction"\nDETAIL:  Valid values are between "4" and "1000"/, 'ef_construction is checked');
like($index->('hnsw', 'm = 33'), qr/ef_construction must be greater than or equal to 2 \* m/, 'm and ef_construction are checked');
like($index->('hnsw', 'degree = 32'), qr/unrecognized parameter "degree"/, 'parameters of gpugraph are not known');
like($index->('ivfflat', 'lists = 32769'), qr/value 32769 out of bounds for option "lists"/, 'lists is checked');
my %size;

for my $m (8, 16, 32)
{
	is($index->('hnsw', "m = $m, ef_construction = 80"), '', "m = $m");
	$size{$m} = answer('app', q{SELECT pg_relation_size('i')});
	$node->safe_psql('app', 'DROP INDEX i');
}
ok($size{8} < $size{16} && $size{16} < $size{32}, 'm sets the number of edges');
is($index->('ivfflat', 'lists = 77'), '', 'lists = 77');
is(answer('app', q{SELECT lists FROM vectorgpu_indexes WHERE index_name = 'i'}), 77, '... are made');
$node->safe_psql('app', 'DROP INDEX i');

# Settings: pgvector's ranges, and what they do.
my %range = ('hnsw.ef_search' => [ 40, 1, 1000 ], 'hnsw.max_scan_tuples' => [ 20000, 1, 2147483647 ], 'hnsw.scan_mem_multiplier' => [ 1, 1, 1000 ],
	'ivfflat.probes' => [ 1, 1, 32768 ], 'ivfflat.max_probes' => [ 32768, 1, 32768 ]);

$node->safe_psql('app', 'CREATE INDEX graph ON t USING hnsw (v vector_l2_ops) WITH (m = 16, ef_construction = 64); CREATE INDEX lists ON t USING ivfflat (v vector_cosine_ops) WITH (lists = 100); CREATE INDEX bits ON t USING hnsw (b bit_jaccard_ops); CREATE INDEX halves ON t USING ivfflat (h halfvec_ip_ops) WITH (lists = 10)');
my $load = "SET enable_seqscan = off; SET log_min_messages = panic; SELECT count(*) FROM (SELECT 1 FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1) LIMIT 1) s \\g /dev/null\n";

for my $name (sort keys %range)
{
	my ($usual, $least, $most) = @{ $range{$name} };

	is(answer('app', "$load SHOW $name"), $usual, "$name by default");
	like(answer('app', "$load SET $name = " . ($least - 1)), qr/outside the valid range for parameter "\Q$name\E" \($least \.\. $most\)/, '... from');
	like(answer('app', "$load SET $name = 'banana'"), qr/invalid value for parameter "\Q$name\E"/, '... a number');
}
is(answer('app', "$load SET hnsw.iterative_scan = strict_order; SET ivfflat.iterative_scan = relaxed_order; SHOW hnsw.iterative_scan"), 'strict_order', 'iterative scans');
like(answer('app', "$load SET ivfflat.iterative_scan = strict_order"), qr/HINT:  Available values: off, relaxed_order\./, '... of ivfflat');
like(answer('app', "$load SET hnsw.no_such = 1"), qr/invalid configuration parameter name "hnsw.no_such"/, 'the prefix is reserved');
# At the default target a search of this table looks at all rows.
my $low = 'SET gpugraph.recall_target = 0.5';
my $compared = sub {
	my ($settings, $operator, %opt) = @_;
	my $plan = answer('app', "SET enable_seqscan = off; $low; $settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM t ORDER BY v $operator (SELECT v FROM t WHERE id = 17) LIMIT 10", %opt);

	return $plan =~ /Compared: (\d+)/ ? $1 : "none: $plan";
};
my ($usual, $narrow) = map { $compared->("$load $_", '<->') } 'SET hnsw.ef_search = 40', 'SET hnsw.ef_search = 1';

cmp_ok($usual, '>', 2 * $narrow, "hnsw.ef_search = 40 compares more than hnsw.ef_search = 1: $usual and $narrow rows");
is($compared->("$load SELECT 1", '<->'), $usual, '... and is its default');
cmp_ok($compared->("$load SET ivfflat.probes = 80", '<=>'), '>', $compared->("$load SET ivfflat.probes = 1", '<=>'), 'ivfflat.probes = 80 compares more');
# EXPLAIN tells more only where vectorgpu is there before it.
is($compared->("LOAD 'vectorgpu'", '<->'), $usual, 'nothing set before the first use');
is($compared->("LOAD 'vectorgpu'; SET hnsw.ef_search = 1", '<->'), $narrow, 'set before the first use');
is($compared->("SET hnsw.ef_search = 1; LOAD 'vectorgpu_vector'; LOAD 'vectorgpu'", '<->'), $narrow, '... the library of the settings is loaded first');
is($compared->("SET hnsw.ef_search = 1; LOAD 'vectorgpu'; LOAD 'vectorgpu_vector'", '<->'), $narrow, '... or second');
is($compared->("$load SET hnsw.ef_search = 1; RESET hnsw.ef_search", '<->'), $usual, '... and reset');
$node->safe_psql('app', 'CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader; ALTER ROLE reader SET hnsw.ef_search = 1');
is($compared->("SELECT '[1]'::vector", '<->', extra_params => [ '-U', 'reader' ]), $narrow, '... by ALTER ROLE');

# Of an index that has chosen its number of lists, ivfflat.probes is a share of a list for each 1,000 rows, as pgvector advises.
$node->safe_psql('app', 'CREATE TABLE many AS SELECT i AS id, ARRAY[i % 113, i / 113]::real[]::vector(2) AS v FROM generate_series(1, 12100) i; CREATE INDEX ON many USING ivfflat (v vector_l2_ops)');
my $probes = sub {
	my ($setting) = @_;

	return (answer('app', "$load $setting; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM many ORDER BY v <-> '[7, 7]' LIMIT 10") =~ /Least Probes: (\d+)/)[0];
};
is($probes->('SET ivfflat.probes = 11'), 102, '11 of 12.1 lists are 100 of 110, and two more');
is($probes->('SET gpuivf.probes = 7; SET ivfflat.probes = 11'), 7, 'gpuivf.probes alone decides, where it is set');

# What bounds effort in pgvector caps no rows here, which is said once a session.
my $all = 'SELECT count(*) FROM (SELECT 1 FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 2500) s';

for my $bound ('hnsw.max_scan_tuples = 5', 'hnsw.scan_mem_multiplier = 3.5', 'ivfflat.max_probes = 1')
{
	my ($name) = split / /, $bound;
	my (undef, $out, $err) = $node->psql('app', "SET enable_seqscan = off; SET $bound; $all; $all");

	is($out, "2500\n2500", "$bound ends no scan");
	is(scalar(() = $err =~ /WARNING:  \Q$name\E does not bound scans of vectorgpu's indexes/g), 1, '... which is said once');
}
is(($node->psql('app', "SET enable_seqscan = off; $all; SHOW hnsw.max_scan_tuples"))[2], '', 'nothing is said of defaults');

# Parallel workers: a scan in one has the settings of the session, distances and builds are theirs too.
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2; SET max_parallel_maintenance_workers = 2';
my $search = q{SELECT compared('SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 10')};

$node->safe_psql('app', compared_function());
for my $used ('', $load)
{
	my ($leader, $scanned) = split /\n/, answer('app', "LOAD 'vectorgpu'; $used SET enable_seqscan = off; SET max_parallel_workers_per_gather = 2; $low; SET hnsw.ef_search = 1; SELECT pg_backend_pid(); SET $PARALLEL_MODE = on; $search");

	like($scanned, qr/^(?!$leader )\d+ $narrow$/, 'a scan in a parallel worker' . ($used ? '' : ', which defines the settings'));
}
my $distances = 'SELECT count(*), sum(v <-> (SELECT v FROM t WHERE id = 17))::numeric(20, 4) FROM t';
like(answer('app', "$parallel; EXPLAIN $distances"), qr/Parallel Seq Scan/, 'distances in parallel workers');
is(answer('app', "$parallel; $distances"), answer('app', $distances), '... are the same');
cmp_ok(workers_started($node, sub { $node->safe_psql('app', "$parallel; REINDEX INDEX graph") }), '>=', 2, 'a build has parallel workers');

# Searches find what a look at all rows finds; NULL is indexed; writes and VACUUM.
$node->safe_psql('app', "INSERT INTO t VALUES (-1, NULL, NULL, NULL); DELETE FROM t WHERE id % 4 = 0; INSERT INTO t SELECT id + 10000, v, h, b FROM t WHERE id % 5 = 0; VACUUM t");
for my $search ([ 'v', '<->' ], [ 'v', '<=>' ], [ 'h', '<#>' ], [ 'b', '<%>' ])
{
	my ($column, $operator) = @$search;
	my $distances = "SELECT string_agg(round(d::numeric, 6)::text, ' ') FROM (SELECT $column $operator (SELECT $column FROM t WHERE id = 17) AS d FROM t ORDER BY 1 LIMIT 20) s";
	my $all = 'SET gpuivf.recall_target = 1; SET gpugraph.recall_target = 1';

	is(answer('app', "SET enable_seqscan = off; $all; $distances"), answer('app', "SET enable_indexscan = off; $distances"), "$column $operator: the nearest rows");
}
for my $name (qw(graph lists bits halves))
{
	is(answer('app', "SELECT count(*) FROM vectorgpu_check('$name', true)"), 1, "vectorgpu_check of $name");
}

# A dump comes back, by name of every object; and the dump of a database with pgvector.
my $dump = $node->basedir . '/app.sql';

$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('app') ], 'pg_dump');
like(slurp_file($dump), qr/CREATE INDEX graph ON public\.t USING hnsw \(v public\.vector_l2_ops\) WITH \(m='16', ef_construction='64'\)/, 'it has pgvector\'s statements');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'it is restored');
is(answer('restored', "SELECT count(*) FROM vectorgpu_check('graph', true)"), 1, '... with its indexes');
is(answer('from_pgvector', <<'SQL'), '', 'a dump of pgvector is restored');
SELECT pg_catalog.set_config('search_path', '', false) \g /dev/null
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
COMMENT ON EXTENSION vector IS 'a comment from elsewhere';
CREATE TABLE public.items (id bigint NOT NULL, embedding public.vector(3), half public.halfvec(3), bits bit(3));
COPY public.items (id, embedding, half, bits) FROM stdin;
1	[1,2,3]	[1,2,3]	101
2	[4,5,6]	[4,5,6]	111
3	\N	\N	\N
\.
CREATE INDEX items_embedding_idx ON public.items USING hnsw (embedding public.vector_cosine_ops) WITH (m='24', ef_construction='100');
CREATE INDEX items_embedding_idx1 ON public.items USING ivfflat (embedding) WITH (lists='1');
CREATE INDEX items_half_idx ON public.items USING hnsw (half public.halfvec_l2_ops);
CREATE INDEX items_bits_idx ON public.items USING ivfflat (bits public.bit_hamming_ops) WITH (lists='1');
CREATE INDEX items_expr_idx ON public.items USING hnsw (((public.binary_quantize(embedding))::bit(3)) public.bit_hamming_ops);
SQL
is(answer('from_pgvector', q{SET enable_seqscan = off; SELECT string_agg(id::text, ' ') FROM (SELECT id FROM items ORDER BY embedding <=> '[4,5,6]') s}), '2 1 3', 'its index answers');

# pg_upgrade of a database with pgvector's own indexes leaves its files: the first use says what to do.
my $file = $node->data_dir . '/' . $node->safe_psql('restored', q{SELECT pg_relation_filepath('graph')});

$node->stop;
open my $handle, '+<:raw', $file or die $!;
seek $handle, 24, 0;
print $handle pack('L', 0xA953A953);
close $handle;
$node->start;
like(answer('restored', 'SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 1'), qr/ERROR:  index "graph" is .*\n(?:.*\n)*HINT:  Rebuild it with REINDEX INDEX/, 'an index that pgvector has written: the hint');
is(answer('restored', 'REINDEX INDEX graph; SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 1'), 17, '... which helps');

$node->stop;
done_testing();
