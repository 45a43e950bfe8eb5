// See worker_candidates.hpp, and README.md.
#include "am/scan/worker_candidates.hpp"

#include "am/scan/rounds.hpp"
#include "am/scan/row_lookup.hpp"
#include "am/scan/worker_ask.hpp"
#include "am/scan/worker_scan.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/shared_state.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerDeltaSlot = 4; // of segments: with a larger delta the worker is not asked for candidates

/// Keeps the rows of an answer that a segment has: the search looks at the delta's rows itself. False if a page was
/// foreign.
bool
drop_delta_rows(Relation index, const ScanState *state, engine::Neighbor *rows, uint64 *n)
{
	RowId *sorted;
	uint64 *numbers;
	bool *held;
	uint64 kept = 0;

	if (*n == 0 || state->delta_end <= state->meta.delta_first_row)
		return true;
	sorted = static_cast<RowId *>(palloc_extended(*n * sizeof(RowId), MCXT_ALLOC_HUGE));
	numbers = static_cast<uint64 *>(palloc_extended(*n * sizeof(uint64), MCXT_ALLOC_HUGE));
	held = static_cast<bool *>(palloc_extended(*n * sizeof(bool), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	for (uint64 i = 0; i < *n; i++)
		sorted[i] = rows[i].row;
	std::sort(sorted, sorted + *n);
	for (uint32 i = 0; i < state->meta.n_segments; i++)
	{
		if (!find_rows(index, &state->meta, &state->meta.segments[i], sorted, *n, numbers, state->strategy))
			return false;
		for (uint64 j = 0; j < *n; j++)
			held[j] |= numbers[j] != kNoRowNumber;
	}
	for (uint64 i = 0; i < *n; i++)
		if (held[std::lower_bound(sorted, sorted + *n, rows[i].row) - sorted])
			rows[kept++] = rows[i];
	pfree(sorted);
	pfree(numbers);
	pfree(held);
	*n = kept;
	return true;
}

/// Asks for the n rows of segments that are first by the copy's metric. False: as ask_worker.
bool
ask_candidates(Relation index, ScanState *state, uint64 n, RowId **candidates, uint64 *n_candidates)
{
	// n at a time, even if few are still to be found: many rows of the delta may lie between them.
	engine::Neighbor *rows =
		static_cast<engine::Neighbor *>(palloc_extended(2 * n * sizeof(engine::Neighbor), MCXT_ALLOC_HUGE));
	engine::Neighbor after;
	Ask ask = {};
	uint64 kept = 0;

	do
	{
		CHECK_FOR_INTERRUPTS();
		ask.k = n;
		ask.rows = rows + kept;
		ask.capacity = 2 * n - kept;
		if (!ask_worker(index, state, &ask))
			return false;
		if (ask.n_rows > 0)
			after = ask.rows[ask.n_rows - 1];
		ask.after = &after;

		uint64 more = ask.n_rows;

		if (!drop_delta_rows(index, state, ask.rows,
				&more)) // a standby replayed a merge: the pass over the pages reads the manifest again
		{
			bridge::note_fallback(bridge::Fallback::kLoading, nullptr);
			return false;
		}
		kept += more;
	} while (kept < n && ask.n_rows == ask.k);
	kept = Min(kept, n);
	*candidates = static_cast<RowId *>(palloc_extended(Max(kept, UINT64CONST(1)) * sizeof(RowId), MCXT_ALLOC_HUGE));
	for (uint64 i = 0; i < kept; i++)
		(*candidates)[i] = rows[i].row;
	std::sort(*candidates, *candidates + kept);
	*n_candidates = kept;
	pfree(rows);
	return true;
}

/// Asks for the candidates that the probes name. False: as ask_worker.
bool
ask_found(Relation index, ScanState *state, const wire::SegmentProbes *probes, uint32 n_probes, uint64 n,
	RowId **candidates, uint64 *n_candidates)
{
	Ask ask = {};
	RowId *found;

	ask.k = ask.capacity = n;
	ask.rows = static_cast<engine::Neighbor *>(palloc_extended(n * sizeof(engine::Neighbor), MCXT_ALLOC_HUGE));
	ask.probes = probes;
	ask.n_probes = n_probes;
	if (!ask_worker(index, state, &ask))
		return false;
	found = static_cast<RowId *>(palloc_extended(Max(ask.n_rows, UINT64CONST(1)) * sizeof(RowId), MCXT_ALLOC_HUGE));
	for (uint64 i = 0; i < ask.n_rows; i++)
		found[i] = ask.rows[i].row;
	std::sort(found, found + ask.n_rows);
	*candidates = found;
	*n_candidates = static_cast<uint64>(std::unique(found, found + ask.n_rows) - found);
	pfree(ask.rows);
	return true;
}

// More candidates than these take a GPU several passes over the codes, where the backend makes one.
constexpr uint64 kMostCandidatesOnGpu = 32768;

/// The number of candidates that the probes name, and room for a segment that they do not name: a merge may have made
/// it.
uint64
candidates_named(const wire::SegmentProbes *probes, uint32 n)
{
	uint64 sum = 0;
	uint64 largest = 0;

	for (uint32 i = 0; i < n; i++)
	{
		sum += probes[i].candidates;
		largest = Max(largest, probes[i].candidates);
	}
	return sum + largest;
}

/// True if the delta is so large that the worker, which looks at it in vain, is no gain.
bool
much_delta(const ScanState *state)
{
	uint64 n_rows = 0;

	for (uint32 i = 0; i < state->meta.n_segments; i++)
		n_rows += state->meta.segments[i].n_rows;
	return state->delta_end > state->meta.delta_first_row &&
		state->delta_end - state->meta.delta_first_row > n_rows / kRowsPerDeltaSlot;
}

} // namespace

bool
candidates_wanted(Relation index, const ScanState *state, CandidatesWish *wish)
{
	*wish = {};
	if (finds_candidates(state))
	{
		wish->by_probes = true;
		if (!choose_probes(index, state, wish->probes, &wish->n_probes))
			return false;
		wish->n = candidates_named(wish->probes, wish->n_probes);
		if (wish->n > kMostCandidatesOnGpu && bridge::worker_on_gpu())
			wish->bypass = Bypass::kAllRows;
	}
	else if (!scan_is_exact(state))
		wish->n = state->am->worker_structure->n_candidates(
			&state->meta, state->rounds.round, scan_ranks_before(state) + scan_ranks_wanted(state));
	if (wish->n == 0 || wish->n > wire::kMaxSearchK)
		wish->bypass = Bypass::kAllRows;
	else if (!wish->by_probes && much_delta(state))
		wish->bypass = Bypass::kDelta;
	return true;
}

bool
worker_candidates(Relation index, ScanState *state, RowId **candidates, uint64 *n_candidates)
{
	const uint64 noted = bridge::own_fallbacks();
	CandidatesWish wish;

	*candidates = nullptr;
	*n_candidates = 0;
	if (!gives_candidates(state) || bypass_of(index, state) != Bypass::kNone)
		return false;
	if (!candidates_wanted(index, state, &wish)) // a standby replayed a merge: the pass reads the manifest again
	{
		bridge::note_fallback(bridge::Fallback::kLoading, nullptr);
		count_fallback(index, state, noted);
		return false;
	}
	if (wish.bypass != Bypass::kNone)
	{
		state->counters->bypasses[static_cast<int>(wish.bypass)]++;
		return false;
	}
	if (wish.by_probes ? ask_found(index, state, wish.probes, wish.n_probes, wish.n, candidates, n_candidates)
					   : ask_candidates(index, state, wish.n, candidates, n_candidates))
		return true;
	*candidates = nullptr;
	count_fallback(index, state, noted);
	return false;
}

} // namespace vectorgpu::am
