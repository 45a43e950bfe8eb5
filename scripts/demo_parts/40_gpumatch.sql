-- gpumatch: match counts, on the same packages.
\echo
\echo '== gpumatch: the rows that share the most with a query'
ALTER TABLE packages ADD COLUMN words text[];
UPDATE packages SET words = regexp_split_to_array(lower(description), '[^0-9a-z]+');
\timing on
CREATE INDEX packages_words ON packages USING gpumatch (words);
CREATE INDEX packages_text ON packages USING gpumatch (to_tsvector('simple', description));
CREATE INDEX packages_tuple ON packages USING gpumatch (matchrow(section, length(name), words[1], cardinality(words)));
CREATE INDEX packages_name ON packages USING gpumatch (name text_gram_ops (n = 2));
\timing off
VACUUM ANALYZE packages;

\echo '-- a document: most words in common with a sentence'
SELECT name, left(description, 60) AS description,
       match_count(to_tsvector('simple', description), to_tsvector('simple', 'a small and fast web server for static files')) AS common
  FROM packages
 ORDER BY to_tsvector('simple', description) <#> to_tsvector('simple', 'a small and fast web server for static files') LIMIT 8;

\echo '-- a relation: section games, a name of 4 to 6 letters, a description that begins with "simple" and has 3 to 5 words'
SELECT name, section, left(description, 60) AS description,
       match_count(matchrow(section, length(name), words[1], cardinality(words)),
                   matchquery('games', int4range(4, 6, '[]'), 'simple', int4range(3, 5, '[]'))) AS met
  FROM packages
 ORDER BY matchrow(section, length(name), words[1], cardinality(words)) <#> matchquery('games', int4range(4, 6, '[]'), 'simple', int4range(3, 5, '[]'))
 LIMIT 8;

\echo '-- a fuzzy string: names near "postgrsql-cleint"'
SELECT name, edit_distance(name, 'postgrsql-cleint') AS edits FROM packages ORDER BY name <~> 'postgrsql-cleint' LIMIT 5;

\echo '-- a condition: at least three of these words'
SET enable_seqscan = off;
EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF) SELECT name FROM packages WHERE match_at_least(words, '{library,image,compression,lossless}', 3);
EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF)
SELECT name FROM packages ORDER BY words <#> '{library,image,compression,lossless}' LIMIT 8;
RESET enable_seqscan;
