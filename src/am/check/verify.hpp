// vectorgpu_check: checks every page, and whether the index has every row of the table exactly once and with its value.
// PG dialect. Needs AccessShareLock on table and index. Inserts, vacuum and merges may run concurrently: like a scan,
// the check works on one copy of the metapage, read after its snapshot.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

struct CheckResult
{
	uint64 pages_checked;
	uint64 rows;              // live rows that have a value
	uint64 null_rows;         // live rows whose value is NULL
	uint64 dead_rows;         // tombstones
	uint64 delta_rows;        // of the delta, including dead ones
	uint64 heap_rows_checked; // rows of the table found in the index; 0 without heapallindexed
	uint64 free_blocks;
	uint64 leaked_blocks;
	uint64 cache_rows_checked; // rows of the worker's copy; 0 without check_cache or without a copy
	uint32 segments;
};

/// Check the index. Raises ERRCODE_INDEX_CORRUPTED for the first error found.
void check_index(Relation index, Relation heap, bool heap_all_indexed, CheckResult *result);

} // namespace vectorgpu::am
