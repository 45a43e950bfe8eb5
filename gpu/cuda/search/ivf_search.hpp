// Batched search of inverted lists and a delta.
#pragma once

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// The snapshot is of a copy of kind kLists, or of a kind with codes. Sets the coverage of queries with probes. Else as
/// search_snapshot.
Status search_lists(const SearchCall &call);

} // namespace vectorgpu::cuda
