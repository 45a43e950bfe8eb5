# Every fault point that test/faults.txt gives this file, in every kind of statement that reaches it, at its first, second, third … call until
# the statement ends without reaching it: the statement fails with the error of the fault and nothing else, and afterwards
# both scans agree and the check is clean. Action exit: the server recovers, then the same. Action corrupt: the damage is
# reported, REINDEX heals. VECTORGPU_LONG=1: every call of every point in every kind of statement, with each of these actions, until the
# log shows that the point no longer acted; for points that a statement reaches thousands of times, some of the later calls (@tried).
# For gpumatch, which shares the storage with the others, the suite takes a sample of the kinds of statements, of later calls and of exits.
# VECTORGPU_SHARE=2of6, with VECTORGPU_LONG: every sixth of the later calls, and of the tests that run once for each kind of statement, so
# that six shares can run beside each other.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuFaults;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuWorker;

my $long = $ENV{VECTORGPU_LONG};
my $match = $AM eq 'gpumatch';
my ($share, $shares) = ($ENV{VECTORGPU_SHARE} || ($match && !$long ? '1of12' : '1of1')) =~ /^(\d+)of(\d+)$/ or die "VECTORGPU_SHARE is not like 2of6";
# The minimum for gpumatch: more than one run of inverted lists.
my $build_mem = $match ? '1MB' : '2MB';
my $node = make_node('faults', conf => "restart_after_crash = on\nfsync = off\nmaintenance_work_mem = '$build_mem'\nmin_parallel_table_scan_size = 0\n");

if (!faults_enabled($node))
{
	$node->stop;
	plan skip_all => 'the library was built without FAULTS=1';
}
my @names = grep { $_ ne 'merge_when_due' } faults_tried(); # that one is the maintenance worker's, below
cmp_ok(scalar @names, '>', 5, scalar(@names) . ' fault points');
create_comparer($node);

# Rows of w lie on two pages about every second time, rows of y on three or four; one value in eleven is NULL. Sets of gpumatch: each element
# one of four, so that rows share some of them.
my %dims  = (w => 1100, y => 4200);
my ($op, $class) = $match ? ('<#>', '') : ('<->', ' vector_l2_ops');
my %type  = map { $_ => $match ? 'int[]' : "vector($dims{$_})" } keys %dims;
my %query = map { my $table = $_; $table => $match ? "'{" . join(',', map { $_ * 8 } 1 .. $dims{$table} / 2) . "}'::int[]" : "'[" . join(',', map { $_ % 7 } 1 .. $dims{$table}) . "]'::vector" } keys %dims;
my $next_id = 1000;

sub new_rows
{
	my ($table, $n) = @_;
	my $hash = 'hashint8extended(i * 1100 + d, 3)';
	my $value = $match ? "(SELECT array_agg((d * 4 + ($hash & 3))::int)" : "(SELECT array_agg((($hash & 255) - 128)::float4)";
	my $sql = "INSERT INTO $table SELECT i, 0, CASE WHEN i % 11 = 0 THEN NULL ELSE $value FROM generate_series(1, $dims{$table}) d)::$type{$table} END FROM generate_series($next_id, $next_id + $n - 1) i";

	$next_id += $n;
	return $sql;
}

for my $table (sort keys %dims)
{
	$node->safe_psql('postgres', "CREATE TABLE $table (id bigint, category int, v $type{$table})");
	$node->safe_psql('postgres', new_rows($table, 40));
	$node->safe_psql('postgres', "CREATE INDEX ${table}_v ON $table USING $AM (v$class)");
}

