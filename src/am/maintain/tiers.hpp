// The choice of segments to merge: decisions from the manifest, no page access. See README.md ("Merge and tiers"). PG
// dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

constexpr uint32 kTierSegments = 8;     // most segments left after a merge
constexpr uint64 kTierRatio = 8;        // ratio of rows between a level and the one below
constexpr uint64 kTierBaseRows = 4096;  // level 0 has fewer than kTierBaseRows * kTierRatio rows
constexpr uint64 kDeltaShare = 64;      // the delta is merged when it has more than 1/64 of the rows
constexpr uint64 kDeltaBytes = 1 << 20; // with that many it is merged also if 1 / kDeadShare is dead, or it is most
constexpr uint64 kDeadShare = 3;        // a segment with more than 1/3 dead rows is rewritten
constexpr uint32 kMaxLevel = 7;

/// The sources of one merge.
struct MergePlan
{
	bool take_delta;
	uint32 n_segments;
	uint32 segment_ids[kMaxSegments];
};

/// Return the level of a segment with n_rows rows.
uint32 tier_level(uint64 n_rows);

/// Plan what VACUUM should merge now; returns false if nothing. delta_rows: rows of the delta, including dead ones.
/// delta_due: the delta has reached its size limit and is merged whatever its share.
bool plan_tiers(const MetaData *meta, uint64 delta_rows, bool delta_due, MergePlan *plan);

/// Plan to merge the whole index into one segment; returns false if it is one already.
bool plan_full(const MetaData *meta, uint64 delta_rows, MergePlan *plan);

} // namespace vectorgpu::am
