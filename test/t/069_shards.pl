# A table in partitions on three servers, by postgres_fdw: a search hands its LIMIT to each server, runs on all at the same time, and returns the rows of a
# search of a local copy. A server that is down, slow or silent makes the query fail.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuTest;

use_own_libpq();

my $front = make_node('front');

plan(skip_all => 'the server has no postgres_fdw') unless has_postgres_fdw($front);

my @shards = map { make_node($_) } ('first', 'second');
my $columns = 'id int, lang text, price int, v vector(16), h halfvec(16), w sparsevec(16), b bit(64), s int[]';

# Few values of each element, so that many rows are equally far from a query; some rows are copies, NULL or zero.
my $value = random_vector_sql('i % 1900', levels => 3);
my $rows = "SELECT i, (ARRAY['en', 'de', 'fr'])[i % 3 + 1] || repeat('x', i % 7), i % 100, x, x, x::sparsevec, " . random_vector_sql('i % 1900', dims => 64, type => 'bit') .
  ", ARRAY[i % 5, i % 7, i % 11, 20] FROM generate_series(1, 2000) i, LATERAL (SELECT CASE WHEN i % 50 = 0 THEN NULL WHEN i % 97 = 0 THEN array_fill(0, '{16}')::vector ELSE $value END) AS given (x)";

$_->safe_psql('postgres', "CREATE TABLE docs ($columns); CREATE TABLE late ($columns)") for @shards;
sub server_sql
{
	my ($name, $host, $port, $more) = @_;

	return "CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', extensions 'vectorgpu', async_capable 'true', batch_size '500'" .
	  ($more // '') . "); CREATE USER MAPPING FOR CURRENT_USER SERVER $name;";
}
sub statements { return join "\n", map { server_sql($_->name, $_->host, $_->port) } @shards; }

# Of four partitions the last has partitions of its own, a local and a foreign one.
$front->safe_psql('postgres', 'CREATE EXTENSION postgres_fdw;' . statements() . <<SQL);
CREATE TABLE docs ($columns) PARTITION BY HASH (id);
CREATE TABLE docs_0 PARTITION OF docs FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE FOREIGN TABLE docs_1 PARTITION OF docs FOR VALUES WITH (MODULUS 4, REMAINDER 1) SERVER first OPTIONS (table_name 'docs');
CREATE FOREIGN TABLE docs_2 PARTITION OF docs FOR VALUES WITH (MODULUS 4, REMAINDER 2) SERVER second OPTIONS (table_name 'docs');
CREATE TABLE docs_3 PARTITION OF docs FOR VALUES WITH (MODULUS 4, REMAINDER 3) PARTITION BY RANGE (price);
CREATE TABLE docs_3_low PARTITION OF docs_3 FOR VALUES FROM (MINVALUE) TO (50);
CREATE FOREIGN TABLE docs_3_high PARTITION OF docs_3 FOR VALUES FROM (50) TO (MAXVALUE) SERVER first OPTIONS (table_name 'late');
INSERT INTO docs $rows;
CREATE TABLE plain AS SELECT * FROM docs;
CREATE INDEX ON docs_0 USING gpuflat (v vector_l2_ops);
CREATE INDEX ON docs_0 USING gpumatch (s);
SQL
$shards[0]->safe_psql('postgres', 'CREATE INDEX ON docs USING gpuivf (v vector_l2_ops) WITH (lists = 10); CREATE INDEX ON docs USING gpumatch (s)');
$shards[1]->safe_psql('postgres', 'CREATE INDEX ON docs USING gpugraph (v vector_l2_ops)');
$_->safe_psql('postgres', 'ANALYZE') for @shards;
$front->safe_psql('postgres', 'ANALYZE');
is($shards[0]->safe_psql('postgres', 'SELECT count(*) FROM docs') + $shards[0]->safe_psql('postgres', 'SELECT count(*) FROM late') + $shards[1]->safe_psql('postgres', 'SELECT count(*) FROM docs'),
	$front->safe_psql('postgres', 'SELECT count(*) FROM docs_1') + $front->safe_psql('postgres', 'SELECT count(*) FROM docs_2') + $front->safe_psql('postgres', 'SELECT count(*) FROM docs_3_high'),
	'the rows are on the servers');

is($front->safe_psql('postgres', <<SQL), '0', 'every operator of the extension may be sent');
SELECT count(*) FROM pg_depend d JOIN pg_operator o ON o.oid = d.objid JOIN pg_proc p ON p.oid = o.oprcode
WHERE d.classid = 'pg_operator'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'vectorgpu') AND (p.provolatile <> 'i' OR p.proparallel <> 's')
SQL

