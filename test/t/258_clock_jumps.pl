# The wall clock is set a year back and two years forth while a server runs (F60): scans are answered, by the worker, dead workers and supervisors are
# replaced, merges and samples of recall are made, deadlines are kept. Server and worker run with libfaketime, which changes the wall clock but not
# CLOCK_MONOTONIC, as an administrator or a time server does.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuLoad;
use VectorgpuTest;
use VectorgpuWorker;

my ($library) = grep { -f } glob('/usr/lib/*/faketime/libfaketime.so.1 /usr/lib/faketime/libfaketime.so.1 /usr/lib64/faketime/libfaketime.so.1');
plan skip_all => 'libfaketime is not installed' unless defined $library;
plan skip_all => 'AddressSanitizer has to be loaded first, and so has libfaketime' if under_asan();

my $clock = PostgreSQL::Test::Utils::tempdir() . '/clock';
sub set_clock { my ($offset) = @_; return replace_file($clock, "$offset\n"); }

set_clock('+0');
my $node;
{
	local %ENV = (%ENV, LD_PRELOAD => $library, FAKETIME_TIMESTAMP_FILE => $clock, FAKETIME_NO_CACHE => 1, FAKETIME_DONT_FAKE_MONOTONIC => 1,
		NO_FAKE_STAT => 1, FAKETIME_DISABLE_SHM => 1);

	$node = make_node('main', conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 1\nvectorgpu.merge_delta_size = 64kB\n"
		  . "vectorgpu.recall_sample_rate = 1\nvectorgpu.auto_merge = off\n");
}
plan skip_all => 'the worker is not installed' unless -x worker_file($node);

my %indexes = (
	t     => 'USING gpuflat (v vector_l2_ops)',
	ivf   => 'USING gpuivf (v vector_l2_ops) WITH (lists = 10)',
	graph => 'USING gpugraph (v vector_l2_ops)');
for my $table (sort keys %indexes)
{
	make_table($node, $table, dims => 8);
	fill_vectors($node, $table, dims => 8, rows => 1000);
	$node->safe_psql('postgres', "CREATE INDEX i_$table ON $table $indexes{$table}");
}
$node->safe_psql('postgres', q{CREATE TABLE m AS SELECT i AS id, ARRAY[i % 7, 10 + i % 11, 30 + i % 13] AS v FROM generate_series(1, 1000) i; CREATE INDEX i_m ON m USING gpumatch (v)});

# A session from before the jumps, with times of the old clock.
my $session = $node->background_psql('postgres');
my $next = 10_000;
sub merges_in_the_background
{
	my ($what) = @_;
	my $first = $next;

	$next += 10_000;
	# A session asks for a merge of one index every few seconds only.
	ok(wait_until(sub {
		$session->query_safe("SET vectorgpu.auto_merge = on; INSERT INTO t SELECT i, 0, array_fill((i % 100)::real, ARRAY[8])::vector FROM generate_series($first, $first + 49) i");
		$first += 50;
		die 'too many rows' if $first > $next;
		return $node->safe_psql('postgres', q{SELECT delta_rows < 1900 FROM vectorgpu_indexes WHERE index_name = 'i_t'}) eq 't';
	}), "$what: merges in the background");
	return;
}

# More than the threshold, so that a session's next block of rows asks for a merge.
sub fill_delta
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 0, array_fill((i % 100)::real, ARRAY[8])::vector FROM generate_series($next, $next + 2000) i");
	$next += 2100;
	return;
}

sub works
{
	my ($what) = @_;

	for my $table (sort keys %indexes)
	{
		by_worker($node, "$what: $table", sub {
			compare_scans($node, $table, '<->', query_vector($node, 1, dims => 8), limit => 20, name => "$what: $table");
		});
	}
	by_worker($node, "$what: m", sub {
		compare_scans($node, 'm', '<#>', q{'{1,12,33}'}, limit => 20, name => "$what: m");
	});

	my $old = wait_worker($node);
	kill 'KILL', $old;
	ok(wait_worker($node, not_pid => $old), "$what: a dead worker is replaced");

	my $supervisor = supervisor_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($supervisor)");
	ok(wait_worker($node, not_supervisor => $supervisor), "$what: so is a supervisor");

	fill_delta();
	merges_in_the_background($what);

	my $samples = 'SELECT coalesce(sum(samples), 0) FROM vectorgpu_index_recall';
	my $before = $node->safe_psql('postgres', $samples);
	ok(wait_until(sub {
		$node->safe_psql('postgres', scan_sql());
		return $node->safe_psql('postgres', $samples) > $before;
	}), "$what: recall is sampled");
	return;
}

my $now = 'SELECT extract(epoch FROM clock_timestamp())';
my $seconds = time();
cmp_ok(abs($node->safe_psql('postgres', $now) - $seconds), '<', 3600, 'the clock is right');
works('before');

# A stopped worker is found slow at each look, even if the clock is set meanwhile; and the server's log reports it once a minute.
set_clock('-365d');
cmp_ok($node->safe_psql('postgres', $now) - $seconds, '<', -300 * 86400, 'the clock is a year slow');
works('a year back');

my $pid = wait_worker($node);
kill 'STOP', $pid;
set_clock('+365d');
compare_scans($node, 't', '<->', query_vector($node, 2, dims => 8), limit => 20, name => 'the worker is stopped while the clock is set');
kill 'CONT', $pid;
cmp_ok($node->safe_psql('postgres', $now) - $seconds, '>', 300 * 86400, 'the clock is a year fast');
works('a year forth');

set_clock('-3650d');
works('ten years back');
$session->quit;
my $lines = () = slurp_file($node->logfile) =~ /vectorgpu scans are answered without the worker/g;
cmp_ok($lines, '<', 10, "the log reports scans without the worker once a minute at most ($lines times)");
check_index($node, "i_$_") for sort keys %indexes;
check_index($node, 'i_m');
$node->stop;
done_testing();
