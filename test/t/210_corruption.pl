# Damaged index files (F22, F23, F24): bytes flipped at random places, pages exchanged, files cut and lengthened. Every
# statement gives the right answer or an error that names index and block (another index's page: 40001); no crash, no hang, no
# damage to the table; vectorgpu_check reports each flip in the checksummed part of a page; REINDEX heals.
# VECTORGPU_FLIPS (default 120): bytes flipped. VECTORGPU_SEED: repeats a run. VECTORGPU_SHARE=2of4: every fourth round, so that four
# shares can run beside each other; only the first tests the deliberate damage.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuLoad;
use VectorgpuMatch;

my $flips   = $ENV{VECTORGPU_FLIPS} // 120;
my $seed    = $ENV{VECTORGPU_SEED}  // time ^ $$;
my ($share, $shares) = ($ENV{VECTORGPU_SHARE} || '1of1') =~ /^(\d+)of(\d+)$/ or die "VECTORGPU_SHARE is not like 2of4";
my $n       = $flips < 120 ? $flips : 120;     # tables: one flip in each, per round
my $rounds  = int(($flips + $n - 1) / $n);
my $block   = 8192;
my $covered = 28;                              # the checksum covers a page from here on, itself at 24
my $type    = column_type(24);
my $node    = make_node('corruption', conf => "fsync = off\nstatement_timeout = 100s\nmax_locks_per_transaction = 512\n");
note("seed $seed");
srand($seed + $share);
create_values($node);

# Probe one index, all in one call: the outcome of each statement.
$node->safe_psql('postgres', <<'SQL' =~ s/<->/$OP/gr =~ s/::vector/::$CAST/gr);
CREATE TYPE outcome AS (what text, state text, message text);
CREATE FUNCTION probe(tab text, writes boolean) RETURNS SETOF outcome LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	answer text;
	result outcome;
BEGIN
	FOREACH statement IN ARRAY ARRAY[
		format('SELECT compare_answers(%L, ''<->'', quote_literal(test_vector(1, 24)) || ''::vector'', 5)', tab),
		format('SELECT compare_answers(%L, ''<->'', quote_literal(test_vector(2, 24)) || ''::vector'', NULL)', tab),
		format('SELECT left(vectorgpu_check(''%s_v'', true)::text, 0)', tab),
		format('SELECT left(count(*)::text, 0) FROM vectorgpu_indexes'),
		format('WITH w AS (INSERT INTO %s SELECT 5000 + i, 0, test_vector(i, 24)::vector FROM generate_series(1, 5) i RETURNING 1) SELECT left(count(*)::text, 0) FROM w', tab),
		format('WITH w AS (UPDATE %s SET category = category + 1 WHERE id %% 5 = 0 RETURNING 1) SELECT left(count(*)::text, 0) FROM w', tab),
		format('SELECT compare_answers(%L, ''<->'', quote_literal(test_vector(3, 24)) || ''::vector'', 300)', tab)]
	LOOP
		CONTINUE WHEN NOT writes AND statement ~ 'INSERT|UPDATE';
		result := (statement, '00000', '')::outcome;
		BEGIN
			EXECUTE statement INTO answer;
			result.message := coalesce(answer, '');
		EXCEPTION WHEN OTHERS OR assert_failure THEN
			result.state := SQLSTATE;
			result.message := SQLERRM;
		END;
		RETURN NEXT result;
	END LOOP;
END
$$;
SQL

# All alike: a built segment with NULL rows and some tombstones, a delta, rows that share entries (no HOT updates:
# category is indexed).
sub make_tables
{
	$node->safe_psql('postgres', <<SQL);
DO \$\$
BEGIN
	FOR i IN 1 .. $n LOOP
		EXECUTE format('DROP TABLE IF EXISTS f%s', i);
		EXECUTE format('CREATE TABLE f%s (id bigint, category int, v $type)', i);
		EXECUTE format('INSERT INTO f%s SELECT j, 0, CASE WHEN j %% 50 = 0 THEN NULL ELSE test_vector(j, 24)::$CAST END FROM generate_series(1, 250) j', i);
		EXECUTE format('CREATE INDEX f%s_v ON f%s USING $AM (v $CLASS)', i, i);
		EXECUTE format('CREATE INDEX f%s_c ON f%s (category)', i, i);
		EXECUTE format('INSERT INTO f%s SELECT j, 0, test_vector(j, 24)::$CAST FROM generate_series(251, 330) j', i);
	END LOOP;
END
\$\$;
SQL
	for my $i (grep { $_ % 20 == 1 } 1 .. $n)
	{
		my $last = $i + 19 > $n ? $n : $i + 19;
		my @changes = map {
			("DELETE FROM f$_ WHERE id % 9 = 0", "VACUUM (INDEX_CLEANUP on) f$_", "UPDATE f$_ SET category = 1 WHERE id % 4 = 0")
		} $i .. $last;

		$node->safe_psql('postgres', join ";\n", @changes);
	}
	return;
}

