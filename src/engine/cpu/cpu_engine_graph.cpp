// See cpu_engine_graph.hpp. A query searches the graph of each segment, part by part, with engine/graph, or scores all
// rows of a segment where that is cheaper; the delta is scored as a whole. Nodes that vacuum removed are passed through
// and not found. Queries are shared out to threads; if there are fewer queries than threads, the consecutive rows that
// a query scores are shared out, too.
#include "engine/cpu/cpu_engine_graph.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "engine/copies/narrow_scores.hpp"
#include "engine/cpu/part_search.hpp"
#include "engine/cpu/passing_graph.hpp"
#include "engine/graph/search.hpp"
#include "engine/copies/segment_graph.hpp"

namespace vectorgpu::engine
{
namespace
{

using graph::Candidate;

constexpr uint32_t kProgressNodes = 64; // expanded between two signs of life
constexpr double kRowsOfNode = 25;      // see prepare_masked; measured in README.md

/// A segment's graph and rows, and the query that they are searched for: the context of a GraphView.
class HeldGraph
{
public:
	HeldGraph(const DistanceSpec &spec, const RowsView &view, const void *query, SearchControl *control)
		: spec_(spec), row_bytes_(vector_bytes(spec.element, spec.dim)), rows_(view.rows), graph_(*view.graph),
		  query_(query), control_(control)
	{
	}

	graph::GraphView view()
	{
		return {static_cast<uint32_t>(graph_.layout().n_rows), graph_.degree(), neighbors, scores, this, expect};
	}

	/// Choose the way by rounded rows from now on; null: by the rows.
	void choose_by(const NarrowScores *narrow) { narrow_ = narrow; }

	/// The scores by which the search chooses its way.
	void score(const uint32_t *nodes, size_t n, double *scores) const
	{
		if (narrow_ != nullptr)
			narrow_->score(rows_, nodes, n, scores);
		else
			score_canonically(nodes, n, scores);
	}

	void score_canonically(const uint32_t *nodes, size_t n, double *scores) const
	{
		constexpr size_t kAhead = 4; // rows prefetched
		constexpr size_t kLine = 64;
		const auto ask = [this](uint32_t node)
		{
			for (size_t line = 0; line < row_bytes_ && line < 1024; line += kLine)
				__builtin_prefetch(vector(node) + line);
		};

		for (size_t i = 0; i < std::min(n, kAhead); i++)
			ask(nodes[i]);
		for (size_t i = 0; i < n; i++)
		{
			if (i + kAhead < n)
				ask(nodes[i + kAhead]);
			compute_scores(spec_, query_, vector(nodes[i]), row_bytes_, 1, scores + i, 0);
		}
	}

private:
	const uint8_t *vector(uint32_t node) const { return rows_.vector(node, row_bytes_); }

	static bool neighbors(void *context, uint32_t node, uint32_t *to)
	{
		HeldGraph *held = static_cast<HeldGraph *>(context);
		const uint32_t degree = held->graph_.degree();

		if (++held->n_expanded_ % kProgressNodes == 0)
		{
			progress(held->control_);
			if (stopped(held->control_))
				return false;
		}
		std::copy_n(held->graph_.edges() + size_t{node} * degree, degree, to);
		return true;
	}

	static void expect(void *context, uint32_t node)
	{
		const HeldGraph *held = static_cast<const HeldGraph *>(context);
		const uint32_t degree = held->graph_.degree();

		graph::prefetch(held->graph_.edges() + size_t{node} * degree, degree * sizeof(uint32_t));
	}

	static bool scores(void *context, const uint32_t *nodes, size_t n, double *to)
	{
		static_cast<const HeldGraph *>(context)->score(nodes, n, to);
		return true;
	}

	const DistanceSpec &spec_;
	const size_t row_bytes_;
	const RowListView &rows_;
	const SegmentGraph &graph_;
	const void *query_;
	SearchControl *control_;
	const NarrowScores *narrow_ = nullptr;
	uint64_t n_expanded_ = 0;
};

/// One query's search.
class GraphSearcher
{
public:
	GraphSearcher(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, SearchControl *control)
		: spec_(spec), snapshot_(snapshot), query_(query), control_(control), rows_(spec, query, snapshot.n_rows)
	{
		if (rounds(spec))
			narrow_.emplace(spec, query.query);
	}

	/// pool: its threads help; null: none do. Return what search_graphs returns.
	uint64_t run(std::vector<Neighbor> *result, ThreadPool *pool)
	{
		const size_t row_bytes = vector_bytes(spec_.element, spec_.dim);
		const bool has_scores = query_has_scores(spec_, query_);
		std::vector<Part> parts;

		for (const auto &segment : snapshot_.segments)
		{
			const uint64_t n_rows = segment->rows.last;
			const uint32_t width = width_of(query_, segment->segment, by_rounded(*segment));

			if (stopped(control_))
				return 0;
			if (n_rows == 0)
				continue;
			if (!has_scores)
				coverage_ = std::min(coverage_, Coverage::kScored);
			else if (graph::looks_at_all(width, static_cast<double>(n_rows)) || all_pass_scored(*segment))
				add_parts(*segment, row_bytes, &parts);
			else
				search_graph(*segment, width, &parts);
			progress(control_);
		}
		add_parts(snapshot_.delta, row_bytes, &parts);
		search_parts(spec_, query_, snapshot_.n_rows, parts, pool, &rows_, control_);
		*result = rows_.selection().finish();
		if (query_.coverage != nullptr)
			*query_.coverage = std::min(coverage_, rows_.left_out_nan() ? Coverage::kScored : Coverage::kAll);
		return rows_.n_rescored();
	}

private:
	bool by_rounded(const RowsView &view) const { return narrow_.has_value() && view.rounded_lead; }

