// Exact search of one query with a k beyond kMaxSelectK, which the selection does not reach.
#pragma once

#include "cuda/search/chunk.hpp"

namespace vectorgpu::cuda
{

/// Sorts the scores of all rows, or searches in slices if the workspace is too small for that. results[number] gets the
/// k first; empty before. k: up to the number of rows. arena: of the workspace, all of which is taken.
Status search_large(const SearchCall &call, uint32_t number, uint64_t k, Arena *arena, NewRows *new_rows);

} // namespace vectorgpu::cuda
