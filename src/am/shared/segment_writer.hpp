// Writes the streams that all segments have (vectors, row ids, null row ids, tombstones) from rows in TID order.
// Used by builds (WriteMode::kBulk) and merges (WriteMode::kBuffers). PG dialect.
#pragma once

#include "am/shared/stream.hpp"

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
	const MetaData *meta; // element, dim, uuid
	SegmentEntry entry;
	StreamWriter vectors;
	BufFile *row_ids; // spooled, since streams lie one after the other
	BufFile *null_row_ids;
	RowId last_row;
	RowId last_null_row;
};

/// Blocks that a segment of so many rows takes in all.
uint64 segment_blocks(const MetaData *meta, uint64 n_rows, uint64 n_null_rows);

/// start_block: kBulk: where the file ends now; kBuffers: an extent of segment_blocks() blocks.
void segment_write_begin(SegmentWriter *writer, Relation index, WriteMode mode, const MetaData *meta,
	uint32 segment_id, uint32 level, BlockNumber start_block);

/// vector is null for NULL. Rows come in ascending order of row id (checked).
void segment_write_row(SegmentWriter *writer, RowId row, const void *vector);

/// Writes the remaining streams; returns the block behind the last one. writer->entry is complete.
BlockNumber segment_write_end(SegmentWriter *writer);

} // namespace vectorgpu::am
