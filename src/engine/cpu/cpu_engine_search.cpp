// See cpu_engine_search.hpp. The rows are cut into spans (span_search.hpp).
#include "engine/cpu/cpu_engine_search.hpp"

#include <algorithm>
#include <memory>

#include "engine/filter/gemm_filter.hpp"
#include "engine/cpu/part_search.hpp"
#include "engine/cpu/passing_rows.hpp"
#include "engine/cpu/row_scores.hpp"
#include "engine/cpu/selection.hpp"
#include "engine/cpu/span_search.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kDirectBlockRows = 256;       // scores of a block on the stack; its rows stay in L2 for all queries
constexpr size_t kSpanBytes = size_t{1} << 20; // of a span
constexpr size_t kFirstBlockRows = 32;         // of a filter's first block, of which all survive
constexpr size_t kQueriesPerProduct = GemmFilter::kMaxQueries;

/// Consecutive rows in one chunk; `dead` is null or covers all of them. Or rows that a search's conditions list.
struct RowSpan
{
	const RowChunk *chunk;
	size_t first; // slot
	size_t n_rows;
	const uint8_t *dead;
	size_t dead_offset;               // bit of the first row
	const RowsView *view = nullptr;   // of listed rows
	const uint32_t *listed = nullptr; // if not null: [n_rows], numbers in the view

	bool is_dead(size_t row) const
	{
		const size_t bit = dead_offset + row;

		return dead != nullptr && ((dead[bit / 8] >> (bit % 8)) & 1) != 0;
	}
};

/// Cut a list into spans: at chunk borders, at both ends of its bitmap, and at kSpanBytes.
void
add_spans(const RowsView &view, size_t row_bytes, std::vector<RowSpan> *spans)
{
	const uint64_t most = std::max<uint64_t>(kSpanBytes / row_bytes, kDirectBlockRows);
	const RowListView &rows = view.rows;
	const uint64_t dead_first = view.dead_first;

	if (view.passing != nullptr && view.passing->listed())
	{
		const std::span<const uint32_t> listed = view.passing->rows();

		for (size_t first = 0; first < listed.size(); first += most)
			spans->push_back(
				{nullptr, 0, std::min<size_t>(listed.size() - first, most), nullptr, 0, &view, listed.data() + first});
		return;
	}

	const uint64_t dead_last = view.dead == nullptr ? dead_first : dead_first + view.dead->size() * 8;

	for (uint64_t position = rows.first; position < rows.last;)
	{
		const uint64_t slot = position - rows.chunk_start;
		uint64_t end = std::min({rows.last, position + (rows.chunk_rows - slot % rows.chunk_rows), position + most});
		const bool covered = position >= dead_first && position < dead_last;

		if (covered)
			end = std::min(end, dead_last);
		else if (position < dead_first)
			end = std::min(end, dead_first);
		spans->push_back({rows.chunks[slot / rows.chunk_rows].get(), slot % rows.chunk_rows, end - position,
			covered ? view.dead->data() : nullptr, covered ? position - dead_first : 0});
		position = end;
	}
}

/// One thread's part of a search.
class Searcher
{
public:
	Searcher(const DistanceSpec &spec, std::span<const SearchQuery> queries, uint64_t n_rows)
		: spec_(spec), row_bytes_(vector_bytes(spec.element, spec.dim)), queries_(queries), selections_(queries.size())
	{
		for (size_t i = 0; i < queries.size(); i++)
			selections_[i].start(queries[i], n_rows);
	}

	/// Use a filter for the queries that it can be trusted with.
	void use_filter()
	{
		std::vector<const void *> trusted;

		direct_.clear();
		for (size_t i = 0; i < queries_.size(); i++)
		{
			if (!gemm_filter_trusts(spec_, square_norm(spec_, queries_[i].query)))
			{
				direct_.push_back(i);
				continue;
			}
			if (trusted.size() == kQueriesPerProduct)
			{
				filters_.emplace_back(spec_, trusted);
				trusted.clear();
			}
			trusted.push_back(queries_[i].query);
			filtered_.push_back(i);
		}
		if (!trusted.empty())
			filters_.emplace_back(spec_, trusted);
		block_rows_.assign(filters_.size(), kFirstBlockRows);
	}

