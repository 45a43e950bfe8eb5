// See cpu_engine_lists.hpp. A query ranks each segment's centroids and scores the rows of the nearest lists
// canonically, in place; the delta is scored as a whole. Queries are shared out among the threads; in a batch with
// fewer queries than threads, the lists of each query are. (score, row) is a total order, so the answer does not depend
// on which thread took which part.
#include "engine/cpu/cpu_engine_lists.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "engine/cpu/part_search.hpp"
#include "engine/cpu/passing_lists.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/list_metric.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint64_t kDeltaPartRows = 8192; // of a part of the delta

/// A number of parts after which a search may leave out those that follow, up to `resume` (choose_lists).
struct Mark
{
	size_t at;
	size_t resume;
};

/// The parts of a query's work, the nearest lists first.
class Plan
{
public:
	Plan(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query) : coverage_(Coverage::kAll)
	{
		std::vector<float> floats(spec.dim);

		ivf::list_floats(spec, query.query, 1, floats.data());
		for (const auto &segment : snapshot.segments)
			if (segment->lists != nullptr)
				add_segment(spec, *segment, floats.data(), query);
		for (uint64_t at = snapshot.delta.rows.first; at < snapshot.delta.rows.last; at += kDeltaPartRows)
			parts_.push_back(part_of(snapshot.delta, at, std::min(at + kDeltaPartRows, snapshot.delta.rows.last)));
	}

	const std::vector<Part> &parts() const { return parts_; }
	const std::vector<Mark> &marks() const { return marks_; }
	Coverage coverage() const { return coverage_; }

private:
	void add_segment(const DistanceSpec &spec, const RowsView &view, const float *vector, const SearchQuery &query)
	{
		const Lists &lists = *view.lists;
		const uint32_t n_probes = probes_of(query.probes, view.segment, lists.n_lists());

		if (view.passing != nullptr && view.passing->listed())
			return add_parts(view, vector_bytes(spec.element, spec.dim), &parts_);
		if (n_probes == lists.n_lists() || all_pass_scored(view))
			return add_all(view);

		std::vector<double> scores(lists.n_lists());
		std::vector<Neighbor> ranked(lists.n_lists());
		std::vector<uint32_t> marks;
		uint32_t n_chosen = n_probes;

		ivf::centroid_scores(spec, vector, lists.centroids(), spec.dim * sizeof(float), lists.n_lists(), scores.data());
		for (uint32_t list = 0; list < lists.n_lists(); list++)
			ranked[list] = {scores[list], list};
		if (view.passing == nullptr)
		{
			std::nth_element(ranked.begin(), ranked.begin() + n_probes, ranked.end(), neighbor_less);
			std::sort(ranked.begin(), ranked.begin() + n_probes, neighbor_less);
		}
		else if (n_chosen = choose_lists(view, n_probes, ranked, &marks); n_chosen == 0)
			return add_all(view);
		else
			note_way(query, FilterWay::kLists);
		coverage_ = Coverage::kPart;

		const size_t first_mark = marks_.size();

		for (uint32_t i = 0; i < n_chosen; i++)
		{
			add_list(view, static_cast<uint32_t>(ranked[i].row));
			if (std::binary_search(marks.begin(), marks.end(), i + 1))
				marks_.push_back({parts_.size(), 0});
		}
		for (size_t i = first_mark; i < marks_.size(); i++)
			marks_[i].resume = parts_.size();
	}

	void add_all(const RowsView &view)
	{
		for (uint32_t list = 0; list < view.lists->n_lists(); list++)
			add_list(view, list);
	}

	void add_list(const RowsView &view, uint32_t list)
	{
		if (list_counts(view, list))
			parts_.push_back(part_of(view, view.lists->offsets()[list], view.lists->offsets()[list + 1]));
	}

	std::vector<Part> parts_;
	std::vector<Mark> marks_;
	Coverage coverage_;
};

/// Walk through the stages of a plan, from mark to mark. search(first, last): these parts; may_leave(): at a mark, true
/// if the parts up to its `resume` are left out.
template <class Search, class MayLeave>
void
walk_stages(const Plan &plan, Search search, MayLeave may_leave)
{
	size_t at = 0;

	for (const Mark &mark : plan.marks())
	{
		if (mark.at < at) // left out
			continue;
		search(at, mark.at);
		at = may_leave() ? mark.resume : mark.at;
	}
	search(at, plan.parts().size());
}

/// Search for a query. pool: its threads help; null: none do. Return what search_lists returns.
uint64_t
search_query(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, ThreadPool *pool,
	std::vector<Neighbor> *result, SearchControl *control)
{
	const Plan plan(spec, snapshot, query);
	PartSearcher searcher(spec, query, snapshot.n_rows);
	const auto search = [&](size_t first, size_t last)
	{
		search_parts(spec, query, snapshot.n_rows, std::span(plan.parts()).subspan(first, last - first), pool,
			&searcher, control);
	};
	const auto may_leave = [&]
	{
		const bool may = searcher.found_few();

		searcher.begin_stage();
		return may;
	};

	walk_stages(plan, search, may_leave);
	*result = searcher.selection().finish();
	if (query.coverage != nullptr)
		*query.coverage = std::min(plan.coverage(), searcher.left_out_nan() ? Coverage::kScored : Coverage::kAll);
	return searcher.n_rescored();
}

} // namespace

uint64_t
search_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries, ThreadPool &pool,
	std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	std::atomic<size_t> next{0};
	std::atomic<uint64_t> n_rescored{0};

	results->resize(queries.size());
	if (queries.size() < pool.n_threads())
	{
		for (size_t i = 0; i < queries.size() && !stopped(control); i++)
			n_rescored += search_query(spec, snapshot, queries[i], &pool, &(*results)[i], control);
		return n_rescored;
	}
	pool.run(std::min(pool.n_threads(), queries.size()),
		[&](size_t)
		{
			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < queries.size() && !stopped(control);)
				n_rescored += search_query(spec, snapshot, queries[i], nullptr, &(*results)[i], control);
		});
	return n_rescored;
}

} // namespace vectorgpu::engine
