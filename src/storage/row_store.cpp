// See row_store.hpp.
#include "storage/row_store.hpp"

#include "storage/row_file.hpp"

#include <cstring>

extern "C"
{
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
		row_file_unmap(store->mapped, store->mapped_bytes);
	store->mapped = nullptr;
	store->mapped_bytes = 0;
}

void
end_shared(RowStore *store)
{
	unmap(store);
	row_file_close(&store->shared_file);
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

const char *
row_store_share(RowStore *store)
{
	Assert(store->n_rows == 0);
	if (store->file != nullptr)
		return nullptr;
	store->shared_file = row_file_create();
	return store->shared_file == 0 ? nullptr : row_file_path(store->shared_file);
}

void
row_store_take_shared(RowStore *store, uint64 n_rows)
{
	store->n_rows = n_rows;
	if (n_rows == 0)
	{
		end_shared(store);
		return;
	}
	store->on_reset.func = unmap;
	store->on_reset.arg = store;
	MemoryContextRegisterResetCallback(store->context, &store->on_reset);
	store->mapped = row_file_map(row_file_path(store->shared_file), n_rows * store->row_bytes);
	store->mapped_bytes = n_rows * store->row_bytes;
	if (n_rows > store->most_rows)
		row_store_spill(store);
}

const char *
row_store_append_shared(RowStore *store, const void *data, Size n_bytes, uint64 *byte)
{
	if (store->mapped == nullptr)
		return nullptr;
	*byte = MAXALIGN(store->n_rows * store->row_bytes);
	row_file_write(store->shared_file, *byte, data, n_bytes);
	return row_file_path(store->shared_file);
}

void
row_store_put(RowStore *store, const void *row)
{
	if (unlikely(store->shared_file != 0))
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
	store->file = BufFileCreateTemp(false);
	if (store->mapped != nullptr)
	{
		for (uint64 i = 0; i < store->n_rows; i++)
			BufFileWrite(store->file, store->mapped + i * store->row_bytes, store->row_bytes);
		end_shared(store);
		return;
	}
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
