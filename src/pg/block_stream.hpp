// Blocks of a relation that are read in order, many at a time and ahead of their use: PostgreSQL's read streams, which
// 15 and 16 do not have. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "storage/buf.h"
}

namespace vectorgpu::pg
{

struct BlockStream;

/// Begin to read blocks first to end - 1 of the main fork. Null: this version has no read streams. The stream lives in
/// the current memory context and keeps blocks pinned until it is ended.
BlockStream *block_stream_begin(Relation relation, BlockNumber first, BlockNumber end, BufferAccessStrategy strategy);

/// Return the next block, pinned. Precondition: not all have been returned.
Buffer block_stream_next(BlockStream *stream);

void block_stream_end(BlockStream *stream);

} // namespace vectorgpu::pg
