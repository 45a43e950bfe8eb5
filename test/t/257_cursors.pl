# Cursors that stay open while their index changes (C25, C26, G10): rows are inserted and deleted, TIDs reused, VACUUM and merges write
# other segments, the worker's copy is dropped and reloaded. A cursor then returns rows of its snapshot, each once, in order under
# vectorgpu.scan_order = strict, and every row under relaxed or if no LIMIT can end the scan; with the worker and without,
# by narrow searches, which need several rounds, and by exhaustive ones.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('main',
	conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_timeout = 600s\nvectorgpu.worker_min_size = 0\n"
	  . "vectorgpu.inline_load_size = 1GB\nvectorgpu.auto_merge = off\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($node);

# near(): rows around the query, nearer than any other; some rows have no value.
my $dims  = 12;
my $query = '[' . join(',', map { $_ / 16 } 1 .. $dims) . ']';
my $any   = random_vector_sql('i', dims => $dims);
$node->safe_psql('postgres', <<"SQL");
CREATE SEQUENCE ids;
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('ids'), v vector($dims), a int4[]);
CREATE FUNCTION near(i bigint) RETURNS vector LANGUAGE sql AS
	\$\$ SELECT ('$query'::vector + array_fill((i % 97) / 20000.0, ARRAY[$dims])::vector)::vector($dims) \$\$;
CREATE FUNCTION add_rows(n int) RETURNS void LANGUAGE sql AS \$\$
	INSERT INTO t (v, a) SELECT CASE WHEN i % 61 <> 0 THEN $any END, ARRAY[i % 5, 10 + i % 11, 30 + i % 13, 50 + i % 101]
	FROM (SELECT nextval('ids') FROM generate_series(1, n)) s(i) \$\$;
CREATE FUNCTION add_near(n int) RETURNS void LANGUAGE sql AS \$\$
	INSERT INTO t (v, a) SELECT near(i), '{1,12,33}' FROM generate_series(1::bigint, n) i \$\$;
SELECT add_rows(3000);
SQL
ok(wait_worker($node), 'the worker is ready');
my $resources = note_resources($node);

# Changes by other sessions between two FETCHes of the cursor.
sub change_index
{
	my ($turn) = @_;

	$node->safe_psql('postgres', <<"SQL");
SELECT add_near(40);
BEGIN; SELECT add_near(40); ROLLBACK;
UPDATE t SET v = near(id), a = '{1,12,33}' WHERE id % 19 = $turn;
DELETE FROM t WHERE id % 9 = $turn;
VACUUM t;
SELECT add_rows(300);
SELECT vectorgpu_merge('i');
SELECT add_rows(50);
SELECT vectorgpu_evict('i');
SQL
	return;
}

