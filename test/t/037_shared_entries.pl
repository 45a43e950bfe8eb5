# Rows that share the entry of the version before (an UPDATE of another column): errors and crashes at each point of it; scans that were open
# when VACUUM gave such rows entries of their own, on the primary and on a standby; updaters and readers beside VACUUM; concurrent builds.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuFaults;
use VectorgpuLoad;
use VectorgpuMatch;
use VectorgpuTest;

plan skip_all => 'for vectors' if of_match();
my $node = make_node('shared', streaming => 1, conf => "restart_after_crash = on\nvectorgpu.auto_merge = off\n");
my $rows = 600;
my $vacuum = 'VACUUM (INDEX_CLEANUP on) t';
my $update = 'UPDATE t SET category = category + 1';

# Ten rows have one vector, so that many rows are at one distance. Rows by hundreds, since updates of a page must not be HOT: category is indexed.
create_comparer($node);
make_table($node, 't', dims => 24, with => 'WITH (autovacuum_enabled = off)');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i % 10, CASE WHEN i % 60 = 0 THEN NULL ELSE " . random_vector_sql('i / 10', dims => 24) . " END FROM generate_series(1, $rows) i");
$node->safe_psql('postgres', "CREATE INDEX t_c ON t (category); CREATE INDEX t_v ON t USING $AM (v vector_l2_ops)");

sub delta_rows { return $node->safe_psql('postgres', q{SELECT delta_rows FROM vectorgpu_indexes WHERE index_name = 't_v'}); }

sub sound
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	answers_equal($node, 't', dims => 24, queries => 1, limits => [ 10, undef ], name => "$name: both scans agree");
	check_index($node, 't_v', narrow => 0, name => "$name: check");
	return;
}

# Three updates of every row leave the delta as it was.
my $before = delta_rows();
$node->safe_psql('postgres', $update) for 1 .. 3;
is(delta_rows(), $before + 3 * 10, 'only NULL rows have new entries');
sound('three updates');
$node->safe_psql('postgres', $vacuum);
sound('vacuum');

# Cursors that have begun before VACUUM return each row once, whether the worker or the pages answer, in steps and from the first row.
my $query = query_vector($node, 3, dims => 24);

sub open_cursor
{
	my ($on, $settings, $order) = @_;
	my $reader = $on->background_psql('postgres', on_error_stop => 0);

	$reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; $settings; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> $order");
	return $reader;
}

# Fetches some rows, lets $between happen, fetches the others.
sub fetch_around
{
	my ($reader, $n, $between) = @_;
	my @first = split /\n/, $reader->query_safe("FETCH $n FROM c");

	$between->();
	my $rest = eval { $reader->query('FETCH ALL FROM c') };

	return undef if !defined $rest || $reader->{stderr} =~ /ERROR/;
	my @all = (@first, split /\n/, $rest);
	my %seen = map { $_ => 1 } @all;
	return scalar(@all) . ' rows, ' . scalar(keys %seen) . ' different';
}

for my $case ([ 5, '', $query ], [ 13, '', $query ], [ 57, '', $query ], [ 57, 'SET LOCAL vectorgpu.scan_order = relaxed', $query ],
	[ 590, '', $query ], [ 101, '', '(SELECT NULL::vector)' ])
{
	my ($n, $settings, $order) = @$case;

	$node->safe_psql('postgres', "$update; $update");
	my $reader = open_cursor($node, $settings || 'SET LOCAL work_mem = 64', $order);
	is(fetch_around($reader, $n, sub { $node->safe_psql('postgres', "$vacuum; $update; $vacuum") }), "$rows rows, $rows different",
		"a cursor behind row $n beside VACUUM" . ($settings && ', relaxed') . ($order =~ /NULL/ ? ', in the order of TIDs' : ''));
	$reader->query('COMMIT');
	$reader->quit;
}
sound('after cursors');

# TIDs of removed rows are used again, also while a session knows the index.
$node->safe_psql('postgres', "$update; DELETE FROM t WHERE id % 3 = 0; $vacuum");
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i % 10, " . random_vector_sql('i', dims => 24, seed => 9) . " FROM generate_series(1, $rows) i WHERE i % 3 = 0; $update");
sound('TIDs used again');

# A standby.
my $standby = make_standby($node, 'standby', conf => "max_standby_streaming_delay = 5s\nhot_standby_feedback = off\n");
wait_standby($node, $standby);
for my $n (5, 57)
{
	$node->safe_psql('postgres', "$update; $update");
	wait_standby($node, $standby);
	my $reader = open_cursor($standby, 'SET LOCAL work_mem = 64', $query);
	my $seen = fetch_around($reader, $n, sub { $node->safe_psql('postgres', $vacuum); wait_standby($node, $standby) });

	ok(defined $seen ? $seen eq "$rows rows, $rows different" : slurp_file($standby->logfile) =~ /conflict with recovery|reorganized/,
		"a cursor of the standby behind row $n") or diag($seen);
	eval { $reader->quit };
	answers_equal($standby, 't', dims => 24, queries => 1, name => "both scans agree on the standby, $n");
	check_index($standby, 't_v', narrow => 0, name => "check on the standby, $n");
}
$standby->stop;

