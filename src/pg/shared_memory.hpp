// Pieces of the server's shared memory that are made by the first process that asks, with or without
// shared_preload_libraries. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// The piece of that name, which `fill` makes ready if it is new. Null, and no error, in a standalone server, or if
/// other extensions have used up what is to spare: then this process should not ask again.
void *shared_piece(const char *name, Size size, void (*fill)(void *piece));

/// Sets memory for a piece aside. Has an effect in _PG_init with shared_preload_libraries only, and returns true then.
bool reserve_shared_memory(Size size);

} // namespace vectorgpu::pg
