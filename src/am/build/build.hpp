// Inside of an index build: rows of a heap scan put in TID order, and where they go. PG dialect.
// Used by build.cpp (serial scan, writing) and parallel_build.cpp (workers, leader).
#pragma once

#include "am/method/row_value.hpp"
#include "storage/segment_writer.hpp"

extern "C"
{
#include "access/htup_details.h"
}

namespace vectorgpu::am
{

/// Takes rows in ascending order of row id. vector is null for NULL.
struct RowSink
{
	void (*put)(void *state, RowId row, const char *vector);
	void *state;
};

/// The rows of one heap block. A heap scan gives blocks in order, but within a block a row carries the TID of its HOT
/// chain's root, so that a block's rows are collected and sorted before they go on.
struct BlockRows
{
	const IndexShape *shape;
	const ValueFormat *values; // null: vectors
	MemoryContext scratch;     // of one stored value
	RowSink sink;
	BlockNumber block;
	int n_rows;
	Size n_bytes; // of the vectors or stored values held, one behind the other
	Size capacity;
	char *vectors; // [capacity], grows
	struct
	{
		RowId row;
		int64 offset; // -1 for NULL
	} rows[MaxHeapTuplesPerPage];
};

/// The shape must live as long.
void block_rows_init(BlockRows *rows, const IndexShape *shape, RowSink sink);
void block_rows_add(BlockRows *rows, ItemPointer tid, Datum value, bool is_null);

/// Hands the rows of the current block to the sink.
void block_rows_flush(BlockRows *rows);

/// Frees what block_rows_init and _add have allocated.
void block_rows_end(BlockRows *rows);

/// An IndexBuildCallback; state is a BlockRows.
void block_rows_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool is_alive, void *state);

/// A build under way, in the backend that writes.
struct BuildState
{
	const AccessMethod *am;
	Relation heap;
	Relation index;
	IndexInfo *info;
	IndexShape shape;
	MetaData *meta;
	SegmentPlan plan;
	SegmentWriter writer;
	uint64 n_tuples;         // written so far
	BlockNumber heap_blocks; // of the table, when the build began
};

/// The sink that writes; state is a BuildState.
void build_write_row(void *state, RowId row, const char *vector);

/// Scans the table with parallel workers and writes their rows. Returns false, having done nothing, when no worker is
/// planned or can be had. *heap_tuples: live rows seen.
bool parallel_build_scan(BuildState *state, double *heap_tuples);

/// Subphases of pg_stat_progress_create_index; 1 is core's "initializing".
enum BuildPhase
{
	kPhaseInitialize = 1,
	kPhaseWriteRows = 2,
	kPhaseFinish = 3,
	kPhaseOfAm = 4, // and what follows: AccessMethod::phase_name
};

} // namespace vectorgpu::am
