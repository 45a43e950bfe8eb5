// See page_pass.hpp. Holds content locks page by page only, and none while it allocates or waits.
#include "am/scan/page_pass.hpp"

#include "am/scan/rounds.hpp"
#include "engine/distance/distance.hpp"
#include "storage/delta_value.hpp"
#include "storage/stream.hpp"
#include "storage/value_format.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr Size kSliceBytes = 64 * 1024; // delta vectors read and scored at a time: stays in the CPU's cache
constexpr uint64 kSliceRows = 1024;     // the most rows of a slice
constexpr uint64 kRowIdsPerRead = kPayloadBytes / sizeof(RowId);

/// Zeros, the scores of rows that are in row id order only.
const double kNoScores[kSliceRows > kRowIdsPerRead ? kSliceRows : kRowIdsPerRead] = {};

/// Index of the first row id of a stream that is greater than `after`. False if a page was foreign.
bool
first_row_after(Relation index, const ScanState *state, const SegmentEntry *segment, StreamKind kind, uint64 n_items,
	RowId after, uint64 *first)
{
	uint64 low = 0;
	uint64 high = n_items;

	while (low < high)
	{
		const uint64 middle = low + (high - low) / 2;
		RowId row;

		if (!stream_read(
				index, &state->meta, segment, kind, middle * sizeof(RowId), sizeof(row), &row, state->strategy))
			return false;
		if (row <= after)
			low = middle + 1;
		else
			high = middle;
	}
	*first = low;
	return true;
}

/// Offers the row ids of one stream of a segment, from the first that can count until one that cannot any more.
bool
offer_row_ids(Relation index, const ScanState *state, const SegmentEntry *segment, StreamKind kind, uint64 n_items,
	uint64 first_tombstone, engine::TopK *topk)
{
	RowId *rows = static_cast<RowId *>(palloc(kRowIdsPerRead * sizeof(RowId)));
	uint8 *dead = static_cast<uint8 *>(palloc(kRowIdsPerRead / 8 + 2));
	uint64 item = 0;

	if (state->place.has_last && !first_row_after(index, state, segment, kind, n_items, state->place.last.row, &item))
		return false;
	while (item < n_items)
	{
		const uint64 n = Min(kRowIdsPerRead - item % kRowIdsPerRead, n_items - item); // to the page's end
		const uint64 bit = first_tombstone + item;

		CHECK_FOR_INTERRUPTS();
		if (!stream_read(
				index, &state->meta, segment, kind, item * sizeof(RowId), n * sizeof(RowId), rows, state->strategy))
			return false;
		if (topk->full && rows[0] > topk->threshold.row)
			break;
		if (segment->n_dead > 0 &&
			!stream_read(index, &state->meta, segment, StreamKind::kTombstones, bit / 8, (bit + n + 7) / 8 - bit / 8,
				dead, state->strategy))
			return false;
		engine::topk_push(topk, kNoScores, rows, n, segment->n_dead > 0 ? dead : nullptr, bit % 8);
		item += n;
	}
	pfree(rows);
	pfree(dead);
	return true;
}

/// Scores a slice of the delta in place: compacts rows and scores to those that have a value and are alive.
uint64
score_slice(const ScanState *state, uint64 n, uint64 *headers, const char *vectors, Size stride, double *scores)
{
	const engine::DistanceSpec spec = {state->shape.metric, state->shape.element, state->shape.dim};
	uint64 kept = 0;

	engine::compute_scores(spec, state->query, vectors, stride, n, scores);
	for (uint64 i = 0; i < n; i++)
	{
		if ((headers[i] & (kDeltaDead | kDeltaNull)) != 0)
			continue;
		scores[kept] = scores[i];
		headers[kept++] = headers[i] & kDeltaRowIdMask;
	}
	return kept;
}

/// Keeps the row ids of a slice's live rows: the NULL ones or all.
uint64
pick_slice(const ScanState *state, uint64 n, uint64 *headers)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		if (!delta_starts_row(headers[i]) || (headers[i] & kDeltaDead) != 0 ||
			(state->phase == ScanPhase::kNulls && (headers[i] & kDeltaNull) == 0))
			continue;
		headers[kept++] = headers[i] & kDeltaRowIdMask;
	}
	return kept;
}

/// offer_delta for rows with a stored value: their slots are found by the headers, each value is read and scored alone.
bool
offer_delta_values(Relation index, const ScanState *state, const SegmentSearch *search)
{
	const ValueFormat *values = state->am->values;
	uint64 *headers = static_cast<uint64 *>(palloc(kSliceRows * sizeof(uint64)));
	ValueBuffer value = {nullptr, 0};

	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += kSliceRows)
	{
		const uint64 n = Min(kSliceRows, state->delta_end - row);

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(index, &state->meta, row, n, headers, nullptr, 0))
			return false;
		for (uint64 i = 0; i < n; i++)
		{
			RowId row_id = headers[i] & kDeltaRowIdMask;
			double score;

			if ((headers[i] & (kDeltaContinued | kDeltaDead | kDeltaNull)) != 0)
				continue;
			if (!delta_read_value(index, &state->meta, row + i, &value))
				return false;
			score = values->score(&state->shape, search->query, value.data);
			++*search->n_compared;
			if (state->am->approximate != nullptr)
				search_offer(search, &score, &row_id, 1);
			else
				engine::topk_push(search->topk, &score, &row_id, 1, nullptr, 0);
		}
	}
	return true;
}

