// Batched search of graphs and a delta.
#pragma once

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// The snapshot is of a copy of kind kGraph. Sets the coverage of queries with probes. Else as search_snapshot.
Status search_graphs(const SearchCall &call);

} // namespace vectorgpu::cuda
