// One batch of a scan: a pass over the segments and the delta that keeps the next rows in order. See scan.hpp.
// Holds content locks page by page only, and none while it allocates or waits.
#include "am/scan/scan.hpp"

#include "storage/delta_value.hpp"
#include "storage/value_format.hpp"
#include "storage/stream.hpp"
#include "am/scan/worker_scan.hpp"
#include "engine/distance/distance.hpp"
#include "pg/explain_hook.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kLastRound = 12;       // after which a search is exact, whatever the access method says
constexpr int kTries = 4;               // the first, and three after recycled pages
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

	if (state->has_last && !first_row_after(index, state, segment, kind, n_items, state->last.row, &item))
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
			if (state->am->approximate)
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
		if (scored && state->am->approximate)
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

/// One pass over segments and delta. candidates: SegmentSearch::candidates. *coverage: what it has looked at. False if
/// a page was foreign.
bool
one_pass(Relation index, ScanState *state, bool exact, const RowId *candidates, uint64 n_candidates, Coverage *coverage)
{
	engine::TopK topk;
	uint64 n_up_to_last = 0;
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
		.round = state->round,
		.exact = exact,
		.wanted = scan_ranks_wanted(state),
		.n_before = scan_ranks_before(state),
		.heap = state->heap,
		.snapshot = state->snapshot,
		.am_state = &state->am_state,
		.am_context = state->context,
		.returned = state->returned,
		.n_returned = state->n_returned,
		.candidates = candidates,
		.n_candidates = n_candidates,
		.coverage = coverage,
		.width = &state->counters->pass_width,
		.n_up_to_last = state->counts_left_out ? &n_up_to_last : nullptr,
	};

	*coverage = Coverage::kAll;
	engine::topk_init(&topk, state->batch_size, state->rows, state->row_capacity,
		state->has_last && !state->from_first ? &state->last : nullptr);
	for (uint32 i = 0; i < state->meta.n_segments && !state->skips_segments; i++)
		if (!offer_segment(index, state, &state->meta.segments[i], &search))
			return false;
	if (!offer_delta(index, state, &search))
		return false;
	state->n_rows = engine::topk_finish(&topk);
	state->next_row = 0;
	if (state->counts_left_out)
		scan_note_up_to_last(state, n_up_to_last);
	return true;
}

/// A batch; for an approximate access method passes until it is full or nothing was left out. *by_worker: all passes
/// had their candidates from the worker. False if a page was foreign.
bool
try_batch(Relation index, ScanState *state, bool *by_worker)
{
	Coverage coverage;

	*by_worker = true;
	do
	{
		RowId *candidates = nullptr;
		uint64 n_candidates = 0;

		*by_worker = *by_worker && worker_candidates(index, state, &candidates, &n_candidates);
		if (!one_pass(index, state, scan_is_exact(state), candidates, n_candidates, &coverage))
			return false;
	} while (!scan_end_round(state, coverage));
	return true;
}

void
reserve_rows(ScanState *state)
{
	uint64 capacity;

	state->batch_size =
		Max(UINT64CONST(1), Min(state->batch_size, Min(state->max_batch_size, scan_rows_at_most(state))));
	capacity = engine::topk_buffer_bytes(state->batch_size) / sizeof(engine::Neighbor);
	if (capacity <= state->row_capacity)
		return;
	if (state->rows != nullptr)
		pfree(state->rows);
	state->rows = nullptr;
	state->row_capacity = 0;
	state->rows =
		static_cast<engine::Neighbor *>(MemoryContextAllocHuge(state->context, capacity * sizeof(engine::Neighbor)));
	state->row_capacity = capacity;
}

/// The last round is over: notes whether more rows may follow, and drops what was returned before, or lies before that.
void
end_batch(ScanState *state)
{
	uint64 n = 0;

	state->batch_full = state->n_rows == state->batch_size;
	state->left_out_counted = state->left_out_counted || (state->counts_left_out && state->exhaustive);
	if (state->by_rank && !state->from_first)
		state->step_end = state->step_begin + state->batch_size; // work_mem may have cut it off
	if (!state->from_first || !state->has_last)
		return;
	while (n < state->n_rows && !engine::neighbor_less(state->last, state->rows[n]))
		n++;
	scan_note_up_to_last(state, n);
	state->left_out_counted = state->exhaustive && (n < state->n_rows || !state->batch_full);
	state->n_rows -= n;
	std::copy(state->rows + n, state->rows + n + state->n_rows, state->rows);
}

} // namespace

