-- The life of a kept index, statement for statement the same where it was kept and where a test looks at it again, so that the
-- rows of the table have the same places. Variables: name, column, value, definition (see indexes).
CREATE TABLE :name (id int, v :column) WITH (autovacuum_enabled = off);
INSERT INTO :name SELECT i, CASE WHEN i % 10 > 0 THEN :value END FROM generate_series(1, 500) i;
CREATE INDEX :"index" ON :name USING :definition;
INSERT INTO :name SELECT i, CASE WHEN i % 10 > 0 THEN :value END FROM generate_series(501, 560) i;
DELETE FROM :name WHERE id % 9 = 4;
VACUUM (INDEX_CLEANUP on) :name;
INSERT INTO :name SELECT i, CASE WHEN i % 10 > 0 THEN :value END FROM generate_series(561, 580) i;
SELECT vectorgpu_merge(:'index') IS NOT NULL;
INSERT INTO :name SELECT i, CASE WHEN i % 10 > 0 THEN :value END FROM generate_series(581, 640) i;
DELETE FROM :name WHERE id % 50 = 1;
VACUUM (INDEX_CLEANUP on) :name;
INSERT INTO :name SELECT i, CASE WHEN i % 10 > 0 THEN :value END FROM generate_series(641, 650) i;
