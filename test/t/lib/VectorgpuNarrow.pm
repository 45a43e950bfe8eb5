# Narrow searches of gpuivf and gpugraph: checked by check_index of VectorgpuTest besides the pages.
# Test servers have settings with which gpuivf looks at all lists and gpugraph at all rows, so that answers are exact; then no list is chosen,
# no edge followed, no code used. So here a new session scans with few probes or a small width, from the pages, and by the worker if the
# server has one: no row comes twice, rows are in the order of the operator's distances, and each is visible to a fetch by ctid. With many
# rows ($many, most of them not deleted) a LIMIT of ten gets ten rows; with fewer, the rest may be found late and left out. With few
# dimensions (16) as well, a sample of the rows finds a share %least_recall of its neighbours, with a quarter of the lists or a width of
# 1/32 of the rows: a share that a sound index surely finds.
# Scans of few rows look at all of them even with narrow settings (gpugraph: at most eight times the width in a segment, and the width is at
# least the LIMIT; gpuivf: fewer than 80 rows, which are in one list; both: rows of the delta). Then this tests no more than exact scans do,
# and a note says so. 100_wal_standby, 110_crash and 400_mixed_load have a table of many rows for it.
package VectorgpuNarrow;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use Test::More;
use VectorgpuCount;

our @EXPORT = qw(check_narrow);

# By dimensions. Uniform rows of 8: 0.98 and more, codes of 64 bits included; of 16, with 7 of 27 lists: 0.75.
my %least_recall = (8 => 0.8, 16 => 0.5);
my $many         = 1000; # rows

my $narrow = <<'SQL';
LOAD 'vectorgpu';
SET client_min_messages = notice;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
SET vectorgpu.scan_order = strict;
DO $narrow$
DECLARE
	i record;
	query text;
	setting text;
	width int;
	by_worker text;
	k int;
	scan text;
	plan jsonb;
	answer record;
	n_narrow int := 0;
	n_scans int := 0;
	n_visible bigint;
	many boolean;
	share float8;
	least float8;
