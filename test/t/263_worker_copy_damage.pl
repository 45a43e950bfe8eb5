# Damage of a copy in the worker (G14): a bit of a copy is flipped in the memory of its process, as by a broken chip. For each part of the copies of each
# access method vectorgpu_check with check_cache reports that the copy differs, and which part; the pages are intact, so the next copy is sound and
# answers rightly. Parts are rows, tombstones, descriptions of a segment's structure, and data that the engine derives for its searches (norms, sizes of
# texts). The CPU engine's copies, on any machine; those on a GPU are damaged in damage_test.cpp and 300_gpu_faults.
use strict;
use warnings;

use FindBin;
use List::Util qw(sum);
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

plan skip_all => 'no python3' if system('python3 -c "" 2>/dev/null') != 0;
my $node = make_node('main', conf => "shared_preload_libraries = 'vectorgpu'\nvectorgpu.worker_min_size = 0\nvectorgpu.worker_timeout = 60s\n"
	  . "vectorgpu.device = 'cpu'\nvectorgpu.auto_merge = off\n");
plan skip_all => 'the worker is not installed' unless -x worker_file($node);
my $pid = wait_worker($node);

# Flips the lowest bit of the byte at `offset` from each place in the worker's memory that matches the pattern, or from the nth only. Returns the number of
# places.
sub flip
{
	my ($pattern, $offset, $nth) = @_;
	my $out = `python3 '$FindBin::RealBin/lib/flip_bit.py' $pid $pattern $offset @{[ $nth // '' ]} 2>&1`;

	chomp $out;
	return $out;
}

plan skip_all => "this user may not write to the worker's memory" if flip(unpack('H*', 'nothing has this'), 0) =~ /^denied/;

# 600 rows are in a segment, 100 in the delta, some of both are dead. Rows of even and of odd ids are far from each other, so that two lists have them; their
# floats, row ids, bits and numbers in memory are known.
my ($built, $all) = (600, 700);
my @dead   = grep { $_ * 7919 % 13 == 5 || $_ * 104729 % 17 == 3 } 1 .. $all;
my @marked = (4, 18, 41, 78, 131, 223, 302, 445);
my $vector = q{ARRAY(SELECT ((i % 2) * 128 - 64 + d * i / 1024.0)::real FROM generate_series(1, 8) d)::vector(8)};
my $set    = "ARRAY['of row ' || i, CASE WHEN i = ANY ('{" . join(',', @marked) . "}') THEN 'marked' ELSE 'not marked' END]";

sub elements_of { my ($i) = @_; return map { $i % 2 * 128 - 64 + $_ * $i / 1024 } 1 .. 8; }
sub vector_of { return unpack 'H*', pack 'f<8', elements_of(@_); }
sub sparse_of { my ($i) = @_; return unpack 'H*', pack 'l<2f<2', 0, $i, $i / 2, 2; }
sub norm_of { return unpack 'H*', pack 'd<', sum(map { $_ * $_ } elements_of(@_)); } # exact

# The bitmap of the dead among ids $first and above, without its first and its last bytes.
sub dead_bits
{
	my ($first, $from, $bytes) = @_;
	my $bits = '';

	vec($bits, $_ - $first, 1) = 1 for grep { $_ >= $first } @dead;
	return unpack 'H*', substr($bits, $from, $bytes);
}

