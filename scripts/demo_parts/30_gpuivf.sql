-- gpuivf: the approximate index. It takes the place of the exact one, which comes back at the end.
\echo
\echo '== gpuivf: nearest neighbours by inverted lists'
CREATE TEMP TABLE asked AS
SELECT name, embedding FROM packages WHERE embedding IS NOT NULL ORDER BY md5(name) LIMIT 200;
CREATE TEMP TABLE nearest AS
SELECT asked.name, max(n.distance) AS tenth
  FROM asked, LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n GROUP BY asked.name;
DROP INDEX packages_embedding;
\timing on
CREATE INDEX packages_lists ON packages USING gpuivf (embedding vector_cosine_ops);
\timing off
\echo '-- packages like gimp'
SELECT name, section, left(description, 60) AS description
  FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 5;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 5;

\echo '-- share of the 10 nearest packages of 200 that it finds, by the recall asked for'
SET gpuivf.recall_target = 0.8;
SELECT 0.8 AS asked_for, round(count(*) / 2000.0, 3) AS found
  FROM asked JOIN nearest USING (name), LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n WHERE n.distance <= nearest.tenth;
SET gpuivf.recall_target = 0.99;
SELECT 0.99 AS asked_for, round(count(*) / 2000.0, 3) AS found
  FROM asked JOIN nearest USING (name), LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n WHERE n.distance <= nearest.tenth;
RESET gpuivf.recall_target;
DROP INDEX packages_lists;

\echo '-- by codes: 16 bytes a package, its distance from the table'
CREATE INDEX packages_codes ON packages USING gpuivf (embedding vector_cosine_ops) WITH (storage = pq, pq_m = 16, refine = none);
SELECT name, section FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 3;
SELECT pg_size_pretty(pg_relation_size('packages_codes')) AS size_of_codes, pg_size_pretty(sum(pg_column_size(embedding))) AS size_of_vectors FROM packages;
DROP INDEX packages_codes;
\echo '-- 12 clusters of packages by k-means, each with the package nearest to its middle'
SELECT cluster, size, (SELECT name FROM packages ORDER BY embedding <=> centroid LIMIT 1) AS nearest
  FROM vectorgpu_kmeans('packages', 'embedding', 12, spherical => true) ORDER BY size DESC;
CREATE INDEX packages_embedding ON packages USING gpuflat (embedding vector_cosine_ops);
