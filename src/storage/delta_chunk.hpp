// Adding chunks to the delta. PG dialect.
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// Add a chunk behind row number `room_end`, where the room of the existing chunks ends. Does nothing if another
/// inserter has already added one. Raises 54000 if the delta has kMaxChunks chunks.
void delta_add_chunk(Relation index, Relation heap, uint64 room_end);

} // namespace vectorgpu::am