	/// Parts of the graph whose rows are to be scored instead are appended to *parts.
	void search_graph(const RowsView &view, uint32_t width, std::vector<Part> *parts)
	{
		const SegmentGraph &graph = *view.graph;
		HeldGraph held(spec_, view, query_.query, control_);
		const bool is_narrow = by_rounded(view);
		const graph::GraphView graph_view = held.view();
		const size_t row_bytes = vector_bytes(spec_.element, spec_.dim);
		graph::SearchSpec spec;

		held.choose_by(is_narrow ? &*narrow_ : nullptr);
		spec.probe_steps = graph::kSearchSteps;
		spec.width = width;
		for (const GraphPartLayout &part : graph.parts())
		{
			graph::SearchStats stats;
			uint32_t n_found = 0;

			if (view.passing != nullptr && !prepare_masked(view, part.n_rows, width, kRowsOfNode, &spec))
			{
				add_range(view, part.first_row, part.first_row + part.n_rows, row_bytes, parts);
				continue;
			}

			const uint32_t n_entries =
				nearest_entries(held, graph.entries() + part.first_entry, part.n_entries, spec.fails);

			work_.resize(std::max(work_.size(), graph::graph_search_bytes(graph_view, spec)));
			found_.resize(std::max<size_t>(found_.size(), spec.width));

			const graph::Outcome outcome = graph::graph_search(graph_view, spec, entries_.data(), n_entries,
				found_.data(), &n_found, &stats, work_.data(), work_.size());

			if (!outcome.is_ok()) // stopped
				return;
			if (is_narrow)
				score_found(held, n_found);
			if (view.passing != nullptr && lies_away(spec, std::span(found_).first(n_found), query_.k, scores_))
			{
				add_range(view, part.first_row, part.first_row + part.n_rows, row_bytes, parts);
				continue;
			}
			coverage_ = Coverage::kPart;
			if (view.passing != nullptr)
				note_way(query_, FilterWay::kGraph);
			offer(view, n_found);
		}
	}

	/// Set entries_ to the entry points of a part, those of a search first, and scores_. Return how many are.
	uint32_t nearest_entries(const HeldGraph &held, const uint32_t *nodes, uint32_t n, const uint8_t *fails)
	{
		scores_.resize(n);
		entries_.resize(n);
		held.score_canonically(nodes, n, scores_.data());
		for (uint32_t i = 0; i < n; i++)
			entries_[i] = {scores_[i], nodes[i]};

		const uint32_t n_chosen = choose_entries(entries_, fails);

		for (uint32_t i = 0; i < n_chosen; i++)
			held.score(&entries_[i].node, 1, &entries_[i].score);
		return n_chosen;
	}

	/// Give the nodes found, which rounded rows have chosen, their canonical scores and order.
	void score_found(const HeldGraph &held, uint32_t n_found)
	{
		std::vector<double> scores(n_found);

		nodes_.resize(n_found);
		for (uint32_t i = 0; i < n_found; i++)
			nodes_[i] = found_[i].node;
		held.score_canonically(nodes_.data(), n_found, scores.data());
		for (uint32_t i = 0; i < n_found; i++)
			found_[i].score = std::isnan(scores[i]) ? HUGE_VAL : scores[i];
		std::sort(found_.begin(), found_.begin() + n_found, graph::before);
	}

	/// Offer found_ in order. Infinite scores may stand for NaN: an exact search finds those rows.
	void offer(const RowsView &view, uint32_t n_found)
	{
		for (uint32_t i = 0; i < n_found; i++)
		{
			const Candidate &candidate = found_[i];

			if (std::isinf(candidate.score) && candidate.score > 0)
				return;
			if (is_dead(view, candidate.node) || !topk_wants(rows_.selection().topk(), &candidate.score, 1))
				continue;

			const RowId row = view.rows.row_id(candidate.node);

			topk_push(rows_.selection().topk(), &candidate.score, &row, 1, nullptr, 0);
		}
	}

	const DistanceSpec &spec_;
	const Snapshot &snapshot_;
	const SearchQuery &query_;
	SearchControl *control_;
	PartSearcher rows_;
	Coverage coverage_ = Coverage::kAll;
	std::vector<uint8_t> work_;
	std::vector<Candidate> found_;
	std::vector<Candidate> entries_;
	std::vector<double> scores_;
	std::vector<uint32_t> nodes_;
	std::optional<NarrowScores> narrow_; // nothing: rows of this kind are not rounded
};

} // namespace

uint64_t
search_graphs(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor> *const> results, SearchControl *control)
{
	std::atomic<size_t> next{0};
	std::atomic<uint64_t> n_rescored{0};
	ThreadPool *const helpers = queries.size() < pool.n_threads() ? &pool : nullptr;

	pool.run(std::min(pool.n_threads(), queries.size()),
		[&](size_t)
		{
			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < queries.size() && !stopped(control);)
				n_rescored += GraphSearcher(spec, snapshot, queries[i], control).run(results[i], helpers);
		});
	return n_rescored;
}

} // namespace vectorgpu::engine
