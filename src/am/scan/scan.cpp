// ambeginscan, amrescan, amgettuple, amendscan: the phases of a scan. See scan_state.hpp for the state,
// scan_source.cpp for a batch. Takes no heavyweight locks: core holds AccessShareLock on the index. Needs an MVCC
// snapshot, since it holds no pins between two rows.
#include "am/ahead/ahead_table.hpp"
#include "am/scan/batch_plan.hpp"
#include "am/scan/foreign_distance.hpp"
#include "am/scan/nan_rows.hpp"
#include "am/siblings/scan_ahead.hpp"
#include "am/scan/scan_keys.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/scan_settings.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/pgvector_settings.hpp"
#include "am/method/scan_limit.hpp"
#include "am/recall/recall_sampler.hpp"
#include "am/method/row_value.hpp"
#include "storage/value_format.hpp"
#include "engine/distance/distance.hpp"
#include "pg/explain_hook.hpp"
#include "pg/fault.hpp"
#include "pg/limit_hook.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

extern "C"
{
#include "access/relscan.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kLeastBatch = 100; // rows whose buffer any work_mem has room for

#ifdef VECTORGPU_ASSERTS
constexpr bool kRecheckOrder = true; // core compares with the operator's own value: a tripwire
#else
constexpr bool kRecheckOrder = false;
#endif

/// The most rows of a batch whose buffer keeps within work_mem.
uint64
rows_in_work_mem()
{
	const Size bytes = static_cast<Size>(work_mem) * 1024;
	uint64 rows = bytes / (2 * sizeof(engine::Neighbor));

	while (rows > kLeastBatch && engine::topk_buffer_bytes(rows) > bytes)
		rows -= rows / 8;
	return Max(rows, kLeastBatch);
}

void
start_phase(ScanState *state, ScanPhase phase)
{
	state->phase = phase;
	state->place.phase_done = false;
	state->place.has_last = false;
	state->place.n_before = 0;
}

void
copy_query(IndexScanDesc scan, ScanState *state)
{
	const ScanKey key = &scan->orderByData[0];
	const IndexShape *shape = &state->shape;

	if (state->am->values != nullptr)
	{
		const MemoryContext old = MemoryContextSwitchTo(state->context);

		state->query = static_cast<const char *>(state->am->values->query(shape, key->sk_argument));
		MemoryContextSwitchTo(old);
		return;
	}
	const Size n_bytes = vector_bytes(shape->element, shape->dim);
	RowValue value = row_value_for_query(shape->element, shape->dim, key->sk_argument);
	char *copy = static_cast<char *>(MemoryContextAlloc(state->context, n_bytes));

	memcpy(copy, value.vector, n_bytes);
	row_value_close(&value);
	state->query = copy;
}

/// The rows that the plan, or the scan's caller, wants.
pg::ScanWish
wish_for(IndexScanDesc scan, const ScanState *state)
{
	if (state->plan.given_limit == 0)
		return pg::scan_wish(scan);
	return {pg::ScanEnd::kCount, state->plan.given_limit, false, false, 1, 1};
}

void
end_sample(ScanState *state)
{
	if (state->sample != nullptr)
		recall_sample_end(state->sample, state->phase == ScanPhase::kDone);
	state->sample = nullptr;
}

/// Sets the scan's place behind all numbers: only rows whose distance is NaN follow.
void
seek_nan(IndexScanDesc scan, ScanState *state)
{
	state->bounds.nan_only = true;
	state->bounds.skips_segments = nan_rows_none_in_segments(scan, state);
	state->plan.by_rank = state->plan.expects_few = false;
	state->rounds.exhaustive = true;
	state->aliases.n_held = 0; // they come again
	state->place.last = {std::numeric_limits<double>::infinity(), PG_UINT64_MAX};
	state->place.has_last = true;
	state->place.phase_done = false;
}

/// The first call after a rescan.
void
start_scan(IndexScanDesc scan, ScanState *state)
{
	Relation index = scan->indexRelation;
	pg::ScanWish wish;

	if (!IsMVCCSnapshot(scan->xs_snapshot))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("non-MVCC snapshots are not supported with %s", state->am->name),
				errdetail("A search needs one state of the table from its first row to its last.")));
	(void) VG_FAULT("scan_start");
	state->heap = scan->heapRelation;
	state->snapshot = scan->xs_snapshot;
	scan_read_version(index, scan->xs_snapshot, state);
	// A scan of all pages must not evict everything else; a scan of a few lists gains from pages in the cache.
	if (state->am->approximate == nullptr && state->meta.high_water > static_cast<BlockNumber>(NBuffers / 2))
	{
		const MemoryContext old = MemoryContextSwitchTo(state->context);

		state->strategy = GetAccessStrategy(BAS_BULKREAD);
		MemoryContextSwitchTo(old);
	}
	state->shape = shape_of_meta(&state->meta);
	scan_keys_start(scan, state);
	state->bounds.has_worst = scan->numberOfOrderBys == 0 && scan_condition(scan) != nullptr;
	if (scan_key_is_null(scan) || (state->rows != nullptr && row_set_is_empty(state->rows)) ||
		(state->not_null && scan_tests_null(scan, SK_SEARCHNULL)))
		start_phase(state, ScanPhase::kDone);
	else if (state->bounds.has_worst)
	{
		const MemoryContext old = MemoryContextSwitchTo(state->context);

		state->query = static_cast<const char *>(
			state->am->values->condition(&state->shape, scan_condition(scan)->sk_argument, &state->bounds.worst));
		MemoryContextSwitchTo(old);
		start_phase(state, ScanPhase::kScored);
	}
	else if (scan_tests_null(scan, SK_SEARCHNULL))
		start_phase(state, ScanPhase::kNulls);
	else if (scan->numberOfOrderBys > 0 && (scan->orderByData[0].sk_flags & SK_ISNULL) == 0)
	{
		copy_query(scan, state);
		start_phase(state, ScanPhase::kScored);
	}
	else
		start_phase(state, ScanPhase::kAll);

	state->counters->delta_rows = state->delta_end - Min(state->delta_end, state->meta.delta_first_row);
	state->plan.max_batch_size = rows_in_work_mem();
	state->rounds.round = 0;
	state->rounds.exhaustive = false;
	state->rounds.relaxed = !scan_drops_late_rows();
	state->left_out.shown = pg::explain_analyzes(scan);
	state->left_out.n = 0;
	state->left_out.all_counted = false;
	// Conditions are not evaluated for an empty index: computing the bound may raise an error.
	state->bounds.bounded = state->phase == ScanPhase::kScored && !state->bounds.has_worst &&
		scan_rows_at_most(state) > 0 && pg::scan_bound(scan, &state->bounds.bound);
	if (state->foreign_distance)
		foreign_distance_widen_bound(state);
	if (state->foreign_distance || state->am->named_for_pgvector)
		pgvector_warn_of_bounds();
	state->bounds.nan_only = state->bounds.nan_found = state->bounds.skips_segments = false;
	if ((state->bounds.bounded && state->bounds.bound.none) ||
		(state->nan_rows == NanRows::kOnly && (state->phase != ScanPhase::kScored || !nan_rows_may_be(state))))
		start_phase(state, ScanPhase::kDone);
	wish = wish_for(scan, state);
	scan_keys_leave(scan, state, &wish);
	scan_keys_decide_recheck(scan, state, &wish);
	state->plan.one_search =
		state->plan.one_search || (!scan_pages_are_stable() && wish.end == pg::ScanEnd::kCount && !wish.filtered);
	batch_plan_start(scan, state, &wish);
	if (state->nan_rows == NanRows::kOnly && state->phase == ScanPhase::kScored)
		seek_nan(scan, state);
	if (wish.end == pg::ScanEnd::kCount && !wish.filtered && !state->bounds.bounded && state->plan.given_limit == 0 &&
		!state->counters->has_filter && state->phase == ScanPhase::kScored && !state->bounds.nan_only)
		state->sample = recall_sample_begin(scan, wish.rows, state->context);
}

