// Pieces of the server's shared memory that the first process to use them creates, with or without
// shared_preload_libraries. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// Return the piece with this name; `fill` initializes a new one. Returns null, without an error, in a standalone
/// server or if no shared memory is left; the process should then not try again.
void *shared_piece(const char *name, Size size, void (*fill)(void *piece));

/// Reserve memory for a piece. Works only in _PG_init with shared_preload_libraries, and then returns true.
bool reserve_shared_memory(Size size);

} // namespace vectorgpu::pg
