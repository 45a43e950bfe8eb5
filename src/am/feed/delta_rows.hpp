// Rows of the delta as requests carry them: headers, then vectors, then the codes of key columns. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::am
{

/// Bytes of the codes of a row that the worker's copy of an index holds; 0: it holds no codes.
Size copy_key_bytes(const WorkerStructure *structure, const MetaData *meta);

/// False for copies of sets, which leave out no rows.
bool copy_takes_conditions(const WorkerStructure *structure, const MetaData *meta);

/// Set the streams of an index whose copies hold codes.
void copy_key_columns(const MetaData *meta, wire::KeyColumns *keys);

/// Read rows [first, first + n) into rows [n * (8 + vector bytes + key_bytes)]. key_bytes: as from copy_key_bytes. NULL
/// rows have zeros for a vector. Return false if a page was foreign.
bool delta_rows_read(Relation index, const MetaData *meta, Size key_bytes, uint64 first, uint64 n, char *rows);

} // namespace vectorgpu::am
