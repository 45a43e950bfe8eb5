// The rows of a heap scan in TID order. PG dialect.
#pragma once

#include "am/build/toast_reader.hpp"
#include "am/keys/key_coder.hpp"
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

/// A consumer of rows in ascending order of row id. vector is null for NULL. keys: the image of the row's key columns;
/// null if the index has none.
struct RowSink
{
	void (*put)(void *state, RowId row, const char *vector, const char *keys);
	void *state;
};

/// The rows of one heap block. A heap scan returns blocks in order, but within a block a row has the TID of its HOT
/// chain's root. So the rows of a block are collected and sorted before they are passed on.
struct BlockRows
{
	const IndexShape *shape;
	const ValueFormat *values; // null: vectors
	const KeyCoder *coder;     // of the key columns; null: there are none
	Size key_bytes;            // of a row's image
	MemoryContext scratch;     // for one stored value, and for the codes of one row
	ToastReader toast;         // of vectors
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
		Size keys;    // offset of the image
	} rows[MaxHeapTuplesPerPage];
};

/// Initialize. The shape and the coder must live as long as *rows. coder: of the index's key columns, or null.
void block_rows_init(BlockRows *rows, const IndexShape *shape, const KeyCoder *coder, RowSink sink);
void block_rows_add(BlockRows *rows, ItemPointer tid, const Datum *values, const bool *isnull);

/// Pass the rows of the current block to the sink.
void block_rows_flush(BlockRows *rows);

/// Free what block_rows_init and block_rows_add have allocated.
void block_rows_end(BlockRows *rows);

/// An IndexBuildCallback; state is a BlockRows.
void block_rows_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool is_alive, void *state);

} // namespace vectorgpu::am
