# Reading ahead below a Merge Append: the first searches of all partitions go to the worker in one request. The rows are those without it, in
# the same order, whatever the partitions are, the query does, or becomes of the worker; only the number of searches may be larger, by one for
# each partition.
use strict;
use warnings;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.inline_load_size = 1GB\nvectorgpu.auto_merge = off\nvectorgpu.worker_restart_delay_max = 0\nenable_seqscan = off\nenable_sort = off\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

my $nearest;
my $seed   = $ENV{VECTORGPU_SEED} // time();
my $rounds = $ENV{VECTORGPU_LONG} ? 3000 : 40;
my $dims   = 8;
my $any    = random_vector_sql('i', dims => $dims);

note("seed $seed");

# Partitions by g: 0 to 3 of one kind, 4 empty, 5 without an index, 6 and 7 approximate, 8 in partitions itself, 9 with few rows.
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int, g int, tenant int, v vector($dims)) PARTITION BY LIST (g);
DO \$\$ BEGIN
	FOR i IN 0 .. 9 LOOP
		EXECUTE format('CREATE TABLE t%s PARTITION OF t FOR VALUES IN (%s) %s', i, i, CASE WHEN i = 8 THEN 'PARTITION BY HASH (id)' END);
	END LOOP;
	FOR i IN 0 .. 2 LOOP
		EXECUTE format('CREATE TABLE t8_%s PARTITION OF t8 FOR VALUES WITH (MODULUS 3, REMAINDER %s)', i, i);
	END LOOP;
END \$\$;
CREATE FUNCTION add_rows(first int, n int) RETURNS void LANGUAGE sql AS \$\$
	INSERT INTO t SELECT i, g, i % 7, CASE WHEN i % 53 <> 0 THEN $any END
	FROM (SELECT i, i % 10 AS g FROM generate_series(first, first + n - 1) i) s WHERE g <> 4 AND (g <> 9 OR i < 60) \$\$;
SELECT add_rows(1, 4000);
CREATE TABLE q AS SELECT i AS id, i % 10 AS g, ($any)::vector($dims) AS v FROM generate_series(100001, 100040) i;
CREATE INDEX ON t0 USING gpuflat (v vector_l2_ops);
CREATE INDEX ON t1 USING gpuflat (v vector_l2_ops, tenant);
CREATE INDEX ON t2 USING gpuflat (v vector_l2_ops, tenant);
CREATE INDEX ON t3 USING gpuflat (v vector_l2_ops);
CREATE INDEX ON t4 USING gpuflat (v vector_l2_ops);
CREATE INDEX ON t6 USING gpuivf (v vector_l2_ops) WITH (lists = 12);
CREATE INDEX ON t7 USING gpugraph (v vector_l2_ops);
CREATE INDEX ON t8 USING gpuivf (v vector_l2_ops, tenant) WITH (lists = 5);
CREATE INDEX ON t9 USING gpuflat (v vector_l2_ops);
ANALYZE t;
SQL

# rows_of(): what a query returns, in order. differences(): queries whose rows are other ones with and without reading ahead.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION rows_of(query text, ahead boolean) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	rows text[] := '{}';
	r record;
BEGIN
	PERFORM set_config('vectorgpu.read_ahead', ahead::text, true);
	FOR r IN EXECUTE query LOOP
		rows := rows || r::text;
	END LOOP;
	RETURN rows;
END $$;
-- The query's rows by FETCHes of a cursor, with other statements between them that scan the same indexes.
CREATE FUNCTION rows_of_cursor(query text, ahead boolean, size int) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	rows text[] := '{}';
	c refcursor;
	r record;
BEGIN
	PERFORM set_config('vectorgpu.read_ahead', ahead::text, true);
	OPEN c FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows || r::text;
		IF cardinality(rows) % size = 0 THEN
			PERFORM id FROM t ORDER BY v <-> (SELECT v FROM q WHERE id = 100002) LIMIT 3;
		END IF;
	END LOOP;
	CLOSE c;
	RETURN rows;
END $$;
CREATE FUNCTION pick(choices text[]) RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT choices[1 + floor(random() * cardinality(choices))] $$;
CREATE FUNCTION random_query() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	number int := 100001 + floor(random() * 40);
	value text := format('(SELECT v FROM q WHERE id = %s)', number);
	place text := pick(ARRAY['value', 'value', 'literal', 'lateral']);
	condition text := pick(ARRAY['true', 'true', 'tenant = 3', 'id % 3 = 1', 'tenant < 2', format('g = %s', number % 10), 'g IN (1, 6, 8)',
		'g = ANY (ARRAY(SELECT g FROM q WHERE id < 100004))', 'tenant = (SELECT id % 7 FROM q WHERE id = 100003)', 'v IS NOT NULL',
		'g <= (SELECT 5)', 'false', 'id = 5', format('v <-> %s < 1.2', value)]);
	ending text := format('LIMIT %s OFFSET %s', pick(ARRAY['1', '3', '10', '10', '40', '300', 'ALL']), pick(ARRAY['0', '0', '0', '5', '37']));
