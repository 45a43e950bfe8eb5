// Why scans of each index fell back: a table in shared memory beside the server's own counters (shared_state.hpp), made
// by the first process that counts. Nothing here is on the way of a scan that the worker answers. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

constexpr uint32 kIndexSlots = 128;           // indexes that are counted at a time
constexpr uint32 kPreloadedIndexSlots = 1024; // with shared_preload_libraries, which can set the memory aside

/// Called by _PG_init.
void index_fallbacks_init();

/// Counts a fallback of an index of this database, which note_fallback has counted for the server. Where no slot is
/// free, the index that was counted longest ago gives its own up. Raises no error; without shared memory nothing is
/// counted.
void count_index_fallback(Oid index, Fallback reason);

/// What has been counted of an index of this database, by reason, into counts [Fallback::kCount]. False: there is no
/// shared memory.
bool read_index_fallbacks(Oid index, uint64 *counts);

} // namespace vectorgpu::bridge
