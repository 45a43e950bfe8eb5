// Adding chunks to the delta and to the aliases. PG dialect.
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// Add a chunk behind row number `room_end`, where the room of the existing chunks ends: to the delta, or to the
/// aliases (role kAlias). Does nothing if another inserter has already added one. Raises 54000 if the delta has
/// kMaxChunks chunks; returns false if the aliases have kMaxAliasChunks.
bool delta_add_chunk(Relation index, Relation heap, PageRole role, uint64 room_end);

} // namespace vectorgpu::am
