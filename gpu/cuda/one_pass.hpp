// A small exact batch over byte rows in one pass (kernels/one_pass.hpp): segments and delta together, two launches.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "cuda/search.hpp"

namespace vectorgpu::cuda
{

/// Answers queries[numbers] if they and the snapshot are for it: *taken says so. max_k: their largest k, after its limit by the rows.
/// Queries that could not be answered this way go to redo. gate: held while blocks wait for each other; the search goes another
/// way if it is taken. Queries have no `after`.
Status search_one_pass(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers, uint32_t max_k, std::mutex *gate,
	std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts, std::vector<uint32_t> *redo, bool *taken);

} // namespace vectorgpu::cuda
