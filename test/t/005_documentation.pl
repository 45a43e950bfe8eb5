# The SQL of the documentation: every ```sql block of README.md and docs/ runs without an error. The blocks of a file run in order, in one
# session, in a database for each file.
use strict;
use warnings;

use File::Find;
use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;

my $root = "$FindBin::RealBin/../..";
my @pages = "README.md";

find({ no_chdir => 1, wanted => sub { push @pages, substr($_, length("$root/")) if /\.md$/ } }, "$root/docs");

# The blocks of a page, each line at its line number of the page, so that psql's messages have these; and the number of blocks.
sub sql_of
{
	my ($page) = @_;
	my ($n_blocks, $inside, $sql) = (0, 0, '');

	for (split /\n/, slurp_file("$root/$page"))
	{
		if (/^\s*```(.*)/)
		{
			$inside = !$inside && $1 eq 'sql';
			$n_blocks += $inside;
			$sql .= "\n";
		}
		else
		{
			$sql .= $inside ? "$_\n" : "\n";
		}
	}
	return ($sql, $n_blocks);
}

my $node = make_node('documentation', extension => 0);
my %output;

for my $page (sort @pages)
{
	my ($sql, $n_blocks) = sql_of($page);

	next unless $n_blocks;
	my $database = lc $page =~ s/\W/_/gr;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	create_extension($node, $database) unless $sql =~ /CREATE EXTENSION vectorgpu/;
	my ($status, $stdout, $stderr) = $node->psql($database, $sql);
	is($status, 0, "$page: $n_blocks blocks run") or diag($stderr);
	$output{$page} = $stdout;
}
like($output{'README.md'}, qr/Index Scan using items_embedding_idx.*Answered By: /s, 'the quick start uses its index');
cmp_ok(keys %output, '>=', 6, 'pages with examples are found');

$node->stop;
done_testing();
