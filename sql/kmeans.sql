-- vectorgpu_kmeans: centroids, sizes, inertia; privileges; errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

-- four groups of 25, at whole numbers: k-means finds them with any seed
CREATE TABLE km_rows (id int, v vector(2), h halfvec(2), a real[]);
INSERT INTO km_rows
	SELECT i, ARRAY[x, y]::vector, ARRAY[x, y]::real[]::halfvec, ARRAY[x, y]::real[]
	FROM (SELECT i, i % 4 / 2 * 100 + i % 5 AS x, i % 2 * 100 + i / 4 % 5 AS y FROM generate_series(0, 99) i) s;
INSERT INTO km_rows (id) VALUES (-1), (-2);

SELECT centroid, size, inertia FROM vectorgpu_kmeans('km_rows', 'v', 4) ORDER BY centroid;
SELECT centroid, size, inertia FROM vectorgpu_kmeans('km_rows', 'h', 4, seed => 77) ORDER BY centroid;
SELECT centroid, size FROM vectorgpu_kmeans('km_rows', 'a', 4, max_iterations => 1) ORDER BY centroid;
SELECT array_agg(cluster ORDER BY cluster) FROM vectorgpu_kmeans('km_rows', 'v', 4);
SELECT centroid, size FROM vectorgpu_kmeans('km_rows', 'v', 1);

-- the inertia agrees with the operators
WITH c AS MATERIALIZED (SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 7)),
	n AS (SELECT r.id, min((r.v <-> c.centroid) ^ 2) AS d FROM km_rows r, c WHERE r.v IS NOT NULL GROUP BY r.id)
SELECT abs((SELECT sum(d) FROM n) - (SELECT sum(inertia) FROM c)) < 1e-3 AS agrees,
	(SELECT sum(size) FROM c) AS rows, (SELECT count(*) FROM c) AS clusters;

-- the same call gives the same rows
SELECT count(*) FROM (SELECT centroid, size FROM vectorgpu_kmeans('km_rows', 'v', 9)
	EXCEPT SELECT centroid, size FROM vectorgpu_kmeans('km_rows', 'v', 9)) s;

-- spherical: directions only
CREATE TABLE km_directions (v vector(2));
INSERT INTO km_directions SELECT ARRAY[i * cos(a), i * sin(a)]::real[]::vector
	FROM generate_series(1, 10) i, unnest(ARRAY[0, pi() / 2, pi()]) a;
INSERT INTO km_directions VALUES ('[0,0]');
SELECT round(vector_norm(centroid)::numeric, 5) AS length, size FROM vectorgpu_kmeans('km_directions', 'v', 3, spherical => true)
	ORDER BY size, 1;

-- balancing
CREATE TABLE km_skew (v vector(1));
INSERT INTO km_skew SELECT ARRAY[CASE WHEN i < 900 THEN i * 0.001 ELSE i END]::real[]::vector FROM generate_series(1, 1000) i;
SELECT (SELECT max(size) FROM vectorgpu_kmeans('km_skew', 'v', 10))
	> (SELECT max(size) FROM vectorgpu_kmeans('km_skew', 'v', 10, balance => 2)) AS flatter;
SELECT b, count(*) >= 9 AS enough, min(size) >= 1000 / 10 / b AS large_enough, sum(size) AS rows
	FROM unnest(ARRAY[1.5, 2, 4]::real[]) b, vectorgpu_kmeans('km_skew', 'v', 10, balance => b) GROUP BY b ORDER BY b;
-- an outlier, which would have its own cluster, and a tight group
CREATE TABLE km_outlier (v vector(8));
INSERT INTO km_outlier SELECT array_agg(((i * 7919 + j * 104729 + i * j * 31) % 1009) / 1009.0)::vector
	FROM generate_series(1, 3000) i, generate_series(1, 8) j GROUP BY i;
INSERT INTO km_outlier SELECT array_fill(0.5 + i * 1e-5, ARRAY[8])::vector FROM generate_series(1, 600) i;
INSERT INTO km_outlier SELECT array_fill(1e6, ARRAY[8])::vector;
SELECT k, count(*) AS clusters, min(size) >= 3601 / k / 2.0 AS large_enough, sum(size) AS rows
	FROM unnest(ARRAY[1, 5, 20]) k, vectorgpu_kmeans('km_outlier', 'v', k, balance => 2) GROUP BY k ORDER BY k;
SELECT min(size) FROM vectorgpu_kmeans('km_outlier', 'v', 5);
-- nothing changes where clusters are balanced
SET vectorgpu.worker = off;
SELECT count(*) FROM (SELECT centroid, size FROM vectorgpu_kmeans('km_skew', 'v', 4, balance => 1000)
	EXCEPT SELECT centroid, size FROM vectorgpu_kmeans('km_skew', 'v', 4)) s;
RESET vectorgpu.worker;

