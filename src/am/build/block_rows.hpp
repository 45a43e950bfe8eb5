// The rows of a heap scan in TID order. PG dialect.
#pragma once

#include "am/method/row_value.hpp"
#include "storage/shape.hpp"
#include "storage/value_format.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

/// A consumer of rows in ascending order of row id. vector is null for NULL.
struct RowSink
{
	void (*put)(void *state, RowId row, const char *vector);
	void *state;
};

/// The rows of one heap block. A heap scan returns blocks in order, but within a block a row has the TID of its HOT
/// chain's root. So the rows of a block are collected and sorted before they are passed on.
struct BlockRows
{
	const IndexShape *shape;
	const ValueFormat *values; // null: vectors
	MemoryContext scratch;     // for one stored value
	RowSink sink;
	BlockNumber block;
	int n_rows;
	Size n_bytes; // of the vectors or stored values held, one after the other
	Size capacity;
	char *vectors; // [capacity], grows
	struct
	{
		RowId row;
		int64 offset; // -1 for NULL
	} rows[MaxHeapTuplesPerPage];
};

/// Initialize. The shape must live as long as *rows.
void block_rows_init(BlockRows *rows, const IndexShape *shape, RowSink sink);
void block_rows_add(BlockRows *rows, ItemPointer tid, Datum value, bool is_null);

/// Pass the rows of the current block to the sink.
void block_rows_flush(BlockRows *rows);

/// Free what block_rows_init and block_rows_add have allocated.
void block_rows_end(BlockRows *rows);

/// An IndexBuildCallback; state is a BlockRows.
void block_rows_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool is_alive, void *state);

} // namespace vectorgpu::am
