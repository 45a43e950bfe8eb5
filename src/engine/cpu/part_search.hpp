// Scoring of consecutive rows, parts of segments and the delta, by searches of copies with a structure. Internal to the
// CPU engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/passing_rows.hpp"
#include "engine/filter/rounded_rows.hpp"
#include "engine/cpu/row_scores.hpp"
#include "engine/cpu/selection.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{

constexpr size_t kBlockRows = 256;   // scored at a time, on the stack
constexpr size_t kFirstRows = 32;    // at a time, until rounded rows have a score to compare with
constexpr uint64_t kLeastServed = 4; // rounded rows serve if one row in this many is left at most,
constexpr uint64_t kTrial = 4096;    // and while this many have been looked at

/// Places of a segment, or positions of the delta, that a query scores.
struct Part
{
	const RowsView *view;
	uint64_t first;
	uint64_t last;
	const uint32_t *listed = nullptr; // if not null: the places listed[first .. last)
	const uint8_t *fails = nullptr;   // if not null: bit place - fails_first is 1 if the row fails
	uint64_t fails_first = 0;
};

/// Places [first, last) without the rows that fail. The view's rows are not listed.
inline Part
part_of(const RowsView &view, uint64_t first, uint64_t last)
{
	Part part = {&view, first, last};

	if (view.passing == nullptr)
		return part;
	part.fails = view.passing->places != nullptr ? view.passing->places->fails.data() : view.dead->data();
	part.fails_first = view.passing->places != nullptr ? 0 : view.dead_first;
	return part;
}

/// True if rows have a score for the query: a zero vector has no cosine with any row.
inline bool
query_has_scores(const DistanceSpec &spec, const SearchQuery &query)
{
	double score;

	compute_scores(spec, query.query, query.query, vector_bytes(spec.element, spec.dim), 1, &score, 0);
	return !std::isnan(score);
}

/// Offers rows to one query's selection.
class PartSearcher
{
public:
	PartSearcher(const DistanceSpec &spec, const SearchQuery &query, uint64_t n_rows)
		: spec_(spec), row_bytes_(vector_bytes(spec.element, spec.dim)), query_(query)
	{
		selection_.start(query, n_rows);
	}

	void search(const Part &part)
	{
		if (part.listed != nullptr || part.fails != nullptr)
			return search_passing(part);

		const RowListView &rows = part.view->rows;

		for (uint64_t at = part.first; at < part.last;)
		{
			const uint64_t slot = at - rows.chunk_start;
			const RowChunk &chunk = *rows.chunks[slot / rows.chunk_rows];
			const size_t in_chunk = slot % rows.chunk_rows;
			const bool rounded = use_rounded(chunk);
			const uint64_t most = rounded && !selection_.topk()->full ? kFirstRows : kBlockRows;
			const size_t n = std::min<uint64_t>({part.last - at, rows.chunk_rows - in_chunk, most});
			double scores[kBlockRows];

			if (rounded && selection_.topk()->full)
			{
				uint32_t places[kBlockRows];

				std::iota(places, places + n, 0);
				search_rounded(*part.view, at, places, n);
				at += n;
				continue;
			}
			compute_scores(spec_, query_.query, chunk.vectors() + in_chunk * row_bytes_, row_bytes_, n, scores);
			if (topk_wants(selection_.topk(), scores, n))
				offer(*part.view, [at](size_t i) { return at + i; }, scores, n);
			at += n;
			if (rounded)
				selection_.tighten();
		}
	}

	/// The row at one place of a segment.
	void search_place(const RowsView &view, uint64_t place)
	{
		double score;

		compute_scores(spec_, query_.query, view.rows.vector(place, row_bytes_), row_bytes_, 1, &score, 0);
		if (topk_wants(selection_.topk(), &score, 1))
			offer(view, [place](size_t) { return place; }, &score, 1);
	}

	/// Count from here on which rows are among the nearest so far.
	void begin_stage()
	{
		topk_tighten(selection_.topk());
		stage_bound_ = selection_.topk()->full ? selection_.topk()->threshold.score : HUGE_VAL;
		n_nearer_ = 0;
	}

	/// Count as another searcher of the same query does.
	void join_stage(const PartSearcher &other) { stage_bound_ = other.stage_bound_; }

	/// True if hardly any row since begin_stage() is: of k rows less than one in 16.
	bool found_few() const { return n_nearer_ * 16 < query_.k; }

	Selection &selection() { return selection_; }
	const Selection &selection() const { return selection_; }
	bool left_out_nan() const { return left_out_nan_; }

	/// How many rows were scored because their rounded rows did not rule them out.
	uint64_t n_rescored() const { return n_rescored_; }

