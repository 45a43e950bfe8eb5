# Clusters that share everything but their epoch: a restored one and its origin have the same file numbers, the same uuids and
# the same versions of their indexes, and later different rows. Each has its own worker and never sees rows of the other; nor does
# a cluster that finds a worker of an earlier life in its data directory.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $origin = make_node('origin', streaming => 1,
	conf => "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nshared_preload_libraries = 'vectorgpu'\n"
	  . "vectorgpu.worker_timeout = 60s\nvectorgpu.auto_merge = off\n");

plan skip_all => 'the worker is not installed' unless -x worker_file($origin);
$origin->enable_archiving;
$origin->restart;
make_table($origin, 't', dims => 8);
fill_vectors($origin, 't', dims => 8, rows => 600);
$origin->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
fill_vectors($origin, 't', dims => 8, rows => 100, first => 1001, seed => 2);

my %resources;    # of each cluster, when its worker is ready

# One test each: this cluster's worker answers, as a sequential scan of this cluster does.
sub agrees
{
	my ($node, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	by_worker($node, $name, sub {
		compare_sweep($node, 't', '<->', dims => 8, queries => 2, limits => [ 10, undef ], strict_ties => 1, name => $name);
	});
	return;
}

agrees($origin, 'the origin');
$resources{ $origin->name } = note_resources($origin);
$origin->backup('base');
fill_vectors($origin, 't', dims => 8, rows => 40, first => 2001, seed => 3);
$origin->safe_psql('postgres', "DELETE FROM t WHERE id % 10 = 3; VACUUM t; SELECT pg_create_restore_point('target')");
fill_vectors($origin, 't', dims => 8, rows => 40, first => 3001, seed => 4);
$origin->safe_psql('postgres', 'DELETE FROM t WHERE id % 10 = 4; VACUUM t; SELECT pg_switch_wal()');
agrees($origin, 'the origin, further on');

# To a point in time, while the origin and its worker run.
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($origin, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'target'\nrecovery_target_action = promote\narchive_mode = off\n");
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
is($restored->safe_psql('postgres', 'SELECT count(*) FILTER (WHERE id % 10 = 4) > 0, count(*) FILTER (WHERE id > 3000) FROM t'), 't|0',
	'recovery has ended at the point in time');
is($restored->safe_psql('postgres', "SELECT pg_relation_filenode('i')"), $origin->safe_psql('postgres', "SELECT pg_relation_filenode('i')"),
	'both clusters have the index in files of one number');
ok(wait_worker($restored), 'the restored cluster has a worker');
isnt(worker_pid($restored), worker_pid($origin), 'of its own');
my ($epoch) = (glob($restored->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*'))[0] =~ /w\.(\w+)$/;
my ($origin_epoch) = (glob($origin->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*'))[0] =~ /w\.(\w+)$/;
isnt($epoch, $origin_epoch, 'of another epoch');
agrees($restored, 'the restored cluster');
$resources{ $restored->name } = note_resources($restored);

# Both continue, with the same number of rows and vacuums: their versions stay equal.
for my $round (1 .. 3)
{
	for my $node ($origin, $restored)
	{
		my $seed = 100 * $round + ($node == $origin ? 1 : 2);

		fill_vectors($node, 't', dims => 8, rows => 50, first => 10_000 * $round, seed => $seed);
		$node->safe_psql('postgres', "DELETE FROM t WHERE id % 17 = $round; VACUUM t") if $round == 2;
		$node->safe_psql('postgres', "SELECT vectorgpu_merge('i')") if $round == 3;
	}
	agrees($_, "round $round, " . $_->name) for $origin, $restored;
}
kill 'KILL', wait_worker($origin);
agrees($restored, 'the restored cluster after the other\'s worker was killed');
agrees($origin, 'and the origin');

# A surviving worker of an earlier life: it holds the lock of the folder, and copies of an older epoch.
check_resources($restored, $resources{ $restored->name });
$restored->stop;
my @leftover = glob($restored->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*');
my ($out, $err) = ('', '');
my $old = IPC::Run::start([ worker_file($restored), '--data-directory', $restored->data_dir, '--epoch', $epoch, '--engine', 'cpu' ],
	'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
ok(wait_until(sub { $old->pump_nb; "$out$err" =~ /ready/ }), 'a worker of the earlier epoch runs');
my $log_start = -s $restored->logfile;
$restored->start;
fill_vectors($restored, 't', dims => 8, rows => 30, first => 90_001, seed => 77);
ok(wait_log($restored, qr/vectorgpu worker \(PID \d+\) ended with status 1/, $log_start), 'the new worker does not take its place');
compare_sweep($restored, 't', '<->', dims => 8, queries => 2, strict_ties => 1, name => 'right answers meanwhile');
$old->kill_kill(grace => 0);
ok(wait_worker($restored), 'after its end there is a new one');
# This server has inherited the pipes to that worker from this process.
$resources{ $restored->name } = note_resources($restored);
($epoch) = (glob($restored->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*'))[0] =~ /w\.(\w+)$/;
agrees($restored, 'with the new worker');

# Each has its own budget (F44): if one is full, the other is not. Only one cluster's worker holds a table larger than the other's budget.
for my $node ($origin, $restored)
{
	my $old = worker_pid($node);

	make_table($node, 'large', dims => 1000);
	fill_vectors($node, 'large', dims => 1000, rows => 5000);
	$node->safe_psql('postgres', 'CREATE INDEX large_i ON large USING gpuflat (v vector_l2_ops)');
	next if $node == $origin;
	$node->append_conf('postgresql.conf', "vectorgpu.worker_memory = 16MB\nvectorgpu.gpu_memory = 1MB\n");    # of both, where there is a GPU
	$node->reload;
	ok(wait_worker($node, not_pid => $old), $node->name . ': a worker with a small budget');
	$resources{ $node->name } = note_resources($node);
}
my $reason = sub { return $_[0]->safe_psql('postgres', "SELECT (fallback_reasons->>'too_large')::int FROM vectorgpu_worker"); };
my %too_large = map { $_->name => $reason->($_) } $origin, $restored;
for my $node ($origin, $restored)
{
	compare_sweep($node, 'large', '<->', dims => 1000, queries => 2, limits => [10], strict_ties => 1, name => 'a table larger than one of the budgets, ' . $node->name);
	agrees($node, 'beside it, ' . $node->name);
	cmp_ok($node->safe_psql('postgres', 'SELECT resident_bytes FROM vectorgpu_worker'), '<=', $node->safe_psql('postgres', 'SELECT memory_bytes FROM vectorgpu_worker'), $node->name . ': its copies keep within its budget');
}
by_worker($origin, 'the table, by the worker that has room for it', sub { compare_sweep($origin, 'large', '<->', dims => 1000, queries => 2, limits => [10], strict_ties => 1, name => 'the table'); });
ok($origin->poll_query_until('postgres', "SELECT resident_bytes > 0 FROM vectorgpu_indexes WHERE index_name = 'large_i'"), 'it has a copy if there is room');
is($restored->safe_psql('postgres', "SELECT count(*) FROM vectorgpu_indexes WHERE index_name = 'large_i' AND resident_bytes > 0"), 0, 'and none if there is not');
is($reason->($origin), $too_large{ $origin->name }, 'the first has refused nothing for its size');
cmp_ok($reason->($restored), '>', $too_large{ $restored->name }, 'the other has');

for my $node ($origin, $restored)
{
	is(count_restarts($node), 0, $node->name . ' never restarted by itself');
	check_index($node, 'i');
	check_resources($node, $resources{ $node->name });
	check_stopped($node);
}
done_testing();
