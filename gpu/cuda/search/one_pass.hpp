// A small exact batch over byte rows in one pass (kernels/filter/one_pass.hpp): segments and delta together, one
// launch.
#pragma once

#include <span>
#include <vector>

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

/// Answers queries[numbers] if they and the snapshot are for it: *taken says so. Queries that could not be answered
/// this way go to redo. One at a time in the process and on a device, whatever the engine; the others go another way.
/// So do those whose launch was given up, as happens if another process has so much of the device that not all blocks
/// are on it together, and all of the pause after.
Status search_one_pass(const Device *device, SearchContext *context, const engine::DistanceSpec &spec,
	const Shape &shape, const Snapshot &snapshot, std::span<const engine::SearchQuery> queries,
	std::span<const uint32_t> numbers, const SearchOptions &options,
	std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts, std::vector<uint32_t> *redo,
	bool *taken);

} // namespace vectorgpu::cuda
