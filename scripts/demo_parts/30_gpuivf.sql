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
CREATE INDEX packages_embedding ON packages USING gpuflat (embedding vector_cosine_ops);
