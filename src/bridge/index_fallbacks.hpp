// Counts of fallbacks by index and reason: a table in shared memory besides the server's counters (shared_state.hpp),
// created by the first process that counts. Scans that the worker answers do not use it. PG dialect.
#pragma once

#include "bridge/shared_state.hpp"

namespace vectorgpu::bridge
{

constexpr uint32 kIndexSlots = 128;           // maximum number of indexes
constexpr uint32 kPreloadedIndexSlots = 1024; // with shared_preload_libraries, which can request the memory

/// Called by _PG_init.
void index_fallbacks_init();

/// Count a fallback of an index of this database; note_fallback counts it for the server. If no slot is free, the index
/// counted longest ago loses its slot. Raises no error; without shared memory nothing is counted.
void count_index_fallback(Oid index, Fallback reason);

/// Read the counts of an index of this database into counts [Fallback::kCount]. False: there is no shared memory.
bool read_index_fallbacks(Oid index, uint64 *counts);

} // namespace vectorgpu::bridge