# Parts of each kind of copy besides rows. Lists: offsets, centroids, numbers of rows by place; lists of codes also the codec and the codes. Graphs: header,
# parts, entry points, edges; with codes also thresholds, or a centre, and codes. Sets: rows of each element, elements. Sparse vectors: their ends, elements.
my $lists = unpack 'H*', pack 'Q<3', 0, $built / 2, $built;
my $list_bytes = 24 + 2 * 8 * 4 + $built * 4;
my $edge_bytes = $built * 16 * 4;
my ($graph, $hashed, $rabitq) = map { unpack('H*', pack 'V2', 16, 1) . '.' x 8 . unpack('H*', pack 'V4', $_, 0, $built, 0) } 0, 64, 4;
my $marked = unpack 'H*', pack 'v*', map { $_ - 1 } @marked; # places in a tile, as they are counted
my $sizes  = unpack 'H*', pack 'v*', map { length "of row $_" } 1 .. $built;
my %structure = (
	flat   => [],
	ivf    => [ [ 'where a list ends', $lists, 8 ], [ 'a centroid', $lists, 24 ], [ 'the number of a row in a list', $lists, 24 + 64 + 400 ] ],
	codes  => [ [ 'where a list ends', $lists, 8 ], [ 'what codes are made with', $lists, $list_bytes + 16 ], [ 'a code', $lists, $list_bytes + 16 + 64 + 1000 ] ],
	graph  => [ [ 'an entry point', $graph, 32 ], [ 'an edge', $graph, 32 + int($edge_bytes / 2) ] ],
	hashed => [ [ 'an edge', $hashed, 32 + int($edge_bytes / 2) ], [ 'a code', $hashed, 32 + $edge_bytes + 16 + 64 * 4 + 64 * 8 + $built * 4 ] ],
	rabitq => [ [ 'an edge', $rabitq, 32 + int($edge_bytes / 2) ], [ 'a code', $rabitq, 32 + $edge_bytes + 16 + 8 * 4 + 64 * 24 + $built * 4 ] ],
	match  => [ [ 'the rows that have an element', $marked, 6 ], [ 'an element', unpack('H*', 'of row 321'), 3 ] ],
	texts  => [ [ 'a text', unpack('H*', 'of row 321of row 322'), 8 ], [ 'the size of a text', $sizes, 800, 'derived values' ] ],
	sparse => [ [ 'the end of a row', unpack('H*', pack 'Q<3', map { $_ * 16 } 300 .. 302), 8 ], [ 'an element', sparse_of(300), 8 ] ]);
my %indexes = (
	flat   => 'gpuflat (v vector_l2_ops)',
	ivf    => 'gpuivf (v vector_l2_ops) WITH (lists = 2)',
	codes  => 'gpuivf (v vector_l2_ops) WITH (lists = 2, storage = sq8, refine = none)',
	graph  => 'gpugraph (v vector_l2_ops) WITH (degree = 16)',
	hashed => 'gpugraph (v vector_l2_ops) WITH (degree = 16, hash_bits = 64)',
	rabitq => 'gpugraph (v vector_l2_ops) WITH (degree = 16, codes = rabitq)',
	match  => 'gpumatch (v)',
	texts  => 'gpumatch (v text_gram_ops)',
	sparse => 'gpuflat (v)');

