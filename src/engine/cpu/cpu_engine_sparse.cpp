// See cpu_engine_sparse.hpp. The rows are cut into spans (span_search.hpp). A batch whose tables take more than a bound
// goes over the rows in several groups of queries.
#include "engine/cpu/cpu_engine_sparse.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "engine/copies/slot_values.hpp"
#include "engine/cpu/passing_rows.hpp"
#include "engine/cpu/span_search.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/sparse_query.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kSpanBytes = 256 * 1024;            // of elements: they stay in L2 for all queries
constexpr uint64_t kSpanRows = 2048;                   // at most
constexpr size_t kBlockRows = 256;                     // offered at a time
constexpr size_t kFirstBlockRows = 32;                 // of the first block, when no bound rules out anything
constexpr uint64_t kMostTableBytes = 32 * 1024 * 1024; // of the tables of a group of queries

/// Rows [first, last) of a segment or of those listed in it, or slots of the delta.
struct SparseSpan
{
	const RowsView *view;
	uint64_t first;
	uint64_t last;
	const uint32_t *listed = nullptr; // if not null, the numbers of the rows
};

/// Cut a segment, or the delta, into spans.
void
add_spans(const RowsView &view, size_t slot_bytes, std::vector<SparseSpan> *spans)
{
	if (view.sparse == nullptr)
	{
		const uint64_t most = std::max<uint64_t>(kSpanBytes / slot_bytes, 1);

		for (uint64_t at = view.rows.first; at < view.rows.last; at += most)
			spans->push_back({&view, at, std::min(view.rows.last, at + most)});
		return;
	}
	if (view.passing != nullptr && view.passing->listed())
	{
		const std::span<const uint32_t> listed = view.passing->rows();

		for (uint64_t at = 0; at < listed.size(); at += kBlockRows)
			spans->push_back({&view, at, std::min<uint64_t>(listed.size(), at + kBlockRows), listed.data()});
		return;
	}

	const uint64_t *const ends = view.sparse->ends();

	for (uint64_t at = 0; at < view.rows.last;)
	{
		const uint64_t most = std::min(view.rows.last, at + kSpanRows);
		const uint64_t *const last = std::upper_bound(ends + at, ends + most, view.sparse->start(at) + kSpanBytes);
		const uint64_t next = std::max(at + 1, static_cast<uint64_t>(last - ends));

		spans->push_back({&view, at, next});
		at = next;
	}
}

/// The number of dimensions that tables of the queries' elements have: of all that rows of segments and queries use,
/// or, hashed, of all that there are.
uint32_t
table_dim(const Snapshot &snapshot, std::span<const SparseVector> queries)
{
	uint32_t dim = 1;

	for (const auto &view : snapshot.segments)
		dim = std::max(dim, view->sparse != nullptr ? view->sparse->dim() : 0);
	for (const SparseVector &vector : queries)
		if (vector.n > 0)
			dim = std::max(dim, static_cast<uint32_t>(vector.indices[vector.n - 1]) + 1);
	// Tables of all dimensions are fastest, but not if they leave no cache for the rows.
	return uint64_t{dim} * sizeof(float) * queries.size() > kMostTableBytes ? kMaxSparseDimensions : dim;
}

/// The first queries of those given, as many as kMostTableBytes has tables for and one at least, prepared.
class SparseQueries
{
public:
	SparseQueries(Metric metric, uint32_t dim, std::span<const SparseVector> vectors) : dim_(dim)
	{
		uint64_t n_bytes = 0;

		for (const SparseVector &vector : vectors)
		{
			const size_t own_bytes = sparse_table_bytes(vector.n, dim_);

			n_bytes += own_bytes;
			if (n_bytes > kMostTableBytes && !prepared_.empty())
				break;
			// as floats, for their alignment
			tables_.push_back(std::make_unique_for_overwrite<float[]>(own_bytes / sizeof(float)));
			prepared_.emplace_back();
			sparse_query_init(&prepared_.back(), metric, vector, dim_, tables_.back().get());
		}
	}

	size_t size() const { return prepared_.size(); }
	const SparseQuery &operator[](size_t i) const { return prepared_[i]; }

	/// True if bounds can be computed for the vector: rows of the delta may have more dimensions than the others.
	bool covers(const SparseVector &vector) const
	{
		return vector.n == 0 || static_cast<uint32_t>(vector.indices[vector.n - 1]) < dim_;
	}

private:
	const uint32_t dim_;
	std::vector<std::unique_ptr<float[]>> tables_;
	std::vector<SparseQuery> prepared_;
};

/// One thread's part of a search.
class SparseSearcher
{
public:
	SparseSearcher(
		size_t slot_bytes, std::span<const SearchQuery> queries, const SparseQueries &prepared, uint64_t n_rows)
		: slot_bytes_(slot_bytes), prepared_(prepared), selections_(queries.size())
	{
		for (size_t i = 0; i < queries.size(); i++)
			selections_[i].start(queries[i], n_rows);
	}

	void search(const SparseSpan &span)
	{
		const RowsView &view = *span.view;

		if (view.sparse == nullptr)
			return search_delta(span);
		for (uint64_t at = span.first; at < span.last; at++)
		{
			const uint64_t row = span.listed != nullptr ? span.listed[at] : at;

			if (!is_dead(view, row))
				add(view.sparse->row(row), view.rows.row_id(row));
		}
		score_block();
	}

	void merge(SparseSearcher *other)
	{
		for (size_t i = 0; i < selections_.size(); i++)
			selections_[i].merge(&other->selections_[i]);
		n_scored_ += other->n_scored_;
	}