sub damage
{
	my ($file, $code) = @_;

	open my $handle, '+<:raw', $file or die "$file: $!";
	$code->($handle, -s $file);
	close $handle;
	return;
}

sub read_at
{
	my ($handle, $offset, $length) = @_;
	my $bytes = '';

	seek $handle, $offset, 0;
	read $handle, $bytes, $length;
	return $bytes;
}

sub write_at
{
	my ($handle, $offset, $bytes) = @_;

	seek $handle, $offset, 0;
	print $handle $bytes;
	return;
}

# Problems of one damaged index; also whether the check saw the damage.
sub judge
{
	my ($table, $what, %allow) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT state, replace(message, E'\\n', ' '), what FROM probe('$table', true)");
	my (@problems, $reported);

	return ([ "$what: the session was lost: $err" ], 0) if $rc != 0;
	for my $line (split /\n/, $out)
	{
		my ($state, $message, $statement) = split /\|/, $line, 3;
		$reported = 1 if $statement =~ /vectorgpu_check/ && $state ne '00000';
		next if $state eq '00000' && $message eq '';
		next if $state eq 'XX002' && $message =~ /"${table}_v"/ && $message =~ /block/;
		next if $state eq 'XX001' && $message =~ /invalid page in block|could not read block/;    # core's own
		next if $allow{states} && $state =~ /^(?:$allow{states})$/;
		push @problems, "$what: " . substr($statement, 0, 70) . ": $state $message";
	}
	return (\@problems, $reported);
}

sub heal
{
	my ($table) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"REINDEX INDEX ${table}_v; SELECT compare_answers('$table', '$OP', quote_literal(test_vector(2, 24)) || '::$CAST'); SELECT left(vectorgpu_check('${table}_v', true)::text, 0); SELECT count(*) BETWEEN 293 AND 299 FROM $table");

	return $rc == 0 && $out =~ /^\n*t$/ ? '' : "$table not healed by REINDEX: $out $err";
}

for my $round (grep { $_ % $shares == $share % $shares } 1 .. $rounds)
{
	my (@flipped, @problems, @unseen, @unhealed);

	make_tables();
	my %file = map { $_ => relation_file($node, "f${_}_v") } 1;
	my @paths = split /\n/, $node->safe_psql('postgres', "SELECT pg_relation_filepath(('f' || i || '_v')::regclass) FROM generate_series(1, $n) i ORDER BY i");
	$node->stop;
	for my $i (1 .. $n)
	{
		damage($node->data_dir . '/' . $paths[ $i - 1 ], sub {
			my ($handle, $size) = @_;
			# One in four hits the first 64 bytes of a page.
			my $page   = int rand($size / $block);
			my $offset = rand() < 0.25 ? int rand 64 : int rand $block;
			my $place  = $page * $block + $offset;
			my $byte   = ord read_at($handle, $place, 1);
			my $new    = rand() < 0.5 ? $byte ^ (1 << int rand 8) : ($byte + 1 + int rand 255) % 256;

			write_at($handle, $place, chr $new);
			$flipped[$i] = { page => $page, offset => $offset, what => "f$i page $page of " . $size / $block . " byte $offset $byte -> $new" };
		});
	}
	$node->start;
	for my $i (1 .. $n)
	{
		my ($wrong, $reported) = judge("f$i", $flipped[$i]{what});
		push @problems, @$wrong;
		push @unseen, $flipped[$i]{what} if !$reported && $flipped[$i]{offset} >= $covered;
		my $unhealed = heal("f$i");
		push @unhealed, $unhealed if $unhealed ne '';
	}
	is(join("\n", @problems), '', "round $round: $n flipped bytes: right answers or XX002 with index and block");
	is(join("\n", @unseen), '', "round $round: vectorgpu_check reports every flip that a checksum covers");
	is(join("\n", @unhealed), '', "round $round: REINDEX heals");
}