	void use_no_filter()
	{
		for (size_t i = 0; i < queries_.size(); i++)
			direct_.push_back(i);
	}

	void search(const RowSpan &span)
	{
		if (span.listed != nullptr)
			return search_listed(span);
		if (!direct_.empty())
			for (size_t first = 0; first < span.n_rows; first += kDirectBlockRows)
				search_block(span, first, std::min(kDirectBlockRows, span.n_rows - first));

		size_t filter_start = 0;

		for (GemmFilter &filter : filters_)
		{
			const size_t n_queries = std::min(kQueriesPerProduct, filtered_.size() - filter_start);

			for (size_t first = 0; first < span.n_rows;)
				first += filter_block(&filter, filter_start, n_queries, span, first);
			filter_start += n_queries;
		}
	}

	void merge(Searcher *other)
	{
		for (size_t i = 0; i < selections_.size(); i++)
			selections_[i].merge(&other->selections_[i]);
		n_scored_ += other->n_scored_;
	}

	Selection &selection(size_t query) { return selections_[query]; }
	uint64_t n_scored() const { return n_scored_; }

private:
	/// Rows of a block, at most kDirectBlockRows, that do not follow each other.
	struct Scattered
	{
		const uint8_t *vectors[kDirectBlockRows];
		RowId row_ids[kDirectBlockRows];
		size_t n = 0;
	};

	/// Listed rows, without the dead ones, for all queries: too few for a filter.
	void search_listed(const RowSpan &span)
	{
		for (size_t first = 0; first < span.n_rows; first += kDirectBlockRows)
		{
			Scattered rows;

			for (size_t i = first; i < std::min(span.n_rows, first + kDirectBlockRows); i++)
			{
				if (is_dead(*span.view, span.listed[i]))
					continue;
				rows.vectors[rows.n] = span.view->rows.vector(span.listed[i], row_bytes_);
				rows.row_ids[rows.n++] = span.view->rows.row_id(span.listed[i]);
			}
			for (size_t query = 0; query < queries_.size(); query++)
				score_scattered(query, rows);
		}
	}

	/// Rows [first, first + n) of the span for the direct queries. Where most rows are dead, the others are scored
	/// alone.
	void search_block(const RowSpan &span, size_t first, size_t n)
	{
		uint32_t alive[kDirectBlockRows];
		const size_t n_alive = span.dead == nullptr ? n : zero_bits(span.dead, span.dead_offset + first, n, alive);

		if (n_alive == 0)
			return;
		if (pays_in_order(n_alive, n))
		{
			for (size_t query : direct_)
				score_rows(query, span, first, n);
			return;
		}

		Scattered rows;

		for (; rows.n < n_alive; rows.n++)
		{
			const size_t slot = span.first + first + alive[rows.n];

			rows.vectors[rows.n] = span.chunk->vectors() + slot * row_bytes_;
			rows.row_ids[rows.n] = span.chunk->row_ids()[slot];
		}
		for (size_t query : direct_)
			score_scattered(query, rows);
	}

	void score_scattered(size_t query, const Scattered &rows)
	{
		double scores[kDirectBlockRows];

		score_vectors(spec_, queries_[query].query, rows.vectors, row_bytes_, rows.n, scores);
		topk_push(selections_[query].topk(), scores, rows.row_ids, rows.n, nullptr, 0);
	}

	/// Score rows [first, first + n) of the span canonically, n <= kDirectBlockRows.
	void score_rows(size_t query, const RowSpan &span, size_t first, size_t n)
	{
		const size_t slot = span.first + first;
		double scores[kDirectBlockRows];

		compute_scores(spec_, queries_[query].query, span.chunk->vectors() + slot * row_bytes_, row_bytes_, n, scores);
		topk_push(
			selections_[query].topk(), scores, span.chunk->row_ids() + slot, n, span.dead, span.dead_offset + first);
	}