-- more rows than fit maintenance_work_mem: a sample trains, all rows are counted
CREATE TABLE km_large (v vector(16));
INSERT INTO km_large SELECT array_agg((i * 31 + j * j * 17) % 97)::vector
	FROM generate_series(1, 20000) i, generate_series(1, 16) j GROUP BY i;
SET maintenance_work_mem = '1MB';
SELECT sum(size) FROM vectorgpu_kmeans('km_large', 'v', 20);
SELECT * FROM vectorgpu_kmeans('km_large', 'v', 100000);
RESET maintenance_work_mem;

-- fewer different rows than clusters, one row, none
CREATE VIEW km_same AS SELECT '[1,2,3]'::vector AS v FROM generate_series(1, 50);
SELECT cluster, centroid, size, inertia FROM vectorgpu_kmeans('km_same', 'v', 8);
CREATE VIEW km_one AS SELECT '[5]'::vector AS v;
SELECT cluster, centroid, size, inertia FROM vectorgpu_kmeans('km_one', 'v', 1000);
CREATE VIEW km_none AS SELECT NULL::vector AS v;
SELECT * FROM vectorgpu_kmeans('km_none', 'v', 3);

-- partitions and odd names
CREATE TABLE "km Odd" ("a ""b""" vector(1)) PARTITION BY RANGE (("a ""b""" <-> '[0]'));
CREATE TABLE km_odd_1 PARTITION OF "km Odd" FOR VALUES FROM (0) TO (10);
CREATE TABLE km_odd_2 PARTITION OF "km Odd" FOR VALUES FROM (10) TO (100);
INSERT INTO "km Odd" VALUES ('[1]'), ('[2]'), ('[50]');
SELECT centroid, size FROM vectorgpu_kmeans('"km Odd"', 'a "b"', 2) ORDER BY size;

-- refused
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 0);
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 2000000);
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 3, max_iterations => 0);
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 3, balance => 0.5);
SELECT * FROM vectorgpu_kmeans('km_rows', 'w', 3);
CREATE INDEX km_index ON km_rows USING gpuflat (v);
SELECT * FROM vectorgpu_kmeans('km_index', 'v', 3);
DROP INDEX km_index;
SELECT * FROM vectorgpu_kmeans('km_rows', 'id', 3);
SELECT * FROM vectorgpu_kmeans('km_rows', 'ctid', 3);
CREATE VIEW km_text AS SELECT 'two'::text AS t, 'three'::varchar(10) AS c, '[1,2]'::text AS v;
SELECT * FROM vectorgpu_kmeans('km_text', 't', 3);
SELECT * FROM vectorgpu_kmeans('km_text', 'c', 3);
SELECT * FROM vectorgpu_kmeans('km_text', 'v', 3);
CREATE DOMAIN km_domain AS vector(2);
CREATE VIEW km_domains AS SELECT v::km_domain AS v, a::numeric[] AS n FROM km_rows WHERE id >= 0;
SELECT size FROM vectorgpu_kmeans('km_domains', 'v', 1) UNION ALL SELECT size FROM vectorgpu_kmeans('km_domains', 'n', 1);
DROP VIEW km_text, km_domains;
DROP DOMAIN km_domain;
SELECT * FROM vectorgpu_kmeans(0, 'v', 3);
SELECT * FROM vectorgpu_kmeans(NULL, 'v', 3);
CREATE VIEW km_mixed AS SELECT '[1,2]'::vector AS v UNION ALL SELECT '[1,2,3]';
SELECT * FROM vectorgpu_kmeans('km_mixed', 'v', 3);
SET vectorgpu.worker = off; -- a GPU is done before
SET statement_timeout = '20ms';
SELECT count(*) FROM vectorgpu_kmeans('km_large', 'v', 2000, max_iterations => 1000);
RESET statement_timeout;
RESET vectorgpu.worker;

-- rows are read with the caller's rights
CREATE ROLE km_reader;
SET ROLE km_reader;
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 4);
RESET ROLE;
GRANT SELECT (id) ON km_rows TO km_reader;
SET ROLE km_reader;
SELECT * FROM vectorgpu_kmeans('km_rows', 'v', 4);
RESET ROLE;
GRANT SELECT (v) ON km_rows TO km_reader;
SET ROLE km_reader;
SELECT sum(size) FROM vectorgpu_kmeans('km_rows', 'v', 4);
RESET ROLE;
ALTER TABLE km_rows ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON km_rows TO km_reader;
CREATE POLICY km_some ON km_rows USING (id % 2 = 0);
SET ROLE km_reader;
SELECT sum(size) FROM vectorgpu_kmeans('km_rows', 'v', 4);
RESET ROLE;
SELECT sum(size) FROM vectorgpu_kmeans('km_rows', 'v', 4);

DROP TABLE km_rows, km_directions, km_skew, km_outlier, km_large, "km Odd";
DROP VIEW km_same, km_one, km_none, km_mixed;
DROP ROLE km_reader;