	void merge(PartSearcher *other)
	{
		n_filtered_ += other->n_filtered_;
		n_rescored_ += other->n_rescored_;
		selection_.merge(&other->selection_);
		left_out_nan_ = left_out_nan_ || other->left_out_nan_;
		n_nearer_ += other->n_nearer_;
	}

private:
	/// The rows of a part that pass, block by block. Where many do, the others are scored with them.
	void search_passing(const Part &part)
	{
		for (uint64_t at = part.first; at < part.last;)
		{
			const size_t n = std::min<uint64_t>(part.last - at, kBlockRows);

			if (part.listed != nullptr)
				choose_places(*part.view, 0, part.listed + at, n);
			else
			{
				uint32_t places[kBlockRows];
				const size_t n_passing = zero_bits(part.fails, at - part.fails_first, n, places);

				if (filters(*part.view))
					choose_places(*part.view, at, places, n_passing);
				else if (pays_in_order(n_passing, n))
					search_block(*part.view, at, n, places, n_passing);
				else
					search_places(*part.view, at, places, n_passing);
			}
			at += n;
		}
	}

	/// Score the rows at [first, first + n) and offer those at first + places [n_passing].
	void search_block(const RowsView &view, uint64_t first, size_t n, const uint32_t *places, size_t n_passing)
	{
		double scores[kBlockRows];

		score_range(view, first, n, scores);
		for (size_t i = 0; i < n_passing; i++)
			scores[i] = scores[places[i]];
		if (topk_wants(selection_.topk(), scores, n_passing))
			offer(view, [=](size_t i) { return first + places[i]; }, scores, n_passing);
	}

	/// scores [n] of the rows at [first, first + n), in any chunks.
	void score_range(const RowsView &view, uint64_t first, size_t n, double *scores)
	{
		for (size_t done = 0; done < n;)
		{
			const uint64_t slot = first + done - view.rows.chunk_start;
			const size_t in_chunk = slot % view.rows.chunk_rows;
			const size_t here = std::min(n - done, view.rows.chunk_rows - in_chunk);

			compute_scores(spec_, query_.query,
				view.rows.chunks[slot / view.rows.chunk_rows]->vectors() + in_chunk * row_bytes_, row_bytes_, here,
				scores + done);
			done += here;
		}
	}

	/// Whether rounded rows can rule out rows of the view now.
	bool filters(const RowsView &view)
	{
		return !view.rows.chunks.empty() && use_rounded(*view.rows.chunks.front()) && selection_.topk()->full;
	}

	/// Whether the chunk has rounded rows that serve the query. Where they have ruled out few rows, they do not.
	bool use_rounded(const RowChunk &chunk)
	{
		if (chunk.roundings() == nullptr || n_rescored_ * kLeastServed > n_filtered_ + kTrial)
			return false;
		if (rounded_ == nullptr)
			rounded_ = std::make_unique<RoundedQuery>(spec_, query_.query);
		return rounded_->is_trusted();
	}

	/// The rows at first + places [n], at most kBlockRows, by their rounded rows where these serve.
	void choose_places(const RowsView &view, uint64_t first, const uint32_t *places, size_t n)
	{
		if (filters(view))
			return search_rounded(view, first, places, n);
		search_places(view, first, places, n);
		if (!view.rows.chunks.empty() && use_rounded(*view.rows.chunks.front()))
			selection_.tighten();
	}

	/// The rows at first + places [n], at most kBlockRows, which have rounded rows: those that these do not rule out.
	void search_rounded(const RowsView &view, uint64_t first, const uint32_t *places, size_t n)
	{
		RoundedBlock block;
		uint32_t survivors[kBlockRows];

		for (size_t i = 0; i < n; i++)
		{
			const uint64_t slot = first + places[i] - view.rows.chunk_start;
			const RowChunk &chunk = *view.rows.chunks[slot / view.rows.chunk_rows];
			const size_t at = slot % view.rows.chunk_rows;

			block.add(chunk.rounded(at), chunk.roundings()[at], chunk.square_norms()[at]);
		}

		const size_t n_left = rounded_->survivors(block, selection_.topk()->threshold.score, survivors);

		for (size_t i = 0; i < n_left; i++)
			survivors[i] = places[survivors[i]];
		search_places(view, first, survivors, n_left);
		selection_.tighten();
		n_filtered_ += n;
		n_rescored_ += n_left;
	}

	/// The rows at first + places [n], at most kBlockRows.
	void search_places(const RowsView &view, uint64_t first, const uint32_t *places, size_t n)
	{
		const uint8_t *vectors[kBlockRows];
		double scores[kBlockRows];

		for (size_t i = 0; i < n; i++)
			vectors[i] = view.rows.vector(first + places[i], row_bytes_);
		score_vectors(spec_, query_.query, vectors, row_bytes_, n, scores);
		if (topk_wants(selection_.topk(), scores, n))
			offer(view, [=](size_t i) { return first + places[i]; }, scores, n);
	}

