// vectorgpu_check: is every page what it should be, and does the index have every row of the table, once and as it is
// there? PG dialect. Needs AccessShareLock on table and index; inserts, vacuum and merges may run beside it: it works
// on one copy of the metapage, read after its snapshot, as a scan does.
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
	uint64 delta_rows;        // of the delta, dead ones included
	uint64 heap_rows_checked; // rows of the table found in the index, 0 if not asked for
	uint64 free_blocks;
	uint64 leaked_blocks;
	uint64 cache_rows_checked; // rows of the worker's copy, 0 if not asked for or if it has none
	uint32 segments;
};

/// Raises ERRCODE_INDEX_CORRUPTED for the first thing that is wrong.
void check_index(Relation index, Relation heap, bool heap_all_indexed, CheckResult *result);

} // namespace vectorgpu::am
