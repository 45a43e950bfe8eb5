# The rolling recall: scans under a LIMIT are sampled and measured in the background; clients see it in the view only. And the update
# from earlier versions to this one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VectorgpuTest;
use VectorgpuWorker;

my $node = make_node('recall', conf => "vectorgpu.recall_sample_rate = 1\nautovacuum = off\n");

# An index made with an earlier version's objects works after the update, and the objects are those of a new installation.
my @versions = split /\n/, $node->safe_psql('postgres',
	q{SELECT version FROM pg_available_extension_versions WHERE name = 'vectorgpu' AND NOT installed ORDER BY version});
cmp_ok(scalar @versions, '>', 1, "earlier versions: @versions");
my $objects = q{SELECT string_agg(pg_describe_object(classid, objid, objsubid), E'\n' ORDER BY 1) FROM pg_depend d JOIN pg_extension e ON refobjid = e.oid AND extname = 'vectorgpu' AND deptype = 'e'};
my $before;
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION vectorgpu');
for my $version (reverse @versions) # the oldest one's database is used below
{
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS t; DROP EXTENSION vectorgpu CASCADE; CREATE EXTENSION vectorgpu VERSION '$version'");
	make_table($node, 't', dims => 8);
	fill_vectors($node, 't', dims => 8, rows => 2000);
	$node->safe_psql('postgres', 'CREATE INDEX t_ivf ON t USING gpuivf (v vector_l2_ops) WITH (lists = 40)');
	$before = $node->safe_psql('postgres', 'SELECT vectorgpu_check(\'t_ivf\', true)');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_proc WHERE proname = \'vectorgpu_recall\''), '0', '0.1.0 has no vectorgpu_recall') if $version eq '0.1.0';
	$node->safe_psql('postgres', 'ALTER EXTENSION vectorgpu UPDATE');
	is($node->safe_psql('postgres', 'SELECT extversion = default_version FROM pg_extension, pg_available_extensions WHERE extname = name AND name = \'vectorgpu\''), 't', "$version is updated to this version");
	is($node->safe_psql('postgres', 'SELECT vectorgpu_check(\'t_ivf\', true)'), $before, "$version: the index is as it was");
	is($node->safe_psql('postgres', $objects), $node->safe_psql('fresh', $objects), "the objects of an update from $version are those of an installation");
	same_definitions($version);
}

# Not only names: privileges, definitions and comments are the same.
sub same_definitions
{
	my ($version) = @_;
	my $member = q{FROM pg_depend m JOIN pg_extension e ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid AND e.extname = 'vectorgpu' AND m.deptype = 'e'};
	my %compared = (
		'comments'                 => qq{SELECT pg_describe_object(c.classoid, c.objoid, c.objsubid), c.description $member JOIN pg_description c ON c.classoid = m.classid AND c.objoid = m.objid},
		'functions'                => qq{SELECT p.oid::regprocedure, p.proowner::regrole, p.proacl, p.prosupport, p.proconfig, CASE WHEN p.prokind = 'a' THEN a::text ELSE pg_get_functiondef(p.oid) END
			$member JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
			LEFT JOIN LATERAL (SELECT aggkind, aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn, aggtranstype::regtype, agginitval FROM pg_aggregate WHERE aggfnoid = p.oid) a ON true},
		'relations'                => qq{SELECT c.relname, c.relkind, c.relowner::regrole, c.relacl, c.reloptions, pg_get_viewdef(c.oid) $member JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid},
		'columns'                  => qq{SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attacl $member JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0},
		'types'                    => qq{SELECT t.oid::regtype, t.typacl, t.typlen, t.typalign, t.typstorage, t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout, t.typsubscript
			$member JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid},
		'operators'                => qq{SELECT o.oid::regoperator, o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprrest, o.oprjoin $member JOIN pg_operator o ON m.classid = 'pg_operator'::regclass AND o.oid = m.objid},
		'casts'                    => qq{SELECT c.castsource::regtype, c.casttarget::regtype, c.castfunc::regprocedure, c.castcontext, c.castmethod $member JOIN pg_cast c ON m.classid = 'pg_cast'::regclass AND c.oid = m.objid},
		'operator classes'         => qq{SELECT c.opcname, a.amname, c.opcintype::regtype, c.opcdefault, c.opckeytype::regtype $member JOIN pg_opclass c ON m.classid = 'pg_opclass'::regclass AND c.oid = m.objid JOIN pg_am a ON a.oid = c.opcmethod},
		'operators of families'    => qq{SELECT f.opfname, a.amname, o.amopstrategy, o.amoppurpose, o.amopopr::regoperator, s.opfname $member JOIN pg_opfamily f ON m.classid = 'pg_opfamily'::regclass AND f.oid = m.objid
			JOIN pg_am a ON a.oid = f.opfmethod JOIN pg_amop o ON o.amopfamily = f.oid LEFT JOIN pg_opfamily s ON s.oid = o.amopsortfamily},
		'functions of families'    => qq{SELECT f.opfname, a.amname, p.amproclefttype::regtype, p.amprocnum, p.amproc::regprocedure $member JOIN pg_opfamily f ON m.classid = 'pg_opfamily'::regclass AND f.oid = m.objid
			JOIN pg_am a ON a.oid = f.opfmethod JOIN pg_amproc p ON p.amprocfamily = f.oid},
		'access methods'           => qq{SELECT a.amname, a.amhandler, a.amtype $member JOIN pg_am a ON m.classid = 'pg_am'::regclass AND a.oid = m.objid},
		'privileges as dumped'     => qq{SELECT pg_describe_object(i.classoid, i.objoid, i.objsubid), i.privtype, i.initprivs $member JOIN pg_init_privs i ON i.classoid = m.classid AND i.objoid = m.objid});
	for my $what (sort keys %compared)
	{
		my ($updated, $fresh) = map { $node->safe_psql($_, "SELECT s::text FROM ($compared{$what}) s ORDER BY s::text COLLATE \"C\"") } 'postgres', 'fresh';

		isnt($fresh, '', "an installation has $what");
		is($updated, $fresh, "$what of an update from $version are those of an installation");
	}
	return;
}

