-- gpumatch over text: the edit distance, exactly ordered, by a bound from the number of common n-grams
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE TABLE words (id int, w text);
INSERT INTO words SELECT i, string_agg(substr('abcdeéñ語', 1 + (i * 31 + j * j * 7 + i / 5 * j) % 8, 1), '') FROM generate_series(1, 3000) i, generate_series(1, 1 + i % 14) j GROUP BY i;
INSERT INTO words VALUES (-1, ''), (-2, NULL), (-3, 'a'), (-4, 'aabaab'), (-5, repeat('abcde', 30000)), (-6, repeat('é', 70000)), (-7, 'aabaab');
CREATE INDEX words_w ON words USING gpumatch (w text_gram_ops);
CREATE INDEX words_w2 ON words USING gpumatch ((w || '') text_gram_ops (n = 2));

-- edit_agrees(query, limit): rows and distances are those of a sort by distance and place in the table
CREATE FUNCTION edit_agrees(query text, k int, value text DEFAULT 'w', condition text DEFAULT 'true') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	body text := format('SELECT array_agg(d ORDER BY n), array_agg(id ORDER BY n) FROM (SELECT id, d, row_number() OVER () n FROM '
		'(SELECT id, %1$s <~> $1 AS d FROM words WHERE %2$s ORDER BY %1$s <~> $1/*tie*/ LIMIT %3$s) a) b', value, condition, k);
	by_index float8[];
	by_seq float8[];
	ids int[];
	ids_by_seq int[];
	line text;
	plan text := '';
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || body USING query LOOP
		plan := plan || line;
	END LOOP;
	IF plan !~ 'Index Scan' THEN RETURN 'no index scan: ' || plan; END IF;
	EXECUTE body INTO by_index, ids USING query;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
	EXECUTE replace(body, '/*tie*/', ', ctid') INTO by_seq, ids_by_seq USING query;
	PERFORM set_config('enable_indexscan', 'on', true);
	IF by_index IS DISTINCT FROM by_seq THEN RETURN format('%s instead of %s', left(by_index::text, 200), left(by_seq::text, 200)); END IF;
	IF ids IS DISTINCT FROM ids_by_seq THEN RETURN format('rows %s instead of %s', left(ids::text, 200), left(ids_by_seq::text, 200)); END IF;
	RETURN format('%s rows agree', cardinality(ids));
END $$;
SELECT q, edit_agrees(q, 1), edit_agrees(q, 10), edit_agrees(q, 500), edit_agrees(q, 10, 'w || ''''')
FROM unnest(ARRAY['', 'a', 'ab', 'abc', 'aabaab', 'éñ語', 'abcdeéñ語ab', 'zzzzz', 'abcabcabcabc']) q;
SELECT edit_agrees('abcde', 4000);
SELECT edit_agrees('abcde', 20, 'w', 'id % 7 = 3');
-- bounds and distances beyond 255, and queries longer than a word of 64 characters
SELECT edit_agrees(repeat('abcde', 2000), 3), edit_agrees(repeat('abé', 300), 50), edit_agrees(repeat('abcdeab', 10) || 'x', 4000);

-- example V.1: the ordered 3-grams of aabaab
SELECT gram, occurrence FROM ordered_grams('aabaab');

-- changes
INSERT INTO words SELECT i, string_agg(substr('abcdeéñ語', 1 + (i * 17 + j * j * 5 + i / 3 * j) % 8, 1), '') FROM generate_series(3001, 3400) i, generate_series(1, 1 + i % 14) j GROUP BY i;
DELETE FROM words WHERE id % 6 = 1;
SELECT edit_agrees('abcdeab', 30);
VACUUM words;
SELECT edit_agrees('abcdeab', 30);
SELECT segments_after FROM vectorgpu_merge('words_w');
SELECT edit_agrees('abcdeab', 30), edit_agrees('abcdeab', 4000);
SELECT rows, null_rows FROM vectorgpu_check('words_w', true);

SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM words ORDER BY w <~> 'aabaab' LIMIT 2;
SELECT id, w <~> 'aabaab' AS d FROM words ORDER BY w <~> 'aabaab' LIMIT 2;
RESET enable_seqscan;

CREATE INDEX ON words USING gpumatch (w text_gram_ops (n = 0));
CREATE INDEX ON words USING gpumatch (w text_gram_ops (n = 17));
CREATE INDEX ON words USING gpumatch (w text_gram_ops (m = 3));
CREATE INDEX ON words USING gpumatch (w text_gram_ops (hashes = 3));
\d words_w2
DROP TABLE words;
DROP FUNCTION edit_agrees(text, int, text, text);