BEGIN
	SELECT a.amname AS method, c.relname AS index_name, x.indrelid::regclass AS tab, pg_get_indexdef(x.indexrelid, 1, true) AS value,
			coalesce(pg_get_expr(x.indpred, x.indrelid), 'true') AS condition, v.rows - v.null_rows AS rows, v.lists, v.segment_rows, v.dimensions,
			(SELECT format('OPERATOR(%I.%s)', s.nspname, o.oprname) FROM pg_opclass p JOIN pg_amop m ON m.amopfamily = p.opcfamily
				JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace s ON s.oid = o.oprnamespace
				WHERE p.oid = x.indclass[0] AND m.amoppurpose = 'o' AND m.amoplefttype = p.opcintype LIMIT 1) AS op
		INTO STRICT i
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index x ON x.indexrelid = c.oid
			LEFT JOIN vectorgpu_indexes v ON v.index_name = c.relname AND v.schema_name = c.relnamespace::regnamespace::text
		WHERE c.oid = current_setting('narrow.index')::regclass AND c.relkind IN ('i', 'I');
	IF i.method NOT IN ('gpuivf', 'gpugraph') THEN
		RETURN;
	END IF;
	IF i.rows IS NULL THEN
		RAISE NOTICE 'narrow scans of %: not an index that can be scanned', i.index_name;
		RETURN;
	END IF;
	IF coalesce(i.lists, i.segment_rows / 80) <= 1 THEN
		RAISE NOTICE 'narrow scans of %, % rows: looked at all rows', i.index_name, i.rows;
		RETURN;
	END IF;
	EXECUTE format('SELECT count(*) FROM ONLY %s WHERE %s AND %s IS NOT NULL', i.tab, i.condition, i.value) INTO n_visible;
	many := least(n_visible, i.segment_rows) >= current_setting('narrow.many')::int AND n_visible * 2 > i.segment_rows;
	setting := CASE i.method WHEN 'gpuivf' THEN 'gpuivf.probes' ELSE 'gpugraph.search_width' END;
	FOR query IN EXECUTE format('SELECT format(''%%L::%%s'', q::text, replace(pg_typeof(q)::text, ''bit'', ''bit varying'')) FROM (SELECT %s AS q FROM %s WHERE %s ORDER BY hashtid(ctid)) s WHERE q IS NOT NULL LIMIT 2',
			i.value, i.tab, i.condition) LOOP
		FOREACH width IN ARRAY CASE i.method WHEN 'gpuivf' THEN ARRAY[1, 3] ELSE ARRAY[4, 32] END LOOP
			PERFORM set_config(setting, width::text, true);
			FOREACH k IN ARRAY ARRAY[10, 100] LOOP
				scan := format('SELECT ctid AS place, %1$s %2$s %3$s AS d FROM ONLY %4$s WHERE %5$s ORDER BY %1$s %2$s %3$s LIMIT %6$s',
					i.value, i.op, query, i.tab, i.condition, k);
				PERFORM set_config('vectorgpu.worker', 'off', true);
				EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || scan INTO plan;
				IF plan #>> '{0,Plan,Plans,0,Index Name}' IS DISTINCT FROM i.index_name THEN
					RAISE NOTICE 'narrow scans of %: the planner takes %', i.index_name, plan #> '{0,Plan,Plans,0}';
					RETURN;
				END IF;
				n_narrow := n_narrow + (coalesce(plan #>> '{0,Vectorgpu Scans,0,Compared}', plan #>> '{0,Plan,Plans,0,Vectorgpu Scan,Compared}')::bigint < i.rows)::int;
				FOR by_worker IN SELECT 'off' UNION ALL SELECT 'on' FROM pg_settings WHERE name = 'vectorgpu.worker' AND reset_val = 'on'
						AND current_setting('shared_preload_libraries') ~ 'vectorgpu' LOOP
					PERFORM set_config('vectorgpu.worker', by_worker, true);
					EXECUTE format('WITH found AS MATERIALIZED (%1$s), numbered AS (SELECT *, lag(d) OVER () AS before, row_number() OVER () AS n FROM found)
						SELECT count(*) AS n, count(DISTINCT place) AS places, count(*) FILTER (WHERE before > d OR (n > 1 AND before IS NULL AND d IS NOT NULL)) AS disorder,
							count(*) FILTER (WHERE NOT EXISTS (SELECT FROM ONLY %2$s t WHERE ctid = place AND %3$s %4$s %5$s IS NOT DISTINCT FROM d)) AS unseen,
							(SELECT count(*) FROM (SELECT FROM ONLY %2$s WHERE %6$s LIMIT %7$s) s) AS wanted FROM numbered',
						scan, i.tab, i.value, i.op, query, i.condition, CASE WHEN many THEN 10 ELSE 1 END) INTO answer;
					n_scans := n_scans + 1;
					IF answer.places <> answer.n OR answer.disorder > 0 OR answer.unseen > 0 OR answer.n < answer.wanted THEN
						RAISE EXCEPTION 'narrow scan of %: % rows, % wanted at least, % different ones, % in disorder, % not visible', i.index_name, answer.n, answer.wanted,
								answer.places, answer.disorder, answer.unseen
							USING DETAIL = format('%s = %s, vectorgpu.worker = %s: %s', setting, width, by_worker, left(scan, 1000));
					END IF;
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	IF n_narrow = 0 THEN
		RAISE NOTICE 'narrow scans of %, % rows: looked at all rows', i.index_name, i.rows;
		RETURN;
	END IF;
	least := CASE WHEN i.dimensions <= 8 THEN current_setting('narrow.recall_8')::float8 WHEN i.dimensions <= 16 THEN current_setting('narrow.recall_16')::float8 END;
	IF NOT many OR least IS NULL THEN
		RAISE NOTICE 'narrow scans of %, % rows: % scans, % narrow ones for the pages', i.index_name, i.rows, n_scans, n_narrow;
		RETURN;
	END IF;
	PERFORM set_config('vectorgpu.worker', 'off', true);
	PERFORM set_config(setting, CASE i.method WHEN 'gpuivf' THEN ceil(i.lists / 4.0) ELSE greatest(i.segment_rows / 32, 16) END::int::text, true);
	SELECT recall INTO share FROM vectorgpu_recall(current_setting('narrow.index')::regclass, 30, 10);
	IF share < least THEN
		RAISE EXCEPTION 'narrow scans of %: a recall of %, less than %', i.index_name, share, least USING DETAIL = format('%s = %s, %s rows', setting, current_setting(setting), i.rows);
	END IF;
	RAISE NOTICE 'narrow scans of %, % rows: % scans, % narrow ones for the pages, recall % with %', i.index_name, i.rows, n_scans, n_narrow, round(share::numeric, 3), current_setting(setting);
END
$narrow$;
SQL

# The problem of the answers of narrow searches by an index, or the empty string; indexes of other access methods are skipped. Without `recall`
# any recall passes.
sub check_narrow
{
	my ($node, $index, $db, $recall) = @_;
	my ($recall_8, $recall_16) = $recall ? @least_recall{ 8, 16 } : (0, 0);
	my ($rc, $out, $err) = $node->psql($db,
		"SET narrow.index = '$index'; SET narrow.recall_8 = $recall_8; SET narrow.recall_16 = $recall_16; SET narrow.many = $many;\n$narrow");

	if ($rc != 0)
	{
		count('answers');
		count('wrong');
		return "exit status $rc\n$err";
	}
	note($1) while $err =~ /NOTICE:  (narrow scans .*)/g;
	count('answers', $1) if $err =~ /: (\d+) scans/;
	return '';
}

1;
