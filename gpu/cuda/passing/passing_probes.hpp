// Searches by masks where a pass over all rows is dear: inverted lists instead, more of them the fewer rows pass.
#pragma once

#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Of the queries of these numbers, which have the conditions `passing` and probes from their caller, answer those for
/// which a part of the lists of `view`, the masked snapshot, will do. The others are added to *left. packed: a look at
/// all rows that pass reads no others, so that few queries whose rows lie away are reason enough for it.
Status search_passing_lists(const SearchCall &call, const Snapshot &view, const engine::Passing &passing,
	std::span<const uint32_t> numbers, bool packed, std::vector<uint32_t> *left);

/// Bytes of the rows of the lists that a query with the conditions `passing` would look at, if rows that pass are
/// spread evenly. 0: it is to look at all rows that pass.
double bytes_of_lists(
	const SearchCall &call, const Snapshot &view, const engine::Passing &passing, const engine::SearchQuery &query);

} // namespace vectorgpu::cuda
