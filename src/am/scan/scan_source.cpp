// See scan_source.hpp. The worker is asked first (worker_search). For an access method whose worker names candidates,
// passes over the pages finish each round (worker_candidates); without the worker the passes do all the work.
#include "am/scan/scan_source.hpp"

#include "am/scan/page_pass.hpp"
#include "am/scan/rounds.hpp"
#include "am/scan/worker_candidates.hpp"
#include "am/scan/worker_scan.hpp"
#include "storage/page.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

/// Limits the batch to work_mem and to the rows of the index, and makes room for its rows.
void
reserve_rows(ScanState *state)
{
	uint64 capacity;

	state->batch.size = scan_batch_rows(state, state->batch.size);
	capacity = engine::topk_buffer_bytes(state->batch.size) / sizeof(engine::Neighbor);
	if (capacity <= state->batch.capacity)
		return;
	if (state->batch.rows != nullptr)
		pfree(state->batch.rows);
	state->batch.rows = nullptr;
	state->batch.capacity = 0;
	state->batch.rows =
		static_cast<engine::Neighbor *>(MemoryContextAllocHuge(state->context, capacity * sizeof(engine::Neighbor)));
	state->batch.capacity = capacity;
}

/// After the last round: notes whether more rows may follow, and drops rows up to the last one returned.
void
end_batch(ScanState *state)
{
	uint64 n = 0;

	state->batch.full = state->batch.n_rows == state->batch.size;
	state->left_out.all_counted = state->left_out.all_counted || (state->left_out.counts && state->rounds.exhaustive);
	if (state->plan.by_rank && !state->plan.from_first)
		state->plan.step_end = state->plan.step_begin + state->batch.size; // work_mem may have cut it off
	if (!state->plan.from_first || !state->place.has_last)
		return;
	while (n < state->batch.n_rows && !engine::neighbor_less(state->place.last, state->batch.rows[n]))
		n++;
	scan_note_up_to_last(state, n);
	state->left_out.all_counted = state->rounds.exhaustive && (n < state->batch.n_rows || !state->batch.full);
	state->batch.n_rows -= n;
	std::copy(state->batch.rows + n, state->batch.rows + n + state->batch.n_rows, state->batch.rows);
}

/// True if the batch may find rows nearer than those returned before it, which EXPLAIN counts. After a pass over all
/// rows no later row is nearer.
bool
counts_left_out(const ScanState *state)
{
	return state->am->approximate != nullptr && state->phase == ScanPhase::kScored && !state->rounds.relaxed &&
		state->place.has_last && !state->plan.from_first && !state->bounds.nan_only && !state->left_out.all_counted &&
		state->left_out.shown;
}

/// Makes passes over the pages, for an approximate access method until the batch is full or no row was left out.
/// *by_worker: all passes had their candidates from the worker. False if a page was foreign.
bool
pass_pages(Relation index, ScanState *state, bool *by_worker)
{
	Coverage coverage;

	*by_worker = true;
	do
	{
		RowId *candidates = nullptr;
		uint64 n_candidates = 0;

		*by_worker = *by_worker && worker_candidates(index, state, &candidates, &n_candidates);
		if (!page_pass(index, state, candidates, n_candidates, &coverage))
			return false;
	} while (!scan_end_round(state, coverage));
	return true;
}

/// Fills the batch from the pages, again from the start each time a page was foreign.
void
batch_from_pages(Relation index, Snapshot snapshot, ScanState *state)
{
	for (int i = 0;; i++)
	{
		bool by_worker;
		bool done;

		reserve_rows(state);
		done = pass_pages(index, state, &by_worker);
		MemoryContextReset(state->batch_context);
		if (done)
		{
			state->counters->n_worker_batches += by_worker;
			state->counters->n_backend_batches += !by_worker;
			return;
		}
		if (i + 1 == kPageTries)
			page_recycled(index, 0);
		// A standby replayed a merge: the rows found so far are dropped, the rows returned stay.
		scan_read_version(index, snapshot, state);
		state->bounds.skips_segments = false;
	}
}

} // namespace

uint64
scan_batch_rows(const ScanState *state, uint64 wanted)
{
	return Max(UINT64CONST(1), Min(wanted, Min(state->plan.max_batch_size, scan_rows_at_most(state))));
}

void
scan_next_batch(Relation index, Snapshot snapshot, ScanState *state)
{
	const MemoryContext old = MemoryContextSwitchTo(state->batch_context);

	reserve_rows(state);
	state->left_out.counts = counts_left_out(state);
	state->counters->n_asked += state->batch.size;
	state->counters->largest_batch = Max(state->counters->largest_batch, state->batch.size);
	state->counters->bypasses[static_cast<int>(Bypass::kNoOrder)] += state->bounds.nan_only;
	if (!state->bounds.nan_only && worker_search(index, state))
		state->counters->n_worker_batches++;
	else
		batch_from_pages(index, snapshot, state);
	end_batch(state);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->batch_context);
}

} // namespace vectorgpu::am
