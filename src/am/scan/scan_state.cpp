// See scan_state.hpp.
#include "am/scan/scan_state.hpp"

#include "am/scan/scan_aliases.hpp"
#include "engine/distance/distance.hpp"
#include "storage/delta.hpp"

#include <cmath>

namespace vectorgpu::am
{

void
scan_read_version(Relation index, Snapshot snapshot, ScanState *state)
{
	for (int i = 0; i < kPageTries; i++)
	{
		bool foreign = false;

		meta_read(index, snapshot, &state->meta);
		state->rounds.am_state = nullptr;
		state->first_answer = nullptr; // its rows are of an older version
		if (state->filter != nullptr)
			key_filter_reset(state->filter);
		state->delta_scores = {};
		state->delta_end = delta_end(index, &state->meta, &foreign);
		if (foreign)
			continue;
		scan_read_aliases(index, state, &foreign);
		if (!foreign)
			return;
	}
	page_recycled(index, 0);
}

uint64
scan_rows_at_most(const ScanState *state)
{
	uint64 n = state->delta_end - Min(state->meta.delta_first_row, state->delta_end);

	for (uint32 i = 0; i < state->meta.n_segments; i++)
		n += state->meta.segments[i].n_rows + state->meta.segments[i].n_null_rows;
	return n;
}

double
scan_distance(const ScanState *state, double score)
{
	return state->am->values != nullptr ? score : engine::finish_score(state->shape.metric, score);
}

bool
scan_is_behind_bound(const ScanState *state, double score)
{
	const double distance = scan_distance(state, score);

	// NaN is above all numbers.
	if (std::isnan(distance) && state->bounds.bound.nan_passes)
		return false;
	return !(distance < state->bounds.bound.value) &&
		(state->bounds.bound.open || !(distance == state->bounds.bound.value));
}

} // namespace vectorgpu::am
