-- gpumatch and hidden rows and columns: barriers, policies, column grants, functions with other rights than their caller's
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE ROLE vgm_ids;
CREATE ROLE vgm_tags;
CREATE ROLE vgm_view;
CREATE SCHEMA vgm;
GRANT USAGE, CREATE ON SCHEMA vgm TO PUBLIC;
SET search_path = vgm, public;
CREATE TABLE docs (id int, tags int[], body tsvector, hidden boolean) WITH (autovacuum_enabled = off);
-- the hidden rows match best
INSERT INTO docs SELECT i, ARRAY(SELECT generate_series(i, 40)), to_tsvector('simple', 'word' || i % 5), i <= 10 FROM generate_series(1, 30) i;
CREATE INDEX docs_tags ON docs USING gpumatch (tags);
CREATE INDEX docs_body ON docs USING gpumatch (body);
CREATE VIEW shown WITH (security_barrier) AS SELECT id, tags, body FROM docs WHERE NOT hidden;
CREATE VIEW best_shown WITH (security_barrier) AS SELECT id, tags FROM docs WHERE NOT hidden ORDER BY tags <#> '{1,2,3,11,12,13,14,15}';
GRANT SELECT ON shown, best_shown TO vgm_view;
GRANT SELECT (id) ON docs TO vgm_ids;
GRANT SELECT (id, tags) ON docs TO vgm_tags;
CREATE FUNCTION tells(id int, tags int[]) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''row %'', id; RETURN true; END';

-- a function that prints its argument gets no hidden row
SET enable_seqscan = off;
SET enable_sort = off;
SET ROLE vgm_view;
EXPLAIN (COSTS OFF) SELECT id FROM best_shown WHERE tells(id, tags) LIMIT 3;
SELECT id FROM best_shown WHERE tells(id, tags) LIMIT 3;
SELECT id FROM shown WHERE tells(id, tags) AND id < 14 ORDER BY tags <#> '{1,2,3,11,12,13,14,15}' LIMIT 3;
SELECT id FROM shown WHERE match_at_least(tags, '{1,2,3,12,13,14}', 3) AND id < 14 AND tells(id, tags) ORDER BY id;
SELECT id FROM docs ORDER BY tags <#> '{1}' LIMIT 1;
RESET ROLE;

-- a policy hides them as well, for its roles
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
CREATE POLICY no_hidden ON docs USING (NOT hidden);
SET ROLE vgm_tags;
SELECT id FROM docs WHERE tells(id, tags) ORDER BY tags <#> '{1,2,3,11,12,13,14,15}' LIMIT 3;
RESET ROLE;
ALTER TABLE docs DISABLE ROW LEVEL SECURITY;

-- columns: the sort column has to be readable
SET ROLE vgm_ids;
SELECT count(id) FROM docs;
SELECT id FROM docs ORDER BY tags <#> '{1}' LIMIT 1;
SELECT id FROM docs WHERE match_at_least(tags, '{1,2,3}', 2);
SET ROLE vgm_tags;
SELECT id FROM docs ORDER BY tags <#> '{1}' LIMIT 1;
SELECT id FROM docs ORDER BY body <#> 'word1' LIMIT 1;
RESET ROLE;

-- the functions need rights on the whole table, and so does the view
GRANT EXECUTE ON FUNCTION vectorgpu_check, vectorgpu_recall, vectorgpu_prewarm, vectorgpu_evict TO vgm_tags;
SET ROLE vgm_tags;
SELECT vectorgpu_check('docs_tags', true);
SELECT vectorgpu_recall('docs_tags');
SELECT vectorgpu_prewarm('docs_tags');
SELECT vectorgpu_evict('docs_tags');
SELECT vectorgpu_merge('docs_tags');
SELECT count(*) FROM vectorgpu_indexes WHERE schema_name = 'vgm';
RESET ROLE;
SELECT count(*) FROM vectorgpu_indexes WHERE schema_name = 'vgm';

-- a function has the rights of its owner, more or fewer than its caller's
CREATE FUNCTION best(q int[]) RETURNS int LANGUAGE sql STABLE SECURITY DEFINER SET search_path = vgm, public AS 'SELECT id FROM docs ORDER BY tags <#> q LIMIT 1';
CREATE FUNCTION checked() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = vgm, public AS 'SELECT heap_rows_checked FROM vectorgpu_check(''docs_tags'', true)';
SET ROLE vgm_ids;
SELECT best('{1,2,3,4,5}'), checked();
RESET ROLE;
ALTER FUNCTION best(int[]) OWNER TO vgm_ids;
ALTER FUNCTION checked() OWNER TO vgm_tags;
SELECT best('{1,2,3,4,5}');
SELECT checked();

REVOKE EXECUTE ON FUNCTION vectorgpu_check, vectorgpu_recall, vectorgpu_prewarm, vectorgpu_evict FROM vgm_tags;
SET client_min_messages = warning;
DROP SCHEMA vgm CASCADE;
DROP ROLE vgm_ids, vgm_tags, vgm_view;
