# Shared helpers of the TAP tests: a node with the extension, seeded data, the comparison of an index scan with a
# sequential scan, the structure check, a streaming standby. Everything here runs through PostgreSQL::Test::Cluster;
# a comparison adds one test result to the caller's plan, the other helpers die if they fail.
package VectorgpuTest;

use strict;
use warnings;

use Carp;
use Errno;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuChecked;
use VectorgpuCount;
use VectorgpuNarrow;

# How long pg_ctl waits for a server.
BEGIN { $ENV{PGCTLTIMEOUT} //= $ENV{PG_TEST_TIMEOUT_DEFAULT} // 180; }

# psql ends without reading its input if the server does not answer, such as during a restart. Undelivered input is no error of
# the test then: psql's exit code reports the cause. IPC::Run would die.
{
	no warnings 'redefine';
	my $write = \&IPC::Run::_write;

	*IPC::Run::_write = sub {
		my $written = eval { $write->(@_) };

		return $written if defined $written;
		return length $_[1] if $!{EPIPE} || $@ =~ /Broken pipe/;
		die $@;
	};
}

# A session's timeout applies to each of its queries, not to the session, which lives long on a busy machine.
{
	no warnings 'redefine';
	my $background_psql = \&PostgreSQL::Test::Cluster::background_psql;

	*PostgreSQL::Test::Cluster::background_psql = sub {
		my $session = $background_psql->(@_);

		$session->set_query_timer_restart;
		return $session;
	};
}

our @EXPORT = qw(
  make_node create_extension has_pgvector has_postgres_fdw use_own_libpq vector_of compared_function workers_started make_table fill_vectors query_vector random_vector_sql
  compare_scans compare_sweep check_index make_standby wait_standby
  faults_enabled run_to_lock with_storage pages_answer data_folder data_path require_data open_data read_data leave_unchecked check_all
  $AM server_major major_of $PARALLEL_MODE $OLD_SNAPSHOTS
);

# The access method of the indexes of a test that holds for all of them: scripts/test runs each file that uses $AM once for each
# access method. An approximate one then looks at all rows, so that its answers are exact.
our $AM = $ENV{VECTORGPU_ACCESS_METHOD} // 'gpuflat';

# The major version of the server in PATH, and of one in a folder.
sub server_major { return major_of(undef); }

sub major_of
{
	my ($folder) = @_;
	my $program = defined $folder ? "$folder/bin/postgres" : 'postgres';
	my ($major) = `$program --version` =~ /\) (\d+)/ or die "no server: $program";

	return $major;
}

# The setting that runs queries in parallel workers, and whether snapshots may become too old: what the versions name, or have, differently.
our $PARALLEL_MODE = server_major() < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
our $OLD_SNAPSHOTS = server_major() < 17;

# VECTORGPU_STORAGE: storage parameters of each index that a test makes with the access method without any. with_storage adds them to SQL that is not
# run by psql.
sub with_storage
{
	my ($sql) = @_;

	$sql =~ s/\bUSING $AM (\((?:[^()]++|(?1))*\))(?! *WITH)/USING $AM $1 WITH ($ENV{VECTORGPU_STORAGE})/g if $ENV{VECTORGPU_STORAGE};
	return $sql;
}

