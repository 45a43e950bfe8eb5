// See cpu_engine_coded.hpp. A query ranks each segment's centroids, estimates the scores of the rows of the nearest
// lists by their codes (engine/ivf), and computes the canonical scores of those with the best estimates, in the order
// (estimate, place). A segment all of whose lists the query names is scored in full, and so is the delta. Without
// vectors (kCandidates) the rows with the best estimates are the whole answer. Work is shared out as in search_lists:
// candidates are a selection by a total order, so the answer does not depend on which thread took which part.
#include "engine/cpu/cpu_engine_coded.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "engine/cpu/part_search.hpp"
#include "engine/cpu/passing_lists.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/code_query.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint64_t kDeltaPartRows = 8192; // of a part of the delta
constexpr size_t kScanRows = 1024;        // estimated at a time; a multiple of a block of codes

static_assert(kScanRows % ivf::kCodeBlockRows == 0);

/// A part of a query's work: rows in full, or a list by its codes.
struct CodedPart
{
	Part rows;
	uint32_t segment; // of Plan::segments, if coded
	bool coded;
	double constant; // of the list
};

/// A segment whose lists are scanned by codes.
struct CodedSegment
{
	const RowsView *view;
	uint64_t n_candidates;
	uint64_t n_rows; // of the lists named
};

/// The parts of a query's work, the nearest lists first.
class CodedPlan
{
public:
	CodedPlan(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, CodedAnswer answer)
		: answer_(answer), floats_(spec.dim)
	{
		if (spec.element == ElementType::kFloat16)
			widen_halves(query.query, spec.dim, floats_.data());
		else
			std::copy_n(static_cast<const float *>(query.query), spec.dim, floats_.data());
		unit_ = floats_;
		if (spec.metric == Metric::kCosine)
			ivf::normalise_rows(unit_.data(), 1, spec.dim);
		for (const auto &segment : snapshot.segments)
			if (segment->lists != nullptr)
				add_segment(spec, *segment, query);
		if (answer == CodedAnswer::kCandidates)
			return;
		for (uint64_t at = snapshot.delta.rows.first; at < snapshot.delta.rows.last; at += kDeltaPartRows)
			add_rows(part_of(snapshot.delta, at, std::min(at + kDeltaPartRows, snapshot.delta.rows.last)));
	}

	const std::vector<CodedPart> &parts() const { return parts_; }
	const std::vector<CodedSegment> &segments() const { return segments_; }
	/// The query that codes are compared with.
	const float *unit() const { return unit_.data(); }
	CodedAnswer answer() const { return answer_; }
	Coverage coverage() const
	{
		return segments_.empty() && answer_ == CodedAnswer::kNearest ? Coverage::kAll : Coverage::kPart;
	}

private:
	void add_rows(const Part &part)
	{
		if (part.first < part.last)
			parts_.push_back({part, 0, false, 0});
	}

	void add_segment(const DistanceSpec &spec, const RowsView &view, const SearchQuery &query)
	{
		const Lists &lists = *view.lists;
		const uint32_t n_probes = probes_of(query.probes, view.segment, lists.n_lists());

		if (view.passing != nullptr && view.passing->listed())
			return add_listed(spec, view);
		if ((n_probes == lists.n_lists() || all_pass_scored(view)) && answer_ == CodedAnswer::kNearest)
			return add_all(view);

		const DistanceSpec coarse = {spec.metric, ElementType::kFloat32, spec.dim};
		CodedSegment segment = {&view, candidates_of(query.probes, view.segment), 0};
		std::vector<double> scores(lists.n_lists());
		std::vector<Neighbor> ranked(lists.n_lists());
		std::vector<uint32_t> marks;
		uint32_t n_chosen = n_probes;

		compute_scores(
			coarse, floats_.data(), lists.centroids(), spec.dim * sizeof(float), lists.n_lists(), scores.data());
		for (uint32_t list = 0; list < lists.n_lists(); list++)
			ranked[list] = {scores[list], list};
		if (view.passing == nullptr)
		{
			std::nth_element(ranked.begin(), ranked.begin() + n_probes, ranked.end(), neighbor_less);
			std::sort(ranked.begin(), ranked.begin() + n_probes, neighbor_less);
		}
		else if (n_chosen = choose_lists(view, n_probes, ranked, &marks); n_chosen == 0 || !marks.empty())
			return add_all(view);
		else
			note_way(query, FilterWay::kLists);
		for (uint32_t i = 0; i < n_chosen; i++)
		{
			const uint32_t list = static_cast<uint32_t>(ranked[i].row);
			const Part part = part_of(view, lists.offsets()[list], lists.offsets()[list + 1]);

			segment.n_rows += part.last - part.first;
			if (list_counts(view, list))
				parts_.push_back({part, static_cast<uint32_t>(segments_.size()), true,
					ivf::code_list_constant(lists.codes_layout().spec, ranked[i].score)});
		}
		segments_.push_back(segment);
	}

