// Searches of graphs for one metric; a file each, so that they build in parallel.
#include "kernels/graph/graph_entries.cuh"
#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_graph_metric<Metric::kCosine>(const GraphArgs &args, bool prepare, cudaStream_t stream);
template cudaError_t launch_graph_entries_metric<Metric::kCosine>(
	const GraphArgs &args, uint64_t *items, cudaStream_t stream);

} // namespace vectorgpu::kernels