	/// Return how many rows were filtered: few at first, since all rows survive until there is a threshold.
	size_t filter_block(GemmFilter *filter, size_t filter_start, size_t n_queries, const RowSpan &span, size_t first)
	{
		const size_t n_rows = std::min(block_rows_[filter_start / kQueriesPerProduct], span.n_rows - first);
		const size_t slot = span.first + first;
		uint32_t survivors[GemmFilter::kBlockRows];

		if (span.dead != nullptr && zero_bits(span.dead, span.dead_offset + first, n_rows, survivors) == 0)
			return n_rows;

		const TopK *topks[kQueriesPerProduct] = {};

		for (size_t q = 0; q < n_queries; q++)
			topks[q] = selections_[filtered_[filter_start + q]].topk();
		filter->load_block(span.chunk->vectors() + slot * row_bytes_, span.chunk->square_norms() + slot, n_rows, topks);
		for (size_t q = 0; q < n_queries; q++)
		{
			const size_t query = filtered_[filter_start + q];
			const size_t n = filter->survivors(q, *topks[q], survivors);

			if (n > 0)
				rescore(query, span, first, survivors, n);
		}

		size_t &next = block_rows_[filter_start / kQueriesPerProduct];

		next = std::min(2 * next, GemmFilter::kBlockRows);
		return n_rows;
	}

	/// Score the survivors of a block canonically, neighbouring ones together.
	void rescore(size_t query, const RowSpan &span, size_t first, const uint32_t *survivors, size_t n)
	{
		for (size_t i = 0; i < n;)
		{
			size_t run = 0;

			while (i + run < n && run < kDirectBlockRows && survivors[i + run] == survivors[i] + run &&
				!span.is_dead(first + survivors[i + run]))
				run++;
			if (run == 0)
			{
				i++;
				continue;
			}
			score_rows(query, span, first + survivors[i], run);
			n_scored_ += run;
			i += run;
		}
		selections_[query].tighten();
	}

	DistanceSpec spec_;
	size_t row_bytes_;
	std::span<const SearchQuery> queries_;
	std::vector<Selection> selections_; // [n_queries]
	std::vector<size_t> direct_;        // queries that score every row
	std::vector<size_t> filtered_;      // the others, kQueriesPerProduct to a filter
	std::vector<GemmFilter> filters_;
	std::vector<size_t> block_rows_; // rows of each filter's next block
	uint64_t n_scored_ = 0;
};

/// Whether all segments have rounded rows, which serve one query at a time.
bool
has_rounded(const Snapshot &snapshot)
{
	return std::all_of(snapshot.segments.begin(), snapshot.segments.end(), [](const auto &segment)
		{ return !segment->rows.chunks.empty() && segment->rows.chunks.front()->roundings() != nullptr; });
}

/// Search by rounded rows, query by query. Return how many rows were scored because these did not rule them out.
uint64_t
search_rounded(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor>> results, SearchControl *control)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	std::vector<Part> parts;
	uint64_t n_scored = 0;

	for (const auto &segment : snapshot.segments)
		add_parts(*segment, row_bytes, &parts);
	add_parts(snapshot.delta, row_bytes, &parts);
	for (size_t i = 0; i < queries.size() && !stopped(control); i++)
	{
		PartSearcher searcher(spec, queries[i], snapshot.n_rows);

		search_parts(spec, queries[i], snapshot.n_rows, parts, &pool, &searcher, control);
		results[i] = searcher.selection().finish();
		n_scored += searcher.n_rescored();
		if (queries[i].coverage != nullptr)
			*queries[i].coverage = Coverage::kAll;
	}
	return n_scored;
}

} // namespace

uint64_t
search_snapshot(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	const CpuEngineOptions &options, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results,
	SearchControl *control)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	std::vector<RowSpan> spans;

	for (const auto &segment : snapshot.segments)
		add_spans(*segment, row_bytes, &spans);
	add_spans(snapshot.delta, row_bytes, &spans);

	const bool filtered = queries.size() >= options.gemm_min_queries && gemm_filter_supports(spec);

	results->resize(queries.size());
	if (!filtered && has_rounded(snapshot))
		return search_rounded(spec, snapshot, queries, pool, *results, control);
	return search_spans(spans, queries, pool, *results, control,
		[&]
		{
			auto searcher = std::make_unique<Searcher>(spec, queries, snapshot.n_rows);

			if (filtered)
				searcher->use_filter();
			else
				searcher->use_no_filter();
			return searcher;
		});
}

} // namespace vectorgpu::engine
