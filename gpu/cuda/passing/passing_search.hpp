// Searches where some queries have conditions (SearchQuery::passing).
#pragma once

#include <functional>

#include "cuda/device/budget.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// True if a query has conditions.
inline bool
have_conditions(std::span<const engine::SearchQuery> queries)
{
	return std::any_of(
		queries.begin(), queries.end(), [](const engine::SearchQuery &query) { return query.passing != nullptr; });
}

/// Answer a batch: queries with conditions by lists of the rows that pass (passing_lists.hpp) or by masks
/// (passing_masks.hpp), exactly, or where that is dear and there are inverted lists, by those (passing_probes.hpp); the
/// others, which go together, by search_others. Coverage and filter_way are set. Throws bad_alloc. Waits for the
/// stream.
Status search_with_conditions(
	const SearchCall &call, Budget *budget, const std::function<Status(const SearchCall &)> &search_others);

} // namespace vectorgpu::cuda
