// Rows of one size that wait while a segment is made: in memory as far as there is room, else in a temporary file. PG
// dialect.
#pragma once

#include "storage/spool.hpp"

namespace vectorgpu::am
{

struct RowStore
{
	MemoryContext context;
	Size row_bytes;
	uint64 n_rows;
	uint64 most_rows; // in memory
	uint64 block_rows;
	uint64 n_blocks; // with memory
	uint64 capacity;
	char **blocks; // [capacity], each [block_rows, row_bytes]
	BufFile *file; // null: the rows are in memory
};

/// Begin an empty store, whose memory, at most memory_bytes, is taken from the current context.
void row_store_begin(RowStore *store, Size row_bytes, Size memory_bytes);
void row_store_put(RowStore *store, const void *row);

/// Copy rows [first, first + n) to `rows`.
void row_store_read(RowStore *store, uint64 first, uint64 n, void *rows);

/// True if row_store_row may be called.
inline bool
row_store_in_memory(const RowStore *store)
{
	return store->file == nullptr;
}

inline const char *
row_store_row(const RowStore *store, uint64 i)
{
	return store->blocks[i / store->block_rows] + i % store->block_rows * store->row_bytes;
}

/// Bytes of memory in use.
Size row_store_held(const RowStore *store);

/// Move the rows to a file.
void row_store_spill(RowStore *store);

/// Free all; nothing if the store was never begun.
void row_store_end(RowStore *store);

} // namespace vectorgpu::am
