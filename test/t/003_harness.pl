# The harness itself. A test fails if its servers' logs show a crash, or if it has counted a wrong answer or a lost row, even if all its checks pass
# (VectorgpuCount); and if its servers have a damaged index at the end (VectorgpuChecked). Each case is a small separate test program, the first
# ones with a log but without a server.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# A program that runs separately, with the harness.
sub start_program
{
	my ($code) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my %run = (out => '');

	append_to_file("$folder/case.pl", "use strict;\nuse warnings;\nuse PostgreSQL::Test::Utils;\nuse Test::More;\n$code\nok(1, 'all that was tried');\ndone_testing();\n");
	# The modules of 15, and of later versions.
	local @ENV{qw(TESTDIR TESTDATADIR TESTLOGDIR)} = ($folder, "$folder/tmp_check", "$folder/tmp_check/log");
	$run{harness} = IPC::Run::start([ $^X, (map { ('-I', $_) } grep { !ref } @INC), '-I', "$FindBin::RealBin/lib", "$folder/case.pl" ], '<', \undef, '>&', \$run{out});
	return \%run;
}

# Tests: whether it passes, and its output.
sub ends_as
{
	my ($run, $what, $passes, @prints) = @_;
	my $ended = IPC::Run::finish($run->{harness});

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($ended ? 'passes' : 'fails', $passes ? 'passes' : 'fails', "a test with $what") or diag($run->{out});
	like($run->{out}, $_, "... $what: it says so") for @prints;
	return;
}

my $stamp = '2026-01-01 00:00:00.000 UTC [42]';
my $sends = 'expect_crash(bless({}, "Node"), qr/vectorgpu worker \(PID \d+\) ended by signal 11\b/);';
my @cases = (
	# case; a line of the log; further code of the program; whether it passes
	[ 'a statement that speaks of a PANIC', "$stamp LOG:  statement: SELECT 'PANIC: no', 'terminated by signal'", '', 1 ],
	[ 'a PANIC',            "$stamp PANIC:  could not write to file",                                '',                 0 ],
	[ 'a failed assertion', 'TRAP: FailedAssertion("false", File: "a.c", Line: 1, PID: 42)',          '',                 0 ],
	[ 'a killed process',   "$stamp LOG:  server process (PID 43) was terminated by signal 9: Killed", '',                 1 ],
	[ 'a process stopped by SIGTERM', "$stamp LOG:  vectorgpu worker (PID 43) ended by signal 15",     '',                 1 ],
	(map { [ "a process of the server, signal $_", "$stamp LOG:  server process (PID 43) was terminated by signal $_: x", '', 0 ] } 4, 6, 7, 8, 11),
	[ 'a worker that crashed', "$stamp LOG:  vectorgpu worker (PID 43) ended by signal 11",            '',                 0 ],
	[ 'a worker that the test sent SEGV', "$stamp LOG:  vectorgpu worker (PID 43) ended by signal 11",  $sends,             1 ],
	[ 'another crash beside it', "$stamp LOG:  vectorgpu worker (PID 43) ended by signal 6",           $sends,             0 ],
	[ 'a wrong answer',     "$stamp LOG:  ready",                                                      'count("wrong");',  0 ],
	[ 'a lost row',         "$stamp LOG:  ready",                                                      'count("lost", 2);', 0 ]);

