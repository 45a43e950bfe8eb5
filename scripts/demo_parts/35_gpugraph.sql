-- gpugraph: the graph index. It takes the place of the exact one, which comes back at the end.
\echo
\echo '== gpugraph: nearest neighbours by a proximity graph'
CREATE TEMP TABLE asked AS
SELECT name, embedding FROM packages WHERE embedding IS NOT NULL ORDER BY md5(name) LIMIT 200;
CREATE TEMP TABLE nearest AS
SELECT asked.name, max(n.distance) AS tenth
  FROM asked, LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n GROUP BY asked.name;
DROP INDEX packages_embedding;
SET maintenance_work_mem = '512MB'; -- one graph of all rows
\timing on
CREATE INDEX packages_graph ON packages USING gpugraph (embedding vector_cosine_ops);
\timing off
\echo '-- packages like gimp'
SELECT name, section, left(description, 60) AS description
  FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 5;
\echo '-- it has compared'
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 5;

\echo '-- share of the 10 nearest packages of 200 that it finds, by the recall asked for'
SET gpugraph.recall_target = 0.8;
SELECT 0.8 AS asked_for, round(count(*) / 2000.0, 3) AS found
  FROM asked JOIN nearest USING (name), LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n WHERE n.distance <= nearest.tenth;
SET gpugraph.recall_target = 0.99;
SELECT 0.99 AS asked_for, round(count(*) / 2000.0, 3) AS found
  FROM asked JOIN nearest USING (name), LATERAL (SELECT packages.embedding <=> asked.embedding AS distance FROM packages
    ORDER BY packages.embedding <=> asked.embedding LIMIT 10) n WHERE n.distance <= nearest.tenth;
RESET gpugraph.recall_target;
RESET maintenance_work_mem;
DROP INDEX packages_graph;
CREATE INDEX packages_embedding ON packages USING gpuflat (embedding vector_cosine_ops);
