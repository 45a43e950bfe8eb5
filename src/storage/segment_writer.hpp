// Writes the streams that all segments have (vectors, row ids, null row ids, tombstones) from rows in TID order.
// Used by builds (WriteMode::kBulk) and merges (WriteMode::kBuffers). PG dialect.
#pragma once

#include "storage/segment_format.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

struct SegmentWriter
{
	Relation index;
	WriteMode mode;
	const MetaData *meta;        // element, dim, uuid
	const SegmentFormat *format; // null: plain
	void *format_state;
	MemoryContext format_context;
	BlockNumber start_block;
	SegmentEntry entry;
	StreamWriter vectors;
	BufFile *row_ids; // spooled, since streams lie one after the other
	BufFile *null_row_ids;
	RowId last_row;
	RowId last_null_row;
};

/// Blocks that a plain segment of so many rows takes in all.
uint64 segment_blocks(const MetaData *meta, uint64 n_rows, uint64 n_null_rows);

/// A plain segment is written as its rows come: call segment_write_place before the first one. With a format, the place
/// is needed after segment_write_prepare only.
void segment_write_begin(SegmentWriter *writer, const SegmentFormat *format, const SegmentPlan *plan);

/// start_block: kBulk: where the file ends now; kBuffers: an extent of as many blocks as the segment will take.
void segment_write_place(SegmentWriter *writer, uint32 segment_id, BlockNumber start_block);

/// vector is null for NULL. Rows come in ascending order of row id (checked).
void segment_write_row(SegmentWriter *writer, RowId row, const void *vector, const RowOrigin &origin);

/// All rows were handed over. *n_blocks: what the segment takes in all. False: the format gave way.
bool segment_write_prepare(SegmentWriter *writer, uint64 *n_blocks);

/// Closes what is open, without writing the segment.
void segment_write_abandon(SegmentWriter *writer);

/// Writes the remaining streams; returns the block behind the last one, or InvalidBlockNumber if the format gave way.
/// writer->entry is complete but for its level.
BlockNumber segment_write_end(SegmentWriter *writer);

} // namespace vectorgpu::am
