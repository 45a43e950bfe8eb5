// See cpu_engine_hashed.hpp. Queries are shared out to threads; if there are fewer queries than threads, the
// consecutive rows that a query scores are shared out, too.
#include "engine/cpu/cpu_engine_hashed.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/cpu/passing_graph.hpp"
#include "engine/graph/search.hpp"
#include "engine/copies/segment_graph.hpp"

namespace vectorgpu::engine
{
namespace
{

using graph::Candidate;

constexpr uint32_t kProgressNodes = 64; // expanded between two signs of life
constexpr double kRowsOfNode = 14;      // see prepare_masked; measured in README.md
constexpr size_t kBlockNodes = 256;     // scored at a time, on the stack
constexpr size_t kAhead = 4;            // rows prefetched
constexpr size_t kLine = 64;
constexpr size_t kMostAhead = 1024; // bytes prefetched of a row

/// The codes of a segment and that of a query: the context of a GraphView.
struct HeldCodes
{
	const SegmentGraph *held;
	const uint8_t *query;
	SearchControl *control;
	uint64_t n_expanded;

	graph::GraphView view()
	{
		return {static_cast<uint32_t>(held->layout().n_rows), held->degree(), neighbors, scores, this, expect};
	}

	graph::GraphRows rows() const
	{
		const GraphLayout &layout = held->layout();

		return graph::rows_of_codes(
			layout.header.code_bits, layout.dim, held->codes(), static_cast<uint32_t>(layout.n_rows));
	}

private:
	static bool neighbors(void *context, uint32_t node, uint32_t *to)
	{
		HeldCodes *codes = static_cast<HeldCodes *>(context);
		const uint32_t degree = codes->held->degree();

		if (++codes->n_expanded % kProgressNodes == 0)
		{
			progress(codes->control);
			if (stopped(codes->control))
				return false;
		}
		std::copy_n(codes->held->edges() + size_t{node} * degree, degree, to);
		return true;
	}

	static void expect(void *context, uint32_t node)
	{
		const SegmentGraph &held = *static_cast<const HeldCodes *>(context)->held;

		graph::prefetch(held.edges() + size_t{node} * held.degree(), held.degree() * sizeof(uint32_t));
	}

