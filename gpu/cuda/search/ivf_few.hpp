// Few queries over inverted lists in two launches (kernels/ivf/ivf_few.hpp), the answers written into pinned memory:
// over bytes by integer products, over any numbers by canonical scores.
#pragma once

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

/// taken: false if the queries, the lists or the number of results are not for this way; then nothing has happened.
/// results [queries.size()], empty before: the answers over all sources, but for those whose numbers go to redo. All
/// queries have probes and a k of 1 or more.
Status search_few(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const std::vector<const Source *> &sources, std::span<const engine::SearchQuery> queries,
	const SearchOptions &options, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	std::vector<uint32_t> *redo, bool *taken);

} // namespace vectorgpu::cuda
