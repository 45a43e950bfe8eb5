# Every file of kernels, once. Kernels that exist per metric or per form have one file each, so that they build in parallel.
set(vectorgpu_kernel_sources)
foreach(metric l2 inner_product cosine l1)
  list(APPEND vectorgpu_kernel_sources kernels/scores_${metric}.cu kernels/bounded_scan_${metric}.cu kernels/ivf_scan_${metric}.cu kernels/ivf_few_${metric}.cu
    kernels/graph_search_${metric}.cu kernels/graph_lanes_search_${metric}.cu
    kernels/graph_cluster_search_${metric}.cu)
endforeach()
foreach(form byte float16 float32)
  list(APPEND vectorgpu_kernel_sources kernels/filter_${form}.cu kernels/filter_${form}_group.cu)
endforeach()
list(APPEND vectorgpu_kernel_sources
  kernels/graph.cu kernels/graph_codes.cu kernels/graph_search_bits.cu
  kernels/bins.cu kernels/bins_group.cu kernels/bits.cu kernels/codes.cu kernels/codes_scan_pq.cu kernels/codes_scan_rows.cu kernels/compare.cu kernels/copy.cu kernels/filter.cpp kernels/filter_select.cu kernels/group_probe.cu kernels/ivf_bytes.cu kernels/ivf_few.cu kernels/ivf_lists.cu kernels/match_text.cu kernels/match_tile.cu kernels/one_pass.cu kernels/rows.cu kernels/scores.cpp
  kernels/select.cu
  kernels/fault.cu kernels/kmeans_assign.cu kernels/kmeans_update.cu kernels/select_rows.cu kernels/select_rows_networks.cu kernels/sort.cu
  kernels/tensor_map.cpp)
