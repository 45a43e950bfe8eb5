// Merging: segments and the delta become one new segment, without their dead rows. Runs in VACUUM, in vectorgpu_merge()
// and in the maintenance worker; always under ShareUpdateExclusiveLock on the table. PG dialect.
#pragma once

#include "am/maintain/tiers.hpp"

namespace vectorgpu::am
{

struct MergeResult
{
	uint32 segments_before;
	uint32 segments_after;
	uint64 rows_moved;    // rows of the new segment, NULL ones included
	uint64 rows_dropped;  // dead rows that are gone
	uint64 bytes_written; // pages of the new segment
	uint64 wal_bytes;     // WAL of the whole merge
	bool abandoned;       // gave way to somebody who waits for the table or drops the database
};

/// Carries out a plan made from this metapage. The caller holds ShareUpdateExclusiveLock on heap since before it read
/// the metapage for the plan. Inserts may run beside it; what they append after the start stays in the delta.
/// give_way: stop, and change nothing, when another session waits for a lock on the table or drops the database.
void merge_index(Relation index, Relation heap, const MergePlan *plan, bool give_way, MergeResult *result);

/// The maintenance worker's task, in a transaction of its own: merges if the delta still has threshold_bytes and the
/// table's lock is free.
void merge_when_due(Oid index_oid, uint64 threshold_bytes);

} // namespace vectorgpu::am