BEGIN
	IF place = 'literal' THEN
		EXECUTE 'SELECT quote_literal(v::text) || ''::vector'' FROM q WHERE id = ' || number INTO value;
	ELSIF place = 'lateral' THEN
		RETURN format('SELECT o.id, i.id FROM (SELECT * FROM q ORDER BY id LIMIT 6) o,
			LATERAL (SELECT * FROM t WHERE %s ORDER BY t.v <-> o.v %s) i', replace(condition, 'g ', pick(ARRAY['g ', 't.g '])), replace(ending, 'ALL', '20'));
	END IF;
	RETURN format('SELECT id, v <-> %s FROM t WHERE %s ORDER BY v <-> %s %s', value, condition, value, ending);
END $$;
CREATE FUNCTION differences(n int, seed float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1 .. n LOOP
		query := random_query();
		-- Narrow searches without conditions: with some the pages may find other rows than a worker that has just gone.
		PERFORM set_config('gpuivf.probes', CASE WHEN query ~ 'WHERE true' AND i % 2 = 0 THEN '2' ELSE '65536' END, true);
		IF rows_of(query, true) IS DISTINCT FROM rows_of(query, false)
			OR (i % 5 = 0 AND rows_of_cursor(query, true, 1 + i % 11) IS DISTINCT FROM rows_of_cursor(query, false, 1 + i % 11)) THEN
			RETURN NEXT query;
		END IF;
	END LOOP;
END $$;
SQL

ok(wait_until(sub { $node->safe_psql('postgres', 'SELECT id FROM t ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 5'); return worker_stat($node, 'ready') eq 't' }),
	'the worker is ready');
$node->safe_psql('postgres', "SELECT id FROM t WHERE g <> 5 ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 5");

my $resources = note_resources($node);

# Waits for a worker that has copies of all indexes.
sub wait_worker_of_t
{
	my $ready = wait_until(sub {
		return worker_stat($node, 'ready') eq 't' && asked_ahead(scans_of('SET jit = off', $nearest)) == 11;
	});

	die 'no worker' unless $ready;
	return worker_pid($node);
}

# The scans of a query: [batches by the worker, asked ahead] of each.
sub scans_of
{
	my ($settings, $query) = @_;
	my $text = $node->safe_psql('postgres', "$settings; EXPLAIN (ANALYZE, FORMAT JSON) $query");
	my (@scans, $visit);

	$visit = sub {
		my ($at) = @_;

		if (ref $at eq 'HASH')
		{
			push @scans, [ $at->{'Worker Batches'}, $at->{'Asked Ahead'} ] if defined $at->{'Asked Ahead'};
			$visit->($_) foreach values %$at;
		}
		$visit->($_) foreach ref $at eq 'ARRAY' ? @$at : ();
	};
	$visit->(decode_json($text));
	return @scans;
}

sub asked_ahead { my $n = 0; $n += $_->[1] foreach @_; return $n; }

$nearest = 'SELECT id FROM t WHERE g <> 5 ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 3';
my @scans   = scans_of('SET vectorgpu.read_ahead = on', $nearest);

is(scalar @scans, 11, 'all partitions but one have a scan of an index');
is(asked_ahead(@scans), 11, 'each has asked ahead') or diag(explain(\@scans));
is(asked_ahead(scans_of('SET vectorgpu.read_ahead = off', $nearest)), 0, 'none has if the setting is off');
is(asked_ahead(scans_of('SET vectorgpu.worker = off', $nearest)), 0, 'none has without the worker');
is(asked_ahead(scans_of('SET vectorgpu.worker_min_size = 1000000', $nearest)), 0, 'none has that is searched in its pages');
is(asked_ahead(scans_of('SET jit = off', 'SELECT id FROM t3 ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 3')), 0, 'one scan alone does not');

# Run-time pruning, by a parameter of the plan and by one of a nested loop.
@scans = scans_of('SET jit = off', 'SELECT id FROM t WHERE g <> 5 AND g < (SELECT 3) '
	  . 'ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 3');
is(asked_ahead(@scans), 3, 'only those that pruning keeps') or diag(explain(\@scans));
@scans = scans_of('SET plan_cache_mode = force_generic_plan; PREPARE s(vector, int) AS SELECT id FROM t WHERE g < $2 ORDER BY v <-> $1 LIMIT 3',
	q{EXECUTE s('[1,2,3,4,5,6,7,8]', 3)});
is(asked_ahead(@scans), 3, 'parameters of a generic plan') or diag(explain(\@scans)) if server_major() >= 18;
@scans = scans_of('SET enable_material = off; SET enable_memoize = off',
	'SELECT o.id, i.id FROM (SELECT * FROM q ORDER BY id LIMIT 2) o, LATERAL (SELECT id FROM t WHERE t.g < 4 ORDER BY t.v <-> o.v LIMIT 3) i');
is(asked_ahead(@scans), 8, 'each rescan with another query asks ahead again') or diag(explain(\@scans));
@scans = scans_of('SET jit = off', 'SELECT id FROM t WHERE g IN (1, 2) AND (tenant = 3 OR tenant IS NULL) ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 3');
is(asked_ahead(@scans), 2, 'scans by a condition beside the keys') or diag(explain(\@scans));

# An early LIMIT wastes no more than one search a partition.
my $searches = worker_stat($node, 'searches');
$node->safe_psql('postgres', 'SELECT id FROM t WHERE g <> 5 ORDER BY v <-> (SELECT v FROM q LIMIT 1) LIMIT 1');
cmp_ok(worker_stat($node, 'searches') - $searches, '<=', 11, 'LIMIT 1: one search a partition');

sub no_difference
{
	my ($n, $name, $settings) = @_;
	my $wrong = $node->safe_psql('postgres', ($settings // 'SET jit = off') . "; SELECT * FROM differences($n, " . ($seed % 1000) / 1000 . ')');

	$wrong = join("\n", grep { !/^1?$/ } split /\n/, $wrong);
	is($wrong, '', $name);
	$seed++;
	return;
}

no_difference($rounds, 'random queries');

# Rows in the deltas, deleted ones, aborted ones, places used again.
$node->safe_psql('postgres', <<'SQL');
SELECT add_rows(10001, 600);
DELETE FROM t WHERE id % 11 = 3;
BEGIN; SELECT add_rows(20001, 500); ROLLBACK;
UPDATE t SET v = v + v WHERE id % 17 = 4;
VACUUM t1, t6;
UPDATE t SET tenant = tenant + 1 WHERE id % 5 = 4;
SQL
no_difference($rounds, 'random queries behind changes');
no_difference($rounds / 5, 'late rows are returned', q{SET vectorgpu.scan_order = relaxed});
no_difference($rounds / 5, 'in parallel workers',
	"SET $PARALLEL_MODE = on; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0");
no_difference($rounds / 5, 'without the worker', 'SET vectorgpu.worker = off');

# A function below the LIMIT that writes: its rows are invisible with and without reading ahead.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION writes(i int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS
	$$ BEGIN INSERT INTO t SELECT i + 1000000, 2, 1, v FROM q WHERE id = 100001; RETURN true; END $$;
SQL
my @written = map {
	$node->safe_psql('postgres', "BEGIN; SET LOCAL vectorgpu.read_ahead = $_;"
		  . ' SELECT id FROM t WHERE writes(id) ORDER BY v <-> (SELECT v FROM q WHERE id = 100001) LIMIT 20; ROLLBACK')
} 'on', 'off';
is($written[0], $written[1], 'a function that writes changes nothing');
unlike($written[0], qr/^10\d{5}$/m, 'its rows are invisible to the scan');

# A worker that is killed, and one that stops: by the pages, or an interrupt.
my $answer = $node->safe_psql('postgres', $nearest);
my $right  = 0;
for (1 .. 5)
{
	my $pid = wait_worker_of_t();
	my $session = $node->background_psql('postgres');

	$session->query_safe($nearest);
	kill 'KILL', $pid;
	$right += $session->query_safe($nearest) eq $answer;
	$session->quit;
}
is($right, 5, 'a killed worker changes no answer');

my $pid = wait_worker_of_t();
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query($nearest);
kill 'STOP', $pid;
my $begun = time();
my ($rc, $out, $error) = $node->psql('postgres', "SET statement_timeout = '300ms'; $nearest");
like($error, qr/canceling statement due to statement timeout/, 'statement_timeout ends the wait');
$session->query("SET statement_timeout = '300ms'");
$session->query($nearest);
like($session->{stderr}, qr/canceling statement due to statement timeout/, 'also in a session that has asked before');
$session->{stderr} = '';
$session->query('SET statement_timeout = 0');
kill 'CONT', $pid;
is($session->query($nearest), $answer, 'the session goes on with the next query');
$session->quit;

# A stopped worker costs one timeout, not one for each partition.
kill 'STOP', wait_worker_of_t();
$begun = time();
is($node->safe_psql('postgres', "SET vectorgpu.worker_timeout = '1s'; $nearest"), $answer, 'a worker that is silent changes no answer');
cmp_ok(time() - $begun, '<', 9, 'and costs one timeout');
kill 'CONT', worker_pid($node);
no_difference($rounds / 5, 'and after all this');

check_resources($node, $resources);
done_testing();
