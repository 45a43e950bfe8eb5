// Searches of graphs by a cluster of blocks for one metric; a file each, so that they build in parallel.
#include "kernels/graph/graph_cluster_search.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_graph_clusters<Metric::kInnerProduct>(
	const GraphArgs &args, bool prepare, uint32_t *room, bool *launched, cudaStream_t stream);

} // namespace vectorgpu::kernels
