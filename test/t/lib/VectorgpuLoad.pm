# Helpers of the TAP tests for work that runs beside other work: a comparison of both scans in SQL (one snapshot, one
# call, usable from pgbench), pgbench in the background, memory of a backend, faults. See VectorgpuTest for the rest.
package VectorgpuLoad;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuCount;
use VectorgpuTest;

our @EXPORT = qw(
  create_comparer answers_equal start_load finish_load backend_memory_kb under_asan kept_memory_kb psql_state crash_restart wait_for_restart
  start_after_kill
  data_folder_bytes relation_file check_flipped_bytes session_pid refuses_other_snapshots scan_held_up
);

# Creates in the node
#   test_vector(seed bigint, dims int) returns text    a literal that depends on its arguments only
#   compare_answers(table, op, query, k, filter)       '' or what differs between index scan and sequential scan
#   assert_answers(...)                                the same, but raises an error on a difference
# Both scans run in the caller's transaction: if other sessions write, it has to be REPEATABLE READ, so that both see the
# same rows. Ids are compared as sets inside each distance; the last distance, which k may cut, only by count.
sub create_comparer
{
	my ($node, %opt) = @_;

	$node->safe_psql($opt{db} // 'postgres', <<'SQL');
CREATE FUNCTION test_vector(seed bigint, dims int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT '[' || string_agg((((hashint8extended($1 * $2 + d, 42) & 65535) - 32768) / 32768.0)::float4::text, ',' ORDER BY d) || ']'
	FROM generate_series(1, $2) d
$$;

CREATE FUNCTION compare_answers(tab text, op text, query text, k bigint DEFAULT NULL, filter text DEFAULT 'true')
RETURNS text LANGUAGE plpgsql
SET enable_seqscan = on SET enable_indexscan = on SET enable_sort = on SET enable_bitmapscan = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
	body text := format('SELECT id, coalesce(encode(float8send(v %1$s %2$s), ''hex''), ''null'') AS d, row_number() OVER () AS n '
		'FROM (SELECT id, v FROM %3$s WHERE %4$s ORDER BY v %1$s %2$s LIMIT %5$s) s',
		op, query, tab, filter, coalesce(k::text, 'ALL'));
	whole text := format('SELECT array_agg(id ORDER BY n), array_agg(d ORDER BY n) FROM (%s) s', body);
	index_ids bigint[];
	index_distances text[];
	seq_ids bigint[];
	seq_distances text[];
	line text;
	by_index boolean := false;
	i int;
	only_index bigint[];
	only_seq bigint[];
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || body LOOP
		by_index := by_index OR line ~ 'Index Scan using';
	END LOOP;
	IF NOT by_index THEN
		RETURN 'the plan has no index scan';
	END IF;
	EXECUTE whole INTO index_ids, index_distances;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true),
		set_config('enable_indexscan', 'off', true);
	EXECUTE whole INTO seq_ids, seq_distances;

	IF index_distances IS DISTINCT FROM seq_distances THEN
		FOR i IN 1 .. greatest(cardinality(index_distances), cardinality(seq_distances), 0) LOOP
			IF index_distances[i] IS DISTINCT FROM seq_distances[i] THEN
				RETURN format('%s rows by index, %s by sequential scan; first difference at row %s: distance %s (id %s) by index, %s (id %s) by sequential scan',
					coalesce(cardinality(index_distances), 0), coalesce(cardinality(seq_distances), 0), i,
					index_distances[i], index_ids[i], seq_distances[i], seq_ids[i]);
			END IF;
		END LOOP;
		RETURN format('%s rows by index, %s by sequential scan',
			coalesce(cardinality(index_distances), 0), coalesce(cardinality(seq_distances), 0));
	END IF;
	IF (SELECT count(DISTINCT u) <> count(u) FROM unnest(index_ids) u) THEN
		RETURN 'the index scan returns a row twice';
	END IF;
	SELECT array_agg(u) INTO only_index FROM (
		SELECT u FROM unnest(index_ids, index_distances) x(u, d) WHERE k IS NULL OR d <> index_distances[cardinality(index_distances)]
		EXCEPT SELECT u FROM unnest(seq_ids, seq_distances) x(u, d)) s;
	SELECT array_agg(u) INTO only_seq FROM (
		SELECT u FROM unnest(seq_ids, seq_distances) x(u, d) WHERE k IS NULL OR d <> index_distances[cardinality(index_distances)]
		EXCEPT SELECT u FROM unnest(index_ids, index_distances) x(u, d)) s;
	IF only_index IS NOT NULL OR only_seq IS NOT NULL THEN
		RETURN format('ids only by index: %s; only by sequential scan: %s', only_index, only_seq);
	END IF;
	RETURN '';
END
$$;

CREATE FUNCTION assert_answers(tab text, op text, query text, k bigint DEFAULT NULL, filter text DEFAULT 'true')
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	difference text := compare_answers(tab, op, query, k, filter);
BEGIN
	IF difference <> '' THEN
		RAISE EXCEPTION 'wrong answer from %: %', tab, difference;
	END IF;
END
$$;
SQL
	return;
}

# One test: for some query vectors and limits, both scans agree. Needs create_comparer.
#   dims, op (<->), queries (2), limits ([1, 10, undef]), seed, filter
sub answers_equal
{
	my ($node, $table, %opt) = @_;
	my $dims    = $opt{dims}    // 16;
	my $op      = $opt{op}      // '<->';
	my $queries = $opt{queries} // 2;
	my $seed    = $opt{seed}    // 900001;
	my $type    = $opt{type}    // 'vector';
	my $filter  = $opt{filter}  // 'true';
	my $limits  = join ', ', map { '(' . ($_ // 'NULL') . '::bigint)' } @{ $opt{limits} // [ 1, 10, undef ] };
	my $sql     = <<SQL;
SELECT format('query %s limit %s: %s', q, coalesce(k::text, 'none'), answer)
FROM (SELECT q, k, compare_answers('$table', '$op', quote_literal(test_vector($seed + q, $dims)) || '::$type', k, \$f\$$filter\$f\$) AS answer
	FROM generate_series(1, $queries) q, (VALUES $limits) l(k)) s
WHERE answer <> ''
SQL
	my ($rc, $out, $err) = $node->psql($opt{db} // 'postgres', ($opt{setup} // '') . $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $good = $rc == 0 && $out eq '' && $err eq '';
	my $wrong = () = $out =~ /^query /mg;
	count('answers', $queries * @{ $opt{limits} // [ 1, 10, undef ] });
	count('wrong', $wrong);
	ok($good, $opt{name} // "$table: index and sequential scans agree for $op") or diag("exit status $rc\n$out\n$err");
	return $good;
}

# Starts pgbench in the background. scripts: name => text, "name\@weight" for weights.
#   clients (4), seconds (10), db, extra (list of further arguments)
sub start_load
{
	my ($node, $scripts, %opt) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my @files;
	my %load = (out => '', err => '', name => $opt{name} // 'load');

	for my $name (sort keys %$scripts)
	{
		my ($file, $weight) = split /@/, $name;
		append_to_file("$folder/$file.sql", $scripts->{$name});
		$load{comparing}{$file} = 1 if $scripts->{$name} =~ /assert_(?:answers|matches)/;
		push @files, '-f', "$folder/$file.sql" . (defined $weight ? "\@$weight" : '');
	}

	my $clients = $opt{clients} // 4;
	my @command = (
		$node->installed_command('pgbench'),
		'-n', '-c', $clients, '-j', ($clients < 2 ? 1 : 2), '-T', $opt{seconds} // 10,
		'-h', $node->host, '-p', $node->port, '--max-tries=20', @{ $opt{extra} // [] },
		@files, $opt{db} // 'postgres');

	$load{seconds} = $opt{seconds} // 10;
	$load{harness} = IPC::Run::start(\@command, '<', \undef, '>', \$load{out}, '2>', \$load{err},
		IPC::Run::timeout($load{seconds} + $PostgreSQL::Test::Utils::timeout_default));
	return \%load;
}

# Waits for the end of a load. Returns (transactions, error text); error text is empty when no client was aborted. If the server
# stops during the load, the caller ignores the text: a wrong answer among the errors is still counted.
sub finish_load
{
	my ($load) = @_;

	eval { $load->{harness}->finish; 1 } or $load->{err} .= "\n$@";
	my ($transactions) = $load->{out} =~ /number of transactions actually processed: (\d+)/;
	my $problem = $load->{err} =~ /(^pgbench: error.*|.*aborted.*|.*timeout.*)/m ? $load->{err} : '';
	my ($failed) = $load->{out} =~ /number of failed transactions: (\d+)/;

	# For several scripts pgbench prints the transactions of each; for one only the sum.
	my $compared = 0;
	while ($load->{out} =~ m{^SQL script \d+: \S*/([^/\s]+)\.sql\n(?: - .*\n)*? - (\d+) transactions}mg)
	{
		$compared += $2 if $load->{comparing}{$1};
	}
	$compared = $transactions // 0 if $load->{out} !~ /^SQL script \d/m && %{ $load->{comparing} // {} };
	my $wrong = () = $load->{err} =~ /wrong answer f(?:rom|or)/g;
	count('answers', $compared + $wrong);
	count('wrong', $wrong);

	$problem = "$failed transactions failed" if !$problem && $failed;
	return ($transactions // 0, $problem);
}

# The MB of freed memory that AddressSanitizer keeps, if scripts/test runs the server under it, else 0.
sub under_asan
{
	return ($ENV{ASAN_OPTIONS} // '') =~ /quarantine_size_mb=(\d+)/ ? $1 : 0;
}

# Freed memory that a process may keep, in kB: only that of AddressSanitizer, with the same amount of overhead.
sub kept_memory_kb { return 2 * 1024 * under_asan(); }

# Private memory (RssAnon) of a process, in kB.
sub backend_memory_kb
{
	my ($pid) = @_;

	open my $status, '<', "/proc/$pid/status" or return undef;
	while (<$status>)
	{
		return $1 if /^RssAnon:\s+(\d+) kB/;
	}
	return undef;
}

# Runs SQL and returns (SQLSTATE, first error line): ('00000', '') if it succeeded.
sub psql_state
{
	my ($node, $sql, %opt) = @_;
	my ($rc, $out, $err) = $node->psql($opt{db} // 'postgres', "\\set VERBOSITY verbose\n$sql",
		on_error_stop => 1, timeout => $opt{timeout} // $PostgreSQL::Test::Utils::timeout_default);

	return ('00000', '', $out) if $rc == 0;
	my ($state) = $err =~ /(?:ERROR|FATAL|PANIC):\s+([0-9A-Z]{5}):/;
	return ($state // '08006', $err, $out);
}

# Immediate stop and start: like a power failure, from the server's view.
sub crash_restart
{
	my ($node) = @_;

	$node->stop('immediate');
	$node->start;
	return;
}

# Waits until the server has restarted by itself after a crash of one of its processes. An answer is not enough: it may not
# have noticed the crash yet, and will close its sessions soon. So its log has to show a restart that no earlier call has
# waited for.
sub wait_for_restart
{
	my ($node) = @_;
	my $until = time() + $PostgreSQL::Test::Utils::timeout_default;

	while (time() < $until)
	{
		my $n = () = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/g;

		if ($n > ($node->{vectorgpu_restarts} // 0))
		{
			my ($rc, $out) = $node->psql('postgres', 'SELECT pg_is_in_recovery()');

			if ($rc == 0 && $out =~ /^[ft]$/m)
			{
				$node->{vectorgpu_restarts} = $n;
				return 1;
			}
		}
		sleep 0.1;
	}
	return 0;
}

# Starts a server whose postmaster has been killed: possible once its processes are gone.
sub start_after_kill
{
	my ($node) = @_;
	my $until = time() + $PostgreSQL::Test::Utils::timeout_default;

	for (;;)
	{
		$node->{_pid} = undef; # a failed start reads it from the old file
		last if $node->start(fail_ok => 1);
		die 'the server does not start' if time() > $until;
		sleep 0.2;
	}
	return;
}

# Bytes of all relation files of a database.
sub data_folder_bytes
{
	my ($node, $db) = @_;
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = '" . ($db // 'postgres') . "'");
	my $bytes = 0;

	for my $file (glob($node->data_dir . "/base/$oid/*"))
	{
		my ($name) = $file =~ m{([^/]+)$};
		$bytes += -s $file if $name =~ /^\d/;
	}
	return $bytes;
}

# Absolute path of a relation's main fork.
sub relation_file
{
	my ($node, $relation, $db) = @_;

	return $node->data_dir . '/' . $node->safe_psql($db // 'postgres', "SELECT pg_relation_filepath('$relation')");
}

# Change a byte behind the header of a page of an index, three times, the metapage first, with the server stopped: the scan (SQL) reports it or
# answers as before, never wrongly, and vectorgpu_check reports each. Three tests.
sub check_flipped_bytes
{
	my ($node, $index, $scan) = @_;
	my $expected = $node->safe_psql('postgres', $scan);
	my $file = relation_file($node, $index);
	my $whole = slurp_file($file);
	my ($noticed, @wrong) = (0);
	my $pages = length($whole) / 8192;

	srand(20170228);
	for my $round (1 .. 3)
	{
		$node->stop;
		my $bytes = $whole;
		my $page = $round == 1 ? 0 : 1 + int(rand($pages - 1));

		vec($bytes, $page * 8192 + 24 + int(rand(8168)), 8) ^= 1 << int(rand(8));
		open(my $out, '>:raw', $file) or die "could not write $file: $!";
		print $out $bytes;
		close $out;
		$node->start;
		my ($state, $message, $text) = psql_state($node, $scan);
		push @wrong, "page $page: $state $message $text" unless $state eq 'XX002' || ($state eq '00000' && $text =~ /\Q$expected\E/);
		($state) = psql_state($node, "SELECT vectorgpu_check('$index', true)");
		$noticed++ if $state eq 'XX002';
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@wrong", '', 'a flipped byte gives no wrong answer');
	is($noticed, 3, 'and vectorgpu_check finds each');
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process of the server crashed');
	return;
}

sub session_pid
{
	my ($session) = @_;

	return $session->query_safe('SELECT pg_backend_pid()');
}

# Two tests: an index scan with a non-MVCC snapshot is refused, and one with an ordinary snapshot returns all rows of the table. No SQL passes
# the former to an access method, so a function of test builds does.
sub refuses_other_snapshots
{
	my ($node, $index, %opt) = @_;
	my @problems;

	$node->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION snapshot_probe(regclass, text, bool) RETURNS bigint LANGUAGE c STRICT AS '$libdir/vectorgpu', 'vectorgpu_snapshot_probe'});
	for my $bitmap ($opt{bitmap} ? ('false', 'true') : ('false'))
	{
		for my $kind (qw(any self dirty))
		{
			my ($state, $error) = psql_state($node, "SELECT snapshot_probe('$index', '$kind', $bitmap)");

			push @problems, "$kind, bitmap $bitmap: $state $error" if $state ne '0A000' || $error !~ /non-MVCC snapshots are not supported/;
		}
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@problems", '', "$index: a scan with SnapshotAny, SnapshotSelf, a dirty snapshot is refused");
	my $table = $node->safe_psql('postgres', "SELECT indrelid::regclass FROM pg_index WHERE indexrelid = '$index'::regclass");
	is($node->safe_psql('postgres', "SELECT snapshot_probe('$index', 'mvcc', " . ($opt{bitmap} ? 'true' : 'false') . ") >= count(*) FROM $table"), 't', "$index: one with an ordinary snapshot is not");
	return;
}

# Scans all rows of a snapshot by the index, from its pages, in a new session. At each fault with `lock` it is stopped, and WRITE runs. Returns the number of
# stops, the result, and the expected one: "rows N/N".
#   table, order  the table, and its ORDER BY
#   faults        for vectorgpu.fault
#   write         code
sub scan_held_up
{
	my ($node, %opt) = @_;
	my ($session, $holder, $next) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
	my $pid = session_pid($session);
	my $n = $session->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SET vectorgpu.worker = off; SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM $opt{table}");
	my $held = 0;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$session->{stdin} .= "SET vectorgpu.fault = '$opt{faults}'; SELECT 'rows ' || count(*) || '/' || count(DISTINCT id) FROM (SELECT id FROM $opt{table} ORDER BY $opt{order}) s;\n"
	  . "\\echo over\n";
	for (;;)
	{
		my $waits;

		$session->{run}->pump_nb;
		last if $session->{stdout} =~ /^over$/m;
		die 'the scan does not end' if time > $until;
		$waits = $node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'advisory' AND NOT granted");
		next if $waits == 0;
		$held++;
		$opt{write}->();
		# It continues only to the next stop: the session that holds the lock then already waits for it behind this one.
		$next->{stdin} .= "SELECT pg_advisory_lock(1);\n";
		$next->{run}->pump_nb until $node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 2 || time > $until;
		$holder->query_safe('SELECT pg_advisory_unlock(1)');
		$next->query_safe('SELECT 1');
		($holder, $next) = ($next, $holder);
	}
	$_->quit for $holder, $next, $session;
	return ($held, "$session->{stdout}$session->{stderr}", "rows $n/$n");
}

1;
