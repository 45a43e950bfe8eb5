// Rows of one size that wait while a segment is made: in memory as far as there is room, else in a temporary file.
// Several processes may write them, to files that are memory as soon as all have come. PG dialect.
#pragma once

#include "storage/row_file.hpp"
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
	char **blocks;  // [capacity], each [block_rows, row_bytes]
	BufFile *file;  // null: the rows are in memory
	bool is_shared; // other processes fill `shared`
	RowFiles shared;
	char *mapped; // [n_rows, row_bytes] of it, once they have; null: not yet, or none
	Size mapped_bytes;
};

/// Begin an empty store, whose memory, at most memory_bytes, is taken from the current context.
void row_store_begin(RowStore *store, Size row_bytes, Size memory_bytes);
void row_store_put(RowStore *store, const void *row);

/// Have several processes write rows, row i at byte i * row_bytes of the files whose paths are returned. The store is
/// empty. Null: they cannot. A row_store_put instead ends that.
const RowPaths *row_store_share(RowStore *store);

/// Write rows [first, first + n) of these files.
void row_store_place(const RowStore *store, uint64 first, const void *rows, uint64 n);

/// They have written n_rows, which are in memory then, as far as there is room.
void row_store_take_shared(RowStore *store, uint64 n_rows);

/// The paths of the files of a store whose rows are mapped.
void row_store_paths(const RowStore *store, RowPaths *paths);

/// Write n_bytes behind the rows of these files; return the byte at which they begin.
uint64 row_store_append_shared(const RowStore *store, const void *data, Size n_bytes);

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
	if (store->mapped != nullptr)
		return store->mapped + i * store->row_bytes;
	return store->blocks[i / store->block_rows] + i % store->block_rows * store->row_bytes;
}

/// Rows [first, first + n) where they lie one behind the other in memory, else null.
const char *row_store_span(const RowStore *store, uint64 first, uint64 n);

/// Bytes of memory in use.
Size row_store_held(const RowStore *store);

/// Move the rows to a file.
void row_store_spill(RowStore *store);

/// Free all; nothing if the store was never begun.
void row_store_end(RowStore *store);

} // namespace vectorgpu::am
