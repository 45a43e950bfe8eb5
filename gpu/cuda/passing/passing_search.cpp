// See passing_search.hpp.
#include "cuda/passing/passing_search.hpp"

#include <map>

#include "cuda/passing/packed_rows.hpp"
#include "cuda/passing/passing_list_chunk.hpp"
#include "cuda/passing/passing_lists.hpp"
#include "cuda/passing/passing_masks.hpp"
#include "cuda/passing/passing_probes.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::FilterWay;
using engine::Passing;
using engine::SearchQuery;

constexpr size_t kMostListedAtOnce = 15; // queries with the same conditions, without looking for a faster way
constexpr size_t kLeastAsking = 2;       // queries of a batch for which rows are packed: one takes a list

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

		begin_results(call_.queries.size(), call_.results);
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
		return mask(call, masked);
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

		if (numbers.size() == queries.size()) // all of them, in some order
			return search(call_.with(rows, queries, call_.results));
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

	/// Queries without a list made on the host.
	Status mask(const SearchCall &call, std::span<const uint32_t> numbers) const
	{
		for (const auto &[passing, group] : by_conditions(call.queries, numbers))
		{
			Snapshot view;
			std::vector<uint32_t> left;

			VECTORGPU_TRY(call_.end(mask_snapshot(call_, budget_, *passing, &view)));

			Snapshot rows = view; // that are looked at where all that pass are
			bool packed = false;

			VECTORGPU_TRY(use_packed(*passing, 0, &rows, &packed));
			if (passing->n_pass <= passing->n_rows / engine::kFewOfRows)
				left = group; // few of all rows pass, if not of each segment's: every one is scored
			else
				VECTORGPU_TRY(search_passing_lists(call_, view, *passing, group, packed, &left));
			if (!left.empty() && group.size() >= kLeastAsking)
			{
				rows = view;
				VECTORGPU_TRY(use_packed(*passing, group.size(), &rows, &packed));
			}
			VECTORGPU_TRY(look_at_all(call, rows, *passing, packed, std::move(left)));
		}
		return Status::ok();
	}

	/// PackedPool::use, if the engine packs rows.
	Status use_packed(const Passing &passing, size_t n_queries, Snapshot *rows, bool *packed) const
	{
		PackedPool *const pool = call_.options.packed;

		return pool == nullptr ? Status::ok() : call_.end(pool->use(call_, budget_, passing, n_queries, rows, packed));
	}

	/// Queries that have the same conditions and look at all rows that pass: one by one, or by a pass over `rows`, the
	/// masked snapshot, whose segments may be packed.
	Status look_at_all(const SearchCall &call, const Snapshot &rows, const Passing &passing, bool packed,
		std::vector<uint32_t> numbers) const
	{
		std::vector<uint32_t> left;

		if (numbers.empty())
			return Status::ok();
		if (may_be_large_list(rows, passing, call.queries, numbers))
		{
			VECTORGPU_TRY(list(call, numbers, &left));
			if (left.empty())
			{
				note(numbers, FilterWay::kList);
				return Status::ok();
			}
			numbers = std::move(left);
		}
		call_.counts->n_packed += packed ? numbers.size() : 0;
		return search_some(call.queries, numbers, rows, search_snapshot);
	}

	/// True if it takes less time to score the rows one by one, although more than a tenth pass. Of small copies either
	/// way takes little.
	bool may_be_large_list(const Snapshot &rows, const Passing &passing, std::span<const SearchQuery> queries,
		std::span<const uint32_t> numbers) const
	{
		constexpr double kLeastBytes = 16 << 20; // of vectors
		double bytes = 0;

		for (const Source &source : call_.snapshot.sources)
			bytes += static_cast<double>(source.n_rows) * source.block->pitch_bytes;
		return bytes >= kLeastBytes && call_.spec.element != ElementType::kBit &&
			std::all_of(numbers.begin(), numbers.end(),
				[&](uint32_t number) { return queries[number].k <= kernels::kMaxSelectK; }) &&
			may_be_listed(call_.snapshot, passing) && !filter_is_faster(rows, passing, queries, numbers);
	}

	/// Where many queries have the same conditions, a filter over all rows may take less time than their lists. These
	/// queries go from *listed to *masked.
	void choose(
		std::span<const SearchQuery> queries, std::vector<uint32_t> *listed, std::vector<uint32_t> *masked) const
	{
		if (listed->size() <= kMostListedAtOnce)
			return;
		for (const auto &[passing, group] : by_conditions(queries, *listed))
			if (group.size() > kMostListedAtOnce && filter_is_faster(call_.snapshot, *passing, queries, group))
			{
				masked->insert(masked->end(), group.begin(), group.end());
				std::erase_if(*listed, [&, p = passing](uint32_t number) { return queries[number].passing == p; });
			}
	}

	/// Whether a filter over these rows takes less time than scores of the rows that pass. Measured on an H200
	/// (gpu_passing_bench): rows of bytes and of halves, 1 to 64 queries.
	bool filter_is_faster(const Snapshot &rows, const Passing &passing, std::span<const SearchQuery> queries,
		std::span<const uint32_t> numbers) const
	{
		constexpr double kListStart = 22;       // us
		constexpr double kListed = 1.8e6;       // elements of rows scored, a us
		constexpr double kListedOne = .7e6;     // the same of few queries, each by itself
		constexpr double kListedBytes = 3e6;    // as whole numbers
		constexpr double kListedBytesOne = 2e6; // the same of few queries
		constexpr uint32_t kFew = 4;
		constexpr double kFilterStart = 32;  // us
		constexpr double kFiltered = 2.6e6;  // bytes of rows filtered, a us
		constexpr double kFilterQuery = .25; // us
		const double n = static_cast<double>(numbers.size());
		const double n_pass = static_cast<double>(passing.n_pass);
		const auto n_queries = static_cast<uint32_t>(numbers.size());
		double bytes = 0;
		uint64_t max_k = 0;
		const bool as_bytes = may_list_bytes(call_);
		const bool few = numbers.size() < kFew;
		const double listed =
			as_bytes ? (few ? kListedBytesOne : kListedBytes) : (few ? kListedOne : kListed); // elements, a us

		for (const uint32_t number : numbers)
		{
			if (queries[number].has_after)
				return false;
			max_k = std::max(max_k, call_.k_of(number));
		}
		for (const Source &source : rows.sources)
		{
			if (!source.filterable)
				return false;
			bytes += static_cast<double>(source.n_rows) *
				source.filter_rows(n_queries, static_cast<uint32_t>(std::min<uint64_t>(max_k, kernels::kMaxSelectK)))
					.pitch_bytes;
		}
		return kListStart + n * n_pass * call_.shape.dim_pad / listed >
			kFilterStart + bytes / kFiltered + n * kFilterQuery;
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