for my $case (@cases)
{
	my ($what, $line, $code, $passes) = @$case;
	my $run = start_program(<<"PERL");
use VectorgpuCount;
sub Node::logfile { return "\$PostgreSQL::Test::Utils::log_path/case_main.log"; }
append_to_file(Node::logfile(), <<'LOG');
$line
LOG
$code
PERL
	ends_as($run, $what, $passes, qr/^# counted: /m);
}

# Each with a server. An index that was not ready for a while lacks the rows inserted then.
my $server = <<'PERL';
use PostgreSQL::Test::Cluster;
use VectorgpuTest;
use VectorgpuWorker;
my $node = make_node('main', conf => "vectorgpu.worker = on\nvectorgpu.device = 'cpu'\n");
sub make_index
{
	my ($name, $db) = @_;
	$node->safe_psql($db // 'postgres', "CREATE TABLE t_$name AS SELECT i AS id, ARRAY[i, i * i, 1]::vector(3) AS v FROM generate_series(1, 100) i; "
		. "CREATE INDEX $name ON t_$name USING gpuflat (v vector_l2_ops)");
}
sub not_ready { return "UPDATE pg_index SET indisready = false WHERE indexrelid = '$_[0]'::regclass"; }
sub damage
{
	my ($name, $db) = @_;
	$node->safe_psql($db // 'postgres', $_) for not_ready($name), "INSERT INTO t_$name VALUES (0, '[0,0,0]')", not_ready($name) =~ s/false/true/r;
}
make_index('i');
PERL
my $flip = "$FindBin::RealBin/lib/flip_bit.py";
my $can_flip = `python3 '$flip' $$ 00ff00fe00fd00fc 0 2>&1` =~ /^\d+$/;    # not everywhere may one process look into another
my @with_server = (
	# case; code of the program; whether it passes; its output
	[ 'a server whose damaged index it leaves out, then all of it', 1, <<'PERL',
make_index($_) for qw(j k);
damage('j');
leave_unchecked($node, 'it was damaged', 'j');
$node->safe_psql('postgres', not_ready('k'));
$node->append_conf('postgresql.conf', "vectorgpu.fault = 'page_read:1:corrupt'\nstatement_timeout = 1ms\n");
$node->restart;
$node->stop;
$node->append_conf('postgresql.conf', "vectorgpu.fault = ''\nstatement_timeout = 0\n");
$node->start;
leave_unchecked($node, 'another one too');
damage('i');
PERL
		qr/^# main, not checked at the end, j: it was damaged\n.*^# main, not checked at the end, all indexes: another one too\n/ms,
		qr/^# at the end: 1 checks of indexes.*^# counted: .*\bchecks=1 lost=0\b/ms ],
	[ 'indexes that are damaged when their server stops, of two databases' . ($can_flip ? ', and a copy' : ''), 0, <<"PERL" . ($can_flip ? <<"COPY" : '') . '$node->stop;',
\$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
damage('i', \$_) for qw(postgres other);
PERL
make_index('c');
my \$pid = wait_worker(\$node);
\$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('c')");
like(`python3 '$flip' \$pid @{[ unpack 'H*', pack 'f<6', map { ($_, $_ * $_, 1) } 50, 51 ]} 4`, qr/^[1-9]/, 'a bit is flipped');
COPY
		(map { qr/^# main, at the end: vectorgpu_check of i in $_: XX002 index "i" is corrupted/m } qw(postgres other)),
		$can_flip ? qr/^# main, at the end: vectorgpu_check of c in postgres: XX001 the worker's copy of index "c" differs from its pages/m : (),
		$can_flip ? qr/\bchecks=3 lost=3\b/ : qr/\bchecks=2 lost=2\b/ ],
	[ 'an index that is damaged at its end', 0, q{damage('i');},
		qr/^# main, at the end: vectorgpu_check of i in postgres: XX002 .*^# counted: .*\bchecks=1 lost=1\b/ms ],
	[ 'a server that refuses connections', 0, <<'PERL',
my $file = $node->data_dir . '/pg_hba.conf';
unlink $file;
append_to_file($file, "local all all reject\n");
$node->reload;
1 while $node->psql('postgres', 'SELECT 1') == 0;
PERL
		qr/^# main, at the end: the indexes of postgres could not be checked: .*reject/m ],
	[ 'wrong answers beside other work, whose errors it does not look at', 0, <<'PERL',
use VectorgpuLoad;
create_comparer($node);
damage('i');
leave_unchecked($node, 'it gives wrong answers', 'i');
finish_load(start_load($node, { compare => q{SELECT assert_answers('t_i', '<->', quote_literal('[0,0,0]') || '::vector', 3);} }, clients => 2, seconds => 5));
PERL
		qr/^# counted: .*\blost=0\b.*\bwrong=2\b/m ]);

for my $some ([ 0, 1 ], [ 2, 3 ], [4])
{
	my @runs = map { start_program("$server$with_server[$_][2]") } @$some;

	for my $i (@$some)
	{
		my ($what, $passes, $code, @prints) = @{ $with_server[$i] };

		ends_as(shift @runs, $what, $passes, @prints);
	}
}
SKIP:
{
	skip "no python3, or this user may not write to another process's memory: no copy was damaged", 1 unless $can_flip;
	pass('a copy was damaged too');
}
done_testing();
