// Batches over the inverted lists of segments, without the delta.
#pragma once

#include <span>
#include <vector>

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

/// results [queries.size()], set before: what the queries find in the sources, all of them segments with lists. Queries
/// have probes and k from 1 to kernels::kMaxSelectK; where lists have codes, they look at the whole of the same
/// segments, if of any. Waits for the stream.
Status search_segments(const Device *device, SearchContext *context, const engine::DistanceSpec &spec,
	const Shape &shape, const std::vector<const Source *> &sources, std::span<const engine::SearchQuery> queries,
	const SearchOptions &options, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	engine::SearchControl *control);

} // namespace vectorgpu::cuda
