// See ivf_search.hpp. Queries that search all lists, and those for which that takes no longer than some
// (list_ways.hpp), go over the same rows by search.cpp, the others by ivf_segments.cpp. search.cpp also searches the
// delta, whose results are joined on the host. If segments have codes and no vectors (kCodes), all queries go by codes,
// and the delta is not searched.
#include "cuda/search/ivf_search.hpp"

#include <algorithm>
#include <map>

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/search/ivf_segments.hpp"
#include "cuda/search/list_ways.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

/// The snapshot in its parts, and the searches of some queries of a call.
class ListCall
{
public:
	explicit ListCall(const SearchCall &call) : call_(call)
	{
		for (const Source &source : call.snapshot.sources)
		{
			if (source.lists != nullptr)
			{
				lists_.push_back(&source);
				continue;
			}
			if (call.options.candidates_only)
				continue;
			delta_.sources.push_back(source);
			delta_.n_rows += source.n_rows;
		}
	}

	bool looks_at_all(const SearchQuery &query) const
	{
		if (call_.options.candidates_only)
			return false;
		return std::all_of(lists_.begin(), lists_.end(),
			[&](const Source *source)
			{
				const uint32_t n_lists = source->lists->n_lists();

				return engine::probes_of(query.probes, source->segment, n_lists) == n_lists;
			});
	}

	/// Queries that go over all rows.
	Status search_all(std::span<const SearchQuery> queries, Results *results) const
	{
		VECTORGPU_TRY(search_snapshot(call_.with(queries, results)));
		for (size_t i = 0; i < queries.size(); i++)
			if (!queries[i].probes.empty() && drop_nan(&(*results)[i]) && queries[i].coverage != nullptr)
				*queries[i].coverage = engine::Coverage::kScored;
		return Status::ok();
	}

	/// Queries that search some of the lists, with a k of up to kMaxSelectK.
	Status search_some(std::span<const SearchQuery> queries, Results *results) const
	{
		Results others;
		std::vector<Neighbor> scratch;

		begin_results(queries.size(), results);
		if (queries.empty() || lists_.empty()) // there are lists unless options.candidates_only is set
			return Status::ok();

		VECTORGPU_TRY(search_by_segments(queries, results));
		if (delta_.n_rows == 0)
			return Status::ok();
		VECTORGPU_TRY(search_snapshot(call_.with(delta_, queries, &others)));
		for (size_t i = 0; i < queries.size(); i++)
		{
			(void) drop_nan(&others[i]);
			join_results(others[i], queries[i].k, &scratch, &(*results)[i]);
		}
		return Status::ok();
	}

private:
	/// The segments whose codes choose rows for the query.
	std::vector<bool> coded_segments(const SearchQuery &query) const
	{
		std::vector<bool> coded;

		for (const Source *source : lists_)
			coded.push_back(chosen_by_codes(query, *source));
		return coded;
	}

	/// Queries for which codes choose rows in the same segments go together.
	Status search_by_segments(std::span<const SearchQuery> queries, Results *results) const
	{
		std::map<std::vector<bool>, std::vector<uint32_t>> groups;

		if (std::none_of(
				lists_.begin(), lists_.end(), [](const Source *source) { return source->lists->codes != nullptr; }))
			return search_segments(call_.with(queries, results), lists_);
		for (uint32_t i = 0; i < queries.size(); i++)
			groups[coded_segments(queries[i])].push_back(i);
		if (groups.size() == 1)
			return search_segments(call_.with(queries, results), lists_);
		for (const auto &[coded, numbers] : groups)
		{
			std::vector<SearchQuery> group;
			Results found(numbers.size());

			for (const uint32_t number : numbers)
				group.push_back(queries[number]);
			VECTORGPU_TRY(search_segments(call_.with(group, &found), lists_));
			for (size_t i = 0; i < numbers.size(); i++)
				(*results)[numbers[i]] = std::move(found[i]);
		}
		return Status::ok();
	}

	const SearchCall &call_;
	std::vector<const Source *> lists_;
	Snapshot delta_;
};

/// Some queries of a call, and their numbers there.
struct Group
{
	std::vector<SearchQuery> queries;
	std::vector<uint32_t> numbers;

	void add(const SearchQuery &query, uint32_t number)
	{
		queries.push_back(query);
		numbers.push_back(number);
	}

	void put(Results *found, Results *results) const
	{
		for (size_t i = 0; i < numbers.size(); i++)
			(*results)[numbers[i]] = std::move((*found)[i]);
	}
};

Status
search(const SearchCall &call)
{
	const ListCall lists(call);
	const size_t n = call.queries.size();
	ListChooser chooser(call);
	Group whole;
	Group some;
	Results found;

	for (uint32_t i = 0; i < n; i++)
	{
		SearchQuery query = call.queries[i];

		query.k = static_cast<size_t>(call.k_of(i));
		if (lists.looks_at_all(query))
		{
			whole.add(query, i);
			continue;
		}
		if (chooser.scores_all(call.queries[i], call.queries[std::min<size_t>(i + 1, n - 1)]))
		{
			query.recall_target = 1;
			whole.add(query, i);
			continue;
		}
		if (query.coverage != nullptr)
			*query.coverage = engine::Coverage::kPart;
		if (query.k == 0)
			continue;
		if (query.k <= kernels::kMaxSelectK)
			some.add(query, i);
		else
			VECTORGPU_TRY(search_in_slices(query, query.k, &(*call.results)[i],
				[&](const SearchQuery &one, Results *slice) { return lists.search_some({&one, 1}, slice); }));
	}
	if (!whole.queries.empty())
	{
		VECTORGPU_TRY(lists.search_all(whole.queries, &found));
		whole.put(&found, call.results);
	}
	VECTORGPU_TRY(lists.search_some(some.queries, &found));
	some.put(&found, call.results);
	return Status::ok();
}

} // namespace

Status
search_lists(const SearchCall &call)
{
	Status status = call.device->provoke(call.stream());

	begin_results(call.queries.size(), call.results);
	if (status.is_ok())
		status = search(call);
	return call.end(status);
}

} // namespace vectorgpu::cuda
