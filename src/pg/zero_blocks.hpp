// Extends the file of a relation. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// Write n blocks of zeros behind the end of the main fork, its first at `block`, without bringing them into the buffer
/// cache. Precondition: the caller holds the relation's extension lock.
void write_zero_blocks(Relation relation, BlockNumber block, BlockNumber n);

} // namespace vectorgpu::pg