	void add_listed(const DistanceSpec &spec, const RowsView &view)
	{
		std::vector<Part> parts;

		add_parts(view, vector_bytes(spec.element, spec.dim), &parts);
		for (const Part &part : parts)
			add_rows(part);
	}

	void add_all(const RowsView &view)
	{
		const Lists &lists = *view.lists;

		for (uint32_t list = 0; list < lists.n_lists(); list++)
			if (list_counts(view, list))
				add_rows(part_of(view, lists.offsets()[list], lists.offsets()[list + 1]));
	}

	const CodedAnswer answer_;
	std::vector<float> floats_;
	std::vector<float> unit_;
	std::vector<CodedPart> parts_;
	std::vector<CodedSegment> segments_;
};

/// The part of a query's search that one thread does.
class CodedSearcher
{
public:
	CodedSearcher(const DistanceSpec &spec, const CodedPlan &plan, const SearchQuery &query, uint64_t n_rows)
		: plan_(plan), rows_(spec, query, n_rows), scans_(plan.segments().size())
	{
	}

	void search(const CodedPart &part)
	{
		if (!part.coded)
			rows_.search(part.rows);
		else
			scan(part);
	}

	void merge(CodedSearcher *other)
	{
		rows_.merge(&other->rows_);
		for (size_t i = 0; i < scans_.size(); i++)
		{
			if (other->scans_[i] == nullptr)
				continue;
			if (scans_[i] == nullptr)
				scans_[i] = std::move(other->scans_[i]);
			else
				scans_[i]->candidates.merge(&other->scans_[i]->candidates);
		}
	}

	/// Score the candidates, or take their estimates. Return how many.
	uint64_t refine()
	{
		uint64_t n = 0;

		for (size_t i = 0; i < scans_.size(); i++)
		{
			if (scans_[i] == nullptr)
				continue;

			const RowsView &view = *plan_.segments()[i].view;
			std::vector<Neighbor> chosen = scans_[i]->candidates.finish();

			n += chosen.size();
			if (plan_.answer() == CodedAnswer::kCandidates)
			{
				for (const Neighbor &candidate : chosen)
					offer_estimate(view, candidate);
				continue;
			}
			std::sort(chosen.begin(), chosen.end(), [](const Neighbor &a, const Neighbor &b) { return a.row < b.row; });
			for (const Neighbor &candidate : chosen)
				rows_.search_place(view, candidate.row);
		}
		return n;
	}

	PartSearcher &rows() { return rows_; }

private:
	/// Offer a candidate, given by its place. One without an estimate (NaN) counts too.
	void offer_estimate(const RowsView &view, const Neighbor &candidate)
	{
		const uint32_t number = view.lists->numbers()[candidate.row];

		if (is_dead(view, number))
			return;

		const RowId row = view.rows.row_id(number);
		// Equal estimates have the same bits: one zero, one NaN.
		const double estimate =
			std::isnan(candidate.score) ? std::numeric_limits<double>::quiet_NaN() : candidate.score + 0.0;

		topk_push(rows_.selection().topk(), &estimate, &row, 1, nullptr, 0);
	}

	/// The scan of one segment.
	struct Scan
	{
		std::vector<uint8_t> memory;
		ivf::CodeQuery query;
		Selection candidates; // places in place of row ids
	};

	Scan *scan_of(const CodedPart &part)
	{
		if (scans_[part.segment] == nullptr)
		{
			const CodedSegment &segment = plan_.segments()[part.segment];
			const ivf::CodeModel &model = segment.view->lists->code_model();
			auto made = std::make_unique<Scan>();
			SearchQuery wanted;

			made->memory.resize(ivf::code_query_bytes(model.spec));
			// Cannot fail: the memory is as large as asked for, and the model was checked.
			(void) ivf::code_query_prepare(model, plan_.unit(), made->memory.data(), made->memory.size(), &made->query)
				.is_ok();
			wanted.k = static_cast<size_t>(segment.n_candidates);
			made->candidates.start(wanted, segment.n_rows);
			scans_[part.segment] = std::move(made);
		}
		return scans_[part.segment].get();
	}