# The outputs of statements that end in a semicolon, in one session.
sub outputs
{
	my (@sql) = @_;
	my $out = $front->safe_psql('postgres', join "\n\\echo ----\n", @sql);

	return map { s/\n\z//r } split /^----\n?/m, $out, -1;
}

sub over_plain { return $_[0] =~ s/\bdocs\b/plain/gr; }

# Compares the rows of a query over docs and over plain. $limit: of the $n foreign scans, which start together; 0: none has one.
# $before: a statement before it.
sub same_rows
{
	my ($what, $query, $n, $limit, $before) = @_;
	my @begin = ('BEGIN; ' . ($before // ''), 'ROLLBACK; DEALLOCATE ALL; BEGIN; ' . over_plain($before // ''));
	my (undef, $sharded, $plan, undef, $local) = outputs($begin[0], "$query;", "EXPLAIN (VERBOSE, COSTS OFF) $query;", $begin[1], over_plain($query) . ';');
	my $found = join ' ', scalar(() = $plan =~ /Async Foreign Scan on/g), scalar(() = $plan =~ /Remote SQL: .* ORDER BY .* LIMIT $limit(?:::bigint)?$/mg);

	if ($limit == 0)
	{
		($sharded, $local) = map { join "\n", sort split /\n/ } $sharded, $local;
		unlike($plan, qr/Remote SQL.* LIMIT/, "plan: $what");
	}
	else
	{
		is($found, "$n $n", "plan: $what") or diag $plan;
	}
	is($sharded, $local, $what);
	return;
}

my $vector = $front->safe_psql('postgres', 'SELECT v FROM plain WHERE id = 77');
my %queries = (
	v => ["'$vector'::vector", '<->', '<#>', '<=>', '<+>'],
	h => ["'$vector'::halfvec", '<->', '<#>', '<=>', '<+>'],
	w => ["'$vector'::vector::sparsevec", '<->', '<#>', '<=>', '<+>'],
	b => [q{B'} . '1100' x 16 . q{'}, '<~>', '<%>'],
	s => [q{'{1,2,3,20}'::int[]}, '<#>', '<%>'],
	lang => [q{'enxx'}, '<~>']);

for my $column (sort keys %queries)
{
	my ($operand, @operators) = @{ $queries{$column} };

	for my $operator (@operators)
	{
		my $distance = "$column $operator $operand";
		same_rows("$column $operator", "SELECT id, $distance FROM docs ORDER BY $distance, id LIMIT 30", 3, 30);
		same_rows("$column $operator with a condition and OFFSET", "SELECT $distance FROM docs WHERE price < 60 ORDER BY $distance LIMIT 30 OFFSET 7", 3, 37);
	}
}

my $near = "v <-> '$vector'";

# Conditions, ends and shapes: arguments of same_rows.
for (
	[ 'every row, NULL last', "SELECT v, id FROM docs ORDER BY $near, id LIMIT 3000", 3, 3000 ],
	[ 'LIMIT 0', "SELECT id FROM docs ORDER BY $near LIMIT 0", 3, 1 ],
	[ 'OFFSET beyond the end', "SELECT id FROM docs ORDER BY $near LIMIT 5 OFFSET 5000", 3, 5005 ],
	[ 'the distance bounded', "SELECT id FROM docs WHERE $near < 4 ORDER BY $near, id LIMIT 10", 3, 10 ],
	[ 'lists and NULL', "SELECT id FROM docs WHERE lang IN ('en', 'frx') OR v IS NULL ORDER BY $near, id LIMIT 100", 3, 100 ],
	[ 'no row passes', "SELECT id FROM docs WHERE price > 1000 ORDER BY $near LIMIT 10", 3, 10 ],
	[ 'one partition', "SELECT id FROM docs WHERE id = (SELECT min(id) FROM docs_1) ORDER BY $near LIMIT 10", 3, 10 ],
	[ 'a subquery', "SELECT count(*), sum(id) FROM (SELECT id FROM docs ORDER BY $near, id LIMIT 10) near", 3, 10 ],
	[ 'a search for each row', "SELECT p.id, near.id FROM plain p, LATERAL (SELECT id FROM docs ORDER BY docs.v <-> p.v, id LIMIT 4) near WHERE p.id < 9 ORDER BY 1, 2", 3, 4 ],
	[ 'parameters', "EXECUTE near('$vector', 5, 60)", 3, 12, "PREPARE near(vector, int, int) AS SELECT id FROM docs WHERE price < \$3 ORDER BY v <-> \$1, id LIMIT \$2 OFFSET 7;" ],
	[ 'a similarity', "SELECT id FROM docs WHERE v <> array_fill(0, '{16}')::vector ORDER BY 1 - (v <=> '$vector') DESC, id LIMIT 10", 3, 10 ],
	[ 'a function', "SELECT id FROM docs ORDER BY l2_distance(v, '$vector'), id LIMIT 10", 3, 10 ],
	[ 'descending', "SELECT id FROM docs WHERE v IS NOT NULL ORDER BY $near DESC, id LIMIT 10", 3, 10 ],
	[ 'estimates of the servers', "SELECT id FROM docs ORDER BY $near, id LIMIT 10", 3, 10, join '', map { "ALTER SERVER " . $_->name . " OPTIONS (ADD use_remote_estimate 'true');" } @shards ])
{
	same_rows(@$_);
}

# No LIMIT is sent where a row that a server returns may be none of the query's.
for (
	[ 'a condition that is not sent', "SELECT id FROM docs WHERE price < pg_backend_pid() ORDER BY $near, id LIMIT 10" ],
	[ 'locks', "SELECT id FROM docs ORDER BY $near, id LIMIT 10 FOR UPDATE" ],
	[ 'ties', "SELECT id FROM docs ORDER BY $near FETCH FIRST 10 ROWS WITH TIES" ],
	[ 'groups', "SELECT $near, count(*) FROM docs GROUP BY 1 ORDER BY 1 LIMIT 10" ],
	[ 'an order without distances', 'SELECT id FROM docs ORDER BY price, id LIMIT 10' ],
	[ 'Sort is not wanted', "SELECT id FROM docs ORDER BY $near, id LIMIT 10", 'SET enable_sort = off;' ],
	[ 'a join', "SELECT docs.id FROM docs JOIN plain other ON other.id = docs.id * 2 ORDER BY docs.$near, docs.id LIMIT 10" ],
	[ 'the setting', "SELECT id FROM docs ORDER BY $near, id LIMIT 10", 'SET vectorgpu.enable_shard_limit = off;' ])
{
	my ($what, $query, $before) = @$_;

	same_rows($what, $query, 0, 0, $before);
}

# The sixth execution has a generic plan, whose LIMIT is a parameter. NULL: no limit.
my $prepare = "PREPARE near(vector, int) AS SELECT id FROM docs ORDER BY v <-> \$1, id LIMIT \$2";
my @counts = (10, 10, 10, 10, 10, 3, 25, 0, 'NULL');
my @generic = outputs('SET plan_cache_mode = force_generic_plan;', "$prepare;", 'EXPLAIN (VERBOSE, COSTS OFF) ' . "EXECUTE near('$vector', 10);", map { "EXECUTE near('$vector', $_);" } @counts);
my @auto = outputs("$prepare;", map { "EXECUTE near('$vector', $_);" } @counts);
my @local = outputs(over_plain("$prepare;"), map { "EXECUTE near('$vector', $_);" } @counts);
is(scalar(() = $generic[2] =~ /Async Foreign Scan on/g), 3, 'a generic plan: the foreign scans start together') or diag $generic[2];
is(scalar(() = $generic[2] =~ /Remote SQL: .* ORDER BY .* LIMIT \$\d/g), 3, 'a generic plan: they have the parameter as LIMIT') or diag $generic[2];
is_deeply([ @generic[ 3 .. $#generic ] ], [ @local[ 1 .. $#local ] ], 'rows of generic plans');
is_deeply([ @auto[ 1 .. $#auto ] ], [ @local[ 1 .. $#local ] ], 'rows of custom plans, then of generic ones');
my ($state) = psql_state($front, "SET plan_cache_mode = force_generic_plan; $prepare; EXECUTE near('$vector', -1)");
is($state, '2201W', 'a negative LIMIT in a generic plan');
same_rows('a generic plan with OFFSET', "EXECUTE near('$vector', 10, 5)", 0, 0, "SET plan_cache_mode = force_generic_plan; PREPARE near(vector, int, int) AS SELECT id FROM docs ORDER BY v <-> \$1, id LIMIT \$2 OFFSET \$3;");

# Row security of the partitioned table holds for rows of other servers.
$front->safe_psql('postgres', <<SQL . join '', map { 'CREATE USER MAPPING FOR reader SERVER ' . $_->name . " OPTIONS (user '" . ($ENV{PGUSER} // getpwuid $>) . "', password_required 'false');" } @shards);
CREATE ROLE reader LOGIN;
GRANT SELECT ON docs, plain TO reader;
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
CREATE POLICY cheap ON docs USING (price < 30);
CREATE POLICY cheap ON plain USING (price < 30);
SQL
same_rows('row security', "SELECT id FROM docs WHERE lang <> 'de' ORDER BY $near, id LIMIT 50", 2, 50, 'SET ROLE reader;');

# Failures: an error, and no rows.
sub fails
{
	my ($what, $state, $message, $before) = @_;
	my ($found, $error, $out) = psql_state($front, ($before // '') . "SELECT id FROM docs ORDER BY $near, id LIMIT 10");

	is("$found '$out'", "$state ''", "$what: an error, no rows");
	like($error, $message, "$what: the message");
	return;
}

my $second = $shards[1];
my $holder = $second->background_psql('postgres');

$holder->query_safe('BEGIN; LOCK TABLE docs');
fails('a slow server with a timeout of its own', '57014', qr/statement timeout/, "ALTER SERVER second OPTIONS (ADD options '-c statement_timeout=300');");
fails('a slow server', '57014', qr/statement timeout/, "ALTER SERVER second OPTIONS (DROP options); SET statement_timeout = 300;");

my $waiting = IPC::Run::start([ 'psql', '-XAtq', '-d', $front->connstr('postgres'), '-c', "SELECT id FROM docs ORDER BY $near LIMIT 11" ], '>', \my $out, '2>', \my $error);
$second->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'LIMIT 11'}) or die 'no search waits';
$second->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'LIMIT 11'});
$waiting->finish;
is($out, '', 'a server that dies during the search: no rows');
like($error, qr/terminating connection/, 'a server that dies during the search: an error');
$holder->query_safe('COMMIT');
$holder->quit;

# It accepts connections and says nothing.
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "no socket: $!";
my @silent = ("'127.0.0.1'", "'" . $silent->sockport . "'");
# From 16 on postgres_fdw waits without regard to connect_timeout, but may be interrupted.
my @silence = server_major() < 16 ? ('08001', qr/timeout expired/) : ('57014', qr/statement timeout/);
fails('a silent server', @silence, "BEGIN; ALTER SERVER second OPTIONS (SET host $silent[0], SET port $silent[1], ADD connect_timeout '2'); SET statement_timeout = 2500;");

$second->stop('immediate');
fails('a server that is down', '08001', qr/could not connect to server/);
$second->start;
same_rows('the server is back', "SELECT id FROM docs ORDER BY $near, id LIMIT 10", 3, 10);

done_testing();
