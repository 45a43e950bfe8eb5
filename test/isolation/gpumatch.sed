# Makes of a spec, and of its expected output, the same one for gpumatch (sed -E): the vector that i makes becomes a set of 91 elements, of which a query has
# the fewer the larger i is, so that rows come in the same order. Half a step further for i + 0.5.
s/USING gpuflat \(v vector_l2_ops\)/USING gpumatch (v)/
s/USING gpuflat/USING gpumatch/
s/ARRAY\[i \+ 0\.5, i\]::vector/ARRAY(SELECT generate_series(2 * i + 1, 2 * i + 91))/
s/ARRAY\[i, [^]]*\]::vector/ARRAY(SELECT generate_series(2 * i, 2 * i + 90))/
s/'\[0,0\]'/ARRAY(SELECT generate_series(0, 90))/g
s/'\[50,50\]'/ARRAY[500]/
s/'\[1,1\]'/ARRAY[1]/
s/ <-> / <#> /g
s/vector\(2\)/int[]/g
s/vector_norm\(v\) BETWEEN 2500 AND 2502/v[1] BETWEEN 5000 AND 5002/
s/bw_slow\(v vector\) RETURNS vector/bw_slow(v int[]) RETURNS int[]/
s/bw_slow\(vector\)/bw_slow(int[])/
# As many rows to a page of the table as before.
s/repeat\('x', 900\)/repeat('x', 520)/
