# Helpers for a TAP file with USING $AM that runs for gpumatch too, whose values are sets: the type of the column, the operator class and the
# operator, and a test_vector of create_comparer that returns the literal of a set.
package VectorgpuMatch;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use VectorgpuLoad;
use VectorgpuTest;

our @EXPORT = qw(of_match column_type create_values fill_values $OP $CLASS $CAST);

our $OP = of_match() ? '<#>' : '<->';
our $CLASS = of_match() ? '' : 'vector_l2_ops';    # as in (v $CLASS): the default class of arrays
our $CAST = of_match() ? 'int[]' : 'vector';       # of a literal of test_vector

# Whether the file runs for gpumatch.
sub of_match { return $AM eq 'gpumatch'; }

# The type of a column for vectors of this many dimensions, or sets of this many elements.
sub column_type
{
	my ($dims) = @_;

	return of_match() ? 'int[]' : "vector($dims)";
}

# create_comparer, with a test_vector for the access method: for gpumatch the literal of a set of `dims` elements, each one of 32, so that sets
# share some.
sub create_values
{
	my ($node, $db) = @_;

	create_comparer($node, db => $db);
	$node->safe_psql($db // 'postgres', <<'SQL') if of_match();
CREATE OR REPLACE FUNCTION test_vector(seed bigint, dims int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT '{' || string_agg((d * 32 + (hashint8extended($1 * $2 + d, 42) & 31))::text, ',' ORDER BY d) || '}'
	FROM generate_series(1, $2) d
$$;
SQL
	return;
}

# Rows (id, category, value) that depend only on seed and id.
#   dims (16), rows (1000), first (1), seed (1)
sub fill_values
{
	my ($node, $table, %opt) = @_;
	my ($dims, $first, $seed) = ($opt{dims} // 16, $opt{first} // 1, $opt{seed} // 1);
	my $last = $first + ($opt{rows} // 1000) - 1;

	return fill_vectors($node, $table, %opt) if !of_match();
	$node->safe_psql('postgres', "INSERT INTO $table SELECT i, i % 10, test_vector(i + $seed * 10000000, $dims)::int[] FROM generate_series($first, $last) i");
	return;
}

1;