	/// Offer the rows at places place_of(0 .. n) whose scores can matter. Their row ids lie anywhere in the segment.
	template <class PlaceOf>
	void offer(const RowsView &view, PlaceOf place_of, const double *scores, size_t n)
	{
		double kept_scores[kBlockRows];
		RowId kept_rows[kBlockRows];
		size_t kept = 0;

		for (size_t i = 0; i < n; i++)
		{
			if (!topk_wants(selection_.topk(), &scores[i], 1))
				continue;

			const uint64_t place = place_of(i);
			const uint64_t position = view.lists != nullptr ? view.lists->numbers()[place] : place;

			if (is_dead(view, position))
				continue;
			if (std::isnan(scores[i]) && !query_.probes.empty())
			{
				left_out_nan_ = true;
				continue;
			}
			n_nearer_ += scores[i] < stage_bound_ ? 1 : 0;
			kept_scores[kept] = scores[i];
			kept_rows[kept++] = view.rows.row_id(position);
		}
		topk_push(selection_.topk(), kept_scores, kept_rows, kept, nullptr, 0);
	}

	const DistanceSpec &spec_;
	const size_t row_bytes_;
	const SearchQuery &query_;
	Selection selection_;
	bool left_out_nan_ = false;
	double stage_bound_ = HUGE_VAL;
	uint64_t n_nearer_ = 0;
	std::unique_ptr<RoundedQuery> rounded_; // null: not asked for yet
	uint64_t n_filtered_ = 0;               // rows that a rounded row was looked at for
	uint64_t n_rescored_ = 0;               // of them, those that it did not rule out
};

inline bool
stopped(const SearchControl *control)
{
	return control != nullptr && control->stop.load(std::memory_order_relaxed);
}

inline void
progress(SearchControl *control)
{
	if (control != nullptr)
		control->progress.fetch_add(1, std::memory_order_relaxed);
}

constexpr size_t kPartBytes = size_t{1} << 20; // of rows between two signs of life: several a second

/// Append the rows of a view at [first, last) in parts. They are not listed.
inline void
add_range(const RowsView &view, uint64_t first, uint64_t last, size_t row_bytes, std::vector<Part> *parts)
{
	const uint64_t most = std::max<uint64_t>(kPartBytes / row_bytes, kBlockRows);

	for (uint64_t at = first; at < last; at += most)
		parts->push_back(part_of(view, at, std::min(last, at + most)));
}

/// Append all rows of a view that pass, in parts.
inline void
add_parts(const RowsView &view, size_t row_bytes, std::vector<Part> *parts)
{
	const uint64_t most = std::max<uint64_t>(kPartBytes / row_bytes, kBlockRows);

	if (view.passing == nullptr || !view.passing->listed())
		return add_range(view, view.rows.first, view.rows.last, row_bytes, parts);

	const std::span<const uint32_t> rows = view.passing->rows();

	for (uint64_t first = 0; first < rows.size(); first += most)
		parts->push_back({&view, first, std::min<uint64_t>(rows.size(), first + most), rows.data()});
}

/// Offer the parts to a query's searcher, with a sign of life and a look at the stop after each. pool: its threads
/// help; null: none do. One of them may call this.
inline void
search_parts(const DistanceSpec &spec, const SearchQuery &query, uint64_t n_rows, std::span<const Part> parts,
	ThreadPool *pool, PartSearcher *searcher, SearchControl *control)
{
	uint64_t bytes = 0;

	for (const Part &part : parts)
		bytes += (part.last - part.first) * vector_bytes(spec.element, spec.dim);

	// Waking a thread for less takes longer than it saves.
	const size_t n_workers = pool == nullptr ? 1 : std::clamp<uint64_t>(bytes / kPartBytes, 1, pool->n_threads());
	std::vector<std::unique_ptr<PartSearcher>> helpers(n_workers);
	std::atomic<size_t> next{0};
	const auto work = [&](PartSearcher *own)
	{
		for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts.size() && !stopped(control);)
		{
			own->search(parts[i]);
			progress(control);
		}
	};

	if (n_workers == 1)
		return work(searcher);
	pool->run(n_workers,
		[&](size_t worker)
		{
			if (worker == 0)
				return work(searcher);

			auto own = std::make_unique<PartSearcher>(spec, query, n_rows);

			own->join_stage(*searcher);
			work(own.get());
			helpers[worker] = std::move(own);
		});
	for (const std::unique_ptr<PartSearcher> &helper : helpers)
		if (helper != nullptr) // null: the call was dropped, or was the caller's
			searcher->merge(helper.get());
}

} // namespace vectorgpu::engine
