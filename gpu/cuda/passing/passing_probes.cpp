// See passing_probes.hpp. If passing rows are spread evenly over the lists, n_rows / n_pass times as many lists hold as
// many of them as the query's own lists hold rows. Whether they are is seen from the answer: it asks for more rows than
// the query, and if it finds fewer, passing rows are rare near the query, which goes over all rows then.
#include "cuda/passing/passing_probes.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/ivf_search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::SearchQuery;
using engine::SegmentProbes;

constexpr size_t kSeenFactor = 8; // rows asked for, per row of the answer
constexpr size_t kLeastSeen = 64;
constexpr uint64_t kLeastGain = 16; // rows of a pass over all, per row of the lists looked at

/// The query's probes, widened; empty if all rows are as cheap.
std::vector<SegmentProbes>
widen(const SearchCall &call, const Snapshot &view, const engine::Passing &passing, const SearchQuery &query)
{
	std::vector<SegmentProbes> probes;
	double all_bytes = 0;
	double looked_at = 0;

	for (const Source &source : view.sources)
	{
		const double bytes = static_cast<double>(source.n_rows) * source.block->pitch_bytes;
		const engine::PassingSegment *const segment = passing.find(source.segment);

		all_bytes += bytes;
		if (source.lists == nullptr || segment == nullptr)
			continue;

		const uint32_t n_lists = source.lists->n_lists();
		const double factor = static_cast<double>(segment->n_rows) / static_cast<double>(segment->n_pass);
		const auto widened = [factor](uint32_t n, double most)
		{ return static_cast<uint32_t>(std::min(std::ceil(n * factor), most)); };

		probes.push_back({source.segment, widened(engine::probes_of(query.probes, source.segment, n_lists), n_lists),
			source.lists->codes == nullptr
				? 0
				: widened(engine::candidates_of(query.probes, source.segment), source.n_rows)});
		looked_at += bytes * probes.back().probes / n_lists;
	}
	if (all_bytes <= static_cast<double>(call.options.exact_pass_bytes) || looked_at * kLeastGain > all_bytes)
		probes.clear();
	return probes;
}

} // namespace

Status
search_passing_lists(const SearchCall &call, const Snapshot &view, const engine::Passing &passing,
	std::span<const uint32_t> numbers, std::vector<uint32_t> *left)
{
	std::vector<std::vector<SegmentProbes>> probes;
	std::vector<SearchQuery> queries;
	std::vector<uint32_t> searched;
	Results found;

	probes.reserve(numbers.size()); // queries point into it
	for (const uint32_t number : numbers)
	{
		SearchQuery query = call.queries[number];

		probes.push_back(query.probes.empty() || query.k * 2 > kernels::kMaxSelectK
				? std::vector<SegmentProbes>()
				: widen(call, view, passing, query));
		if (probes.back().empty())
		{
			left->push_back(number);
			continue;
		}
		query.k = std::min<size_t>(std::max(query.k * kSeenFactor, kLeastSeen), kernels::kMaxSelectK);
		query.probes = probes.back();
		query.recall_target = 1;
		query.passing = nullptr;
		queries.push_back(query);
		searched.push_back(number);
	}
	if (searched.empty())
		return Status::ok();
	VECTORGPU_TRY(search_lists(call.with(view, queries, &found)));
	for (size_t i = 0; i < searched.size(); i++)
	{
		const SearchQuery &query = call.queries[searched[i]];

		if (found[i].size() < queries[i].k)
		{
			if (query.coverage != nullptr)
				*query.coverage = engine::Coverage::kAll;
			left->push_back(searched[i]);
			continue;
		}
		found[i].resize(query.k);
		(*call.results)[searched[i]] = std::move(found[i]);
		if (query.filter_way != nullptr)
			*query.filter_way = engine::FilterWay::kLists;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
