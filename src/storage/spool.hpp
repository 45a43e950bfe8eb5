// Temporary files of a segment that is being written. A missing item is an error. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

/// Read the next n_bytes.
void spool_read(BufFile *file, void *data, Size n_bytes);

/// Set the file's position.
void spool_seek(BufFile *file, uint64 byte);

/// Close the file if there is one, and set *file to null.
void spool_close(BufFile **file);

} // namespace vectorgpu::am