/// Counts the search when its first row is wanted: a scan may be started without (ahead_foresee).
void
count_search(IndexScanDesc scan, ScanState *state)
{
	if (state->counted)
		return;
	state->counted = true;
	state->counters->n_searches++;
	pg::count_index_search(scan);
}

/// Notes the entries of a batch, and its rows, which are about to be returned.
void
note_returned(ScanState *state)
{
	const uint64 n_shared = state->out.rows != state->batch.rows ? state->out.n : 0;
	const uint64 n = state->returned.n + state->batch.n_rows + n_shared;
	RowId *at;

	if (n > state->returned.capacity)
	{
		const uint64 capacity = Max(n, 2 * state->returned.capacity);
		RowId *grown = static_cast<RowId *>(MemoryContextAllocHuge(state->context, capacity * sizeof(RowId)));

		std::copy(state->returned.rows, state->returned.rows + state->returned.n, grown);
		if (state->returned.rows != nullptr)
			pfree(state->returned.rows);
		state->returned.rows = grown;
		state->returned.capacity = capacity;
	}
	at = state->returned.rows + state->returned.n;
	for (uint64 i = 0; i < state->batch.n_rows; i++)
		*at++ = state->batch.rows[i].row;
	for (uint64 i = 0; i < n_shared; i++)
		*at++ = state->out.rows[i].row;
	std::sort(state->returned.rows, at);
	state->returned.n = static_cast<uint64>(std::unique(state->returned.rows, at) - state->returned.rows);
}

