// See passing_probes.hpp. The kernels choose a query's lists by the rows in them that pass, among as many as are named
// here (kernels::IvfCut). A query whose rows lie away from it has to go over all rows then, so the queries that follow
// with the same conditions do so at once, and a few try lists again.
#include "cuda/passing/passing_probes.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/passing/passing_device.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/ivf_search.hpp"
#include "cuda/search/list_ways.hpp"
#include "engine/ivf/passing_probes.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::FilterWay;
using engine::SearchQuery;
using engine::SegmentProbes;

// Over the lists of the CPU engine. They take little time here, and near the border of where rows pass, more of the
// nearest ones lie in lists farther away.
constexpr double kMargin = 1.2;

constexpr double kLeastGain = 4;    // rows of a pass over all, per row of the lists looked at
constexpr uint32_t kResting = 256;  // queries that go over all rows after one whose rows lay away
constexpr uint32_t kShortRest = 64; // the first time, where that takes little more than lists do

/// What a query with conditions searches of a segment; false: all rows of the copy are better looked at. *share: of the
/// segment's rows, expected.
bool
widen(const Source &source, const engine::PassingSegment &segment, const SearchQuery &query, SegmentProbes *probes,
	double *share)
{
	const uint32_t n_lists = source.lists->n_lists();
	const uint32_t plain = engine::probes_of(query.probes, source.segment, n_lists);
	const double factor = static_cast<double>(segment.n_rows) / static_cast<double>(segment.n_pass);
	const double even = kMargin * engine::ivf::even_lists(plain, segment.n_rows, segment.n_pass);

	*probes = {source.segment, n_lists,
		source.lists->codes == nullptr
			? 0
			: static_cast<uint32_t>(std::min<double>(
				  std::ceil(engine::candidates_of(query.probes, source.segment) * factor), source.n_rows))};
	*share = 1;
	if (segment.n_pass == segment.n_rows)
		probes->probes = plain; // as without conditions
	else if (2 * even < n_lists)
	{
		probes->probes = static_cast<uint32_t>(std::ceil(even * kMoreToChooseFrom));
		if (source.cut.n_pass == nullptr || probes->probes > kernels::kIvfMostCut)
			return false;
	}
	*share = std::min(even / n_lists, 1.0);
	return true;
}

/// The query's probes of all segments; empty if all rows are as cheap, or if the query names none. *looked_at: bytes of
/// rows that these lists hold.
std::vector<SegmentProbes>
widen(const SearchCall &call, const Snapshot &view, const engine::Passing &passing, const SearchQuery &query,
	double *looked_at)
{
	std::vector<SegmentProbes> probes;
	double all_bytes = 0;

	*looked_at = 0;
	if (query.probes.empty() || query.k > kernels::kMaxSelectK ||
		passing.n_pass * call.shape.dim_pad <= call.options.exact_elements)
		return {};
	for (const Source &source : view.sources)
	{
		const double bytes = static_cast<double>(source.n_rows) * source.block->pitch_bytes;
		const engine::PassingSegment *const segment = passing.find(source.segment);
		SegmentProbes own{};
		double share = 1;

		all_bytes += bytes;
		if (source.lists != nullptr && segment != nullptr)
		{
			if (!widen(source, *segment, query, &own, &share))
				return {};
			probes.push_back(own);
		}
		*looked_at += bytes * share;
	}
	if (*looked_at * kLeastGain > all_bytes)
		probes.clear();
	return probes;
}

/// Count n queries off those that rest. False if none do.
bool
rest(const Snapshot &view, size_t n)
{
	bool any = false;

	for (const Source &source : view.sources)
	{
		if (source.passing == nullptr)
			continue;

		std::atomic<uint32_t> &left = source.passing->n_resting;
		const uint32_t now = left.load(std::memory_order_relaxed);

		any |= now > 0;
		left.store(now - static_cast<uint32_t>(std::min<size_t>(now, n)), std::memory_order_relaxed);
	}
	return any;
}

/// Let the next queries rest if n_away of n had to go over all rows besides: after a quarter of them, or, where rows
/// are packed, after any, each time in turn for twice as long.
void
note_tried(const Snapshot &view, size_t n_away, size_t n, bool packed)
{
	for (const Source &source : view.sources)
	{
		if (source.passing == nullptr)
			continue;

		const PassingLists &lists = *source.passing;
		const uint32_t next = std::max(lists.next_rest.load(std::memory_order_relaxed), kShortRest);

		if (n_away * 4 > n)
			lists.n_resting.store(kResting, std::memory_order_relaxed);
		else if (packed && n_away > 0)
			lists.n_resting.store(next, std::memory_order_relaxed);
		if (packed)
			lists.next_rest.store(n_away > 0 ? std::min(2 * next, kResting) : 0, std::memory_order_relaxed);
	}
}

} // namespace

double
bytes_of_lists(const SearchCall &call, const Snapshot &view, const engine::Passing &passing, const SearchQuery &query)
{
	double looked_at;

	return widen(call, view, passing, query, &looked_at).empty() ? 0 : looked_at;
}

Status
search_passing_lists(const SearchCall &call, const Snapshot &view, const engine::Passing &passing,
	std::span<const uint32_t> numbers, bool packed, std::vector<uint32_t> *left)
{
	std::vector<std::vector<SegmentProbes>> probes;
	std::vector<FilterWay> ways(numbers.size(), FilterWay::kLists);
	std::vector<SearchQuery> asked; // with these probes
	std::vector<SearchQuery> queries;
	std::vector<uint32_t> searched;
	Results found;
	size_t n_away = 0;
	const SearchCall masked = call.with(view, {}, &found);
	ListChooser chooser(masked, true);

	probes.reserve(numbers.size()); // queries point into it
	asked.reserve(numbers.size());  // and the chooser into this
	for (const uint32_t number : numbers)
	{
		double looked_at;

		probes.push_back(widen(call, view, passing, call.queries[number], &looked_at));
		asked.push_back(call.queries[number]);
		asked.back().probes = probes.back();
		if (probes.back().empty() || chooser.scores_all(asked.back(), asked.back()))
		{
			left->push_back(number);
			continue;
		}

		SearchQuery query = asked.back();

		query.recall_target = 1;
		query.passing = nullptr;
		query.filter_way = &ways[queries.size()];
		queries.push_back(query);
		searched.push_back(number);
	}
	if (searched.empty())
		return Status::ok();
	if (rest(view, searched.size()))
	{
		left->insert(left->end(), searched.begin(), searched.end());
		return Status::ok();
	}

	SearchOptions options = call.options; // these queries have their way

	options.list_choice = false;
	VECTORGPU_TRY(search_lists({call.device, call.context, call.spec, call.shape, view, queries, options, &found,
		call.counts, call.control, &call.copy_rows()}));
	for (size_t i = 0; i < searched.size(); i++)
	{
		const SearchQuery &query = call.queries[searched[i]];

		if (ways[i] != FilterWay::kLists)
		{
			if (query.coverage != nullptr)
				*query.coverage = engine::Coverage::kAll;
			left->push_back(searched[i]);
			n_away++;
			continue;
		}
		(*call.results)[searched[i]] = std::move(found[i]);
		if (query.filter_way != nullptr)
			*query.filter_way = FilterWay::kLists;
	}
	note_tried(view, n_away, searched.size(), packed);
	return Status::ok();
}

} // namespace vectorgpu::cuda
