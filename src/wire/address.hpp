// Where the socket is: names relative to the data directory, so that a long path never meets the limit of sun_path.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace vectorgpu::wire
{

// Of PostgreSQL's programs pg_basebackup leaves out folders and files whose name starts so, and pg_rewind files in
// folders whose name does: it would try to read a socket, and give up.
constexpr char kSocketFolder[] = "pgsql_tmp_vectorgpu";
constexpr char kSocketPrefix[] = "pgsql_tmp_w.";
constexpr size_t kSocketPathBytes = sizeof(kSocketFolder) + sizeof(kSocketPrefix) + 16;

/// path: "pgsql_tmp_vectorgpu/pgsql_tmp_w.EEEEEEEEEEEEEEEE".
inline void
format_socket_path(uint64_t epoch, char (&path)[kSocketPathBytes])
{
	snprintf(path, sizeof(path), "%s/%s%016" PRIx64, kSocketFolder, kSocketPrefix, epoch);
}

/// Whether a file of the folder is a socket of ours, "w.…" of builds before this name among them.
inline bool
is_socket_name(const char *name)
{
	return strncmp(name, kSocketPrefix, sizeof(kSocketPrefix) - 1) == 0 || strncmp(name, "w.", 2) == 0;
}

} // namespace vectorgpu::wire