# Updaters and readers beside VACUUM, merges and concurrent builds.
my $load = start_load($node, {
		'update@6' => "\\set i random(1, $rows)\nUPDATE t SET category = (random() * 1000)::int WHERE id BETWEEN :i AND :i + 5;\n",
		'abort@1'  => "\\set i random(1, $rows)\nBEGIN;\nUPDATE t SET category = 7 WHERE id = :i;\nROLLBACK;\n",
		'vector@1' => "\\set i random(1, $rows)\nUPDATE t SET v = (SELECT v FROM t WHERE id = 1) WHERE id = :i AND id > 1;\n",
		'read@4'   => "\\set q random(1, 1000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT assert_answers('t', '<->', quote_literal(test_vector(:q, 24)) || '::vector', 20);\nCOMMIT;\n" },
	clients => 4, seconds => $ENV{VECTORGPU_LONG} ? 120 : 10, extra => ['--failures-detailed']);
for my $i (1 .. ($ENV{VECTORGPU_LONG} ? 40 : 4))
{
	$node->safe_psql('postgres', $vacuum);
	$node->safe_psql('postgres', "SELECT vectorgpu_merge('t_v')") if $i % 2;
	$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY t_v') if $i == 3;
	$node->safe_psql('postgres', "CREATE INDEX CONCURRENTLY t_w ON t USING $AM (v vector_l2_ops)") if $i == 2;
	check_index($node, 't_v', narrow => 0, name => "check beside the load, $i");
}
my ($transactions, $problem) = finish_load($load);
$problem = '' if $problem =~ /deadlock detected|could not serialize/ && $problem !~ /wrong answer/;
is($problem, '', "no wrong answer in $transactions transactions beside VACUUM");
sound('after the load');
check_index($node, 't_w', narrow => 0, name => 'the index that was built beside it: check');
$node->safe_psql('postgres', "DROP INDEX t_w; SELECT vectorgpu_merge('t_v'); $vacuum");

# After vectorgpu_check has found the end of the delta a row gets a new vector, and then a version that shares the new entry.
sub check_beside_inserts
{
	my ($holder, $checker) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;

	$node->safe_psql('postgres', "$update; $update");
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$checker->query_safe("LOAD 'vectorgpu'; SET vectorgpu.fault = 'check_delta:1:lock'");
	ok(run_to_lock($node, $checker, "SELECT 'checked ' || (vectorgpu_check('t_v', true)).heap_rows_checked"), 'a check waits');
	my $rows_before = delta_rows();
	$node->safe_psql('postgres', 'UPDATE t SET v = ' . query_vector($node, 77, dims => 24) . ' WHERE id = 8');
	$node->safe_psql('postgres', 'UPDATE t SET category = category + 1 WHERE id = 8');
	is(delta_rows(), $rows_before + 1, 'a row has a new entry, and its next version shares it');
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	like($checker->query('SELECT 1'), qr/^checked $rows$/m, 'the check goes on') or diag($checker->{stderr});
	$_->quit for $holder, $checker;
	sound('after a check beside inserts');
	return;
}

# Errors and crashes at each point.
if (faults_enabled($node))
{
	my %statement = (alias_append => $update, scan_aliases => "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> $query LIMIT 5) s");

	for my $point (qw(alias_append vacuum_resolve vacuum_resolved vacuum_after_resolved scan_aliases))
	{
		for my $action ('error', 'exit')
		{
			my $call = $point =~ /^(?:alias_append|vacuum_resolve)$/ ? 20 : 1;

			$node->safe_psql('postgres', "$update; $update");
			my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = '$point:$call:$action'; " . ($statement{$point} // $vacuum));
			wait_for_restart($node) if $action eq 'exit';
			isnt($rc, 0, "$point, $action: acts");
			sound("$point, $action");
			# Over what it left: more updates, merged copies, the next VACUUM.
			$node->safe_psql('postgres', $update);
			$node->safe_psql('postgres', "SELECT vectorgpu_merge('t_v')") if $action eq 'exit';
			sound("$point, $action, updated");
			$node->safe_psql('postgres', $vacuum);
			sound("$point, $action, vacuumed");
		}
	}
	check_beside_inserts();
	check_faults_reached($node);
}
$node->stop;
done_testing();