	Selection &selection(size_t query) { return selections_[query]; }
	uint64_t n_scored() const { return n_scored_; }

private:
	/// Values that begin in the span. They are scored one by one, since each is put together from its slots.
	void search_delta(const SparseSpan &span)
	{
		const RowListView &rows = span.view->rows;
		uint64_t n_slots = 1; // of the value at `at`

		for (uint64_t at = span.first; at < span.last; at += n_slots)
		{
			SparseVector vector;

			n_slots = 1;
			if (is_dead(*span.view, at) ||
				!read_slot_value(rows, at, slot_bytes_, kMostSparseBytes, &value_, &n_slots) ||
				!open_sparse(value_.data(), value_.size(), &vector))
				continue;
			add(vector, rows.row_id(at));
			score_block();
		}
	}

	void add(const SparseVector &vector, RowId row)
	{
		vectors_[n_] = vector;
		row_ids_[n_++] = row;
		if (n_ == block_rows_)
		{
			score_block();
			block_rows_ = std::min(2 * block_rows_, kBlockRows);
		}
	}

	/// Offer the rows added to all queries.
	void score_block()
	{
		for (size_t query = 0; query < selections_.size() && n_ > 0; query++)
			score(prepared_[query], &selections_[query]);
		n_ = 0;
	}

	void score(const SparseQuery &query, Selection *selection)
	{
		TopK *const topk = selection->topk();
		const bool has_worst = topk->full && topk->threshold.score < kInfinity;
		double scores[kBlockRows];
		RowId row_ids[kBlockRows];
		size_t n = 0;

		for (size_t i = 0; i < n_; i++)
		{
			if (has_worst && prepared_.covers(vectors_[i]) &&
				sparse_least_distance(query, vectors_[i]) > topk->threshold.score)
				continue;
			scores[n] = finish_score(query.metric, sparse_score(query.metric, vectors_[i], query.vector));
			row_ids[n++] = row_ids_[i];
		}
		if (n == 0)
			return;
		topk_push(topk, scores, row_ids, n, nullptr, 0);
		selection->tighten();
		n_scored_ += n;
	}

	const size_t slot_bytes_;
	const SparseQueries &prepared_;
	std::vector<Selection> selections_; // [n_queries]
	SparseVector vectors_[kBlockRows];  // of the block
	RowId row_ids_[kBlockRows];
	size_t n_ = 0;
	size_t block_rows_ = kFirstBlockRows;
	std::vector<uint8_t> value_; // of a row of the delta
	uint64_t n_scored_ = 0;
};

} // namespace

Status
check_sparse_queries(std::span<const SearchQuery> queries)
{
	for (const SearchQuery &query : queries)
	{
		SparseVector vector;

		if (query.query == nullptr || !open_sparse(query.query, query.query_bytes, &vector) ||
			query.query_bytes != sizeof(uint32_t) + vector.n * kSparseElementBytes)
			return Status::error(StatusCode::kInvalidArgument, "a malformed query");
	}
	return Status::ok();
}

uint64_t
offer_bounded(const RowsView &view, uint64_t first, size_t n, const float *bounds, Metric metric,
	const SparseVector &query, Selection *selection)
{
	TopK *const topk = selection->topk();
	double scores[kBlockRows];
	RowId row_ids[kBlockRows];
	size_t block = kFirstBlockRows;
	uint64_t n_scored = 0;

	for (size_t at = 0; at < n;)
	{
		// The k-th score so far, or infinity, which no finite bound is above.
		const double worst = topk->full && topk->threshold.score < kInfinity ? topk->threshold.score : kInfinity;
		size_t kept = 0;

		for (; at < n && kept < block; at++)
		{
			if (bounds[at] > worst || is_dead(view, first + at))
				continue;
			scores[kept] = finish_score(metric, sparse_score(metric, view.sparse->row(first + at), query));
			row_ids[kept++] = view.rows.row_id(first + at);
		}
		topk_push(topk, scores, row_ids, kept, nullptr, 0);
		selection->tighten();
		n_scored += kept;
		block = std::min(2 * block, kBlockRows);
	}
	return n_scored;
}

uint64_t
search_sparse(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	const size_t slot_bytes = vector_bytes(spec.element, spec.dim);
	std::vector<SparseSpan> spans;
	std::vector<SparseVector> vectors(queries.size());
	uint64_t n_scored = 0;

	for (const auto &segment : snapshot.segments)
		if (segment->rows.last > 0)
			add_spans(*segment, slot_bytes, &spans);
	add_spans(snapshot.delta, slot_bytes, &spans);
	results->assign(queries.size(), {});
	for (size_t i = 0; i < queries.size(); i++)
	{
		(void) open_sparse(queries[i].query, queries[i].query_bytes, &vectors[i]);
		if (queries[i].coverage != nullptr)
			*queries[i].coverage = Coverage::kAll;
	}
	if (spans.empty())
		return 0;

	const uint32_t dim = table_dim(snapshot, vectors);

	for (size_t first = 0, n; first < queries.size(); first += n)
	{
		const SparseQueries prepared(spec.metric, dim, std::span(vectors).subspan(first));
		const std::span<const SearchQuery> some = queries.subspan(first, prepared.size());

		n = prepared.size();
		if (control != nullptr && control->stop.load(std::memory_order_relaxed))
			break;
		n_scored += search_spans(spans, some, pool, std::span(*results).subspan(first, n), control,
			[&] { return std::make_unique<SparseSearcher>(slot_bytes, some, prepared, snapshot.n_rows); });
	}
	return n_scored;
}

} // namespace vectorgpu::engine