my $query = query_vector($node, 5, dims => 8);
my $scan  = "SET enable_seqscan = off; SET enable_sort = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> $query LIMIT 10) s";

sub samples
{
	return $node->safe_psql('postgres', q{SELECT coalesce(sum(samples), 0) FROM vectorgpu_index_recall WHERE index_name = 't_ivf'});
}

# Runs the scan until the view has this many more samples; scans drawn during a measurement are not sampled.
sub take_samples
{
	my ($n, $settings) = @_;
	my $wanted = samples() + $n;

	return wait_until(sub { is_count($node->safe_psql('postgres', "$settings $scan")); return samples() >= $wanted });
}

sub is_count
{
	my ($out) = @_;

	die "the scan returned $out" if $out ne '10';
	return;
}

ok(take_samples(3, 'SET gpuivf.probes = 40;'), 'scans are sampled');
is($node->safe_psql('postgres', q{SELECT recall, recall_high, dropped FROM vectorgpu_index_recall}), '1|1|0', 'all lists: all rows are found');

# Returned rows that are not the nearest lower it. One list of forty rarely has the ten nearest of random rows.
ok(take_samples(3, 'SET gpuivf.probes = 1;'), 'with one list');
my $found = $node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET gpuivf.probes = 1; WITH a AS (SELECT id FROM t ORDER BY v <-> $query LIMIT 10) SELECT count(*) FROM a WHERE id IN (SELECT id FROM (SELECT id, rank() OVER (ORDER BY v <-> $query) r FROM t) s WHERE r <= 10)");
SKIP:
{
	skip 'one list has all of them', 1 if $found == 10;
	cmp_ok($node->safe_psql('postgres', q{SELECT recall FROM vectorgpu_index_recall}), '<', 1, 'rows that one list has not got are missed');
}

# Samples do not count as sequential scans in statistics.
my $scans = q{SELECT pg_stat_force_next_flush(); SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 't'};
my $scanned = $node->safe_psql('postgres', $scans);
ok(take_samples(3, 'SET gpuivf.probes = 40;'), 'more samples');
is($node->safe_psql('postgres', $scans), $scanned, 'they do not count as sequential scans');

# A rebuilt index starts anew; a dropped one has no row.
$node->safe_psql('postgres', 'REINDEX INDEX t_ivf');
is($node->safe_psql('postgres', 'SELECT count(*) FROM vectorgpu_index_recall'), '0', 'the recall of the old index is not shown for the rebuilt one');
ok(wait_until(sub { $node->safe_psql('postgres', "SET gpuivf.probes = 40; $scan"); return $node->safe_psql('postgres', q{SELECT recall FROM vectorgpu_index_recall}) eq '1' }), 'a rebuilt index starts anew');

# Privileges are those of vectorgpu_indexes.
$node->safe_psql('postgres', 'CREATE ROLE nobody_special');
is($node->safe_psql('postgres', 'SET ROLE nobody_special; SELECT count(*) FROM vectorgpu_index_recall'), '0', 'only of tables that the user may read');

