// Searches by rounded rows, of one metric; a file each, so that they build in parallel.
#include "kernels/graph/graph_narrow.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_graph_narrow<Metric::kInnerProduct>(
	const GraphArgs &args, bool prepare, cudaStream_t stream);

} // namespace vectorgpu::kernels
