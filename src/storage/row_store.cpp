// See row_store.hpp.
#include "storage/row_store.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "utils/memutils.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kBlockBytes = 1024 * 1024;
constexpr uint64 kFirstCapacity = 64;

void
add_block(RowStore *store)
{
	if (store->n_blocks == store->capacity)
	{
		store->capacity = Max(2 * store->capacity, kFirstCapacity);
		store->blocks = static_cast<char **>(store->blocks == nullptr
				? MemoryContextAllocHuge(store->context, store->capacity * sizeof(char *))
				: repalloc_huge(store->blocks, store->capacity * sizeof(char *)));
	}
	store->blocks[store->n_blocks++] =
		static_cast<char *>(MemoryContextAllocHuge(store->context, store->block_rows * store->row_bytes));
}

void
free_blocks(RowStore *store)
{
	for (uint64 i = 0; i < store->n_blocks; i++)
		pfree(store->blocks[i]);
	if (store->blocks != nullptr)
		pfree(store->blocks);
	store->blocks = nullptr;
	store->n_blocks = store->capacity = 0;
}

/// A MemoryContextCallbackFunction.
void
unmap(void *argument)
{
	RowStore *store = static_cast<RowStore *>(argument);

	if (store->mapped != nullptr)
		row_files_unmap(store->mapped, store->mapped_bytes);
	store->mapped = nullptr;
	store->mapped_bytes = 0;
}

void
end_shared(RowStore *store)
{
	unmap(store);
	row_files_close(&store->shared);
	store->is_shared = false;
}

/// Move the rows of other processes to a file of this one's own.
void
spill_shared(RowStore *store)
{
	char *block = static_cast<char *>(palloc(kBlockBytes));

	store->file = BufFileCreateTemp(false);
	for (uint64 byte = 0; byte < store->n_rows * store->row_bytes; byte += kBlockBytes)
	{
		const Size here = Min(store->n_rows * store->row_bytes - byte, kBlockBytes);

		CHECK_FOR_INTERRUPTS();
		row_files_read(&store->shared, byte, block, here);
		BufFileWrite(store->file, block, here);
	}
	pfree(block);
	end_shared(store);
}

} // namespace

void
row_store_begin(RowStore *store, Size row_bytes, Size memory_bytes)
{
	memset(store, 0, sizeof(*store));
	store->context = CurrentMemoryContext;
	store->row_bytes = row_bytes;
	store->block_rows = Max(kBlockBytes / row_bytes, static_cast<Size>(1));
	store->most_rows = memory_bytes / row_bytes / store->block_rows * store->block_rows;
	if (store->most_rows == 0)
		store->file = BufFileCreateTemp(false);
}

const RowPaths *
row_store_share(RowStore *store)
{
	RowPaths *paths;

	Assert(store->n_rows == 0);
	if (store->file != nullptr || !row_files_create(&store->shared))
		return nullptr;
	store->is_shared = true;
	paths = static_cast<RowPaths *>(palloc(sizeof(RowPaths)));
	row_files_paths(&store->shared, paths);
	return paths;
}

void
row_store_take_shared(RowStore *store, uint64 n_rows)
{
	RowPaths paths;

	store->n_rows = n_rows;
	if (n_rows == 0)
		end_shared(store);
	else if (n_rows > Min(store->most_rows, kMostMappedBytes / store->row_bytes))
		spill_shared(store);
	else
	{
		// Not in the store, which may be begun once more while the context has the callback.
		MemoryContextCallback *on_reset =
			static_cast<MemoryContextCallback *>(MemoryContextAlloc(store->context, sizeof(MemoryContextCallback)));

		on_reset->func = unmap;
		on_reset->arg = store;
		MemoryContextRegisterResetCallback(store->context, on_reset);
		row_files_paths(&store->shared, &paths);
		store->mapped = row_files_map(&paths, n_rows * store->row_bytes);
		store->mapped_bytes = n_rows * store->row_bytes;
	}
}

void
row_store_place(const RowStore *store, uint64 first, const void *rows, uint64 n)
{
	Assert(store->is_shared);
	row_files_write(&store->shared, first * store->row_bytes, rows, n * store->row_bytes);
}

void
row_store_paths(const RowStore *store, RowPaths *paths)
{
	Assert(store->mapped != nullptr);
	row_files_paths(&store->shared, paths);
}

uint64
row_store_append_shared(const RowStore *store, const void *data, Size n_bytes)
{
	const uint64 byte = MAXALIGN(store->n_rows * store->row_bytes);

	Assert(store->mapped != nullptr);
	row_files_write(&store->shared, byte, data, n_bytes);
	return byte;
}

void
row_store_put(RowStore *store, const void *row)
{
	if (unlikely(store->is_shared))
		end_shared(store);
	if (store->file == nullptr && store->n_rows == store->most_rows)
		row_store_spill(store);
	if (store->file != nullptr)
		BufFileWrite(store->file, const_cast<void *>(row), store->row_bytes);
	else
	{
		if (store->n_rows == store->n_blocks * store->block_rows)
			add_block(store);
		memcpy(const_cast<char *>(row_store_row(store, store->n_rows)), row, store->row_bytes);
	}
	store->n_rows++;
}

void
row_store_read(RowStore *store, uint64 first, uint64 n, void *rows)
{
	char *to = static_cast<char *>(rows);

	Assert(first + n <= store->n_rows);
	if (store->file != nullptr)
	{
		spool_seek(store->file, first * store->row_bytes);
		spool_read(store->file, rows, n * store->row_bytes);
		return;
	}
	if (store->mapped != nullptr)
	{
		memcpy(to, row_store_row(store, first), n * store->row_bytes);
		return;
	}
	while (n > 0)
	{
		const uint64 here = Min(n, store->block_rows - first % store->block_rows);

		memcpy(to, row_store_row(store, first), here * store->row_bytes);
		to += here * store->row_bytes;
		first += here;
		n -= here;
	}
}

const char *
row_store_span(const RowStore *store, uint64 first, uint64 n)
{
	if (store->mapped == nullptr &&
		(store->file != nullptr || n == 0 || first / store->block_rows != (first + n - 1) / store->block_rows))
		return nullptr;
	return row_store_row(store, first);
}

Size
row_store_held(const RowStore *store)
{
	return store->n_blocks * store->block_rows * store->row_bytes + store->mapped_bytes;
}

void
row_store_spill(RowStore *store)
{
	uint64 left = store->n_rows;

	if (store->file != nullptr)
		return;
	if (store->mapped != nullptr)
	{
		spill_shared(store);
		return;
	}
	store->file = BufFileCreateTemp(false);
	for (uint64 i = 0; i < store->n_blocks; i++)
	{
		const uint64 here = Min(left, store->block_rows);

		BufFileWrite(store->file, store->blocks[i], here * store->row_bytes);
		left -= here;
	}
	free_blocks(store);
}

void
row_store_end(RowStore *store)
{
	end_shared(store);
	spool_close(&store->file);
	free_blocks(store);
	store->n_rows = store->most_rows = 0;
}

} // namespace vectorgpu::am