# One cursor over two turns of changes. what:
#   order        ORDER BY
#   settings     settings of its session
#   complete     1: every row of the snapshot has to come; else half of them
#   ordered      1: by ascending distance
#   limited      1: a LIMIT that can end the scan at any row stands above it, behind a window function
#   rounds       1: some passes must not look at everything; 0: each must; undef: exact access methods have none
#   worker       on, off
#   by_worker    how many of its three batches the worker answers at least: for a gpumatch index by signatures only those that leave rows out
sub cursor_course
{
	my ($name, %what) = @_;
	my ($other, $cursor) = ($node, $node->background_psql('postgres'));
	my (@fetched, %truth, %seen, @problems);
	my $select = "SELECT id, $what{order} AS d FROM t ORDER BY $what{order}";

	$select = "SELECT id, d, row_number() OVER () FROM ($select) s LIMIT 100000" if $what{limited};

	# These may be removed from the index while the cursor is open.
	my @dead = split /\n/, $other->safe_psql('postgres', 'DELETE FROM t WHERE id % 13 = 5 OR id <= (SELECT max(id) FROM t) - 3600 RETURNING ctid');

	$cursor->query_safe("SET enable_seqscan = off; SET enable_sort = off; SET vectorgpu.worker = $what{worker}; $what{settings}");
	my $plan = $cursor->query_safe("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $select");
	my ($rounds) = $plan =~ /Rounds: (\d+)/;
	my ($exhaustive) = $plan =~ /Exhaustive: (\d+)/;
	like($plan, $what{worker} eq 'on' ? qr/Answered By: worker/ : qr/Answered By: backend/, "$name: who answers");
	if (defined $what{rounds})
	{
		ok($what{rounds} ? $rounds > ($exhaustive // 0) : $rounds == $exhaustive, "$name: rounds as wanted") or diag($plan);
	}

	$cursor->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	%truth = map { /^(\d+)\|(.*)$/ ? ($1 => $2) : () } split /\n/,
	  $cursor->query_safe("SET LOCAL enable_indexscan = off; SET LOCAL enable_sort = on; SELECT id, $what{order} FROM t; SET LOCAL enable_indexscan = on; SET LOCAL enable_sort = off");
	my $answered = worker_stat($node, 'answered');
	my $by_worker = 0;
	my $fetch = sub {
		my ($n) = @_;
		my $before = worker_stat($node, 'answered');

		push @fetched, map { [ split /\|/, $_, -1 ] } split /\n/, $cursor->query_safe("FETCH $n FROM c");
		$by_worker++ if worker_stat($node, 'answered') > $before;
	};

	# Batches end after 100 rows and 1,700, steps of ranks after 10, 32, 112 and 352.
	$cursor->query_safe("DECLARE c NO SCROLL CURSOR FOR $select");
	$fetch->(30);
	change_index(1);
	$fetch->(200);
	change_index(2);
	$fetch->('ALL');
	$cursor->query_safe('COMMIT');
	$cursor->quit;

	my $again = $other->safe_psql('postgres', 'SELECT count(*) FROM t WHERE ctid = ANY (\'{' . join(',', map { "\"$_\"" } @dead) . '}\')');
	cmp_ok($again, '>', 0, "$name: places of removed rows are used again under the cursor");
	cmp_ok($by_worker, $what{worker} eq 'on' ? '>=' : '==', $what{worker} eq 'on' ? $what{by_worker} : 0, "$name: fetches for which the worker answered");

	my $late = 0;
	my $last;
	for my $row (@fetched)
	{
		my ($id, $d) = @$row;

		push @problems, "row $id comes twice" if $seen{$id}++;
		push @problems, 'row ' . $id . " at $d is none of the snapshot" if !exists $truth{$id} || $truth{$id} ne $d;
		push @problems, "row $id has a distance behind rows that have none" if $d ne '' && defined $last && $last eq '';
		$late++ if $d ne '' && defined $last && $last ne '' && $d < $last;
		$last = $d;
	}
	push @problems, "$late rows are out of order" if $what{ordered} && $late > 0;
	push @problems, @fetched . ' rows of ' . keys %truth if $what{complete} ? @fetched != keys %truth : @fetched < keys(%truth) / 2;
	count('answers');
	count('wrong') if @problems;
	is(join("\n", @problems[0 .. ($#problems < 4 ? $#problems : 4)]), '', "$name: the snapshot's rows");
	note("$name: " . @fetched . ' of ' . keys(%truth) . " rows, $late late, rounds " . ($rounds // 'none') . ', exhaustive ' . ($exhaustive // 0));
	return;
}

my %narrow = (gpuivf => 'SET gpuivf.probes = 1', gpugraph => 'SET gpugraph.search_width = 10', gpumatch => '');

# The courses of one index: exhaustive and narrow searches, both orders, with the worker and without.
sub courses
{
	my ($method, $order, $approximate, %what) = @_;

	for my $worker ('on', 'off')
	{
		if (!$approximate)
		{
			cursor_course("$method, worker $worker", order => $order, settings => '', complete => 1, ordered => 1, worker => $worker, by_worker => 3);
			next;
		}
		for my $scan_order ('strict', 'relaxed')
		{
			cursor_course("$method, $scan_order, narrow, worker $worker", %what, order => $order, settings => "$narrow{$method}; SET vectorgpu.scan_order = $scan_order",
				limited => $scan_order eq 'strict', rounds => 1, complete => $scan_order eq 'relaxed', ordered => $scan_order eq 'strict',
				worker => $worker, by_worker => $method eq 'gpumatch' ? 1 : 2); # the second fetch may come to look at all rows
			# A scan that no LIMIT can end is exact under strict, even with narrow searches.
			next if $method eq 'gpumatch';
			cursor_course("$method, relaxed, by the recall target, worker $worker", %what, order => $order, settings => 'SET vectorgpu.scan_order = relaxed',
				complete => 1, ordered => 0, worker => $worker, by_worker => 3)
			  if $scan_order eq 'relaxed' && $ENV{VECTORGPU_LONG};
			next if $scan_order eq 'relaxed';
			cursor_course("$method, no LIMIT, worker $worker", %what, order => $order, settings => $narrow{$method},
				rounds => 0, complete => 1, ordered => 1, worker => $worker, by_worker => 3);
		}
	}
	check_index($node, 'i');
	$node->safe_psql('postgres', 'DROP INDEX i');
	return;
}

$node->safe_psql('postgres', "CREATE INDEX i ON t USING $AM (v vector_l2_ops)");
courses($AM, "v <-> '$query'", $AM ne 'gpuflat');
if ($AM eq 'gpuflat')
{
	$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpumatch (a)');
	courses('gpumatch', "a <#> '{1,12,33,77}'", 0);
	$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpumatch (v vector_lsh_l2_ops (hashes = 24, width = 3))');
	courses('gpumatch', "v <-> '$query'", 1);
}
is($node->safe_psql('postgres', "SELECT count(*) FROM vectorgpu_worker, jsonb_each(fallback_reasons) WHERE key IN ('wrong_answer', 'out_of_memory') AND value <> '0'"),
	'0', 'no answer of the worker was wrong');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no process of the server crashed');
check_resources($node, $resources);
check_stopped($node);
done_testing();
