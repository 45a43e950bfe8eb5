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
\echo '-- how wide it has searched'
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

DROP INDEX packages_graph;
\echo '-- the games among them, a partial index: the graph of the 5 nearest of each, and those that most others have among theirs'
CREATE INDEX games_graph ON packages USING gpugraph (embedding vector_cosine_ops) WHERE section = 'games';
SELECT name, count(*) AS near_to FROM vectorgpu_knn_graph('games_graph', 5) JOIN packages ON packages.ctid = target GROUP BY name ORDER BY near_to DESC, name LIMIT 5;
\echo '-- the smoothest path from the first game to the last: its longest step is as short as can be'
SELECT step, name, round(p.distance::numeric, 3) AS distance, left(description, 50) AS description
  FROM vectorgpu_path('games_graph', (SELECT ctid FROM packages WHERE section = 'games' AND embedding IS NOT NULL ORDER BY name LIMIT 1),
    (SELECT ctid FROM packages WHERE section = 'games' AND embedding IS NOT NULL ORDER BY name DESC LIMIT 1)) p
  JOIN packages ON packages.ctid = p.tid ORDER BY step;
DROP INDEX games_graph;
\echo '-- searches by 128 bits a package: few of the distances are computed'
CREATE INDEX packages_bits ON packages USING gpugraph (embedding vector_cosine_ops) WITH (hash_bits = 128);
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages ORDER BY embedding <=> (SELECT embedding FROM packages WHERE name = 'gimp') LIMIT 5;
DROP INDEX packages_bits;
RESET maintenance_work_mem;
CREATE INDEX packages_embedding ON packages USING gpuflat (embedding vector_cosine_ops);
