# The harness itself: a test whose servers' logs tell of a crash fails, and so does one that has counted a wrong answer or a lost row, though all that it
# tried passed (VectorgpuCount). Each case is a small test program of its own, with a log but without a server.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $stamp = '2026-01-01 00:00:00.000 UTC [42]';
my $sends = 'expect_crash(bless({}, "Node"), qr/vectorgpu worker \(PID \d+\) ended by signal 11\b/);';
my @cases = (
	# what; a line of the log; what else the program does; whether it passes
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
	my $folder  = PostgreSQL::Test::Utils::tempdir();
	my $program = "$folder/case.pl";

	append_to_file($program, <<"PERL");
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuCount;
sub Node::logfile { return "\$PostgreSQL::Test::Utils::log_path/case_main.log"; }
append_to_file(Node::logfile(), <<'LOG');
$line
LOG
$code
ok(1, 'all that was tried');
done_testing();
PERL
	local $ENV{TESTDIR} = $folder;
	my $out = `'$^X' @{[ map { "-I '$_'" } grep { !ref } @INC ]} -I '$FindBin::RealBin/lib' '$program' 2>&1`;
	is($? == 0 ? 'passes' : 'fails', $passes ? 'passes' : 'fails', "a test with $what") or diag($out);
	like($out, qr/^# counted: /m, '... and it is counted');
}
done_testing();
