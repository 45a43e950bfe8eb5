# vectorgpu_check at the end of every TAP test: each valid index of each database, against the table, and against the worker's copy if a worker is
# ready. It runs before a server stops in an orderly way, and when the test ends, on the servers that still run. A problem makes the test fail; each
# index counts among the checks of VectorgpuCount.
# Faults are switched off for it, and statement_timeout too. On a standby it checks indexes of permanent tables, which exist in recovery.
# A test that has damaged an index, or a server that cannot answer, calls leave_unchecked, which prints a note.
package VectorgpuChecked;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use VectorgpuCount;

our @EXPORT = qw(leave_unchecked check_all);

my $process  = $$;
my $patience = $PostgreSQL::Test::Utils::timeout_default;
my $soon     = qr/starting up|shutting down|recovery|terminat|closed the connection|Connection refused|No such file|too many/; # ask it again
my $all      = '*'; # in place of the name of an index
my (@nodes, %unchecked);
my ($n_checked, $n_copies, $seconds, $unanswered) = (0, 0, 0, 0);

# One line for each index: SQLSTATE of vectorgpu_check (00000: no error), rows of the worker's copy that it compared, name, message. An unreachable
# worker has no copy to compare: it may have died since it was ready.
my $check = <<'SQL';
SET client_min_messages = notice;
SET lock_timeout = '60s';
SET default_transaction_isolation = 'read committed';
SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1;
DO $check$
DECLARE
	place text;
	ready boolean;
	with_copy boolean;
	i record;
	n_rows bigint;
	message text;
BEGIN
	SELECT quote_ident(n.nspname) INTO place FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vectorgpu';
	IF place IS NULL THEN
		RETURN;
	END IF;
	LOAD 'vectorgpu';
	PERFORM set_config(name, '', false) FROM pg_settings WHERE name = 'vectorgpu.fault';
	EXECUTE 'SELECT ready FROM ' || place || '.vectorgpu_worker' INTO ready;
	FOR i IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_index x ON x.indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam
			WHERE a.amname IN ('gpuflat', 'gpuivf', 'gpugraph', 'gpumatch') AND c.relkind = 'i' AND x.indisvalid AND x.indisready AND x.indislive
				AND (c.relpersistence = 'p' OR (c.relpersistence = 'u' AND NOT pg_is_in_recovery()))
				AND c.relname <> ALL (string_to_array(current_setting('test.unchecked'), ' ')) ORDER BY c.oid LOOP
		with_copy := coalesce(ready, false);
		FOR try IN 1 .. 20 LOOP
			BEGIN
				EXECUTE format('SELECT cache_rows_checked FROM %s.vectorgpu_check($1, true, $2)', place) INTO n_rows USING i.oid::regclass, with_copy;
				RAISE NOTICE 'at the end|00000|%|%|', n_rows, i.relname;
				EXIT;
			EXCEPTION WHEN OTHERS THEN
				-- On a standby pages may be used again meanwhile.
				CONTINUE WHEN SQLSTATE = '40001' AND try < 20;
				IF SQLSTATE = '08006' AND with_copy THEN
					with_copy := false;
					CONTINUE;
				END IF;
				GET STACKED DIAGNOSTICS message = PG_EXCEPTION_DETAIL;
				RAISE NOTICE 'at the end|%|0|%|%', SQLSTATE, i.relname, replace(SQLERRM || ' ' || message, E'\n', ' ');
				EXIT;
			END;
		END LOOP;
	END LOOP;
END
$check$;
SQL

# The indexes of a node with these names are not checked; without names no index is at the next stop of the node. why: for the note.
sub leave_unchecked
{
	my ($node, $why, @indexes) = @_;

	push @{ $unchecked{ $node->name } }, @indexes ? @indexes : $all;
	note($node->name . ', not checked at the end, ' . (@indexes ? "@indexes" : 'all indexes') . ": $why");
	return;
}

sub is_running
{
	my ($node) = @_;

	return defined $node->{_pid} && kill(0, $node->{_pid});
}

# Databases of the node; the results for the indexes of one are counted. A restarting server is asked again.
sub check_database
{
	my ($node, $db, @but) = @_;
	my $until = time + $patience;

	local $ENV{PGOPTIONS} = '-c statement_timeout=0 -c log_statement=none -c test.unchecked=' . join('\\ ', @but);
	for (;;)
	{
		my ($out, $err, $late) = ('', '');
		my $rc = $node->psql($db, $check, stdout => \$out, stderr => \$err, timeout => $patience, timed_out => \$late) // 2;

		if ($rc == 0)
		{
			while ($err =~ /NOTICE:  at the end\|(\w+)\|(\d+)\|([^|]*)\|(.*)/g)
			{
				my ($state, $rows, $index, $message) = ($1, $2, $3, $4);

				count('checks');
				$n_checked++;
				$n_copies++ if $rows > 0;
				next if $state eq '00000';
				my $found = $node->name . ", at the end: vectorgpu_check of $index in $db: $state $message";

				count('lost', 1, $found);
				diag($found);
			}
			return split /\n/, $out;
		}
		return if !is_running($node);
		if ($rc != 2 || $late || $err !~ $soon || time > $until)
		{
			$unanswered++;
			diag($node->name . ", at the end: the indexes of $db could not be checked: $err");
			return;
		}
		sleep 0.1;
	}
}

# Checks every index of a running server.
sub check_all
{
	my ($node) = @_;
	my @but = grep { $_ ne $all } @{ $unchecked{ $node->name } // [] };
	my $begin = time;

	if (@but < @{ $unchecked{ $node->name } // [] })
	{
		$unchecked{ $node->name } = \@but;
		return;
	}
	for my $db (grep { $_ ne 'postgres' } check_database($node, 'postgres', @but))
	{
		check_database($node, $db, @but);
	}
	$seconds += time - $begin;
	return;
}

{
	no warnings 'redefine';
	my ($new, $stop) = (\&PostgreSQL::Test::Cluster::new, \&PostgreSQL::Test::Cluster::stop);

	*PostgreSQL::Test::Cluster::new = sub {
		my $node = $new->(@_);

		push @nodes, $node;
		return $node;
	};
	*PostgreSQL::Test::Cluster::stop = sub {
		my ($node, $mode) = @_;

		check_all($node) if $$ == $process && ($mode // 'fast') ne 'immediate' && is_running($node);
		return $stop->(@_);
	};
}

# Before the servers are stopped at the end, and before VectorgpuCount evaluates the counts.
END
{
	my $status = $?;

	# A test that died has failed, and may have left its servers in any state.
	if ($$ == $process && $status == 0)
	{
		for my $node (grep { is_running($_) } @nodes)
		{
			eval { check_all($node); 1 } or do { $unanswered++; diag($@); };
		}
		note(sprintf('at the end: %d checks of indexes, %d with a copy, %.2f s', $n_checked, $n_copies, $seconds));
		$status = 1 if $unanswered > 0;
	}
	$? = $status;
}

1;