# For each kind: the table; statements before the fault is set; statements under the fault; clean-up. Each a list.
my $other = $match ? 'v array_minhash_ops' : 'v vector_ip_ops';
my $create = "CREATE INDEX w_x ON w USING $AM ($other)";
my $drop   = 'DROP INDEX IF EXISTS w_x';
my %kinds = (
	build        => [ 'w', [], ['SET max_parallel_maintenance_workers = 0', $create], [$drop] ],
	parallel     => [ 'w', [], ['SET max_parallel_maintenance_workers = 2', q{SET maintenance_work_mem = '128MB'}, $create], [$drop] ],
	concurrently => [ 'w', [], ["CREATE INDEX CONCURRENTLY w_x ON w USING $AM ($other)"], [$drop] ],
	reindex      => [ 'w', [], ['REINDEX INDEX w_v'], [] ],
	unlogged     => [ 'w', [], [ 'CREATE UNLOGGED TABLE w_u (id int, v ' . ($match ? 'int[])' : 'vector(3))'), "CREATE INDEX w_u_v ON w_u USING $AM (v$class)", q{INSERT INTO w_u VALUES (1, '} . ($match ? '{1,2,3}' : '[1,2,3]') . q{')} ], ['DROP TABLE IF EXISTS w_u'] ],
	insert       => [ 'w', [], [ sub { new_rows('w', 14) } ], [] ],
	long_insert  => [ 'y', [], [ sub { new_rows('y', 4) } ], [] ],
	scan         => [ 'w', [], ["SELECT count(*) FROM (SELECT id FROM w ORDER BY v $op $query{w}) s"], [] ],
	vacuum       => [ 'w', [ sub { new_rows('w', 8) }, "SELECT vectorgpu_merge('w_v')", sub { new_rows('w', 8) }, sub { 'DELETE FROM w WHERE id % 3 = 0 AND id >= ' . ($next_id - 16) } ], ['VACUUM (INDEX_CLEANUP on) w'], [] ],
	merge        => [ 'w', [ sub { new_rows('w', 12) } ], ["SELECT vectorgpu_merge('w_v')"], [] ],
	check        => [ 'w', [], ["SELECT vectorgpu_check('w_v', true)"], [] ],
	recall       => [ 'w', [], [q{SELECT count(*) FROM vectorgpu_recall('w_v', 5, 3)}], [] ],
	knn_graph    => [ 'w', [], [q{SELECT count(*) FROM vectorgpu_knn_graph('w_v', 3)}], [] ],
	view         => [ 'w', [], ['SELECT count(*) FROM vectorgpu_indexes'], [] ]);
if ($match)
{
	# Both write inverted lists in several runs.
	$kinds{long_reindex} = [ 'y', [], ['REINDEX INDEX y_v'], [] ];
	$kinds{long_merge}   = [ 'y', [ sub { new_rows('y', 40) } ], [q{SELECT vectorgpu_merge('y_v')}], [] ];
	delete $kinds{knn_graph};
	delete @kinds{qw(concurrently reindex)} if !$long;
}

# One try in one session: SQLSTATE of the first statement that failed (00000: none; 08006: the connection was lost), the
# error text, and '' or what is wrong with table and index afterwards.
sub try_faults
{
	my ($kind, $setting) = @_;
	my ($table, @lists) = @{ $kinds{$kind} };
	my ($before, $statements, $after) = map { [ map { ref $_ ? $_->() : $_ } @$_ ] } @lists;
	my $sql = join '', "SET enable_seqscan = off; SET enable_sort = off; LOAD 'vectorgpu';\n", map({ "$_;\n" } @$before),
	  "SET vectorgpu.fault = '$setting';\n", map({ "$_;\n\\echo state :SQLSTATE\n" } @$statements), "SET vectorgpu.fault = '';\n",
	  map({ "$_;\n" } @$after), "\\echo afterwards\n", state_sql($table);
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0, timeout => $PostgreSQL::Test::Utils::timeout_default);
	my ($state) = grep { $_ ne '00000' } $out =~ /^state (\S+)$/mg;

	if ($rc != 0 || $out !~ /^afterwards$/m)
	{
		wait_for_restart($node) or die 'the server did not come back';
		$node->safe_psql('postgres', join ';', @$after) if @$after;
		(my $ignored, $out) = $node->psql('postgres', state_sql($table), on_error_stop => 0);
		$state = '08006';
	}
	return ($state // '00000', $err, $out =~ /^answer $/m && $out =~ /^check 00000$/m ? '' : "afterwards: $out $err");
}

