// Puts the rows of one heap block in TID order. See build.hpp.
#include "am/shared/build.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr int kFirstSlots = 64;

char *
slot_of(BlockRows *rows, int slot)
{
	return rows->vectors + static_cast<Size>(slot) * rows->vector_bytes;
}

} // namespace

void
block_rows_init(BlockRows *rows, const IndexShape *shape, RowSink sink)
{
	memset(rows, 0, sizeof(*rows));
	rows->element = shape->element;
	rows->dim = shape->dim;
	rows->vector_bytes = vector_bytes(shape->element, shape->dim);
	rows->sink = sink;
	rows->block = InvalidBlockNumber;
	rows->slot_capacity = kFirstSlots;
	rows->vectors = static_cast<char *>(palloc(kFirstSlots * rows->vector_bytes));
}

void
block_rows_add(BlockRows *rows, ItemPointer tid, Datum value, bool is_null)
{
	const BlockNumber block = ItemPointerGetBlockNumber(tid);
	int slot = -1;

	if (block != rows->block)
	{
		block_rows_flush(rows);
		rows->block = block;
	}
	if (rows->n_rows == static_cast<int>(MaxHeapTuplesPerPage))
		elog(ERROR, "too many rows in block %u", block);
	if (!is_null)
	{
		RowValue vector = row_value_for_index(rows->element, rows->dim, value);

		if (rows->n_slots == rows->slot_capacity)
		{
			rows->slot_capacity *= 2;
			rows->vectors =
				static_cast<char *>(repalloc_huge(rows->vectors, rows->slot_capacity * rows->vector_bytes));
		}
		slot = rows->n_slots++;
		memcpy(slot_of(rows, slot), vector.vector, rows->vector_bytes);
		row_value_close(&vector);
	}
	rows->rows[rows->n_rows++] = {make_row_id(block, ItemPointerGetOffsetNumber(tid)), slot};
}

void
block_rows_flush(BlockRows *rows)
{
	const auto by_row = [](const auto &a, const auto &b) { return a.row < b.row; };

	if (!std::is_sorted(rows->rows, rows->rows + rows->n_rows, by_row))
		std::sort(rows->rows, rows->rows + rows->n_rows, by_row);
	for (int i = 0; i < rows->n_rows; i++)
		rows->sink.put(rows->sink.state, rows->rows[i].row,
			rows->rows[i].slot < 0 ? nullptr : slot_of(rows, rows->rows[i].slot));
	rows->n_rows = 0;
	rows->n_slots = 0;
}

void
block_rows_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool is_alive, void *state)
{
	// Recently dead rows are indexed too: an older snapshot may still see them.
	block_rows_add(static_cast<BlockRows *>(state), tid, values[0], isnull[0]);
}

} // namespace vectorgpu::am
