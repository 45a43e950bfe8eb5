// Bytes in temporary files that several processes of a build write and read: their creator's, gone with it, its
// transaction or an error. A writer of a file keeps others out, so pieces lie in several files by turns. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

constexpr int kRowFiles = 4;
constexpr Size kMostMappedBytes = UINT64CONST(64) << 30; // pieces are mapped one by one, and a process has a limit

/// Virtual files; 0: none.
struct RowFiles
{
	int files[kRowFiles];
};

struct RowPaths
{
	char names[kRowFiles][MAXPGPATH];
};

/// Create the files. False: a limit of temporary files holds, which counts only what their creator writes.
bool row_files_create(RowFiles *files);

/// Open the files of another process, or this one's once more; row_files_close does not remove them then.
void row_files_open(RowFiles *files, const RowPaths *paths);
void row_files_paths(const RowFiles *files, RowPaths *paths);
void row_files_write(const RowFiles *files, uint64 byte, const void *data, Size n_bytes);
void row_files_read(const RowFiles *files, uint64 byte, void *data, Size n_bytes);

/// Give back the room of every n-th file, from number `first` on; nobody reads their bytes any more. Processes share
/// the time that row_files_close takes otherwise (0.1 s for 1 GB). The files keep their size.
void row_files_free(const RowPaths *paths, int first, int n);

/// Close the files, if there are any.
void row_files_close(RowFiles *files);

/// Map the first n_bytes > 0, one behind the other, for reading.
char *row_files_map(const RowPaths *paths, Size n_bytes);
void row_files_unmap(char *bytes, Size n_bytes);

} // namespace vectorgpu::am
