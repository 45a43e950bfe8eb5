-- COPY in text and binary format, and the bytes of the binary format
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

\getenv builddir PG_ABS_BUILDDIR
\set folder :builddir '/results'
\cd :folder

SELECT vector_send('[1,-2.5]'), halfvec_send('[1,-2.5,65504]');

CREATE TABLE t (id int, v vector(3), h halfvec, b bit(5));
INSERT INTO t VALUES (1, '[1,2,3]', '[1]', B'10101'), (2, NULL, NULL, NULL), (3, '[-0,1e-45,3.4028235e38]', '[-0,5.9604645e-08,65504]', B'00000');
INSERT INTO t SELECT 4, NULL, array_agg(i % 100)::halfvec, NULL FROM generate_series(1, 16000) i;
CREATE TABLE copied (LIKE t);

\copy t TO 'vectorgpu_copy.bin' (FORMAT binary)
\copy copied FROM 'vectorgpu_copy.bin' (FORMAT binary)
SELECT count(*), bool_and(t IS NOT DISTINCT FROM copied) AS same FROM t FULL JOIN copied USING (id);
SELECT id, v, h, b FROM copied WHERE id < 4 ORDER BY id;

TRUNCATE copied;
\copy t TO 'vectorgpu_copy.txt'
\copy copied FROM 'vectorgpu_copy.txt'
SELECT count(*), bool_and(t IS NOT DISTINCT FROM copied) AS same FROM t FULL JOIN copied USING (id);

COPY t (id, v, h, b) FROM STDIN WITH (FORMAT csv);
5,"[7,8,9]","[1.5]",11111
\.
COPY (SELECT * FROM t WHERE id IN (1, 3, 5) ORDER BY id) TO STDOUT WITH (FORMAT csv);
DROP TABLE t, copied;

-- Binary COPY writes a bytea as its own bytes, so that it can be read as a value of another type. Bytes that are no value
-- of the type are refused (also see errors.sql).
CREATE TABLE sent (id int, bytes bytea);
CREATE TABLE received (id int, v vector);
INSERT INTO sent VALUES (1, '\x000200003f800000c0200000');
\copy sent TO 'vectorgpu_copy.bin' (FORMAT binary)
\copy received FROM 'vectorgpu_copy.bin' (FORMAT binary)
SELECT * FROM received;
DROP TABLE sent, received;
