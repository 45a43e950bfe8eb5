# 20 fast, 20 smart and 20 immediate restarts of a server with a warm worker (F43), of a module that is loaded by its first use and of one that is
# preloaded; the worker idle, stopped by a signal, with a cursor open, or under clients. Each time every process of the server is gone, the worker
# included, and the next server has one worker, one socket of its own and right answers; at the end it has the same resources as the first.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use VectorgpuCount;
use VectorgpuLoad;
use VectorgpuResources;
use VectorgpuTest;
use VectorgpuWorker;

my $rounds = 20;

# The sockets of a server's workers, present and past.
sub sockets
{
	my ($node) = @_;

	return map { m{/pgsql_tmp_(w\.[^/]+)$} } glob($node->data_dir . '/pgsql_tmp_vectorgpu/pgsql_tmp_w.*');
}

# The problem, or '' if the worker answers as the sequential scan did.
sub wrong_answers
{
	my ($node) = @_;
	my $wrong = 'the worker answers nothing';
	my $right = join ';', 'SET enable_seqscan = off', 'SET enable_sort = off',
	  map { "SELECT ARRAY(SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = $_) LIMIT 10) = (SELECT ids FROM answers WHERE q = $_)" } 1 .. 5;

	wait_until(sub {
		my $before = worker_stat($node, 'answered');
		my ($rc, $out, $err) = $node->psql('postgres', $right);

		count('answers', 5);
		$wrong = $rc == 0 && $out eq join("\n", ('t') x 5) ? '' : "$out $err";
		count('wrong') if $wrong ne '';
		return $wrong ne '' || worker_stat($node, 'answered') > $before;
	});
	return $wrong;
}

# The worker's state when the server stops. Returns a function to call after the stop.
sub occupy
{
	my ($node, $how, $pid) = @_;

	if ($how eq 'stopped')
	{
		kill 'STOP', $pid;
	}
	elsif ($how eq 'cursor')
	{
		my $session = $node->background_psql('postgres', on_error_stop => 0);

		$session->query('SET enable_seqscan = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 1); FETCH 3 FROM c');
		return sub { eval { $session->quit } };
	}
	elsif ($how eq 'clients')
	{
		my $run = start_clients($node, clients => 4, seconds => 60);

		sleep 0.3;
		# They end with the server, which is an error of the clients; a wrong answer is counted.
		return sub { finish_clients($run) };
	}
	return sub { };
}

for my $preload (0, 1)
{
	my $way = $preload ? 'preloaded' : 'loaded by its first use';
	my $node = make_node("life$preload",
		conf => ($preload ? "shared_preload_libraries = 'vectorgpu'\n" : '') . "vectorgpu.worker_min_size = 0\nvectorgpu.worker_restart_delay_max = 0\nvectorgpu.worker_timeout = 60s\n");

	plan skip_all => 'the worker is not installed' unless -x worker_file($node);
	make_table($node, 't', dims => 8);
	fill_vectors($node, 't', dims => 8, rows => 500);
	$node->safe_psql('postgres', 'CREATE INDEX i ON t USING gpuflat (v vector_l2_ops)');
	make_answers($node, 20);
	ok(wait_worker($node), "$way: the worker is ready");
	is(wrong_answers($node), '', "$way: it answers");
	my $resources = note_resources($node);

	for my $mode (qw(fast smart immediate))
	{
		my @problems;
		# A smart stop waits for sessions.
		my @ways = $mode eq 'smart' ? qw(idle stopped) : qw(idle stopped cursor clients);

		for my $round (1 .. $rounds)
		{
			my $how = $ways[ $round % @ways ];
			my $what = "round $round, $how";
			my ($pid, $supervisor) = (wait_worker($node), supervisor_pid($node));
			my @before = sockets($node);
			my $release = occupy($node, $how, $pid);

			push @problems, "$what: " . @before . ' sockets' if @before != 1;
			push @problems, map { "$what: $_ is left" } left_behind($node, $mode);
			$release->();
			push @problems, "$what: the worker is there" if !wait_gone($pid, 0);
			push @problems, "$what: the supervisor is there" if !wait_gone($supervisor, 0);
			$node->start;
			push @problems, "$what: no other worker" if !wait_worker($node, not_pid => $pid, not_supervisor => $supervisor);
			my @after = sockets($node);
			push @problems, "$what: sockets @before before, @after after" if @after != 1 || $after[0] eq $before[0];
			my $wrong = wrong_answers($node);
			push @problems, "$what: $wrong" if $wrong ne '';
		}
		is(join("\n", @problems), '', "$way: $rounds times $mode: nothing is left, another worker answers rightly");
	}
	is(count_restarts($node), 0, "$way: the server never restarted by itself");
	check_index($node, 'i');
	check_resources($node, $resources);
	check_stopped($node);
}
done_testing();
