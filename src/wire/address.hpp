// Path of the socket, relative to the data directory, so that a long path never exceeds the limit of sun_path.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace vectorgpu::wire
{

// pg_basebackup omits directories and files whose name starts with "pgsql_tmp", and pg_rewind omits files in
// directories with such a name; it would try to read a socket, and fail.
constexpr char kSocketFolder[] = "pgsql_tmp_vectorgpu";
constexpr char kSocketPrefix[] = "pgsql_tmp_w.";
constexpr size_t kSocketPathBytes = sizeof(kSocketFolder) + sizeof(kSocketPrefix) + 16;

/// path: "pgsql_tmp_vectorgpu/pgsql_tmp_w.EEEEEEEEEEEEEEEE".
inline void
format_socket_path(uint64_t epoch, char (&path)[kSocketPathBytes])
{
	snprintf(path, sizeof(path), "%s/%s%016" PRIx64, kSocketFolder, kSocketPrefix, epoch);
}

/// Return true if a file of the directory is a worker's socket, or one ("w.…") of an earlier build.
inline bool
is_socket_name(const char *name)
{
	return strncmp(name, kSocketPrefix, sizeof(kSocketPrefix) - 1) == 0 || strncmp(name, "w.", 2) == 0;
}

} // namespace vectorgpu::wire