/// Counts the rows of a batch that come after a row further away. They come in order within the batch.
void
count_late_rows(ScanState *state)
{
	if (state->place.n_before > 0)
		for (uint64 i = 0; i < state->batch.n_rows && state->batch.rows[i].score < state->returned.furthest; i++)
			state->counters->n_late++;
	if (state->place.n_before == 0 || !(state->batch.rows[state->batch.n_rows - 1].score < state->returned.furthest))
		state->returned.furthest = state->batch.rows[state->batch.n_rows - 1].score;
}

/// Notes where the next batch begins.
void
note_batch(ScanState *state)
{
	const bool scored = state->am->approximate != nullptr && state->phase == ScanPhase::kScored;

	if (scored && state->rounds.relaxed)
		count_late_rows(state);
	if (scored && state->rounds.relaxed && !state->rounds.exhaustive)
		note_returned(state);
	else
	{
		state->place.last = state->batch.rows[state->batch.n_rows - 1];
		state->place.has_last = true;
		state->place.leaves_out = state->place.leaves_out || (scored && !state->rounds.exhaustive);
	}
	state->place.n_before += state->batch.n_rows;
	scan_note_tied(state);
}

/// Gets the next batch of the scan, passing to the next phase when one is used up. False at the end of the scan.
bool
advance(IndexScanDesc scan, ScanState *state)
{
	for (;;)
	{
		if (state->place.phase_done)
			start_phase(state,
				state->phase == ScanPhase::kScored && !state->bounds.has_worst && !state->bounds.bounded &&
						!state->not_null
					? ScanPhase::kNulls
					: ScanPhase::kDone);
		if (state->phase == ScanPhase::kDone)
			return false;
		state->batch.size = batch_plan_rows(scan, state);
		scan_next_rows(scan->indexRelation, scan->xs_snapshot, state);
		if (batch_plan_asks_again(state))
			continue;
		state->place.phase_done = !state->batch.full;
		if (state->batch.n_rows > 0)
			note_batch(state);
		if (state->out.n > 0)
			return true;
	}
}

void
store_order_value(IndexScanDesc scan, const ScanState *state, double score)
{
	const bool has_value = state->phase == ScanPhase::kScored;

	if (scan->numberOfOrderBys == 0)
		return;
	scan->xs_recheckorderby = kRecheckOrder && !state->foreign_distance;
	scan->xs_orderbynulls[0] = !has_value;
	scan->xs_orderbyvals[0] = static_cast<Datum>(0);
	if (has_value)
		scan->xs_orderbyvals[0] = Float8GetDatum(scan_distance(state, score));
}

} // namespace

IndexScanDesc
shared_begin_scan(const AccessMethod *am, Relation index, int n_keys, int n_orderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, n_keys, n_orderbys);
	ScanState *state = static_cast<ScanState *>(palloc0(sizeof(ScanState)));

	// One column orders by one distance. The cost estimate keeps the planner from asking for more.
	if (n_orderbys > 1)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("access method %s can order by one distance only", am->name),
				errhint("Order by the second distance in an outer query.")));
	if (n_orderbys > 0)
	{
		scan->xs_orderbyvals = static_cast<Datum *>(palloc0(sizeof(Datum)));
		scan->xs_orderbynulls = static_cast<bool *>(palloc0(sizeof(bool)));
	}
	state->am = am;
	state->foreign_distance = foreign_distance(index);
	state->coder = index_key_coder(index);
	state->counters = static_cast<ScanCounters *>(palloc0(sizeof(ScanCounters)));
	state->context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu scan", ALLOCSET_SMALL_SIZES);
	state->batch_context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu scan batch", ALLOCSET_DEFAULT_SIZES);
	scan->opaque = state;
	return scan;
}

