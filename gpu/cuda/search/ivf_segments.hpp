// Batches over the inverted lists of segments, without the delta.
#pragma once

#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// What the queries find in the sources, all of them segments with lists. The queries have probes and 1 ... kMaxSelectK
/// as k. Where lists have codes, all queries search all lists of the same segments, if of any. call.results [queries]:
/// set before. Waits for the stream.
Status search_segments(const SearchCall &call, const std::vector<const Source *> &sources);

} // namespace vectorgpu::cuda