# Whether a test that runs once for a point and a kind of statement belongs to this share. By name, since runs differ in the points reached.
sub ours
{
	my ($name, $kind) = @_;

	return unpack('%32C*', "$name $kind") % $shares == $share - 1;
}

sub state_sql
{
	my ($table) = @_;

	return "SELECT 'answer ' || compare_answers('$table', '$op', \$q\$$query{$table}\$q\$);\nSELECT vectorgpu_check('${table}_v', true);\n\\echo check :SQLSTATE\n";
}

sub tidy
{
	$node->safe_psql('postgres', "DELETE FROM $_ WHERE id NOT IN (SELECT id FROM $_ ORDER BY id LIMIT 40); VACUUM $_; SELECT vectorgpu_merge('${_}_v')") for sort keys %dims;
	return;
}

# With a worker that dies each second, chance decides whether and how often a statement asks it; timing decides whether it waits for it; and the place of
# a value in the delta decides whether it is logged in parts. Such points are tried several times, and a statement may end without reaching them.
my $flapping = ($ENV{VECTORGPU_WORKER} // '') eq 'flapping';
sub by_chance { my ($name) = @_; return $flapping || $name eq 'graph_worker_wait' || $name eq 'delta_value_part'; }

# The number of tries of an exit before a statement counts as not reaching the point. Whether a few rows need another chunk of the delta depends on the
# space in the last one, which they fill after some tries.
sub tries
{
	my ($name, $kind) = @_;

	return $kind =~ /insert/ && $name =~ /^(?:chunk_format|meta_publish|delta_value_part)$/ ? 24 : by_chance($name) ? 6 : 2;
}
my $met = 0; # points reached for want of memory and for an exit

# First call of every point that a kind of statement reaches: eight points at a time, until none of them is reached.
my (%reached, %problems);
for my $kind (sort keys %kinds)
{
	my @left = @names;

	while (my @group = splice @left, 0, 8)
	{
		while (@group)
		{
			my ($state, $error, $wrong) = try_faults($kind, join ',', map { "$_:1:error" } @group);
			my ($name) = $error =~ /fault point "(\w+)" reached/;

			$problems{"$kind, " . ($name // 'no fault')} = $wrong if $wrong ne '';
			last if $state eq '00000';
			if ($state ne 'XX000' || !defined $name)
			{
				$problems{"$kind, one of @group"} = "SQLSTATE $state: $error";
				last;
			}
			$reached{$name}{$kind} = 1;
			@group = grep { $_ ne $name } @group;
		}
	}
	is(join("\n", map { "$_: $problems{$_}" } sort keys %problems), '', "$kind fails cleanly at " . join(', ', grep { exists $reached{$_} && $reached{$_}{$kind} } @names));
	%problems = ();
	tidy();
}
# Whether a merge reaches these depends on what happened to the index before: on a merge that failed, on growth since the
# centroids were found. Other statements reach the others, and the first has a test of its own below.
for my $name (qw(reclaim_pending ivf_train ivf_train_codec))
{
	next if !exists $reached{$name};
	delete @{ $reached{$name} }{qw(merge long_merge)};
	delete $reached{$name} if !%{ $reached{$name} };
}
# A part of a value to clean up depends on the previous insert: below. Only large rows ensure that a merge has more than one run of inverted lists.
my $closes_parts = delete $reached{delta_close_part};
delete $reached{$_}{merge} for grep { exists $reached{$_} } qw(match_flush_run match_merge_runs);

# Later calls, until the statement ends before the call; and no memory at the first.
my $tried = 0;
my $most_calls = 1_000_000; # of one point in one statement: none has as many
# A check and a recall of gpumatch read a page more than ten thousand times: not all of these calls are tried.
my @tried = (every => $match ? 1_000 : 3_000);
my @tried_exits = $match ? (every => 300, part => 16) : @tried;
for my $name (sort keys %reached)
{
	for my $kind (sort keys %{ $reached{$name} })
	{
		my $try = sub {
			my ($nth, $action, $code) = @_;
			my $offset = -s $node->logfile;
			my ($state, $error, $wrong) = try_faults($kind, "$name:$nth:$action");
			my $acted = fault_acted($node, $name, $nth, $offset);

			$problems{"$kind, call $nth, $action"} = $wrong if $wrong ne '';
			$problems{"$kind, call $nth, $action"} = "SQLSTATE $state: $error" if $state ne ($acted ? $code : '00000');
			# Else rows left by failed statements for a merge would grow faster than the number of calls.
			tidy() if ++$tried % 16 == 0;
			return $acted;
		};

		for (my $nth = 2 + ($share - 2) % $shares; !$long; $nth *= 3)
		{
			last if !$try->($nth, 'error', 'XX000');
			$reached{$name}{$kind} = $nth;
		}
		for my $action ($long ? ([ error => 'XX000' ], [ enomem => '53200' ]) : ())
		{
			my ($last, $unbounded) = calls_until_clean(sub { $try->($_[0], @$action) }, first => 2 + ($share - 2) % $shares, step => $shares, @tried, most => $most_calls, tries => 2);

			$reached{$name}{$kind} = $last if $last > $reached{$name}{$kind};
			$problems{"$kind, $action->[0]"} = $unbounded if $unbounded ne '';
		}
		next if !ours($name, $kind);
		my ($state, $error, $wrong);
		for (1 .. tries($name, $kind))
		{
			($state, $error, $wrong) = try_faults($kind, "$name:1:enomem");
			last if $state ne '00000' || $wrong ne '';
		}
		$met++ if $state eq '53200';
		# Reached by the previous search; without a worker that answers perhaps never again.
		next if by_chance($name) && $state eq '00000' && $wrong eq '';
		$problems{"$kind, enomem"} = "SQLSTATE $state: $error $wrong" if $state ne '53200' || $wrong ne '';
	}
	is(join("\n", map { "$_: $problems{$_}" } sort keys %problems), '',
		"$name, later calls (" . join(', ', map { "$_ $reached{$name}{$_}" } sort keys %{ $reached{$name} }) . '), no memory');
	%problems = ();
	tidy();
}

# The process ends at the point, as by a crash. In long runs at every call too.
my ($turn, $points) = (0, 0);

# Problems after an exit: both scans, vacuum and merge.
sub after_exit
{
	my ($table) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', new_rows($table, 5) . "; DELETE FROM $table WHERE id % 7 = $turn % 7; VACUUM $table; SELECT vectorgpu_merge('${table}_v');" . state_sql($table), on_error_stop => 0);

	return $err ne '' || $out !~ /^answer $/m ? "$out $err" : '';
}

for my $name (sort keys %reached)
{
	my @list = grep { ours($name, $_) } sort keys %{ $reached{$name} };
	my @later;

	for my $kind ($long ? sort keys %{ $reached{$name} } : ())
	{
		my $table = $kinds{$kind}[0];
		my $try = sub {
			my ($nth) = @_;
			my $offset = -s $node->logfile;
			my ($state, $error, $wrong) = try_faults($kind, "$name:$nth:exit");
			my $acted = fault_acted($node, $name, $nth, $offset);

			$wrong = after_exit($table) if $wrong eq '' && $acted;
			$problems{"$kind, call $nth"} = "SQLSTATE $state: $error" if $state ne ($acted ? '08006' : '00000');
			$problems{"$kind, call $nth, afterwards"} = $wrong if $wrong ne '';
			tidy() if ++$turn % 16 == 0;
			return $acted;
		};
		my ($last, $unbounded) = calls_until_clean($try, first => 2 + ($share - 2) % $shares, step => $shares, @tried_exits, most => $most_calls, tries => 2);

		$problems{"$kind, exit"} = $unbounded if $unbounded ne '';
		push @later, "$kind $last" if $last > 0;
	}
	$points++ if @list;
	@list = ($list[ $turn++ % @list ]) if @list && !$long;
	for my $kind (@list)
	{
		my $nth = $reached{$name}{$kind} > 2 && !$long ? 1 + int($reached{$name}{$kind} / 2) : 1;
		my ($state, $error, $wrong) = try_faults($kind, "$name:$nth:exit");

		# If the number of calls depends on earlier statements.
		for (2 .. tries($name, $kind))
		{
			last if $state ne '00000';
			($state, $error, $wrong) = try_faults($kind, "$name:1:exit");
		}
		$met++ if $state eq '08006';
		$state = '08006' if by_chance($name) && $state eq '00000';
		$problems{"$kind, call $nth"} = "SQLSTATE $state instead of a lost connection: $error" if $state ne '08006';
		$problems{"$kind, call $nth, afterwards"} = $wrong if $wrong ne '';
		$wrong = after_exit($kinds{$kind}[0]);
		$problems{"$kind, call $nth, after vacuum and merge"} = $wrong if $wrong ne '';
	}
	is(join("\n", map { "$_: $problems{$_}" } sort keys %problems), '', "$name: the server recovers from an exit in " . join(', ', @list, map { "$_ (later calls)" } @later)) if @list || @later;
	%problems = ();
}

cmp_ok($met, '>', $points, 'most points were met in both ways');

# The next vacuum frees the blocks of a failed merge, even if it fails itself at any point first.
SKIP:
{
	my %codes = (error => 'XX000', enomem => '53200', exit => '08006');
	skip 'buffer_write is not reached', 2 * keys %codes if !$reached{buffer_write};
	$kinds{bare_vacuum} = [ 'w', [], ['VACUUM (INDEX_CLEANUP on) w'], [] ];
	for my $action (sort keys %codes)
	{
		try_faults('merge', 'buffer_write:1:error');
		my ($state, $error, $wrong) = try_faults('bare_vacuum', "reclaim_pending:1:$action");
		is("$state $wrong", "$codes{$action} ", "$action while the extent of a failed merge is given back") or diag($error);
		($state, $error, $wrong) = try_faults('bare_vacuum', 'page_read:100000:error');
		is("$state $wrong", '00000 ', 'and the next vacuum does it') or diag($error);
	}
}

# The next insert cleans up the part of a value left by a failed one, even if it fails itself at any point first.
SKIP:
{
	my %codes = (error => 'XX000', enomem => '53200', exit => '08006');
	skip 'the access method has no values of any size', 1 + 3 * keys %codes if !$match;
	ok($closes_parts, 'parts of values were cleared away');
	for my $action (sort keys %codes)
	{
		my ($state, $error, $wrong);
		for (1 .. tries('delta_value_part', 'long_insert'))
		{
			($state, $error, $wrong) = try_faults('long_insert', 'delta_value_part:1:error');
			last if $state ne '00000';
		}
		is($state, 'XX000', 'an insert fails within a value');
		($state, $error, $wrong) = try_faults('long_insert', "delta_close_part:1:$action");
		is("$state $wrong", "$codes{$action} ", "$action while a part of a value is cleared away") or diag($error);
		($state, $error, $wrong) = try_faults('long_insert', 'page_read:100000:error');
		is("$state $wrong", '00000 ', 'and the next insert does it') or diag($error);
	}
}

# The point damages its data: reported as corruption or without effect on answers; REINDEX heals.
for my $name (grep { $reached{$_} } slurp_file(fault_list_file()) =~ /^(\w+)\b.*corrupt:/mg)
{
	my @last;

	for my $kind (grep { $reached{$name} && $reached{$name}{$_} } sort keys %kinds)
	{
		my $table = $kinds{$kind}[0];
		my $try = sub {
			my ($nth) = @_;
			my $offset = -s $node->logfile;
			my ($state, $error) = try_faults($kind, "$name:$nth:corrupt");

			$problems{"$kind, call $nth"} = "SQLSTATE $state: $error" if $state !~ /^(?:00000|XX002)$/;
			$problems{"$kind, call $nth, text"} = $error if $state eq 'XX002' && $error !~ /"${table}_\w+"/;
			my ($rc, $out, $err) = $node->psql('postgres', "REINDEX INDEX ${table}_v;" . state_sql($table), on_error_stop => 0);
			$problems{"$kind, call $nth, after REINDEX"} = "$out $err" if $err ne '' || $out !~ /^answer $/m;
			tidy() if ++$tried % 16 == 0;
			return fault_acted($node, $name, $nth, $offset);
		};

		$try->(1) if !$long;
		my ($last, $unbounded) = $long ? calls_until_clean($try, first => $share, step => $shares, @tried, most => $most_calls, tries => 2) : (1, '');
		$problems{"$kind, corrupt"} = $unbounded if $unbounded ne '';
		push @last, "$kind $last";
	}
	is(join("\n", map { "$_: $problems{$_}" } sort keys %problems), '', "$name: damage is reported, REINDEX heals (" . join(', ', @last) . ')');
	%problems = ();
}

# The maintenance worker fails, or ends as by a crash: no statement fails, and the next worker merges.
{
	my $delta = q{SELECT delta_rows FROM vectorgpu_indexes WHERE index_name = 'w_v'};
	# An exit may disconnect the insert itself.
	my $grow = sub { $node->psql('postgres', "LOAD 'vectorgpu'; SET vectorgpu.fault = ''; SET vectorgpu.merge_delta_size = '64kB'; " . new_rows('w', 40)); };

	for my $action (qw(error enomem exit))
	{
		my $setting = "merge_when_due:1:$action";
		my $offset = -s $node->logfile;

		$node->safe_psql('postgres', "LOAD 'vectorgpu'; ALTER SYSTEM SET vectorgpu.fault = '$setting'");
		$node->reload;
		# A process that the postmaster has just begun has the setting.
		ok(wait_until(sub { $node->safe_psql('postgres', q{LOAD 'vectorgpu'; SHOW vectorgpu.fault}) eq $setting }), "$setting is set");
		$grow->();
		ok(wait_log($node, qr/LOG:  fault point "merge_when_due" acts at call/, $offset), "$action in the maintenance worker");
		ok($action ne 'exit' || wait_for_restart($node), '... and the server is back');
		$node->safe_psql('postgres', q{LOAD 'vectorgpu'; ALTER SYSTEM RESET vectorgpu.fault});
		$node->reload;
		ok(wait_until(sub { $node->safe_psql('postgres', q{LOAD 'vectorgpu'; SHOW vectorgpu.fault}) eq '' }), "$setting is reset");
		my ($rc, $out, $err) = $node->psql('postgres', state_sql('w'), on_error_stop => 0);
		ok($out =~ /^answer $/m && $out =~ /^check 00000$/m, "$action in the maintenance worker: answers and index are right") or diag("$out $err");
	}
	cmp_ok($node->safe_psql('postgres', $delta), '>=', 40, 'nothing was merged');
	# A merge that meets autovacuum on the table gives way, and the next insert asks again.
	my $tries = 0;
	ok(wait_until(sub { $grow->() if $tries++ % 50 == 0; return $node->safe_psql('postgres', $delta) < 40 }), 'the next maintenance worker merges');
}

# A sleeping scan of pages can be cancelled.
my ($state, $best);
for (1 .. 10)
{
	my $start = time;

	($state) = psql_state($node, "LOAD 'vectorgpu'; SET vectorgpu.fault = 'page_read:2:sleep'; SET vectorgpu.worker = off; SET enable_seqscan = off; SET enable_sort = off; SET statement_timeout = '200ms'; SELECT count(*) FROM (SELECT id FROM w ORDER BY v $op $query{w}) s");
	is($state, '57014', 'statement_timeout ends a scan that is held up');
	$best = time - $start if !defined $best || time - $start < $best;
	last if $best < 2;
}
cmp_ok($best, '<', 2, 'at once, and not after the five seconds of the fault');

# Bad settings.
for my $setting ('x', 'page_read:0:error', 'page_read:1:explode', 'a:1', ':::', 'page_read:1:error,' x 20)
{
	($state) = psql_state($node, "LOAD 'vectorgpu'; SET vectorgpu.fault = '$setting'");
	is($state, '22023', 'vectorgpu.fault refuses ' . substr($setting, 0, 20));
}
check_faults_reached($node);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no crash of our own making');

$node->stop;
done_testing();
