// Which segments a merge should join: decisions over the manifest, no page access. See README.md ("Merge and tiers").
// PG dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

constexpr uint32 kTierSegments = 8;    // segments that stay after a merge, at most
constexpr uint64 kTierRatio = 8;       // rows of a level against the one below
constexpr uint64 kTierBaseRows = 4096; // level 0 ends at kTierBaseRows * kTierRatio rows
constexpr uint64 kDeltaShare = 64;     // the delta joins when it has more than 1/64 of the rows
constexpr uint64 kDeadShare = 3;       // a segment with more than 1/3 dead rows is rewritten
constexpr uint32 kMaxLevel = 7;

/// What one merge joins into one new segment.
struct MergePlan
{
	bool take_delta;
	uint32 n_segments;
	uint32 segment_ids[kMaxSegments];
};

/// The level that a segment of so many rows belongs to.
uint32 tier_level(uint64 n_rows);

/// What VACUUM should merge now; false if nothing. delta_rows: rows of the delta, dead ones included.
/// delta_due: the delta has reached its size limit and joins whatever its share is.
bool plan_tiers(const MetaData *meta, uint64 delta_rows, bool delta_due, MergePlan *plan);

/// All of the index into one segment; false if it is that already.
bool plan_full(const MetaData *meta, uint64 delta_rows, MergePlan *plan);

} // namespace vectorgpu::am
