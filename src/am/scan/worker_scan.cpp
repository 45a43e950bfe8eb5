// See worker_scan.hpp.
#include "am/scan/worker_scan.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/feed/delta_rows.hpp"
#include "am/ahead/ahead_table.hpp"
#include "am/scan/rounds.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/worker_ask.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/settings.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kBytesPerKb = 1024;

/// The number of rows that surely fills a batch: rows returned before may be among them (vectorgpu.scan_order =
/// relaxed).
uint64
rows_to_ask(const ScanState *state)
{
	return state->batch.size + state->returned.n;
}

/// Removes rows returned before from the batch, then cuts it to its size.
void
drop_returned(ScanState *state)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < state->batch.n_rows && kept < state->batch.size; i++)
		if (!std::binary_search(
				state->returned.rows, state->returned.rows + state->returned.n, state->batch.rows[i].row))
			state->batch.rows[kept++] = state->batch.rows[i];
	state->batch.n_rows = kept;
}

/// Makes all rounds of a batch. False: as ask_worker; the scan goes on with the round that failed.
bool
ask_rounds(Relation index, ScanState *state)
{
	Ask ask = {};

	do
	{
		CHECK_FOR_INTERRUPTS();
		ask.k = Min(rows_to_ask(state), wire::kMaxSearchK);
		ask.after = state->place.has_last && !state->plan.from_first ? &state->place.last : nullptr;
		ask.rows = state->batch.rows;
		ask.capacity = state->batch.capacity;
		if (!ahead_answer(index, state, &ask) && !ask_worker(index, state, &ask))
			return false;
		state->batch.n_rows = ask.n_rows;
		if (state->returned.n > 0)
			drop_returned(state);
		else
			state->batch.size = ask.k; // fewer rows than that mean the end
	} while (!scan_end_round(state, ask.coverage));
	return true;
}

/// For EXPLAIN: counts what the batch's last round finds up to the last row returned before it. The answer begins
/// behind that row, so the round is asked once more, from the first row on. The scan's other counters do not include
/// that.
void
count_up_to_last(Relation index, ScanState *state)
{
	const ScanCounters counters = *state->counters;
	const uint64 k = Min(state->place.n_before + state->batch.size, wire::kMaxSearchK);
	engine::Neighbor *rows =
		static_cast<engine::Neighbor *>(palloc_extended(k * sizeof(engine::Neighbor), MCXT_ALLOC_HUGE));
	engine::Neighbor after;
	Ask ask = {};
	uint64 n = 0;

	ask.k = ask.capacity = k;
	ask.rows = rows;
	while (ask_worker(index, state, &ask))
	{
		uint64 i = 0;

		CHECK_FOR_INTERRUPTS();
		while (i < ask.n_rows && !engine::neighbor_less(state->place.last, rows[i]))
			i++;
		n += i;
		if (i < k)
			break;
		after = rows[k - 1];
		ask.after = &after;
	}
	*state->counters = counters;
	scan_note_up_to_last(state, n);
	pfree(rows);
}

} // namespace

bool
worker_takes_conditions(Relation index, const ScanState *state)
{
	if (state->filter != nullptr && state->filter->rows != nullptr)
		return copy_takes_conditions(state->am->worker_structure, &state->meta) && !gives_candidates(state) &&
			given_rows_fit(index, state);
	return state->filter == nullptr ||
		(copy_key_bytes(state->am->worker_structure, &state->meta) > 0 && !gives_candidates(state) &&
			state->filter->conditions.n_bytes <= wire::kMostProgramBytes);
}

Bypass
bypass_of(Relation index, const ScanState *state)
{
	if (!worker_holds(state->am, &state->meta))
		return Bypass::kAccessMethod;
	if (!bridge::settings.worker || !IsUnderPostmaster)
		return Bypass::kSettingOff;
	if (state->phase != ScanPhase::kScored)
		return Bypass::kNoOrder;
	if (!worker_takes_conditions(index, state))
		return Bypass::kConditions;
	if (state->returned.n > 0 && !gives_candidates(state) &&
		rows_to_ask(state) > Min(state->batch.capacity, wire::kMaxSearchK))
		return Bypass::kReturned;
	// Pages of a temporary table belong to this process alone, and its file number may be reused.
	if (RelationUsesLocalBuffers(index))
		return Bypass::kTemporary;
	if (state->am->worker_structure != nullptr && state->am->worker_structure->takes != nullptr &&
		!state->am->worker_structure->takes(state->query))
		return Bypass::kLongQuery;
	return copy_bytes(&state->meta, state->delta_end) >=
			static_cast<uint64>(bridge::settings.worker_min_size_kb) * kBytesPerKb
		? Bypass::kNone
		: Bypass::kSmall;
}

bool
worker_search(Relation index, ScanState *state)
{
	const Bypass bypass = bypass_of(index, state);
	const uint64 noted = bridge::own_fallbacks();

	if (bypass == Bypass::kNone && gives_candidates(state))
		return false;
	if (bypass != Bypass::kNone)
	{
		state->counters->bypasses[static_cast<int>(bypass)]++;
		return false;
	}
	if (ask_rounds(index, state))
	{
		if (state->left_out.counts)
			count_up_to_last(index, state);
		return true;
	}
	count_fallback(index, state, noted);
	return false;
}

bool
worker_finds_entries(Relation index, const ScanState *state)
{
	return !gives_candidates(state) && bypass_of(index, state) == Bypass::kNone;
}

bool
worker_search_request(Relation index, const ScanState *state, uint64 k, wire::SearchRequest *search,
	wire::SegmentProbes *probes, uint32 *n_probes)
{
	if (!choose_probes(index, state, probes, n_probes))
		return false;
	fill_search(state, k, *n_probes, search);
	return true;
}

bool
worker_rows_valid(const ScanState *state, engine::Neighbor *rows, uint64 n, uint64 k)
{
	Ask ask = {};

	ask.k = k;
	ask.rows = rows;
	return rows_valid(state, &ask, n);
}

} // namespace vectorgpu::am
