# Turns a spec, and its expected output, into one for gpumatch (sed -E): the vector made from i becomes a set of 91 elements. A query shares fewer of
# them the larger i is, so that rows come in the same order; half a step further for i + 0.5.
s/USING gpuflat \(v vector_l2_ops\)/USING gpumatch (v)/
s/USING gpuflat/USING gpumatch/
s/ARRAY\[i \+ 0\.5, i\]::vector/ARRAY(SELECT generate_series(2 * i + 1, 2 * i + 91))/
s/ARRAY\[i, [^]]*\]::vector/ARRAY(SELECT generate_series(2 * i, 2 * i + 90))/
s/'\[0,0\]'/ARRAY(SELECT generate_series(0, 90))/g
s/'\[50,50\]'/ARRAY[500]/
s/'\[1,1\]'/ARRAY[1]/
s/ <-> / <#> /g
s/vector\(2\)/int[]/g
s/public\.vector_norm\(v\) BETWEEN 2500 AND 2502/v[1] BETWEEN 5000 AND 5002/
s/bw_slow\(v vector\) RETURNS vector/bw_slow(v int[]) RETURNS int[]/
s/bw_slow\(vector\)/bw_slow(int[])/
# Keep the number of rows on a page of the table.
s/repeat\('x', 900\)/repeat('x', 520)/