# A measurement that takes too long is given up.
$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 100000 * g, category, v FROM t, generate_series(1, 15) g');
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET statement_timeout = 1');
{
	# No session of this test is under that limit, not even the statement that resets it.
	local $ENV{PGOPTIONS} = '-c statement_timeout=0';

	ok(wait_until(sub { $node->safe_psql('postgres', $scan); return $node->safe_psql('postgres', q{SELECT coalesce(sum(dropped), 0) > 0 FROM vectorgpu_index_recall}) eq 't' }), 'a sample beyond statement_timeout is dropped');
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET statement_timeout');
}
$node->safe_psql('postgres', 'REINDEX INDEX t_ivf');
$node->append_conf('postgresql.conf', "vectorgpu.recall_sample_time = 1ms\n");
$node->reload;
ok(wait_until(sub { $node->safe_psql('postgres', $scan); return $node->safe_psql('postgres', q{SELECT coalesce(sum(dropped), 0) > 0 FROM vectorgpu_index_recall}) eq 't' }), 'a sample that takes too long is dropped');

# No sample of data that another process cannot see, and none that blocks DROP DATABASE.
is($node->safe_psql('postgres', "BEGIN; CREATE TABLE n (v vector(2)); INSERT INTO n VALUES ('[1,2]'); CREATE INDEX n_v ON n USING gpuflat (v vector_l2_ops); SET LOCAL enable_seqscan = off; SELECT v FROM n ORDER BY v <-> '[1,1]' LIMIT 1; COMMIT"), '[1,2]', 'an index of this transaction');
is($node->safe_psql('postgres', "CREATE TEMP TABLE n2 (v vector(2)); INSERT INTO n2 VALUES ('[1,2]'); CREATE INDEX ON n2 USING gpuflat (v vector_l2_ops); SET enable_seqscan = off; SELECT v FROM n2 ORDER BY v <-> '[1,1]' LIMIT 1"), '[1,2]', 'an index of this session');
$node->safe_psql('postgres', 'DROP TABLE t');
is($node->safe_psql('postgres', 'SELECT count(*) FROM vectorgpu_index_recall'), '0', 'no row of an index that is gone');

# The other access methods are sampled as well, with the same recall as by SQL.
$node->append_conf('postgresql.conf', "vectorgpu.recall_sample_time = 4s\n");
$node->reload;
make_table($node, 'o', dims => 32);
fill_vectors($node, 'o', dims => 32, rows => 5000);
$node->safe_psql('postgres', 'ALTER TABLE o ADD tags int[]; UPDATE o SET tags = ARRAY[id % 7, 10 + id % 11, 30 + id % 13]; VACUUM FULL o');
my $near = 'v <-> ' . query_vector($node, 5, dims => 32);
for my $other ([ 'gpuflat', 'v vector_l2_ops', $near, 'SELECT' ], [ 'gpugraph', 'v vector_l2_ops', $near, 'SET vectorgpu.stable_pages = off; SET gpugraph.search_width = 1' ],
	[ 'gpumatch', 'tags', "tags <#> '{1,12,33}'", 'SELECT' ])
{
	my ($method, $key, $order, $setting) = @$other;
	my $ours = "SET enable_seqscan = off; SET enable_sort = off; $setting; SELECT count(*) FROM (SELECT id, $order AS d FROM o ORDER BY $order LIMIT 10) s";
	my $of_it = qq{SELECT round(recall::numeric, 6)::float8, recall_low < recall, samples >= 3 FROM vectorgpu_index_recall WHERE index_name = 'o_i' AND access_method = '$method'};
	my $farthest = $node->safe_psql('postgres', "SET enable_indexscan = off; SELECT max(d) FROM (SELECT $order AS d FROM o ORDER BY $order LIMIT 10) s");

	$node->safe_psql('postgres', "DROP INDEX IF EXISTS o_i; CREATE INDEX o_i ON o USING $method ($key)");
	ok(wait_until(sub { is_count($node->safe_psql('postgres', $ours)); return $node->safe_psql('postgres', $of_it) =~ /\|t$/ }), "scans of $method are sampled");
	my $found = $node->safe_psql('postgres', "$ours WHERE d <= $farthest");
	is($node->safe_psql('postgres', $of_it), ($found / 10) . '|t|t', "recall of $method is the share of $found in 10");
	$method eq 'gpugraph' ? cmp_ok($found, '<', 10, 'a search of a graph that keeps next to no candidates misses some') : is($found, 10, "$method finds all");
}
$node->safe_psql('postgres', 'DROP TABLE o');
$node->safe_psql('postgres', 'DROP DATABASE fresh');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|ERROR:/, 'no error, no crash');
$node->stop;
done_testing();