bool
offer_delta(Relation index, const ScanState *state, const SegmentSearch *search)
{
	const bool scored = state->phase == ScanPhase::kScored;
	const Size stride = MAXALIGN(meta_vector_bytes(&state->meta));
	const uint64 slice = scored ? Max(UINT64CONST(1), Min(kSliceRows, kSliceBytes / stride)) : kSliceRows;
	uint64 *headers;
	double *scores = nullptr;
	char *vectors = nullptr;

	if (state->delta_end <= state->meta.delta_first_row)
		return true;
	if (scored && state->am->values != nullptr)
		return offer_delta_values(index, state, search);
	headers = static_cast<uint64 *>(palloc(slice * sizeof(uint64)));
	if (scored)
	{
		scores = static_cast<double *>(palloc(slice * sizeof(double)));
		vectors = static_cast<char *>(palloc0(slice * stride)); // NULL rows leave their place as it is
	}
	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += slice)
	{
		const uint64 n = Min(slice, state->delta_end - row);
		uint64 kept;

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(index, &state->meta, row, n, headers, vectors, stride))
			return false;
		state->counters->n_compared += scored ? n : 0;
		kept = scored ? score_slice(state, n, headers, vectors, stride, scores) : pick_slice(state, n, headers);
		if (scored && state->am->approximate != nullptr)
			search_offer(search, scores, headers, kept);
		else
			engine::topk_push(search->topk, scored ? scores : kNoScores, headers, kept, nullptr, 0);
	}
	return true;
}

bool
offer_segment(Relation index, const ScanState *state, const SegmentEntry *segment, SegmentSearch *search)
{
	if (state->phase == ScanPhase::kScored)
	{
		search->segment = segment;
		return segment->n_rows == 0 || state->am->search_segment(search);
	}
	if (state->phase == ScanPhase::kAll &&
		!offer_row_ids(index, state, segment, StreamKind::kRowIds, segment->n_rows, 0, search->topk))
		return false;
	return offer_row_ids(
		index, state, segment, StreamKind::kNullRowIds, segment->n_null_rows, segment->n_rows, search->topk);
}

} // namespace

void
search_offer(const SegmentSearch *search, double *scores, RowId *rows, uint64 n)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		if (std::isnan(scores[i]) && !search->approximate->exact)
		{
			*search->approximate->coverage = Min(*search->approximate->coverage, Coverage::kScored);
			continue;
		}
		if (search->approximate->n_returned > 0 &&
			std::binary_search(search->approximate->returned,
				search->approximate->returned + search->approximate->n_returned, rows[i]))
			continue;
		if (search->approximate->n_up_to_last != nullptr &&
			!engine::neighbor_less(search->topk->after, {scores[i], rows[i]}))
			++*search->approximate->n_up_to_last;
		scores[kept] = scores[i];
		rows[kept++] = rows[i];
	}
	engine::topk_push(search->topk, scores, rows, kept, nullptr, 0);
}

bool
page_pass(Relation index, ScanState *state, const RowId *candidates, uint64 n_candidates, Coverage *coverage)
{
	engine::TopK topk;
	uint64 n_up_to_last = 0;
	const ApproximateSearch approximate = {
		.round = state->rounds.round,
		.exact = scan_is_exact(state),
		.wanted = scan_ranks_wanted(state),
		.n_before = scan_ranks_before(state),
		.heap = state->heap,
		.snapshot = state->snapshot,
		.am_state = &state->rounds.am_state,
		.am_context = state->context,
		.returned = state->returned.rows,
		.n_returned = state->returned.n,
		.candidates = candidates,
		.n_candidates = n_candidates,
		.coverage = coverage,
		.width = &state->counters->pass_width,
		.missed = &state->counters->missed,
		.n_up_to_last = state->left_out.counts ? &n_up_to_last : nullptr,
	};
	SegmentSearch search = {
		.index = index,
		.meta = &state->meta,
		.segment = nullptr,
		.strategy = state->strategy,
		.query = state->query,
		.topk = &topk,
		.n_compared = &state->counters->n_compared,
		.n_named = &state->counters->n_candidates,
		.n_rescored = &state->counters->n_rescored,
		.approximate = state->am->approximate != nullptr ? &approximate : nullptr,
	};

	*coverage = Coverage::kAll;
	engine::topk_init(&topk, state->batch.size, state->batch.rows, state->batch.capacity,
		state->place.has_last && !state->plan.from_first ? &state->place.last : nullptr);
	for (uint32 i = 0; i < state->meta.n_segments && !state->bounds.skips_segments; i++)
		if (!offer_segment(index, state, &state->meta.segments[i], &search))
			return false;
	if (!offer_delta(index, state, &search))
		return false;
	state->batch.n_rows = engine::topk_finish(&topk);
	state->batch.next_row = 0;
	if (state->left_out.counts)
		scan_note_up_to_last(state, n_up_to_last);
	return true;
}

} // namespace vectorgpu::am
