// The choice of segments to merge. See tiers.hpp and README.md ("Merge and tiers").
#include "am/maintain/tiers.hpp"

#include "storage/delta.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// A segment, or the delta, as a candidate for a merge.
struct Candidate
{
	uint64 live;
	uint32 id;
	bool chosen;
	bool is_delta;
};

uint64
segment_rows(const SegmentEntry *segment)
{
	return segment->n_rows + segment->n_null_rows;
}

/// Return how many of the smallest candidates to merge into one: among the counts that leave at most kTierSegments, the
/// one that writes the fewest rows per segment removed.
uint32
cheapest_prefix(const Candidate *sorted, uint32 n)
{
	const uint32 must_remove = n - kTierSegments;
	uint64 sum = 0;
	uint32 best = n;
	double best_cost = -1;

	for (uint32 i = 0; i < n; i++)
	{
		double cost;

		sum += sorted[i].live;
		if (i < must_remove)
			continue;
		cost = static_cast<double>(sum) / i;
		if (best_cost < 0 || cost <= best_cost)
		{
			best = i + 1;
			best_cost = cost;
		}
	}
	return best;
}

/// True if VACUUM should merge the delta: it is large, or of some size and mostly dead or most of the index.
bool
delta_is_due(const MetaData *meta, uint64 delta_rows, uint64 segment_rows, uint64 segment_live)
{
	const uint64 live = delta_rows - Min(meta->delta_dead, delta_rows);

	return delta_rows > Max(kTierBaseRows, segment_rows / kDeltaShare) ||
		(delta_rows * delta_row_bytes(meta) >= kDeltaBytes &&
			(delta_rows - live > delta_rows / kDeadShare || live > segment_live));
}

/// Choose all candidates of a level that has kTierRatio of them, and all smaller ones; lowest level first, since the
/// merged segment may fill the next level.
void
choose_full_levels(Candidate *sorted, uint32 n)
{
	for (uint32 level = 0; level < kMaxLevel; level++)
	{
		uint64 merged = 0;
		uint32 n_level = 0;

		for (uint32 i = 0; i < n; i++)
		{
			if (sorted[i].chosen)
				merged += sorted[i].live;
			else if (tier_level(sorted[i].live) == level)
				n_level++;
		}
		if (merged > 0 && tier_level(merged) == level)
			n_level++;
		if (n_level < kTierRatio)
			continue;
		for (uint32 i = 0; i < n; i++)
			if (tier_level(sorted[i].live) <= level)
				sorted[i].chosen = true;
	}
}

} // namespace

uint32
tier_level(uint64 n_rows)
{
	uint32 level = 0;

	for (uint64 limit = kTierBaseRows * kTierRatio; n_rows >= limit && level < kMaxLevel; limit *= kTierRatio)
		level++;
	return level;
}

bool
plan_tiers(const MetaData *meta, uint64 delta_rows, bool delta_due, MergePlan *plan)
{
	Candidate candidates[kMaxSegments + 1];
	uint32 n = 0;
	uint32 n_chosen = 0;
	uint64 all_rows = 0;
	uint64 all_live = 0;
	uint32 n_after;

	memset(plan, 0, sizeof(*plan));
	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[i];
		const uint64 rows = segment_rows(segment);

		all_rows += rows;
		all_live += rows - Min(segment->n_dead, rows);
		candidates[n++] = {rows - Min(segment->n_dead, rows), segment->id, segment->n_dead > rows / kDeadShare, false};
	}
	if (delta_rows > 0 && (delta_due || delta_is_due(meta, delta_rows, all_rows, all_live)))
		candidates[n++] = {delta_rows - Min(meta->delta_dead, delta_rows), 0, true, true};

	std::sort(candidates, candidates + n,
		[](const Candidate &a, const Candidate &b) { return a.live != b.live ? a.live < b.live : a.id < b.id; });
	choose_full_levels(candidates, n);

	for (uint32 i = 0; i < n; i++)
		n_chosen += candidates[i].chosen;
	n_after = n - n_chosen + (n_chosen > 0);
	if (n_after > kTierSegments)
	{
		const uint32 prefix = cheapest_prefix(candidates, n);

		for (uint32 i = 0; i < prefix; i++)
			candidates[i].chosen = true;
	}
	for (uint32 i = 0; i < n; i++)
	{
		if (!candidates[i].chosen)
			continue;
		if (candidates[i].is_delta)
			plan->take_delta = true;
		else
			plan->segment_ids[plan->n_segments++] = candidates[i].id;
	}
	return plan->take_delta || plan->n_segments > 0;
}

bool
plan_full(const MetaData *meta, uint64 delta_rows, MergePlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->take_delta = delta_rows > 0;
	for (uint32 i = 0; i < meta->n_segments; i++)
		plan->segment_ids[plan->n_segments++] = meta->segments[i].id;
	return plan->take_delta || meta->n_segments > 1 || (meta->n_segments == 1 && meta->segments[0].n_dead > 0);
}

} // namespace vectorgpu::am