void
search_offer(const SegmentSearch *search, double *scores, RowId *rows, uint64 n)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		if (std::isnan(scores[i]) && !search->exact)
		{
			*search->coverage = Min(*search->coverage, Coverage::kScored);
			continue;
		}
		if (search->n_returned > 0 &&
			std::binary_search(search->returned, search->returned + search->n_returned, rows[i]))
			continue;
		if (search->n_up_to_last != nullptr && !engine::neighbor_less(search->topk->after, {scores[i], rows[i]}))
			++*search->n_up_to_last;
		scores[kept] = scores[i];
		rows[kept++] = rows[i];
	}
	engine::topk_push(search->topk, scores, rows, kept, nullptr, 0);
}

uint64
scan_ranks_before(const ScanState *state)
{
	if (!state->by_rank)
		return state->n_before;
	return state->from_first ? Min(state->step_begin, state->batch_size) : state->step_begin;
}

uint64
scan_ranks_wanted(const ScanState *state)
{
	return state->from_first ? state->batch_size - scan_ranks_before(state) : state->batch_size;
}

uint64
scan_rows_at_most(const ScanState *state)
{
	uint64 n = state->delta_end - Min(state->meta.delta_first_row, state->delta_end);

	for (uint32 i = 0; i < state->meta.n_segments; i++)
		n += state->meta.segments[i].n_rows + state->meta.segments[i].n_null_rows;
	return n;
}

bool
scan_is_exact(const ScanState *state)
{
	const bool approximate = state->am->approximate && state->phase == ScanPhase::kScored;

	return !approximate || state->all_wanted || state->exhaustive || state->round > kLastRound;
}

bool
scan_end_round(ScanState *state, Coverage coverage)
{
	ScanCounters *counters = state->counters;

	state->exhaustive = scan_is_exact(state) || coverage == Coverage::kAll;
	if (state->am->approximate && state->phase == ScanPhase::kScored)
	{
		counters->n_rounds++;
		counters->n_exhaustive += state->exhaustive;
		if (counters->pass_width > 0 && coverage == Coverage::kPart)
		{
			counters->least_width =
				counters->least_width > 0 ? Min(counters->least_width, counters->pass_width) : counters->pass_width;
			counters->most_width = Max(counters->most_width, counters->pass_width);
		}
		counters->pass_width = 0;
	}
	if (state->exhaustive || state->n_rows == state->batch_size)
		return true;
	// The pass has found as far as the bound: where a wider one would find nearer rows still, they count as missed.
	if (state->bounded && state->n_rows > 0 && scan_is_behind_bound(state, state->rows[state->n_rows - 1].score))
		return true;
	state->round = coverage == Coverage::kScored ? kLastRound + 1 : state->round + 1;
	return false;
}

void
scan_note_up_to_last(ScanState *state, uint64 n)
{
	// A wider pass finds again what one before it found, so that they are not to be added up.
	const uint64 n_left_out = n - Min(n, state->n_before);

	if (n_left_out <= state->n_left_out)
		return;
	state->counters->n_left_out += n_left_out - state->n_left_out;
	state->n_left_out = n_left_out;
}

void
scan_read_version(Relation index, Snapshot snapshot, ScanState *state)
{
	for (int i = 0; i < kTries; i++)
	{
		bool foreign = false;

		meta_read(index, snapshot, &state->meta);
		state->am_state = nullptr;
		state->delta_end = delta_end(index, &state->meta, &foreign);
		if (!foreign)
			return;
	}
	page_recycled(index, 0);
}

void
scan_next_batch(Relation index, Snapshot snapshot, ScanState *state)
{
	const MemoryContext old = MemoryContextSwitchTo(state->batch_context);

	reserve_rows(state);
	// Once all rows were looked at, none that comes later is nearer.
	state->counts_left_out = state->am->approximate && state->phase == ScanPhase::kScored && !state->relaxed &&
		state->has_last && !state->from_first && !state->nan_only && !state->left_out_counted && pg::explain_analyzes();
	state->counters->n_asked += state->batch_size;
	state->counters->largest_batch = Max(state->counters->largest_batch, state->batch_size);
	state->counters->bypasses[static_cast<int>(Bypass::kNoOrder)] += state->nan_only;
	if (!state->nan_only && worker_search(index, state))
	{
		state->counters->n_worker_batches++;
		end_batch(state);
		MemoryContextSwitchTo(old);
		MemoryContextReset(state->batch_context);
		return;
	}
	for (int i = 0;; i++)
	{
		bool by_worker;
		bool done;

		reserve_rows(state);
		done = try_batch(index, state, &by_worker);
		MemoryContextReset(state->batch_context);
		if (done)
		{
			state->counters->n_worker_batches += by_worker;
			state->counters->n_backend_batches += !by_worker;
			break;
		}
		if (i + 1 == kTries)
			page_recycled(index, 0);
		// A standby replayed a merge: what was found so far is thrown away, what was returned stays.
		scan_read_version(index, snapshot, state);
		state->skips_segments = false;
	}
	end_batch(state);
	MemoryContextSwitchTo(old);
}

} // namespace vectorgpu::am
