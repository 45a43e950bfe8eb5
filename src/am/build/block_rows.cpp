// Sorts the rows of one heap block by TID. See block_rows.hpp.
#include "am/build/block_rows.hpp"

#include "am/method/am_interface.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr Size kFirstBytes = 64 * 1024;

/// Reserve n_bytes at an aligned offset; return the offset.
Size
reserve(BlockRows *rows, Size n_bytes)
{
	const Size offset = MAXALIGN(rows->n_bytes);

	while (offset + n_bytes > rows->capacity)
	{
		rows->capacity *= 2;
		rows->vectors = static_cast<char *>(repalloc_huge(rows->vectors, rows->capacity));
	}
	rows->n_bytes = offset + n_bytes;
	return offset;
}

/// Copy a vector that lies out of line; return its offset, or -1 if it is for row_value_for_index.
int64
add_vector_out_of_line(BlockRows *rows, Datum datum, Size n_bytes)
{
	constexpr Size kHeaderBytes = 4; // before the elements: see row_value_open
	const Size before = rows->n_bytes;
	const Size offset = reserve(rows, sizeof(uint64) + n_bytes) + sizeof(uint64);
	char *vector = rows->vectors + offset;
	uint32 dim = 0;

	if (toast_reader_read(&rows->toast, datum, vector - kHeaderBytes, kHeaderBytes + n_bytes))
	{
		if (rows->shape->element == ElementType::kBit)
			memcpy(&dim, vector - kHeaderBytes, sizeof(dim));
		else
		{
			int16 n;

			memcpy(&n, vector - kHeaderBytes, sizeof(n));
			dim = static_cast<uint32>(n);
		}
		if (dim == rows->shape->dim)
			return static_cast<int64>(offset);
	}
	rows->n_bytes = before;
	return -1;
}

/// Copy the value of a row; return its offset.
Size
add_value(BlockRows *rows, Datum datum)
{
	Size offset;

	if (rows->values != nullptr)
	{
		// Making a value takes several times its memory, and core calls back in a context that lives until the end of
		// the scan.
		const MemoryContext outer = MemoryContextSwitchTo(rows->scratch);
		const char *value = rows->values->store(rows->shape, datum);
		const Size n_bytes = stored_bytes(value);

		MemoryContextSwitchTo(outer);
		offset = reserve(rows, n_bytes);
		memcpy(rows->vectors + offset, value, n_bytes);
		MemoryContextReset(rows->scratch);
	}
	else
	{
		const Size n_bytes = vector_bytes(rows->shape->element, rows->shape->dim);
		RowValue vector;

		if (VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum)))
		{
			const int64 found = add_vector_out_of_line(rows, datum, n_bytes);

			if (found >= 0)
				return static_cast<Size>(found);
		}
		vector = row_value_for_index(rows->shape->element, rows->shape->dim, datum);
		offset = reserve(rows, n_bytes);
		memcpy(rows->vectors + offset, vector.vector, n_bytes);
		row_value_close(&vector);
	}
	return offset;
}

/// Add the image of a row's key columns; return its offset.
Size
add_keys(BlockRows *rows, const Datum *values, const bool *isnull)
{
	const Size offset = reserve(rows, rows->key_bytes);
	const MemoryContext outer = MemoryContextSwitchTo(rows->scratch);

	key_image(rows->coder, values, isnull, rows->vectors + offset);
	MemoryContextSwitchTo(outer);
	MemoryContextReset(rows->scratch);
	return offset;
}

} // namespace

void
block_rows_init(BlockRows *rows, const IndexShape *shape, const KeyCoder *coder, RowSink sink)
{
	memset(rows, 0, sizeof(*rows));
	rows->shape = shape;
	rows->values = value_format(shape);
	rows->coder = coder;
	rows->key_bytes = coder != nullptr ? key_image_bytes(&coder->layout) : 0;
	if (rows->values != nullptr || coder != nullptr)
		rows->scratch = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu value", ALLOCSET_DEFAULT_SIZES);
	toast_reader_begin(&rows->toast);
	rows->sink = sink;
	rows->block = InvalidBlockNumber;
	rows->capacity = kFirstBytes;
	rows->vectors = static_cast<char *>(palloc(rows->capacity));
}

void
block_rows_add(BlockRows *rows, ItemPointer tid, const Datum *values, const bool *isnull)
{
	const BlockNumber block = ItemPointerGetBlockNumber(tid);
	int64 offset = -1;
	Size keys = 0;

	if (block != rows->block)
	{
		block_rows_flush(rows);
		rows->block = block;
	}
	if (rows->n_rows == static_cast<int>(MaxHeapTuplesPerPage))
		elog(ERROR, "too many rows in block %u", block);
	if (!isnull[0])
		offset = static_cast<int64>(add_value(rows, values[0]));
	if (rows->coder != nullptr)
		keys = add_keys(rows, values + 1, isnull + 1);
	rows->rows[rows->n_rows++] = {make_row_id(block, ItemPointerGetOffsetNumber(tid)), offset, keys};
}

void
block_rows_flush(BlockRows *rows)
{
	const auto by_row = [](const auto &a, const auto &b) { return a.row < b.row; };

	if (!std::is_sorted(rows->rows, rows->rows + rows->n_rows, by_row))
		std::sort(rows->rows, rows->rows + rows->n_rows, by_row);
	for (int i = 0; i < rows->n_rows; i++)
		rows->sink.put(rows->sink.state, rows->rows[i].row,
			rows->rows[i].offset < 0 ? nullptr : rows->vectors + rows->rows[i].offset,
			rows->coder == nullptr ? nullptr : rows->vectors + rows->rows[i].keys);
	rows->n_rows = 0;
	rows->n_bytes = 0;
}

void
block_rows_end(BlockRows *rows)
{
	toast_reader_end(&rows->toast);
	pfree(rows->vectors);
	if (rows->scratch != nullptr)
		MemoryContextDelete(rows->scratch);
}

void
block_rows_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool is_alive, void *state)
{
	// Recently dead rows are indexed too, since an older snapshot may still see them.
	block_rows_add(static_cast<BlockRows *>(state), tid, values, isnull);
}

} // namespace vectorgpu::am
