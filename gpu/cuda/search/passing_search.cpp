// See passing_search.hpp.
#include "cuda/search/passing_search.hpp"

#include <map>

#include "cuda/search/passing_lists.hpp"
#include "cuda/search/passing_masks.hpp"
#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::FilterWay;
using engine::Passing;
using engine::SearchQuery;

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
		std::map<const Passing *, std::vector<uint32_t>> by_passing;

		for (const uint32_t number : numbers)
			by_passing[queries[number].passing].push_back(number);
		for (const auto &[passing, group] : by_passing)
		{
			Snapshot view;

			VECTORGPU_TRY(call_.end(mask_snapshot(call_, budget_, *passing, &view)));
			VECTORGPU_TRY(search_some(queries, group, view, search_snapshot));
		}
		return Status::ok();
	}

	const SearchCall &call_;
	Budget *const budget_;
	std::map<const Passing *, bool> listed_;
};

} // namespace

Status
search_passing(const SearchCall &call, Budget *budget, const std::function<Status(const SearchCall &)> &search_others)
{
	return PassingSearch(call, budget).run(search_others);
}

} // namespace vectorgpu::cuda