# Whether $AM's indexes are lists of codes: scans of all rows, as in these tests, then read the pages and do not ask the worker.
sub pages_answer
{
	return $AM eq 'gpuivf' && ($ENV{VECTORGPU_STORAGE} // '') =~ /storage/;
}

if ($ENV{VECTORGPU_STORAGE})
{
	no warnings 'redefine';
	my $psql = \&PostgreSQL::Test::Cluster::psql;

	*PostgreSQL::Test::Cluster::psql = sub {
		my ($node, $database, $sql, @rest) = @_;

		return $psql->($node, $database, defined $sql ? with_storage($sql) : undef, @rest);
	};
}

# A started node with the extension in database postgres.
#   conf       text appended to postgresql.conf
#   streaming  1: the node may have standbys
#   extension  0: leave CREATE EXTENSION to the caller
#   install_path  of another server than that in PATH
#   checksums  0: pages without data checksums, which 18 makes by default
sub make_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, defined $opt{install_path} ? (install_path => $opt{install_path}) : ());

	$node->init(allows_streaming => $opt{streaming} ? 1 : 0, extra => ($opt{checksums} // 1) == 0 && major_of($opt{install_path}) >= 18 ? ['--no-data-checksums'] : []);
	$node->append_conf('postgresql.conf',
		"autovacuum = off\njit = off\nmax_parallel_workers_per_gather = 0\ngpuivf.probes = 65536\ngpugraph.search_width = 1000000\n");
	# A standby that lost its connection on a busy machine still finds the WAL.
	$node->append_conf('postgresql.conf', "wal_keep_size = 1GB\n") if $opt{streaming};
	$node->append_conf('postgresql.conf', worker_conf($node)) unless ($opt{conf} // '') =~ /vectorgpu\.worker/;
	$node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
	$node->start;
	$VectorgpuCount::n_servers++;
	create_extension($node) unless defined $opt{extension} && !$opt{extension};
	return $node;
}

# Settings from the environment for every node without its own settings for the worker: see test/README.md.
#   VECTORGPU_WORKER   off; on: asked about indexes of every size; flapping: the same, but a worker dies after a second
#   VECTORGPU_PRELOAD  1: the module is preloaded
sub worker_conf
{
	my ($node) = @_;
	my $mode = $ENV{VECTORGPU_WORKER} // '';
	my $conf = $ENV{VECTORGPU_PRELOAD} ? "shared_preload_libraries = 'vectorgpu'\n" : '';

	return $conf if $mode eq '';
	return "${conf}vectorgpu.worker = off\n" if $mode eq 'off';
	$conf .= "vectorgpu.worker = on\nvectorgpu.worker_min_size = 0\n";
	return $conf if $mode ne 'flapping';

	# An alarm survives exec: no other process has to find the worker.
	my $program = $node->basedir . '/flapping_worker';
	my $worker = $node->config_data('--pkglibdir') . '/vectorgpu_worker';
	append_to_file($program, "#!/usr/bin/perl\nalarm 1;\nexec '$worker', \@ARGV;\n");
	chmod 0755, $program;
	return "${conf}vectorgpu.worker_program = '$program'\nvectorgpu.worker_restart_delay_max = 0\n";
}

sub create_extension
{
	my ($node, $db) = @_;
	$node->safe_psql($db // 'postgres', 'CREATE EXTENSION vectorgpu');
	return;
}

# Whether the node's server has pgvector 0.7 or later: an extension vector that is not the one of vectorgpu.
sub has_pgvector
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extension_versions WHERE name = 'vector' AND version >= '0.7' AND comment NOT LIKE 'vectorgpu %'}) > 0;
}

# Whether the node's server has postgres_fdw.
sub has_postgres_fdw
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) > 0;
}

# Lets postgres_fdw of the nodes to come find the libpq of its server. In the servers of PyPI it looks for one in the system, which may be older
# than it needs.
sub use_own_libpq
{
	chomp(my $folder = `pg_config --libdir`);
	$ENV{LD_LIBRARY_PATH} = join ':', $folder, $ENV{LD_LIBRARY_PATH} // () if -e "$folder/libpq.so.5";
	return;
}

