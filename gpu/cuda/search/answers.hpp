// Results that the last kernel of a search writes into pinned memory itself. The kernel writes a query's mark after all
// else of its answer, and the host polls the marks: this saves a kernel that copies, and the driver's wait.
#pragma once

#include <span>
#include <vector>

#include "cuda/search/search_call.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Room for the answers of up to kMostAnswers queries with up to `stride` entries each, with a mark that no earlier
/// answers had. No heads if the room is too small. Earlier answers of the context are overwritten.
kernels::Answers begin_answers(SearchContext *context, size_t n_queries, uint32_t stride);

/// Waits for the answers of a launch. call.results[numbers[i]] becomes the answer of query i; if the kernel could not
/// answer it, numbers[i] goes to redo. Queries whose rows lie away are noted (note_away) and have no answer either.
Status end_answers(const SearchCall &call, const kernels::Answers &answers, std::span<const uint32_t> numbers,
	std::vector<uint32_t> *redo);

} // namespace vectorgpu::cuda