for my $kind (qw(flat ivf codes graph hashed rabitq match texts sparse))
{
	my ($table, $index) = ("t_$kind", "i_$kind");
	my ($type, $value, $order) =
		$kind eq 'match' ? ('text[]', $set, q{v <#> '{marked,"of row 18"}'})
	  : $kind eq 'texts' ? ('text', q{'of row ' || i}, q{v <~> 'of row 188'})
	  : $kind eq 'sparse' ? ('sparsevec(9000)', q{format('{1:%s,%s:2}/9000', i / 2.0, i + 1)::sparsevec}, q{v <-> '{1:94,189:2}/9000'})
	  :                    ('vector(8)', $vector, q{v <-> '[63,62,61,64,64,65,66,67]'});
	my $has_vectors = $type eq 'vector(8)';
	my $n_held = $kind eq 'texts' ? $built + 2 * ($all - $built) : $all; # values of the delta take two slots there

	$node->safe_psql('postgres', "CREATE TABLE $table (id int, v $type); INSERT INTO $table SELECT i, $value FROM generate_series(1, $built) i; "
		  . "CREATE INDEX $index ON $table USING $indexes{$kind}; INSERT INTO $table SELECT i, $value FROM generate_series($built + 1, $all) i");
	my %row_id = map { /^(\d+)\|\((\d+),(\d+)\)$/ ? ($1 => $2 << 16 | $3) : () } split /\n/, $node->safe_psql('postgres', "SELECT id, ctid FROM $table");
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id IN (" . join(',', @dead) . ')');
	$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $table");

	# A scan of all lists reads no codes and does not ask the worker.
	my $answer = 'SET enable_seqscan = off; SET enable_sort = off;' . ($kind eq 'codes' ? ' SET gpuivf.probes = 1;' : '')
	  . " SELECT string_agg(id::text, ',') FROM (SELECT id FROM $table ORDER BY $order LIMIT 20) s";
	my $right = $node->safe_psql('postgres', "SET vectorgpu.worker = off; $answer");
	my $ids = sub { return unpack 'H*', pack 'Q<4', map { $row_id{$_} } @_; };
	my @parts = (
		[ 'row ids of a segment', $ids->(301 .. 304), 8, 'row ids' ],
		!$has_vectors || $kind eq 'codes' ? () : ([ 'a vector of a segment', vector_of(300), 16, 'vectors' ], [ 'a norm of a segment', norm_of(300), 0, 'derived values' ]),
		[ 'tombstones of a segment', dead_bits(1, 20, 16), 8, 'tombstones' ],
		$n_held != $all ? () : [ 'row ids of the delta', $ids->(641 .. 644), 8, 'row ids' ],
		[ 'a value of the delta', $has_vectors ? vector_of(650) : $kind eq 'sparse' ? sparse_of(650) : unpack('H*', 'of row 650'), 8, 'vectors' ],
		$has_vectors ? [ 'a norm of the delta', norm_of(650), 0, 'derived values' ] : (),
		$n_held != $all ? () : [ 'tombstones of the delta', dead_bits($built + 1, 2, 9), 4, 'tombstones' ],
		map { [ @$_[ 0 .. 2 ], $_->[3] // 'structure' ] } @{ $structure{$kind} });

	$node->safe_psql('postgres', "SELECT vectorgpu_prewarm('$index')");
	is($node->safe_psql('postgres', "SELECT cache_rows_checked FROM vectorgpu_check('$index', true, true)"), $n_held, "$index: the copy is sound");
	for my $part (@parts)
	{
		my ($name, $pattern, $offset, $what) = @$part;

		cmp_ok(flip($pattern, $offset), '>', 0, "$index: $name: a bit is flipped") or next;
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT vectorgpu_check('$index', false, true);\n"
			  . "SELECT vectorgpu_evict('$index'); SELECT vectorgpu_prewarm('$index') > 0; SELECT cache_rows_checked FROM vectorgpu_check('$index', false, true); $answer",
			on_error_stop => 0);
		my $place = $name =~ /delta/ ? 'the delta' : 'segment \d+';

		like($err, qr/ERROR:  XX001: the worker's copy of index "$index" differs from its pages\nDETAIL:  In rows \d+ to \d+ of $place, $what differ\.\n/,
			"$index: $name: vectorgpu_check says that they differ");
		is($out, "t\nt\n$n_held\n$right", "$index: $name: the next copy is sound, and the answer right");
	}

	# The bitmap of dead rows exists more than once: searches and the check use the engine's. The bit of a live row is flipped.
	for my $at ($kind =~ /^(?:flat|ivf|match)$/ ? ([ 'a segment', 1, 20, 16 ], [ 'the delta', $built + 1, 2, 9 ]) : ())
	{
		my ($place, $first, $from, $bytes) = @$at;
		my ($offset, $row) = map { my $id = $first + ($from + $_) * 8; (grep { $_ == $id } @dead) ? () : ($_, $id) } 2 .. $bytes - 1;
		my $near = $has_vectors ? "v <-> (SELECT v FROM $table WHERE id = $row)" : qq{v <#> '{"of row $row"}'};
		my $there = "SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM (SELECT id FROM $table ORDER BY $near LIMIT 10) s WHERE id = $row";
		my ($n_places, $n_hidden, $n_unseen) = (1, 0, 0);
		my $pattern = dead_bits($first, $from, $bytes);

		substr($pattern, 2 * $offset, 2) = '..'; # what was flipped is found again, and flipped back

		is($node->safe_psql('postgres', $there), '1', "$index: $place: a row is found");
		for (my $nth = 0; $nth < $n_places; $nth++)
		{
			$n_places = flip($pattern, $offset, $nth);
			my $hidden = $node->safe_psql('postgres', $there) eq '0';
			my ($rc, $out, $err) = $node->psql('postgres', "SELECT vectorgpu_check('$index', false, true)");

			$n_hidden += $hidden;
			$n_unseen++ if $hidden && $err !~ /differs from its pages\nDETAIL:  In rows \d+ to \d+ of (?:segment \d+|the delta), tombstones differ/;
			flip($pattern, $offset, $nth);
		}
		cmp_ok($n_hidden, '>', 0, "$index: $place: a flipped bit of the dead hides it, in $n_hidden of $n_places places");
		is($n_unseen, 0, "$index: $place: and vectorgpu_check says so each time");
	}
	by_worker($node, "$index, at last", sub { is($node->safe_psql('postgres', $answer), $right, "$index: the answer is right") });
	# The next tables have rows at the same places.
	$node->safe_psql('postgres', "SELECT vectorgpu_evict('$index')");
}
is(worker_pid($node), $pid, 'it is the same worker throughout');
$node->stop;
done_testing();