	static bool scores(void *context, const uint32_t *nodes, size_t n, double *to)
	{
		const HeldCodes *codes = static_cast<const HeldCodes *>(context);

		graph::score_rows(codes->rows(), codes->query, nodes, n, to);
		return true;
	}
};

} // namespace

HashedAnswer::HashedAnswer(
	const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, SearchControl *control)
	: spec_(spec), snapshot_(snapshot), query_(query), control_(control), rows_(spec, query, snapshot.n_rows),
	  has_scores_(query_has_scores(spec, query))
{
}

uint32_t
HashedAnswer::width(const RowsView &segment) const
{
	const uint64_t n_rows = segment.rows.last;
	const uint32_t width = width_of(query_, segment.segment);

	if (!has_scores_ || n_rows == 0 || all_pass_scored(segment))
		return 0;
	return graph::looks_at_all(width, static_cast<double>(n_rows)) ? 0 : width;
}

void
HashedAnswer::add(const RowsView &segment, const uint32_t *nodes, size_t n)
{
	const size_t row_bytes = vector_bytes(spec_.element, spec_.dim);
	const auto ask = [&](uint32_t node)
	{
		for (size_t line = 0; line < std::min(row_bytes, kMostAhead); line += kLine)
			__builtin_prefetch(segment.rows.vector(node, row_bytes) + line);
	};

	for (size_t first = 0; first < n; first += kBlockNodes)
	{
		const size_t end = std::min(n, first + kBlockNodes);
		double scores[kBlockNodes];

		if (stopped(control_))
			return;
		for (size_t i = first; i < std::min(end, first + kAhead); i++)
			ask(nodes[i]);
		for (size_t i = first; i < end; i++)
		{
			if (i + kAhead < end)
				ask(nodes[i + kAhead]);
			compute_scores(
				spec_, query_.query, segment.rows.vector(nodes[i], row_bytes), row_bytes, 1, &scores[i - first], 0);
		}
		for (size_t i = first; i < end; i++)
		{
			const double score = scores[i - first];

			// Rows with an infinite score are left to exact searches, as in graphs without codes.
			if (std::isnan(score) || (std::isinf(score) && score > 0) || is_dead(segment, nodes[i]) ||
				!topk_wants(rows_.selection().topk(), &score, 1))
				continue;

			const RowId row = segment.rows.row_id(nodes[i]);

			topk_push(rows_.selection().topk(), &score, &row, 1, nullptr, 0);
		}
		progress(control_);
	}
	n_rescored_ += n;
	coverage_ = Coverage::kPart; // where conditions are met, not every graph is searched
	if (segment.passing != nullptr)
		note_way(query_, FilterWay::kGraph);
}

void
HashedAnswer::score_all(const RowsView &segment, uint64_t first, uint64_t last)
{
	add_range(segment, first, last, vector_bytes(spec_.element, spec_.dim), &parts_);
}

void
HashedAnswer::finish(std::vector<Neighbor> *result, ThreadPool *pool)
{
	const size_t row_bytes = vector_bytes(spec_.element, spec_.dim);
	for (const auto &segment : snapshot_.segments)
	{
		if (segment->rows.last == 0)
			continue;
		if (!has_scores_)
			coverage_ = std::min(coverage_, Coverage::kScored);
		else if (width(*segment) == 0)
			add_parts(*segment, row_bytes, &parts_);
		else if (segment->passing == nullptr)
			coverage_ = Coverage::kPart;
	}
	add_parts(snapshot_.delta, row_bytes, &parts_);
	search_parts(spec_, query_, snapshot_.n_rows, parts_, pool, &rows_, control_);
	if (stopped(control_))
		return;
	*result = rows_.selection().finish();
	if (query_.coverage != nullptr)
		*query_.coverage = std::min(coverage_, rows_.left_out_nan() ? Coverage::kScored : Coverage::kAll);
}

bool
CodeSearcher::search(const DistanceSpec &spec, const RowsView &segment, const void *query, uint32_t width,
	SearchControl *control, HashedAnswer *answer)
{
	const SegmentGraph &held = *segment.graph;
	const graph::CodeModel model = held.code_model(spec);
	HeldCodes codes = {&held, nullptr, control, 0};
	const graph::GraphView view = codes.view();
	graph::SearchSpec search;

	floats_.resize(std::max(floats_.size(), graph::code_work_floats(model.spec)));
	code_.resize(std::max(code_.size(), graph::code_query_bytes(model.spec.bits, spec.dim)));
	graph::make_query_code(model, query, code_.data(), floats_.data());
	codes.query = code_.data();
	search.probe_steps = graph::kSearchSteps;
	search.width = width;
	for (const GraphPartLayout &part : held.parts())
	{
		graph::SearchStats stats;
		uint32_t n_found = 0;

		if (segment.passing != nullptr && !prepare_masked(segment, part.n_rows, width, kRowsOfNode, &search))
		{
			answer->score_all(segment, part.first_row, part.first_row + part.n_rows);
			continue;
		}

		const uint32_t n_entries =
			nearest_entries(codes.rows(), held.entries() + part.first_entry, part.n_entries, search.fails);

		if (segment.passing != nullptr && begin_away(segment, entries_, search.fails))
		{
			answer->score_all(segment, part.first_row, part.first_row + part.n_rows);
			continue;
		}
		work_.resize(std::max(work_.size(), graph::graph_search_bytes(view, search)));
		found_.resize(std::max<size_t>(found_.size(), search.width));

		if (!graph::graph_search(
				view, search, entries_.data(), n_entries, found_.data(), &n_found, &stats, work_.data(), work_.size())
				.is_ok())
			return false;
		if (segment.passing != nullptr &&
			lies_away(search, std::span(found_).first(n_found), answer->wanted(), scores_))
		{
			answer->score_all(segment, part.first_row, part.first_row + part.n_rows);
			continue;
		}
		n_found = std::min(n_found, width);
		nodes_.resize(n_found);
		for (uint32_t i = 0; i < n_found; i++)
			nodes_[i] = found_[i].node;
		answer->add(segment, nodes_.data(), n_found);
	}
	return true;
}

/// Set entries_ to the entry points of a part, those of a search first, and scores_. Return how many are.
uint32_t
CodeSearcher::nearest_entries(const graph::GraphRows &codes, const uint32_t *nodes, uint32_t n, const uint8_t *fails)
{
	scores_.resize(n);
	entries_.resize(n);
	graph::score_rows(codes, code_.data(), nodes, n, scores_.data());
	for (uint32_t i = 0; i < n; i++)
		entries_[i] = {scores_[i], nodes[i]};
	return choose_entries(entries_, fails);
}

uint64_t
search_hashed_graphs(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor> *const> results, SearchControl *control)
{
	std::atomic<size_t> next{0};
	std::atomic<uint64_t> n_rescored{0};
	ThreadPool *const helpers = queries.size() < pool.n_threads() ? &pool : nullptr;

	pool.run(std::min(pool.n_threads(), queries.size()),
		[&](size_t)
		{
			CodeSearcher searcher;

			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < queries.size() && !stopped(control);)
			{
				HashedAnswer answer(spec, snapshot, queries[i], control);

				for (const auto &segment : snapshot.segments)
					if (const uint32_t width = answer.width(*segment);
						width != 0 && !searcher.search(spec, *segment, queries[i].query, width, control, &answer))
						break;
				answer.finish(results[i], helpers);
				n_rescored.fetch_add(answer.n_rescored(), std::memory_order_relaxed);
			}
		});
	return n_rescored;
}

} // namespace vectorgpu::engine