void
shared_rescan(IndexScanDesc scan, ScanKey keys, int n_keys, ScanKey orderbys, int n_orderbys)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);

	if (keys != nullptr && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	if (orderbys != nullptr && scan->numberOfOrderBys > 0)
		memmove(scan->orderByData, orderbys, scan->numberOfOrderBys * sizeof(ScanKeyData));
	end_sample(state);
	MemoryContextReset(state->context);
	state->phase = ScanPhase::kStart;
	state->query = nullptr;
	state->rounds.am_state = nullptr;
	state->returned.rows = nullptr;
	state->returned.n = 0;
	state->returned.capacity = 0;
	state->strategy = nullptr;
	state->place.phase_done = false;
	state->place.has_last = false;
	state->batch.rows = nullptr;
	state->batch.capacity = 0;
	state->batch.n_rows = 0;
	state->aliases = {};
	state->out = {};
	state->plan.given_limit = 0;
	state->plan.one_search = false;
	state->plan.given_exact = false;
	state->place.leaves_out = false;
	state->bounds.bounded = false;
	state->filter = nullptr;
	state->rechecks = false;
	state->not_null = false;
	state->first_answer = nullptr;
	state->ahead_done = false;
	state->counted = false;
}

void
scan_set_limit(IndexScanDesc scan, uint64 rows, bool one_search)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);

	state->plan.given_limit = rows;
	state->plan.one_search = one_search;
}

void
scan_set_exact(IndexScanDesc scan)
{
	static_cast<ScanState *>(scan->opaque)->plan.given_exact = true;
}

bool
scan_may_have_left_out(IndexScanDesc scan)
{
	return static_cast<const ScanState *>(scan->opaque)->place.leaves_out;
}

/// Remembers that the scan's whole look for rows whose distance is NaN has found none. Returns false.
bool
note_no_nan(IndexScanDesc scan, ScanState *state)
{
	// With a filter only rows that meet its conditions were looked at.
	if (state->bounds.nan_only && !state->bounds.nan_found && state->filter == nullptr)
		nan_rows_note_none(scan, state);
	return false;
}

/// Behind the bound the scan goes on with the rows whose distance is NaN, which come after all numbers. False: there
/// are none.
bool
go_on_to_nan(IndexScanDesc scan, ScanState *state)
{
	if (!nan_rows_may_be(state))
		return false;
	seek_nan(scan, state);
	return advance(scan, state) || note_no_nan(scan, state);
}

/// No row that follows passes.
bool
end_at(ScanState *state)
{
	start_phase(state, ScanPhase::kDone);
	state->batch.n_rows = state->out.next = state->out.n = 0;
	return false;
}

void
scan_start(IndexScanDesc scan)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);

	if (state->phase == ScanPhase::kStart)
		start_scan(scan, state);
}

bool
shared_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);
	const engine::Neighbor *row;

	Assert(ScanDirectionIsForward(direction));
	scan_start(scan);
	count_search(scan, state);
	if (!state->ahead_done)
		ahead_ask_siblings(scan);
	if (state->out.next >= state->out.n && !advance(scan, state))
		return note_no_nan(scan, state);

	// kill_prior_tuple is ignored: a hint of one snapshot must not hide a row from a standby's older one.
	row = &state->out.rows[state->out.next++];
	if (state->bounds.has_worst && row->score > state->bounds.worst)
		return end_at(state);
	if (state->bounds.bounded && state->phase == ScanPhase::kScored && scan_is_behind_bound(state, row->score))
	{
		if (!state->bounds.bound.nan_passes || !go_on_to_nan(scan, state))
			return end_at(state);
		row = &state->out.rows[state->out.next++];
	}
	if (state->nan_rows == NanRows::kNone && state->phase == ScanPhase::kScored && std::isnan(row->score))
		return end_at(state);
	state->bounds.nan_found = state->bounds.nan_only;
	if (unlikely(state->sample != nullptr))
		recall_sample_row(state->sample, row->row);
	ItemPointerSet(&scan->xs_heaptid, row_id_block(row->row), row_id_offset(row->row));
	if (state->ahead != nullptr)
		ahead_hold_page(state->ahead, scan, row->row);
	scan->xs_recheck = state->rechecks;
	store_order_value(scan, state, row->score);
	return true;
}

int64
shared_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	int64 n = 0;

	for (; shared_get_tuple(scan, ForwardScanDirection); n++)
		tbm_add_tuples(bitmap, &scan->xs_heaptid, 1, scan->xs_recheck);
	return n;
}

void
shared_end_scan(IndexScanDesc scan)
{
	ScanState *state = static_cast<ScanState *>(scan->opaque);

	end_sample(state);
	MemoryContextDelete(state->batch_context);
	MemoryContextDelete(state->context);
	pfree(state->counters);
	pfree(state);
	scan->opaque = nullptr;
}

} // namespace vectorgpu::am
