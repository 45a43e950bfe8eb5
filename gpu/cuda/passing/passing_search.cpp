// See passing_search.hpp.
#include "cuda/passing/passing_search.hpp"

#include <map>

#include "cuda/passing/passing_lists.hpp"
#include "cuda/passing/passing_masks.hpp"
#include "cuda/passing/passing_probes.hpp"
#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::FilterWay;
using engine::Passing;
using engine::SearchQuery;

constexpr size_t kMostListedAtOnce = 15; // queries with the same conditions, without looking for a faster way

class PassingSearch
{
public:
	PassingSearch(const SearchCall &call, Budget *budget) : call_(call), budget_(budget) {}

	Status run(const std::function<Status(const SearchCall &)> &search_others)
	{
		std::vector<SearchQuery> queries;
		std::vector<uint32_t> others;
		std::vector<uint32_t> listed;
		std::vector<uint32_t> masked;

		call_.results->clear();
		call_.results->resize(call_.queries.size());
		for (uint32_t i = 0; i < call_.queries.size(); i++)
		{
			queries.push_back(exact(call_.queries[i]));
			if (queries[i].passing == nullptr)
				others.push_back(i);
			else if (queries[i].k > 0 && call_.snapshot.n_rows > 0)
				(is_listed(queries[i]) ? listed : masked).push_back(i);
			else
				note({&i, 1}, FilterWay::kList); // an empty one
		}

		const SearchCall call = call_.with(queries, call_.results);

		if (!others.empty())
			VECTORGPU_TRY(search_some(queries, others, call_.snapshot, search_others));
		choose(queries, &listed, &masked);
		note(listed, FilterWay::kList);
		if (!listed.empty())
			VECTORGPU_TRY(list(call, std::move(listed), &masked));
		note(masked, FilterWay::kMask);
		return mask(queries, masked);
	}

private:
	/// The query as the exact ways take it. No more rows are wanted than pass.
	static SearchQuery exact(SearchQuery query)
	{
		if (query.passing == nullptr)
			return query;
		query.k = static_cast<size_t>(std::min<uint64_t>(query.k, query.passing->n_pass));
		query.probes = {};
		query.recall_target = 1;
		return query;
	}

	bool is_listed(const SearchQuery &query)
	{
		if (query.k > kernels::kMaxSelectK)
			return false;
		// Mostly a batch has few different conditions.
		const auto [found, is_new] = listed_.try_emplace(query.passing, false);

		if (is_new)
			found->second = cuda::is_listed(call_.snapshot, *query.passing);
		return found->second;
	}

	void note(std::span<const uint32_t> numbers, FilterWay way) const
	{
		for (const uint32_t number : numbers)
			if (call_.queries[number].filter_way != nullptr)
				*call_.queries[number].filter_way = way;
	}

	/// Search the queries of these numbers, and put their answers into the call's results.
	template <class Search>
	Status search_some(std::span<const SearchQuery> queries, std::span<const uint32_t> numbers, const Snapshot &rows,
		const Search &search) const
	{
		std::vector<SearchQuery> some;
		Results found;

		for (const uint32_t number : numbers)
			some.push_back(queries[number]);
		VECTORGPU_TRY(search(call_.with(rows, some, &found)));
		for (size_t i = 0; i < numbers.size(); i++)
			(*call_.results)[numbers[i]] = std::move(found[i]);
		return Status::ok();
	}

	/// Queries for which there is no room go by masks.
	Status list(const SearchCall &call, std::vector<uint32_t> numbers, std::vector<uint32_t> *masked) const
	{
		VECTORGPU_TRY(call.device->provoke(call.stream()));

		std::vector<uint32_t> left;
		const Status status = search_listed(call, budget_, numbers, &left);

		if (status.code == StatusCode::kOutOfMemory)
			left = std::move(numbers); // also those that are answered: that is rare
		else if (!status.is_ok())
			return status;
		masked->insert(masked->end(), left.begin(), left.end());
		return Status::ok();
	}

	Status mask(std::span<const SearchQuery> queries, std::span<const uint32_t> numbers) const
	{
		for (const auto &[passing, group] : by_conditions(queries, numbers))
		{
			Snapshot view;
			std::vector<uint32_t> left;

			VECTORGPU_TRY(call_.end(mask_snapshot(call_, budget_, *passing, &view)));
			if (passing->n_pass <= passing->n_rows / engine::kFewOfRows)
				left = group; // few of all rows pass, if not of each segment's: every one is scored
			else
				VECTORGPU_TRY(search_passing_lists(call_, view, *passing, group, &left));
			if (!left.empty())
				VECTORGPU_TRY(search_some(queries, left, view, search_snapshot));
		}
		return Status::ok();
	}

	/// Where many queries have the same conditions, a filter over all rows may take less time than their lists. These
	/// queries go from *listed to *masked.
	void choose(
		std::span<const SearchQuery> queries, std::vector<uint32_t> *listed, std::vector<uint32_t> *masked) const
	{
		if (listed->size() <= kMostListedAtOnce)
			return;
		for (const auto &[passing, group] : by_conditions(queries, *listed))
			if (group.size() > kMostListedAtOnce && filter_is_faster(*passing, queries, group))
			{
				masked->insert(masked->end(), group.begin(), group.end());
				std::erase_if(*listed, [&, p = passing](uint32_t number) { return queries[number].passing == p; });
			}
	}

	/// Measured on an H200 (gpu_passing_bench): rows of bytes and of halves, 16 and 64 queries.
	bool filter_is_faster(
		const Passing &passing, std::span<const SearchQuery> queries, std::span<const uint32_t> numbers) const
	{
		constexpr double kListed = 2.7e6;   // elements of rows scored, a us
		constexpr double kFiltered = 1.7e6; // bytes of rows filtered, a us
		constexpr double kFilterStart = 37; // us
		const auto n_queries = static_cast<uint32_t>(numbers.size());
		double bytes = 0;
		uint64_t max_k = 0;

		for (const uint32_t number : numbers)
		{
			if (queries[number].has_after)
				return false;
			max_k = std::max(max_k, call_.k_of(number));
		}
		for (const Source &source : call_.snapshot.sources)
		{
			if (!source.filterable)
				return false;
			bytes += static_cast<double>(source.n_rows) *
				source.filter_rows(n_queries, static_cast<uint32_t>(std::min<uint64_t>(max_k, kernels::kMaxSelectK)))
					.pitch_bytes;
		}
		return static_cast<double>(numbers.size()) * static_cast<double>(passing.n_pass) * call_.shape.dim_pad /
			kListed >
			kFilterStart + bytes / kFiltered;
	}

	static std::map<const Passing *, std::vector<uint32_t>> by_conditions(
		std::span<const SearchQuery> queries, std::span<const uint32_t> numbers)
	{
		std::map<const Passing *, std::vector<uint32_t>> groups;

		for (const uint32_t number : numbers)
			groups[queries[number].passing].push_back(number);
		return groups;
	}

	const SearchCall &call_;
	Budget *const budget_;
	std::map<const Passing *, bool> listed_;
};

} // namespace

Status
search_with_conditions(
	const SearchCall &call, Budget *budget, const std::function<Status(const SearchCall &)> &search_others)
{
	return PassingSearch(call, budget).run(search_others);
}

} // namespace vectorgpu::cuda
