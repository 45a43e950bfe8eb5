// Exact search of one query with a k beyond kMaxSelectK, which the selection does not reach.
#pragma once

#include "cuda/search/chunk.hpp"

namespace vectorgpu::cuda
{

/// Sort the scores of all rows, or search in slices if the workspace is too small for that. results[number], empty
/// before, gets the k first. k: up to the number of rows. arena: the whole workspace.
Status search_large(const SearchCall &call, uint32_t number, uint64_t k, Arena *arena, NewRows *new_rows);

} // namespace vectorgpu::cuda
