-- The worker process: the same queries, answered by one process for all sessions from its copy of the index.
\echo '-- the copy of the index is made by the first scan that finds none; here at once'
SELECT pg_size_pretty(vectorgpu_prewarm('packages_embedding')) AS copied;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT name FROM packages ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'board') LIMIT 5;
SELECT name, left(description, 60) AS description
  FROM packages ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'board') LIMIT 5;

\echo '-- the same without the worker: the session searches the index pages itself'
SET vectorgpu.worker = off;
SELECT name, left(description, 60) AS description
  FROM packages ORDER BY embedding <=> (SELECT embedding FROM queries WHERE name = 'board') LIMIT 5;
RESET vectorgpu.worker;

\echo '-- what the worker has done, and its copy compared with the pages'
SELECT engine, device, searches, batches, answered, pg_size_pretty(resident_bytes) AS memory FROM vectorgpu_worker;
SELECT cache_rows_checked FROM vectorgpu_check('packages_embedding', false, true);
