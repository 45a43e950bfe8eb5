// Searches of graphs with several queries in one warp for one metric; a file each, so that they build in parallel.
#include "kernels/graph/graph_lanes_search.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_graph_lanes<Metric::kInnerProduct>(const GraphArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
