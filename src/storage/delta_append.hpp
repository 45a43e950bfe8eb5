// Appending a row to the delta. PG dialect.
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// A retry limit: more merges than this cannot end during one insert.
constexpr uint32 kMostMerges = 100;

/// Append a row. vector is null for NULL. keys: the image of its key columns; null if the index has none. Writes the
/// delta's tail page and the pages into which the row crosses, and now and then a new chunk. heap is needed for the
/// horizon of recycled extents.
void delta_append(Relation index, Relation heap, RowId row, const void *vector, const char *keys);

/// Request a merge in the background if slots [first, end), which have just been written, reach another block's worth
/// of the delta. Testing only at block borders keeps this cheap; a request that fails is repeated at the next border.
void delta_ask_for_merge(Relation index, const MetaData *meta, uint64 first, uint64 end);

} // namespace vectorgpu::am