# Deliberate damage, one table each.
my $zero_page = "\0" x $block;
my @damages = (
	[ 'a page header\'s bounds' => sub { my ($h, $size) = @_; write_at($h, $block + 12, "\xff\xff") } ],
	[ 'the metapage zeroed'     => sub { my ($h, $size) = @_; write_at($h, 0, $zero_page) } ],
	[ 'a page zeroed'           => sub { my ($h, $size) = @_; write_at($h, $block, $zero_page) } ],
	[ 'the last page zeroed'    => sub { my ($h, $size) = @_; write_at($h, $size - $block, $zero_page) } ],
	[ 'all zeros'               => sub { my ($h, $size) = @_; write_at($h, 0, "\0" x $size) } ],
	[ 'all ones'                => sub { my ($h, $size) = @_; write_at($h, 0, "\xff" x $size) } ],
	[ 'random bytes'            => sub { my ($h, $size) = @_; write_at($h, 0, join '', map { chr int rand 256 } 1 .. $size) } ],
	[ 'two pages exchanged'     => sub { my ($h, $size) = @_; my ($a, $b) = (read_at($h, $block, $block), read_at($h, 2 * $block, $block)); write_at($h, $block, $b); write_at($h, 2 * $block, $a) } ],
	[ 'the metapage repeated'   => sub { my ($h, $size) = @_; write_at($h, $block, read_at($h, 0, $block)) } ],
	[ 'a page as the metapage'  => sub { my ($h, $size) = @_; write_at($h, 0, read_at($h, $block, $block)) } ],
	[ 'the last page cut off'   => sub { my ($h, $size) = @_; truncate $h, $size - $block } ],
	[ 'cut to half'             => sub { my ($h, $size) = @_; truncate $h, int($size / $block / 2) * $block } ],
	[ 'cut to the metapage'     => sub { my ($h, $size) = @_; truncate $h, $block } ],
	[ 'cut to nothing'          => sub { my ($h, $size) = @_; truncate $h, 0 } ],
	[ 'cut within a page'       => sub { my ($h, $size) = @_; truncate $h, $size - 1000 } ],
	[ 'one zero page appended'  => sub { my ($h, $size) = @_; write_at($h, $size, $zero_page) } ],
	[ 'nine zero pages appended' => sub { my ($h, $size) = @_; write_at($h, $size, $zero_page x 9) } ],
	[ 'a page of ones appended' => sub { my ($h, $size) = @_; write_at($h, $size, "\xff" x $block) } ],
	[ 'a stranger\'s metapage'  => sub { my ($h, $size, $other) = @_; write_at($h, 0, substr($other, 0, $block)) } ],
	[ 'a stranger\'s page'      => sub { my ($h, $size, $other) = @_; write_at($h, $block, substr($other, $block, $block)) } ],
	[ 'a stranger\'s file'      => sub { my ($h, $size, $other) = @_; write_at($h, 0, $other); truncate $h, length $other } ]);

sub damage_deliberately
{
	$n = @damages + 2;
	make_tables();
	my @paths = split /\n/, $node->safe_psql('postgres', "SELECT pg_relation_filepath(('f' || i || '_v')::regclass) FROM generate_series(1, $n) i ORDER BY i");
	# The other index has other rows than the damaged tables.
	$node->safe_psql('postgres', "UPDATE f$n SET v = v " . (of_match() ? '|| 5' : '+ v') . "; VACUUM f$n; REINDEX INDEX f$n" . "_v");
	$paths[ $n - 1 ] = $node->safe_psql('postgres', "SELECT pg_relation_filepath('f${n}_v')");
	$node->stop;
	my $other = slurp_file($node->data_dir . '/' . $paths[ $n - 1 ]);
	for my $i (1 .. @damages)
	{
		damage($node->data_dir . '/' . $paths[ $i - 1 ], sub { $damages[ $i - 1 ][1]->(@_, $other) });
	}
	$node->start;
	for my $i (1 .. @damages)
	{
		my $what = $damages[ $i - 1 ][0];

		# Page tags cannot detect a whole intact file of another index; the check against the table does.
		if ($what eq 'a stranger\'s file')
		{
			my ($state) = psql_state($node, "SELECT vectorgpu_check('f${i}_v', true)");
			like($state, qr/^XX00[12]$/, "$what: the check against the table reports it");
			is(heal("f$i"), '', "$what: REINDEX heals");
			next;
		}
		my ($wrong, $reported) = judge("f$i", $what, states => $what =~ /stranger|exchanged|repeated|as the/ ? '40001' : undef);
		is(join("\n", @$wrong), '', "$what: right answers or a clear error");
		ok($reported, "$what: the check reports it") if $what !~ /appended/;
		my ($state, $message) = psql_state($node, "DELETE FROM f$i WHERE id = 1; VACUUM (INDEX_CLEANUP on) f$i");
		like($state, qr/^(?:00000|XX002|XX001|40001)$/, "$what: VACUUM ends in order") or diag($message);
		($state, $message) = psql_state($node, "SELECT vectorgpu_merge('f${i}_v')");
		like($state, qr/^(?:00000|XX002|XX001|40001)$/, "$what: merge ends in order") or diag($message);
		is(heal("f$i"), '', "$what: REINDEX heals");
	}
	is($node->safe_psql('postgres', "SELECT compare_answers('f" . (@damages + 1) . "', '$OP', quote_literal(test_vector(2, 24)) || '::$CAST')"), '', 'the undamaged neighbour is well');
	return;
}

damage_deliberately() if $share == 1;

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|reinitializing/, 'no process crashed');
$node->stop;
done_testing();
