// Few searches of one graph, a block or a cluster of blocks each: one launch finds where they begin, goes through the
// graph and writes their answers into pinned memory (answers.hpp). As search.hpp.
#pragma once

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

/// Queries that have a score, with probes, 1 ... kMaxSelectK as k, and a width of up to kGraphMostWidth, of a source
/// with a graph. results: see Engine::search. *taken: whether this way is theirs; else nothing has happened.
Status search_graph_alone(const Device *device, SearchContext *context, const engine::DistanceSpec &spec,
	const Shape &shape, const Source &source, std::span<const engine::SearchQuery> queries,
	const kernels::GraphTuning &tuning, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	bool *taken);

} // namespace vectorgpu::cuda
