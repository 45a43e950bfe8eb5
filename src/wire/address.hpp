// Where the socket is: names relative to the data directory, so that a long path never meets the limit of sun_path.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace vectorgpu::wire
{

constexpr char kSocketFolder[] = "pgsql_tmp_vectorgpu"; // base backups leave out names that start so
constexpr size_t kSocketPathBytes = sizeof(kSocketFolder) + 3 + 16;

/// path: "pgsql_tmp_vectorgpu/w.EEEEEEEEEEEEEEEE".
inline void
format_socket_path(uint64_t epoch, char (&path)[kSocketPathBytes])
{
	snprintf(path, sizeof(path), "%s/w.%016" PRIx64, kSocketFolder, epoch);
}

} // namespace vectorgpu::wire
