-- the type halfvec: text format, type modifier, operators, functions
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

\set type halfvec
\set file :srcdir '/sql/include/vector_surface.sql'
\i :file

-- what only halfvec has: the range and precision of binary16
SELECT '[65504,-65504,65519,-65519]'::halfvec, '[6.1035156e-05,5.9604645e-08,3e-8,2.9e-8,-1e-8]'::halfvec;
SELECT '[1.23456,0.1,2049,2051,0.33333]'::halfvec, l2_normalize('[3,4]'::halfvec), l2_normalize('[65504]'::halfvec);
SELECT inner_product('[65504]'::halfvec, '[65504]'), '[65504]'::halfvec <-> '[-65504]' AS l2, '[65504]'::halfvec <+> '[-65504]' AS l1;
SELECT l2_norm('[3,4]'::halfvec), l2_norm('[0]'::halfvec), l2_norm('[65504,65504]'::halfvec);
SELECT halfvec_l2_squared_distance('[1,2]', '[4,6]'), halfvec_negative_inner_product('[1,2]', '[3,4]'),
	halfvec_negative_inner_product('[0]', '[1]'), inner_product('[0]'::halfvec, '[1]');
SELECT halfvec_spherical_distance('[1,0]', '[0,1]'), halfvec_spherical_distance('[1,0]', '[-1,0]'), halfvec_spherical_distance('[1,0]', '[2,0]');
SELECT halfvec_cmp('[1,2]', '[1,2,3]'), halfvec_cmp('[2]', '[1,2]'), halfvec_cmp('[1,2]', '[1,2]');