# SQL of compared(query), for a query of one index scan: the process that ran the scan, and how many rows it compared. In parallel mode a worker calls it.
sub compared_function
{
	return <<'SQL';
CREATE FUNCTION compared(query text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Compared: ' THEN
			RETURN pg_backend_pid() || ' ' || substring(line FROM 'Compared: (\d+)');
		END IF;
	END LOOP;
END
$$;
SQL
}

# How many parallel workers the server starts while `run` runs, by its log.
sub workers_started
{
	my ($node, $run) = @_;
	my $level = $node->safe_psql('postgres', 'SHOW log_min_messages');
	my $from = -s $node->logfile;

	$node->append_conf('postgresql.conf', 'log_min_messages = debug1');
	$node->reload;
	$node->poll_query_until('postgres', q{SELECT current_setting('log_min_messages') = 'debug1'}) or die 'no reload';
	$run->();
	my $started = () = slurp_file($node->logfile, $from) =~ /registering background worker "parallel worker/g;
	$node->append_conf('postgresql.conf', "log_min_messages = $level");
	$node->reload;
	return $started;
}

# Whose the extension vector of a server in a folder is: 'pgvector', 'vectorgpu', or '' where there is none.
sub vector_of
{
	my ($folder) = @_;
	chomp(my $share = `$folder/bin/pg_config --sharedir`);
	my $control = "$share/extension/vector.control";

	return !-e $control ? '' : slurp_file($control) =~ /vectorgpu/ ? 'vectorgpu' : 'pgvector';
}

# SQL text of a vector that depends only on (seed, row expression, dims): core's 64-bit hash gives every element, so
# the rows are the same on every machine and in every order of execution.
#   type    vector (default), halfvec or bit
#   levels  n: elements are the integers 0 .. n-1, which makes many equal distances; default: 16-bit steps in [-1, 1)
sub random_vector_sql
{
	my ($row, %opt) = @_;
	my $dims = $opt{dims} // 16;
	my $seed = $opt{seed} // 1;
	my $type = $opt{type} // 'vector';
	my $hash = "hashint8extended(($row)::bigint * $dims + d, $seed)";

	if ($type eq 'bit')
	{
		return "(SELECT string_agg(($hash & 1)::text, '' ORDER BY d) FROM generate_series(1, $dims) d)::bit($dims)";
	}

	my $element =
	  defined $opt{levels}
	  ? "(($hash & 1048575) % $opt{levels})::float4"
	  : "((($hash & 65535) - 32768) / 32768.0)::float4";

	return "(SELECT array_agg($element ORDER BY d) FROM generate_series(1, $dims) d)::$type($dims)";
}

# A literal of the same distribution, for the ORDER BY of a query.
sub query_vector
{
	my ($node, $number, %opt) = @_;
	my $type = $opt{type} // 'vector';
	my $text = $node->safe_psql($opt{db} // 'postgres',
		'SELECT ' . random_vector_sql($number, %opt, seed => ($opt{seed} // 1) + 7919));

	return $type eq 'bit' ? "B'$text'" : "'$text'::$type";
}

sub make_table
{
	my ($node, $table, %opt) = @_;
	my $dims = $opt{dims} // 16;
	my $type = $opt{type} // 'vector';
	my $kind = $opt{kind} // '';     # UNLOGGED, TEMP
	my $with = $opt{with} // '';     # WITH (fillfactor = 50)

	$node->safe_psql($opt{db} // 'postgres',
		"CREATE $kind TABLE $table (id bigint PRIMARY KEY, category int NOT NULL, v $type($dims)) $with");
	return;
}

# Inserts rows first .. first + rows - 1 (id = row number, category = id % 10).
#   null_every, zero_every  n: every n-th row has a NULL or a zero vector (not for bit: zero_every)
sub fill_vectors
{
	my ($node, $table, %opt) = @_;
	my $rows  = $opt{rows}  // 1000;
	my $first = $opt{first} // 1;
	my $last  = $first + $rows - 1;
	my $dims  = $opt{dims}  // 16;
	my $type  = $opt{type}  // 'vector';
	my $v     = random_vector_sql('i', %opt);

	$v = "CASE WHEN i % $opt{zero_every} = 0 THEN array_fill(0::float4, ARRAY[$dims])::$type($dims) ELSE $v END"
	  if $opt{zero_every};
	$v = "CASE WHEN i % $opt{null_every} = 0 THEN NULL ELSE $v END" if $opt{null_every};

	$node->safe_psql($opt{db} // 'postgres',
		"INSERT INTO $table SELECT i, i % 10, $v FROM generate_series($first, $last) i");
	return;
}

# Rows of SELECT … ORDER BY column op query [LIMIT n], as [id, hex of the float8 distance or 'null']: by the index, then by a sequential scan of the
# same session; and the plan of the former.
sub scan_both
{
	my ($node, $table, $op, $query, %opt) = @_;
	my $column   = $opt{column} // 'v';
	my $where    = defined $opt{where} ? "WHERE $opt{where}" : '';
	my $limit    = defined $opt{limit} ? "LIMIT $opt{limit}" : '';
	my $only     = $opt{only} ? 'ONLY ' : '';
	my $distance = "$column $op $query";
	my $select   = "SELECT id, coalesce(encode(float8send($distance), 'hex'), 'null') FROM $only$table $where ORDER BY $distance";
	# The sequential scan breaks ties by ctid, as an exact index scan does.
	my $out = $node->safe_psql($opt{db} // 'postgres', <<"SQL");
SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) $select $limit;
\\echo ====
$select $limit;
\\echo ====
RESET enable_seqscan; RESET enable_sort; SET enable_indexscan = off; SET enable_indexonlyscan = off;
$select, ctid $limit;
SQL
	my ($plan, @rows) = map { [ split /\n/ ] } split /^====\n?/m, $out, 3;

	return ((map { [ map { [ split /\|/ ] } @{ $_ // [] } ] } @rows[0, 1]), join("\n", @{ $plan // [] }));
}

# One test: the index scan answers as the sequential scan does. Distances bit for bit, ids equal within each group of
# equal distances; the group that LIMIT cuts may hold other rows of the same distance, but none twice.
#   strict_ties  1: ids in the sequential scan's order (distance, place) too
sub compare_scans
{
	my ($node, $table, $op, $query, %opt) = @_;
	my $name = delete $opt{name} // "$table: ORDER BY v $op query"
	  . (defined $opt{where} ? " WHERE $opt{where}" : '')
	  . (defined $opt{limit} ? " LIMIT $opt{limit}" : '');
	my ($got, $expected, $plan) = scan_both($node, $table, $op, $query, %opt);
	my $problem = $plan =~ /Index Scan using/ ? '' : "the plan has no index scan:\n$plan";

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$problem ||= first_difference($got, $expected, $opt{limit}, $opt{strict_ties});
	count('answers');
	count('wrong') if $problem;
	ok(!$problem, $name) or diag($problem);
	return !$problem;
}

# compare_scans for several limits and query vectors; one test.
sub compare_sweep
{
	my ($node, $table, $op, %opt) = @_;
	my $queries = delete $opt{queries} // 3;
	my $limits  = delete $opt{limits}  // [ 1, 10, 100, undef ];
	my $name    = delete $opt{name}    // "$table: index and sequential scans agree for $op";
	my @problems;

	for my $number (1 .. $queries)
	{
		my $query = query_vector($node, $number, %opt);
		for my $limit (@$limits)
		{
			my ($got, $expected, $plan) = scan_both($node, $table, $op, $query, %opt, limit => $limit);
			my $problem = $plan =~ /Index Scan using/ ? '' : "the plan has no index scan:\n$plan";

			$problem ||= first_difference($got, $expected, $limit, $opt{strict_ties});
			count('answers');
			count('wrong') if $problem;
			push @problems, 'query ' . $number . ' limit ' . ($limit // 'none') . ": $problem" if $problem;
		}
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(!@problems, $name) or diag(join("\n", @problems));
	return !@problems;
}

# Text of the first difference between two answers, or the empty string.
sub first_difference
{
	my ($got, $expected, $limit, $strict_ties) = @_;
	my %seen;

	return 'rows: ' . @$got . ' by index, ' . @$expected . ' by sequential scan' if @$got != @$expected;
	for my $i (0 .. $#$got)
	{
		return "row $i: distance $got->[$i][1] (id $got->[$i][0]) by index, "
		  . "$expected->[$i][1] (id $expected->[$i][0]) by sequential scan"
		  if $got->[$i][1] ne $expected->[$i][1];
		return "row $i: id $got->[$i][0] comes twice" if $seen{ $got->[$i][0] }++;
		return "row $i: id $got->[$i][0] by index, $expected->[$i][0] by sequential scan"
		  if $strict_ties && $got->[$i][0] ne $expected->[$i][0];
	}

	my $start = 0;
	while ($start < @$got)
	{
		my $end = $start;
		$end++ while $end < $#$got && $got->[ $end + 1 ][1] eq $got->[$start][1];
		my $cut = defined $limit && $end == $#$got;
		my $ids = join ',', sort { $a <=> $b } map { $_->[0] } @$got[ $start .. $end ];
		my $expected_ids = join ',', sort { $a <=> $b } map { $_->[0] } @$expected[ $start .. $end ];

		return "rows $start to $end, all at one distance: ids $ids by index, $expected_ids by sequential scan"
		  if !$cut && $ids ne $expected_ids;
		$start = $end + 1;
	}
	return '';
}

# One test: vectorgpu_check finds nothing wrong; nor do scans that look at few lists, or follow edges, see VectorgpuNarrow.
#   heap    0: the structure only, without visiting the table
#   narrow  0: without such scans
#   recall  0: with them, but their recall may be low, as for rows in clusters that few edges connect
sub check_index
{
	my ($node, $index, %opt) = @_;
	my $heap = defined $opt{heap} && !$opt{heap} ? 'false' : 'true';
	my ($rc, $out, $err) =
	  $node->psql($opt{db} // 'postgres', "SELECT vectorgpu_check('$index'::regclass, $heap)");
	my $problem = $rc != 0 || $err ne '' ? "exit status $rc\n$out\n$err" : '';

	count('checks');
	count('lost', 1, "vectorgpu_check of $index: $problem") if $problem;
	$problem ||= check_narrow($node, $index, $opt{db} // 'postgres', $opt{recall} // 1) if $opt{narrow} // 1;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(!$problem, $opt{name} // "vectorgpu_check of $index") or diag($problem);
	return !$problem;
}

# A started streaming standby of a node made with streaming => 1.
sub make_standby
{
	my ($primary, $name, %opt) = @_;
	my $backup  = "backup_for_$name";
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$primary->backup($backup);
	$standby->init_from_backup($primary, $backup, has_streaming => 1);
	$standby->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
	$standby->start;
	return $standby;
}

# Waits until the standby has replayed all that the primary has written, unflushed records included.
sub wait_standby
{
	my ($primary, $standby) = @_;
	# An insert position may lie past the last flushed record with synchronous_commit = off: a switch flushes it.
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_switch_wal()');

	$primary->wait_for_catchup($standby, 'replay', $lsn);
	return;
}

# Starts SQL in a session of background_psql and waits until it stands at a fault point whose action is lock. False: it does
# not come there.
sub run_to_lock
{
	my ($node, $session, $sql) = @_;

	$session->{stdin} .= "$sql;\n";
	$session->{run}->pump_nb;
	return $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)");
}

# Whether the server was built with FAULTS=1 (vectorgpu.fault exists once the module is loaded).
sub faults_enabled
{
	my ($node) = @_;
	my ($rc, $out) = $node->psql('postgres', "LOAD 'vectorgpu'; SELECT count(*) FROM pg_settings WHERE name = 'vectorgpu.fault'");

	return $rc == 0 && $out =~ /\b1\s*$/ ? 1 : 0;
}

# Folder of the data sets, or undef: the caller then skips by name.
sub data_folder
{
	my $folder = $ENV{VECTORGPU_DATA};

	return defined $folder && -d $folder ? $folder : undef;
}

# The file that holds a data set, unpacked or packed by gzip; undef if the folder has none.
sub data_path
{
	my ($name) = @_;

	return (grep { -f } map { data_folder() . "/$name$_" } '', '.gz')[0];
}

# Skips the whole test file if one of the data sets is missing.
sub require_data
{
	my (@names) = @_;

	Test::More::plan(skip_all => 'VECTORGPU_DATA is not set') if !defined data_folder();
	for my $name (@names)
	{
		Test::More::plan(skip_all => "VECTORGPU_DATA has no $name") if !defined data_path($name);
	}
	return;
}

# The content of a data set, as a handle.
sub open_data
{
	my ($name) = @_;
	my $path = data_path($name) // die "there is no $name";
	my $in;

	if ($path =~ /\.gz$/)
	{
		open $in, '-|:raw', 'gzip', '-dc', $path or die "$path: $!";
	}
	else
	{
		open $in, '<:raw', $path or die "$path: $!";
	}
	return $in;
}

# The content of a data set, whole.
sub read_data
{
	my ($name) = @_;
	my $in = open_data($name);
	my $content = do { local $/; <$in> };

	close $in or die "$name cannot be read";
	return $content;
}

1;
