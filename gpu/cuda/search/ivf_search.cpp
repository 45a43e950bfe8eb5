// See ivf_search.hpp. Queries that look at every row go the way of search.cpp, over the same rows, the others that of
// ivf_segments.cpp. The delta is searched as search.cpp does, and joined on the host. Where segments have codes and no
// vectors (kCodes), every query goes by codes, and the delta is not looked at.
#include "cuda/search/ivf_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cuda/search/coded_search.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/ivf_segments.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

/// Takes out rows without a score, which are the last. True if there were any.
bool
drop_nan(std::vector<Neighbor> *result)
{
	const size_t before = result->size();

	while (!result->empty() && std::isnan(result->back().score))
		result->pop_back();
	return result->size() < before;
}

/// What all searches of one call share.
class Call
{
public:
	Call(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		const Snapshot &snapshot, const SearchOptions &options, SearchCounts *counts, engine::SearchControl *control)
		: device_(device), context_(context), spec_(spec), shape_(shape), snapshot_(snapshot), options_(options),
		  counts_(counts), control_(control)
	{
		for (const Source &source : snapshot.sources)
		{
			if (source.lists != nullptr)
			{
				lists_.push_back(&source);
				continue;
			}
			if (options.candidates_only)
				continue;
			delta_.sources.push_back(source);
			delta_.n_rows += source.n_rows;
		}
	}

	bool looks_at_all(const SearchQuery &query) const
	{
		if (options_.candidates_only)
			return false;
		return std::all_of(lists_.begin(), lists_.end(),
			[&](const Source *source)
			{
				const uint32_t n_lists = source->lists->n_lists();

				return engine::probes_of(query.probes, source->segment, n_lists) == n_lists;
			});
	}

	/// Queries that look at every row.
	Status search_all(std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		VECTORGPU_TRY(search_snapshot(
			device_, context_, spec_, shape_, snapshot_, queries, options_, results, counts_, control_));
		for (size_t i = 0; i < queries.size(); i++)
			if (!queries[i].probes.empty() && drop_nan(&(*results)[i]) && queries[i].coverage != nullptr)
				*queries[i].coverage = engine::Coverage::kScored;
		return Status::ok();
	}

	/// Queries that look at some of the lists, k up to kMaxSelectK.
	Status search_some(std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		std::vector<std::vector<Neighbor>> others;
		std::vector<Neighbor> joined;

		results->clear();
		results->resize(queries.size());
		if (queries.empty() || lists_.empty()) // without lists: options_.candidates_only
			return Status::ok();

		VECTORGPU_TRY(search_by_segments(queries, results));
		if (delta_.n_rows == 0)
			return Status::ok();
		VECTORGPU_TRY(
			search_snapshot(device_, context_, spec_, shape_, delta_, queries, options_, &others, counts_, control_));
		for (size_t i = 0; i < queries.size(); i++)
		{
			(void) drop_nan(&others[i]);
			joined.resize((*results)[i].size() + others[i].size());
			std::merge((*results)[i].begin(), (*results)[i].end(), others[i].begin(), others[i].end(), joined.begin(),
				engine::neighbor_less);
			joined.resize(std::min(joined.size(), queries[i].k));
			(*results)[i].assign(joined.begin(), joined.end());
		}
		return Status::ok();
	}

	/// The same for one query with a larger k: each part behind the one before.
	Status search_in_slices(SearchQuery query, std::vector<Neighbor> *result)
	{
		const size_t k = query.k;
		std::vector<std::vector<Neighbor>> slice;

		while (result->size() < k)
		{
			query.k = std::min<size_t>(kernels::kMaxSelectK, k - result->size());
			VECTORGPU_TRY(search_some({&query, 1}, &slice));
			result->insert(result->end(), slice[0].begin(), slice[0].end());
			if (slice[0].size() < query.k)
				break;
			query.has_after = true;
			query.after = result->back();
		}
		return Status::ok();
	}

private:
	/// Segments whose codes choose rows for the query.
	std::vector<bool> coded_segments(const SearchQuery &query) const
	{
		std::vector<bool> coded;

		for (const Source *source : lists_)
			coded.push_back(chosen_by_codes(query, *source));
		return coded;
	}

	Status search_together(std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		return search_segments(device_, context_, spec_, shape_, lists_, queries, options_, results, counts_, control_);
	}

	/// Segments with lists: queries whose rows are chosen by codes in the same segments go together.
	Status search_by_segments(std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		std::map<std::vector<bool>, std::vector<uint32_t>> groups;

		if (std::none_of(
				lists_.begin(), lists_.end(), [](const Source *source) { return source->lists->codes != nullptr; }))
			return search_together(queries, results);
		for (uint32_t i = 0; i < queries.size(); i++)
			groups[coded_segments(queries[i])].push_back(i);
		if (groups.size() == 1)
			return search_together(queries, results);
		for (const auto &[coded, numbers] : groups)
		{
			std::vector<SearchQuery> group;
			std::vector<std::vector<Neighbor>> found(numbers.size());

			for (const uint32_t number : numbers)
				group.push_back(queries[number]);
			VECTORGPU_TRY(search_together(group, &found));
			for (size_t i = 0; i < numbers.size(); i++)
				(*results)[numbers[i]] = std::move(found[i]);
		}
		return Status::ok();
	}

	const Device *device_;
	SearchContext *context_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	const Snapshot &snapshot_;
	const SearchOptions &options_;
	SearchCounts *counts_;
	engine::SearchControl *control_;
	std::vector<const Source *> lists_;
	Snapshot delta_;
};

} // namespace

Status
search_lists(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
{
	Call call(device, context, spec, shape, snapshot, options, counts, control);
	std::vector<SearchQuery> whole;
	std::vector<SearchQuery> some;
	std::vector<uint32_t> whole_numbers;
	std::vector<uint32_t> some_numbers;
	std::vector<std::vector<Neighbor>> found;
	Status status = device->provoke(context->stream.get());

	results->clear();
	results->resize(queries.size());
	for (uint32_t i = 0; i < queries.size() && status.is_ok(); i++)
	{
		SearchQuery query = queries[i];

		query.k = static_cast<size_t>(std::min<uint64_t>(query.k, snapshot.n_rows));
		if (call.looks_at_all(query))
		{
			whole.push_back(query);
			whole_numbers.push_back(i);
			continue;
		}
		if (query.coverage != nullptr)
			*query.coverage = engine::Coverage::kPart;
		if (query.k == 0)
			continue;
		if (query.k > kernels::kMaxSelectK)
			status = call.search_in_slices(query, &(*results)[i]);
		else
		{
			some.push_back(query);
			some_numbers.push_back(i);
		}
	}
	if (status.is_ok() && !whole.empty())
		status = call.search_all(whole, &found);
	for (size_t i = 0; status.is_ok() && i < whole.size(); i++)
		(*results)[whole_numbers[i]] = std::move(found[i]);
	if (status.is_ok())
		status = call.search_some(some, &found);
	for (size_t i = 0; status.is_ok() && i < some.size(); i++)
		(*results)[some_numbers[i]] = std::move(found[i]);

	// The snapshot's memory may go once we return: nothing on the stream may still read it.
	if (!status.is_ok() && !device->fatal())
		VECTORGPU_TRY(context->stream.synchronize());
	return status;
}

} // namespace vectorgpu::cuda
