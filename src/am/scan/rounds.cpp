// See rounds.hpp.
#include "am/scan/rounds.hpp"

#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kLastRound = 12; // after which a search is exact, whatever the access method says

/// Takes rows at infinite distances out of the batch of a pass over a part of the rows: those come by row id, so that
/// the part's would push out others. True if there were any: a pass over all rows is to find them.
bool
drop_infinite(ScanState *state)
{
	const engine::Neighbor *rows = state->batch.rows;
	const uint64 n = state->batch.n_rows;

	if (n > 0 && rows[0].score == -HUGE_VAL)
		state->batch.n_rows = 0;
	while (state->batch.n_rows > 0 && rows[state->batch.n_rows - 1].score == HUGE_VAL)
		state->batch.n_rows--;
	return state->batch.n_rows < n;
}

} // namespace

uint64
scan_ranks_before(const ScanState *state)
{
	if (!state->plan.by_rank)
		return state->place.n_before;
	return state->plan.from_first ? Min(state->plan.step_begin, state->batch.size) : state->plan.step_begin;
}

uint64
scan_ranks_wanted(const ScanState *state)
{
	return state->plan.from_first ? state->batch.size - scan_ranks_before(state) : state->batch.size;
}

bool
scan_is_exact(const ScanState *state)
{
	const bool approximate = state->am->approximate != nullptr && state->phase == ScanPhase::kScored;

	return !approximate || state->plan.exact || state->rounds.exhaustive || state->rounds.round > kLastRound;
}

bool
scan_end_round(ScanState *state, Coverage coverage)
{
	ScanCounters *counters = state->counters;

	state->rounds.exhaustive = scan_is_exact(state) || coverage == Coverage::kAll;
	if (state->am->approximate != nullptr && state->phase == ScanPhase::kScored)
	{
		counters->n_rounds++;
		counters->n_exhaustive += state->rounds.exhaustive;
		if (counters->pass_width > 0 && coverage == Coverage::kPart)
		{
			counters->least_width =
				counters->least_width > 0 ? Min(counters->least_width, counters->pass_width) : counters->pass_width;
			counters->most_width = Max(counters->most_width, counters->pass_width);
		}
		counters->pass_width = 0;
	}
	if (!state->rounds.exhaustive && coverage == Coverage::kPart && drop_infinite(state))
		coverage = Coverage::kScored;
	if (state->rounds.exhaustive || state->batch.n_rows == state->batch.size)
		return true;
	// The pass has found as far as the bound: where a wider one would find nearer rows still, they count as missed.
	if (state->bounds.bounded && state->batch.n_rows > 0 &&
		scan_is_behind_bound(state, state->batch.rows[state->batch.n_rows - 1].score))
		return true;
	state->rounds.round = coverage == Coverage::kScored ? kLastRound + 1 : state->rounds.round + 1;
	return false;
}

void
scan_note_up_to_last(ScanState *state, uint64 n)
{
	// A wider pass finds again what one before it found, so that they are not to be added up.
	const uint64 n_left_out = n - Min(n, state->place.n_before);

	if (n_left_out <= state->left_out.n)
		return;
	state->counters->n_left_out += n_left_out - state->left_out.n;
	state->left_out.n = n_left_out;
}

} // namespace vectorgpu::am
