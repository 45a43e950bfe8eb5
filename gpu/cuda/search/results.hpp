// Results on the host: answers that are joined, cut, or put together from slices.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "cuda/search/search_call.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Makes room for the answers to n queries, without any yet. Earlier ones leave their memory.
inline void
begin_results(size_t n, Results *results)
{
	results->resize(n);
	for (std::vector<engine::Neighbor> &result : *results)
		result.clear();
}

/// Sets what the queries report to what holds until a search knows more. Error: one has no vector.
inline Status
begin_queries(std::span<const engine::SearchQuery> queries)
{
	for (const engine::SearchQuery &query : queries)
	{
		if (query.query == nullptr)
			return Status::error(StatusCode::kInvalidArgument, "a query without a vector");
		if (query.coverage != nullptr)
			*query.coverage = engine::Coverage::kAll;
		if (query.filter_way != nullptr)
			*query.filter_way = engine::FilterWay::kNone;
	}
	return Status::ok();
}

/// Returns the status of a search, after a failure without results.
inline Status
end_results(const Status &status, Results *results)
{
	if (!status.is_ok())
		results->clear();
	return status;
}

/// Removes rows without a score, which are the last. True if there were any.
inline bool
drop_nan(std::vector<engine::Neighbor> *result)
{
	const size_t before = result->size();

	while (!result->empty() && std::isnan(result->back().score))
		result->pop_back();
	return result->size() < before;
}

/// *result becomes the k first of both answers. scratch: any vector, whose memory is used again from call to call.
inline void
join_results(const std::vector<engine::Neighbor> &others, size_t k, std::vector<engine::Neighbor> *scratch,
	std::vector<engine::Neighbor> *result)
{
	scratch->resize(result->size() + others.size());
	std::merge(result->begin(), result->end(), others.begin(), others.end(), scratch->begin(), engine::neighbor_less);
	scratch->resize(std::min(scratch->size(), k));
	result->assign(scratch->begin(), scratch->end());
}

/// Appends results until there are k, up to kMaxSelectK of them at a time: search(query, &results) is called with a
/// query that asks for the rows after the last result.
template <class Search>
Status
search_in_slices(engine::SearchQuery query, uint64_t k, std::vector<engine::Neighbor> *result, Search search)
{
	Results slice;

	while (result->size() < k)
	{
		query.k = static_cast<size_t>(std::min<uint64_t>(kernels::kMaxSelectK, k - result->size()));
		VECTORGPU_TRY(search(query, &slice));
		result->insert(result->end(), slice[0].begin(), slice[0].end());
		if (slice[0].size() < query.k)
			break;
		query.has_after = true;
		query.after = result->back();
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
