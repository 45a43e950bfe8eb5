// See page_pass.hpp. Holds content locks page by page only, and none while it allocates or waits.
#include "am/scan/page_pass.hpp"

#include "am/scan/delta_pass.hpp"
#include "am/scan/few_rows.hpp"
#include "am/scan/rounds.hpp"
#include "am/scan/scan_aliases.hpp"
#include "storage/stream.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowIdsPerRead = kPayloadBytes / sizeof(RowId);

/// Zeros, the scores of rows that are in row id order only.
const double kNoScores[kRowIdsPerRead] = {};

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

/// Copies the tombstones of rows [first, first + n) of the stream of row ids, or the opposite of the rows that meet the
/// conditions: as search_read_dead. False if a page was foreign.
bool
read_dead(Relation index, const ScanState *state, const SegmentEntry *segment, uint64 first_bit, const uint8 *passing,
	uint64 first, uint64 n, uint8 *dead)
{
	const uint64 bit = first_bit + first;

	if (passing == nullptr)
		return stream_read(index, &state->meta, segment, StreamKind::kTombstones, bit / 8, (bit + n + 7) / 8 - bit / 8,
			dead, state->strategy);
	memset(dead, 0, (bit + n + 7) / 8 - bit / 8);
	for (uint64 i = 0; i < n; i++)
		if ((passing[(first + i) / 8] & (1 << ((first + i) % 8))) == 0)
			dead[(bit + i) / 8 - bit / 8] |= static_cast<uint8>(1 << ((bit + i) % 8));
	return true;
}

/// Offers the row ids of one stream of a segment, from the first that can count until one that cannot any more.
/// passing: bits of its rows that meet the conditions; null: there are none.
bool
offer_row_ids(Relation index, const ScanState *state, const SegmentEntry *segment, StreamKind kind, uint64 n_items,
	uint64 first_tombstone, const uint8 *passing, engine::TopK *topk)
{
	const bool drops = segment->n_dead > 0 || passing != nullptr;

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
		if (drops && !read_dead(index, state, segment, first_tombstone, passing, item, n, dead))
			return false;
		engine::topk_push(topk, kNoScores, rows, n, drops ? dead : nullptr, bit % 8);
		item += n;
	}
	pfree(rows);
	pfree(dead);
	return true;
}

/// Offers the rows with a value of a segment that meet the conditions. few: of all segments' rows few do.
bool
offer_passing(ScanState *state, const PassingRows *passing, bool few, SegmentSearch *search)
{
	SegmentEntry masked = *search->segment;
	bool intact;

	if (passing->n_rows == 0)
		return true;
	search->passing = passing->rows;
	masked.n_dead = masked.n_rows - passing->n_rows;
	search->segment = &masked;
	if (few || few_rows_pass(state->am, search, passing->n_rows))
	{
		state->counters->filter_ways |= kFilterList;
		intact = few_search_segment(state->am, search);
	}
	else
	{
		state->counters->filter_ways |= kFilterMask;
		intact = state->am->search_segment(search);
	}
	search->passing = nullptr;
	return intact;
}

/// True if few rows of all segments together meet the conditions: these are all looked at then, whichever segments they
/// lie in. *intact: false if a page was foreign.
bool
few_pass(Relation index, const ScanState *state, bool *intact)
{
	uint64 n_passing = 0;
	uint64 n_rows = 0;

	*intact = true;
	if (state->filter == nullptr || state->am->approximate == nullptr || state->am->values != nullptr ||
		state->phase != ScanPhase::kScored)
		return false;
	for (uint32 i = 0; i < state->meta.n_segments; i++)
	{
		const SegmentEntry *segment = &state->meta.segments[i];
		const PassingRows *passing = key_filter_rows(state->filter, index, &state->meta, segment, state->strategy);

		if (passing == nullptr)
		{
			*intact = false;
			return false;
		}
		n_passing += passing->n_rows;
		n_rows += segment->n_rows - Min(segment->n_dead, segment->n_rows);
	}
	return n_passing <= n_rows / kFewOfApproximate;
}

bool
offer_segment(Relation index, ScanState *state, const SegmentEntry *segment, bool few, SegmentSearch *search)
{
	const PassingRows *passing = nullptr;

	if (state->filter != nullptr)
	{
		passing = key_filter_rows(state->filter, index, &state->meta, segment, state->strategy);
		if (passing == nullptr)
			return false;
		state->counters->n_passing += passing->n_rows + passing->n_null_rows;
	}
	if (state->phase == ScanPhase::kScored)
	{
		search->segment = segment;
		if (passing != nullptr)
			return offer_passing(state, passing, few, search);
		return segment->n_rows == 0 || state->am->search_segment(search);
	}
	if (state->phase == ScanPhase::kAll &&
		!offer_row_ids(index, state, segment, StreamKind::kRowIds, segment->n_rows, 0,
			passing != nullptr ? passing->rows : nullptr, search->topk))
		return false;
	if (state->not_null)
		return true;
	return offer_row_ids(index, state, segment, StreamKind::kNullRowIds, segment->n_null_rows, segment->n_rows,
		passing != nullptr ? passing->null_rows : nullptr, search->topk);
}

} // namespace

void
search_offer(const SegmentSearch *search, double *scores, RowId *rows, uint64 n)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		if (std::isnan(scores[i]) && search->approximate->drops_nan)
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
		.drops_nan = !scan_is_exact(state),
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

	bool intact;
	const bool few = few_pass(index, state, &intact);

	if (!intact)
		return false;
	*coverage = Coverage::kAll;
	if (state->filter != nullptr)
		state->counters->n_passing = 0;
	engine::topk_init(&topk, state->batch.size, state->batch.rows, state->batch.capacity,
		state->place.has_last && !state->plan.from_first ? &state->place.last : nullptr);
	for (uint32 i = 0; i < state->meta.n_segments && !state->bounds.skips_segments; i++)
		if (!offer_segment(index, state, &state->meta.segments[i], few, &search))
			return false;
	if (!delta_pass(index, state, &search))
		return false;
	if (state->phase == ScanPhase::kAll && scan_has_aliases(state) && !offer_aliases(index, state, &topk))
		return false;
	state->batch.n_rows = engine::topk_finish(&topk);
	if (state->left_out.counts)
		scan_note_up_to_last(state, n_up_to_last);
	return true;
}

} // namespace vectorgpu::am