	void scan(const CodedPart &part)
	{
		const Lists &lists = *part.rows.view->lists;
		const ivf::CodeSpec &spec = lists.codes_layout().spec;
		const size_t unit = ivf::code_unit_rows(spec);
		const size_t code_bytes = ivf::code_bytes(spec);
		Scan *scan = scan_of(part);
		double scores[kScanRows];
		RowId places[kScanRows];

		for (uint64_t first = part.rows.first / unit * unit, step; first < part.rows.last; first += step)
		{
			step = ivf::code_step_rows(spec, *scan->candidates.topk(), kScanRows);

			const size_t n = std::min<uint64_t>(step, part.rows.last - first);
			const size_t skipped =
				first < part.rows.first ? part.rows.first - first : 0; // rows of another list in the same block

			ivf::code_scores(scan->query, part.constant, lists.codes() + first * code_bytes,
				lists.terms() != nullptr ? lists.terms() + first : nullptr, n, scores,
				scan->candidates.topk()->threshold.score);
			if (!topk_wants(scan->candidates.topk(), scores + skipped, n - skipped))
				continue;
			for (size_t i = skipped; i < n; i++)
				places[i] = first + i;
			topk_push(scan->candidates.topk(), scores + skipped, places + skipped, n - skipped, part.rows.fails,
				first + skipped);
			if (ivf::code_has_bounds(spec))
				topk_tighten_some(scan->candidates.topk());
		}
	}

	const CodedPlan &plan_;
	PartSearcher rows_;
	std::vector<std::unique_ptr<Scan>> scans_; // [plan_.segments()]; null: not yet begun
};

uint64_t
finish(const CodedPlan &plan, CodedSearcher *searcher, const SearchQuery &query, std::vector<Neighbor> *result)
{
	const uint64_t n = searcher->refine();

	*result = searcher->rows().selection().finish();
	if (query.coverage != nullptr)
		*query.coverage =
			std::min(plan.coverage(), searcher->rows().left_out_nan() ? Coverage::kScored : Coverage::kAll);
	return n;
}

/// Search for a query in one thread.
uint64_t
search_alone(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, CodedAnswer answer,
	std::vector<Neighbor> *result, SearchControl *control)
{
	const CodedPlan plan(spec, snapshot, query, answer);
	CodedSearcher searcher(spec, plan, query, snapshot.n_rows);

	for (const CodedPart &part : plan.parts())
	{
		if (stopped(control))
			break;
		searcher.search(part);
		progress(control);
	}
	return finish(plan, &searcher, query, result);
}

/// Search for a query with all threads.
uint64_t
search_together(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, CodedAnswer answer,
	ThreadPool &pool, std::vector<Neighbor> *result, SearchControl *control)
{
	const CodedPlan plan(spec, snapshot, query, answer);
	const size_t n_workers = std::max<size_t>(1, std::min(pool.n_threads(), plan.parts().size()));
	std::vector<std::unique_ptr<CodedSearcher>> searchers(n_workers);
	std::atomic<size_t> next{0};

	pool.run(n_workers,
		[&](size_t worker)
		{
			auto searcher = std::make_unique<CodedSearcher>(spec, plan, query, snapshot.n_rows);

			for (size_t i;
				(i = next.fetch_add(1, std::memory_order_relaxed)) < plan.parts().size() && !stopped(control);)
			{
				searcher->search(plan.parts()[i]);
				progress(control);
			}
			searchers[worker] = std::move(searcher);
		});
	for (size_t worker = 1; worker < n_workers; worker++)
		if (searchers[worker] != nullptr) // null: the call was dropped
			searchers[0]->merge(searchers[worker].get());
	return finish(plan, searchers[0].get(), query, result);
}

} // namespace

uint64_t
search_coded_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	CodedAnswer answer, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	std::atomic<size_t> next{0};
	std::atomic<uint64_t> n_rescored{0};

	results->resize(queries.size());
	if (queries.size() < pool.n_threads())
	{
		for (size_t i = 0; i < queries.size() && !stopped(control); i++)
			n_rescored += search_together(spec, snapshot, queries[i], answer, pool, &(*results)[i], control);
		return n_rescored;
	}
	pool.run(std::min(pool.n_threads(), queries.size()),
		[&](size_t)
		{
			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < queries.size() && !stopped(control);)
				n_rescored += search_alone(spec, snapshot, queries[i], answer, &(*results)[i], control);
		});
	return n_rescored;
}

} // namespace vectorgpu::engine
