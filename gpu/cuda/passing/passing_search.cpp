// See passing_search.hpp.
#include "cuda/passing/passing_search.hpp"

#include <map>

#include "cuda/passing/packed_rows.hpp"
#include "cuda/passing/passing_list_chunk.hpp"
#include "cuda/passing/passing_lists.hpp"
#include "cuda/passing/passing_masks.hpp"
#include "cuda/passing/passing_probes.hpp"
#include "cuda/passing/passing_times.hpp"
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
			Masked masked;
			std::vector<uint32_t> left;

			VECTORGPU_TRY(call_.end(mask_snapshot(call_, budget_, *passing, &masked.view)));
			VECTORGPU_TRY(use_packed(*passing, 0, &masked));
			if (passing->n_pass <= passing->n_rows / engine::kFewOfRows)
				left = group; // few of all rows pass, if not of each segment's: every one is scored
			else
				VECTORGPU_TRY(search_some_lists(call, *passing, group, &masked, &left));
			if (!left.empty() && !masked.asked && masked.packed.missing &&
				(group.size() >= kLeastAsking || wants_packed(call, masked, *passing, left)))
				VECTORGPU_TRY(use_packed(*passing, group.size(), &masked));
			VECTORGPU_TRY(look_at_all(call, masked, *passing, std::move(left)));
		}
		return Status::ok();
	}

	/// A masked snapshot, and the rows that are looked at where all that pass are.
	struct Masked
	{
		Snapshot view;
		Snapshot rows; // of it, whose segments may be packed
		PackedPool::Found packed;
		bool asked = false; // for packed rows
	};

	/// PackedPool::use, if the engine packs rows.
	Status use_packed(const Passing &passing, size_t n_queries, Masked *masked) const
	{
		PackedPool *const pool = call_.options.packed;

		masked->rows = masked->view;
		masked->asked |= n_queries > 0;
		return pool == nullptr
			? Status::ok()
			: call_.end(pool->use(call_, budget_, passing, n_queries, &masked->rows, &masked->packed));
	}

	/// Queries go over packed rows instead of inverted lists where that takes less time for one of them, so that its
	/// way does not depend on the rest of its batch. If rows are not packed yet, these queries ask for it.
	Status search_some_lists(const SearchCall &call, const Passing &passing, std::span<const uint32_t> group,
		Masked *masked, std::vector<uint32_t> *left) const
	{
		std::vector<uint32_t> all; // look at all rows that pass, if they are packed
		std::vector<uint32_t> some;

		for (const uint32_t number : group)
		{
			const double bytes = bytes_of_lists(call_, masked->view, passing, call_.queries[number]);
			const bool pays =
				bytes > 0 && packed_pays(call, *masked, passing, {&number, 1}, lists_us(call, masked->view, bytes));

			(pays ? all : some).push_back(number);
		}
		if (!all.empty() && masked->packed.missing)
			VECTORGPU_TRY(use_packed(passing, all.size(), masked));
		if (!masked->packed.any)
			return search_passing_lists(call_, masked->view, passing, group, false, left);
		*left = std::move(all);
		return some.empty() ? Status::ok() : search_passing_lists(call_, masked->view, passing, some, true, left);
	}

	/// Whether another way, which takes other_us, takes longer than packed rows, also if they are still to be packed.
	bool packed_pays(const SearchCall &call, const Masked &masked, const Passing &passing,
		std::span<const uint32_t> numbers, double other_us) const
	{
		return call_.options.packed != nullptr &&
			other_us >
			call_.options.packed->tuning().pays * packed_us(call, masked.rows, passing, masked.packed.any, numbers);
	}

	/// Whether packed rows pay for queries that look at all rows that pass.
	bool wants_packed(
		const SearchCall &call, const Masked &masked, const Passing &passing, std::span<const uint32_t> numbers) const
	{
		double others = pass_us(call, masked.view, numbers);

		if (may_be_large_list(passing, call.queries, numbers))
			others = std::min(others, listed_us(call, passing, numbers.size()));
		return packed_pays(call, masked, passing, numbers, others);
	}

	/// Queries that have the same conditions and look at all rows that pass: one by one, or by a pass over `rows`, the
	/// masked snapshot, whose segments may be packed.
	Status look_at_all(
		const SearchCall &call, const Masked &masked, const Passing &passing, std::vector<uint32_t> numbers) const
	{
		std::vector<uint32_t> left;

		if (numbers.empty())
			return Status::ok();
		if (may_be_large_list(passing, call.queries, numbers) && !pass_is_faster(call, masked, passing, numbers))
		{
			VECTORGPU_TRY(list(call, numbers, &left));
			if (left.empty())
			{
				note(numbers, FilterWay::kList);
				return Status::ok();
			}
			numbers = std::move(left);
		}
		call_.counts->n_packed += masked.packed.any ? numbers.size() : 0;
		return search_some(call.queries, numbers, masked.rows, search_snapshot);
	}

	/// Whether a pass takes less time than to score the rows that pass one by one.
	static bool pass_is_faster(
		const SearchCall &call, const Masked &masked, const Passing &passing, std::span<const uint32_t> numbers)
	{
		return listed_us(call, passing, numbers.size()) > (masked.packed.any
																  ? packed_us(call, masked.rows, passing, true, numbers)
																  : pass_us(call, masked.rows, numbers));
	}

	/// True if the rows may be scored one by one, although more than a tenth pass. Of small copies either way takes
	/// little.
	bool may_be_large_list(
		const Passing &passing, std::span<const SearchQuery> queries, std::span<const uint32_t> numbers) const
	{
		constexpr double kLeastBytes = 16 << 20; // of vectors
		double bytes = 0;

		for (const Source &source : call_.snapshot.sources)
			bytes += static_cast<double>(source.n_rows) * source.block->pitch_bytes;
		return bytes >= kLeastBytes && call_.spec.element != ElementType::kBit &&
			std::all_of(numbers.begin(), numbers.end(),
				[&](uint32_t number) { return queries[number].k <= kernels::kMaxSelectK; }) &&
			may_be_listed(call_.snapshot, passing);
	}

	/// Where many queries have the same conditions, a filter over all rows may take less time than their lists. These
	/// queries go from *listed to *masked.
	void choose(
		std::span<const SearchQuery> queries, std::vector<uint32_t> *listed, std::vector<uint32_t> *masked) const
	{
		if (listed->size() <= kMostListedAtOnce)
			return;
		for (const auto &[passing, group] : by_conditions(queries, *listed))
			if (group.size() > kMostListedAtOnce &&
				listed_us(call_, *passing, group.size()) > pass_us(call_, call_.snapshot, group))
			{
				masked->insert(masked->end(), group.begin(), group.end());
				std::erase_if(*listed, [&, p = passing](uint32_t number) { return queries[number].passing == p; });
			}
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
