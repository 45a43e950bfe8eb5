// Counting live and dead rows, and the live rows of the delta sorted by row id. Used by merges (row_merge.hpp), VACUUM
// and the check. Holds no pin and no lock between calls. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"
#include "storage/delta_value.hpp"

extern "C"
{
#include "utils/tuplesort.h"
#include "utils/uuid.h"
}

namespace vectorgpu::am
{

/// Bits of a segment's tombstones: rows first, then NULL rows; bit i is 1 << (i % 8) of byte i / 8.
inline bool
tombstone_get(const uint8 *bits, uint64 i)
{
	return (bits[i / 8] & (1 << (i % 8))) != 0;
}

/// Counts of live and dead rows, read from pages.
struct RowCounts
{
	uint64 rows;
	uint64 null_rows;
	uint64 dead_rows; // including NULL ones
};

/// Asks the caller, from time to time during a long read, whether to stop. `stopped` is set when should_stop returned
/// true.
struct StopCheck
{
	bool (*should_stop)(void *state);
	void *state;
	bool stopped;
};

/// Add a segment's counts, unless stopped.
void count_segment(Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy,
	RowCounts *counts, StopCheck *stop);

/// Read the headers of delta rows [first, end), add their counts and return the live rows sorted by row id, within
/// maintenance_work_mem or else through temporary files. Returns null if the range is empty or if stopped. stop may be
/// null.
Tuplesortstate *sort_delta(
	Relation index, const MetaData *meta, uint64 first, uint64 end, RowCounts *counts, StopCheck *stop);

/// A delta row in the sort of sort_delta: core sorts it as a uuid.
struct DeltaKey
{
	uint64 row;    // big-endian
	uint64 number; // big-endian; number << 1 | is NULL
};

static_assert(sizeof(DeltaKey) == UUID_LEN);

/// Raise an error unless the page was intact: only a standby's reader can meet a recycled page here, since a primary's
/// holds a snapshot or the table's lock.
inline void
must_not_be_foreign(Relation index, bool intact, BlockNumber block)
{
	if (!intact)
		page_recycled(index, block);
}

/// The first block of a stream.
inline BlockNumber
segment_block(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].start_block;
}

} // namespace vectorgpu::am
