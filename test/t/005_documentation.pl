# The SQL of the documentation: every ```sql block of README.md and docs/ runs without an error. The blocks of a file run in order, in one
# session; a block that creates an extension starts another one, in a database of its own. The blocks for pgvector's columns need a server with
# pgvector. The blocks to move a database are run by 077.
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

# The sessions of a page: their number of blocks and their SQL, each line at its line number of the page, so that psql's messages have these.
sub sessions_of
{
	my ($page) = @_;
	my $text = slurp_file("$root/$page");
	my @sessions;

	while ($text =~ /^[ \t]*```sql\n(.*?)^[ \t]*```$/msg)
	{
		my ($block, $line) = ($1, 1 + substr($text, 0, $-[1]) =~ tr/\n//);

		push @sessions, { line => $line, n_blocks => 0, sql => '' } if !@sessions || $block =~ /^CREATE EXTENSION/m;
		my $session = $sessions[-1];
		$session->{n_blocks}++;
		$session->{sql} .= "\n" x ($line - 1 - $session->{sql} =~ tr/\n//) . $block;
	}
	return @sessions;
}

# What the reader of docs/pgvector.md has before the blocks for pgvector's columns.
my $pgvector = 'CREATE EXTENSION vector; CREATE TABLE items (id bigint, embedding vector(3)); CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)';
use_own_libpq(); # for the page about postgres_fdw
my $node = make_node('documentation', extension => 0);
my %output;

for my $page (sort @pages)
{
	for my $session (sessions_of($page))
	{
		my $sql = $session->{sql};
		my $name = "$page: $session->{n_blocks} blocks from line $session->{line} on run";
		my $database = lc "$page $session->{line}" =~ s/\W/_/gr;
		my $on_pgvector = $sql =~ /CREATE EXTENSION vectorgpu_pgvector|public\.vector/;

	  SKIP:
		{
			skip "$name: the server has no pgvector", 1 if $on_pgvector && !has_pgvector($node);
			skip "$name: the server has no postgres_fdw", 1 if $sql =~ /CREATE EXTENSION postgres_fdw/ && !has_postgres_fdw($node);
			$node->safe_psql('postgres', "CREATE DATABASE $database");
			create_extension($node, $database) unless $sql =~ /^CREATE EXTENSION/m;
			$node->safe_psql($database, $pgvector) if $on_pgvector;
			my ($status, $stdout, $stderr) = $node->psql($database, $sql);
			is($status, 0, $name) or diag($stderr);
			$output{$page} .= $stdout;
		}
	}
}
like($output{'README.md'}, qr/Index Scan using items_embedding_idx.*Answered By: /s, 'the quick start uses its index');
cmp_ok(keys %output, '>=', 6, 'pages with examples are found');

$node->stop;
done_testing();
