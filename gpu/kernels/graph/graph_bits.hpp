// Host side of graph_search_bits.cu. Launchers as in kernels.hpp.
#pragma once

#include "kernels/graph/graph.hpp"

namespace vectorgpu::kernels
{

/// launch_graph_search over bit strings, by Hamming or Jaccard distance; args.tuning is complete, its lanes and blocks
/// are ignored. prepare: only set the kernels' shared-memory limits.
[[nodiscard]] cudaError_t launch_graph_bits(const GraphArgs &args, bool prepare, cudaStream_t stream);

} // namespace vectorgpu::kernels
