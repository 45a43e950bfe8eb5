-- the type vector: text format, type modifier, operators, functions
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

\set type vector
\set file :srcdir '/sql/include/vector_surface.sql'
\i :file

-- only vector: the range and precision of binary32
SELECT '[1.5e38,-1.5e38,1.17549435e-38,1e-45]'::vector, '[3.4028235e38,-3.4028235e38]'::vector;
SELECT '[1.23456789,0.1,16777217,1e-46,-1e-46]'::vector, '[0.30000001192092896,0.333333333333333333333]'::vector;
SELECT '[3e38]'::vector <-> '[-3e38]' AS l2, '[3e38]'::vector <+> '[-3e38]' AS l1, '[3e38]'::vector <#> '[3e38]' AS ip,
	'[3e38]'::vector <=> '[3e38]' AS cosine;
SELECT vector_norm('[3,4]'), vector_norm('[0,0]'), vector_norm('[3e37,4e37]')::real, l2_normalize('[3e38]'::vector);
SELECT l2_norm('[3,4]'::vector), l2_norm('[1.0001]'::vector)::real, vector_norm('[1.0001]')::real, l2_norm('[1.0001]'::halfvec)::real;
SELECT vector_l2_squared_distance('[1,2]', '[4,6]'), vector_negative_inner_product('[1,2]', '[3,4]'),
	vector_negative_inner_product('[0]', '[1]'), inner_product('[0]'::vector, '[1]');
SELECT vector_spherical_distance('[1,0]', '[0,1]'), vector_spherical_distance('[1,0]', '[-1,0]'), vector_spherical_distance('[1,0]', '[2,0]');
SELECT vector_cmp('[1,2]', '[1,2,3]'), vector_cmp('[2]', '[1,2]'), vector_cmp('[1,2]', '[1,2]');
