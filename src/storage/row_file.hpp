// A temporary file that several processes of a build write: its creator's, gone with it, its transaction or an error.
// PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Create a file; return it as a virtual file. 0: a limit of temporary files holds, which counts only what its creator
/// writes.
int row_file_create();

/// Open the file of another process, or this one's once more; row_file_close does not remove it then.
int row_file_open(const char *path);
const char *row_file_path(int file);
void row_file_write(int file, uint64 byte, const void *data, Size n_bytes);

/// Close a file, 0: none, and set it to 0.
void row_file_close(int *file);

/// Map the first n_bytes > 0 for reading.
char *row_file_map(const char *path, Size n_bytes);
void row_file_unmap(char *bytes, Size n_bytes);

} // namespace vectorgpu::am
