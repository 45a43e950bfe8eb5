// Batched search of inverted lists and a delta. As search.hpp.
#pragma once

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

/// A snapshot of a copy of kind kLists. results [queries.size()]: see Engine::search; coverage of queries with probes
/// is set.
Status search_lists(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const engine::SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control);

} // namespace vectorgpu::cuda
