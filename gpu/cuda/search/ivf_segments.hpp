// Batches over the inverted lists of segments, without the delta.
#pragma once

#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Search the sources, which are segments with lists. The queries have probes and 1 ... kMaxSelectK as k; for all of
/// them codes choose rows in the same segments (chosen_by_codes). call.results [queries]: sized before. Waits for the
/// stream.
Status search_segments(const SearchCall &call, const std::vector<const Source *> &sources);

} // namespace vectorgpu::cuda
