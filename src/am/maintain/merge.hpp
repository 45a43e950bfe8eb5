// Merging segments and the delta into one new segment, without dead rows. Runs in VACUUM, vectorgpu_merge() and the
// maintenance worker, always under ShareUpdateExclusiveLock on the table. PG dialect.
#pragma once

#include "am/maintain/tiers.hpp"

namespace vectorgpu::am
{

struct MergeResult
{
	uint32 segments_before;
	uint32 segments_after;
	uint64 rows_moved;    // rows of the new segment, including NULL ones
	uint64 rows_dropped;  // dead rows removed
	uint64 bytes_written; // pages of the new segment
	uint64 wal_bytes;     // WAL of the whole merge
	bool abandoned;       // gave way to a session that waits for the table or drops the database
};

/// Carry out a plan. The caller must hold ShareUpdateExclusiveLock on heap since before it read the metapage for the
/// plan. Inserts may run concurrently; rows that they append after the start stay in the delta. give_way: stop and
/// change nothing when another session waits for a lock on the table or drops the database.
void merge_index(Relation index, Relation heap, const MergePlan *plan, bool give_way, MergeResult *result);

/// The maintenance worker's task, in its own transaction: merge if the delta still has threshold_bytes and the table's
/// lock is free; with 0, shrink_when_free.
void merge_when_due(Oid index_oid, uint64 threshold_bytes);

} // namespace vectorgpu::am
