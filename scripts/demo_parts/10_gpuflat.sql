-- gpuflat: the exact index. Table queries has the embedded texts; own_query is set when the user gave one.
\echo
\echo '== gpuflat: exact nearest neighbours'
\timing on
CREATE INDEX packages_embedding ON packages USING gpuflat (embedding vector_cosine_ops);
\timing off
SELECT pg_size_pretty(pg_relation_size('packages_embedding')) AS index_size,
       round(pg_relation_size('packages_embedding')::numeric / (count(embedding) * 128 * 4), 3) AS of_the_raw_vectors
  FROM packages;

\echo '-- packages like gimp'
SELECT name, section, left(description, 60) AS description,
       (embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp'))::numeric(5, 3) AS distance
  FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp')
 LIMIT 8;

SELECT text AS query_text FROM queries WHERE name = 'monitor' \gset
\echo '-- packages for a text:' :query_text
SELECT name, section, left(description, 60) AS description,
       (embedding <=> (SELECT embedding FROM queries WHERE name = 'monitor'))::numeric(5, 3) AS distance
  FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'monitor') LIMIT 8;

SELECT text AS query_text FROM queries WHERE name = 'backup' \gset
\echo '-- packages for a text:' :query_text
SELECT name, section, left(description, 60) AS description,
       (embedding <=> (SELECT embedding FROM queries WHERE name = 'backup'))::numeric(5, 3) AS distance
  FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'backup') LIMIT 8;

\if :own_query
SELECT text AS query_text FROM queries WHERE name = 'own' \gset
\echo '-- packages for your text:' :query_text
SELECT name, section, left(description, 60) AS description,
       (embedding <=> (SELECT embedding FROM queries WHERE name = 'own'))::numeric(5, 3) AS distance
  FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'own') LIMIT 8;
\endif

SELECT text AS query_text FROM queries WHERE name = 'board' \gset
\echo '-- with a filter, games below 2 MB:' :query_text
SELECT name, installed_kb, left(description, 60) AS description,
       (embedding <=> (SELECT embedding FROM queries WHERE name = 'board'))::numeric(5, 3) AS distance
  FROM packages WHERE section = 'games' AND installed_kb < 2048
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'board') LIMIT 8;

\echo '-- the same filter inside an index that has its columns too: no row is looked at that does not meet it'
\timing on
CREATE INDEX packages_keys ON packages USING gpuflat (embedding vector_cosine_ops, section, installed_kb);
\timing off
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages WHERE section = 'games' AND installed_kb < 2048
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'board') LIMIT 8;
DROP INDEX packages_keys;

\echo '-- how PostgreSQL answered the text query'
EXPLAIN (ANALYZE, COSTS OFF)
SELECT name FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'monitor') LIMIT 8;

\echo '-- how far the index answers differ from a sequential scan of the whole table: 20 queries, 100 rows each'
SET enable_seqscan = off;
CREATE TEMP TABLE by_index AS
SELECT q.name AS query, a.distance, a.place
  FROM (SELECT name, embedding FROM packages WHERE section = 'editors' AND embedding IS NOT NULL ORDER BY name LIMIT 20) q,
       LATERAL (SELECT p.embedding <=> q.embedding AS distance, row_number() OVER () AS place
                  FROM (SELECT embedding FROM packages ORDER BY embedding <=> q.embedding LIMIT 100) p) a;
RESET enable_seqscan;
SET enable_indexscan = off;
CREATE TEMP TABLE by_table AS
SELECT q.name AS query, a.distance, a.place
  FROM (SELECT name, embedding FROM packages WHERE section = 'editors' AND embedding IS NOT NULL ORDER BY name LIMIT 20) q,
       LATERAL (SELECT p.embedding <=> q.embedding AS distance, row_number() OVER () AS place
                  FROM (SELECT embedding FROM packages ORDER BY embedding <=> q.embedding LIMIT 100) p) a;
RESET enable_indexscan;
SELECT count(*) AS answers, count(*) FILTER (WHERE i.distance IS DISTINCT FROM t.distance) AS different
  FROM by_index i FULL JOIN by_table t USING (query, place);

\echo '-- half the memory: the same vectors as halfvec'
\timing on
CREATE INDEX packages_half ON packages USING gpuflat ((embedding::halfvec(128)) halfvec_cosine_ops);
\timing off
SELECT pg_size_pretty(pg_relation_size('packages_half')) AS index_size;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages
 ORDER BY embedding::halfvec(128) <=> (SELECT embedding::halfvec(128) FROM queries WHERE name = 'monitor') LIMIT 3;
SELECT name, left(description, 60) AS description
  FROM packages
 ORDER BY embedding::halfvec(128) <=> (SELECT embedding::halfvec(128) FROM queries WHERE name = 'monitor') LIMIT 3;

\echo '-- an insert is found at once'
INSERT INTO packages
SELECT 'my-own-monitor', 'net', 1, 'what I would write myself', embedding FROM queries WHERE name = 'monitor';
SELECT name, description FROM packages
 ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'monitor') LIMIT 1;
DELETE FROM packages WHERE name = 'my-own-monitor';

\echo '-- the structure of both indexes, and every row of the table in each exactly once'
SELECT 'packages_embedding' AS index_name, pages_checked, rows, null_rows, heap_rows_checked
  FROM vectorgpu_check('packages_embedding', true)
UNION ALL
SELECT 'packages_half', pages_checked, rows, null_rows, heap_rows_checked FROM vectorgpu_check('packages_half', true);
SELECT index_name, access_method, element, metric, dimensions, rows, delta_rows, pg_size_pretty(index_bytes) AS size,
       needs_reindex
  FROM vectorgpu_indexes;
