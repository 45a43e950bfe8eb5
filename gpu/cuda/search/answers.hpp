// Results that the last kernel of a search writes into pinned memory by itself: the host looks at the mark of each
// query, which comes after all else of it. Saves a kernel that copies, and the driver's wait.
#pragma once

#include <span>
#include <vector>

#include "cuda/search/search.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Room for the answers of n_queries <= kMostAnswers queries with up to stride entries each, with a mark of its own;
/// none (no heads) if it is too small. Whatever was there before is forgotten.
kernels::Answers begin_answers(SearchContext *context, size_t n_queries, uint32_t stride);

/// Waits for the answers of what has been launched with them. results[numbers[i]] becomes that of query i, unless it
/// has none: then numbers[i] goes to redo.
Status end_answers(const Device *device, SearchContext *context, const kernels::Answers &answers,
	std::span<const uint32_t> numbers, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	std::vector<uint32_t> *redo);

} // namespace vectorgpu::cuda
