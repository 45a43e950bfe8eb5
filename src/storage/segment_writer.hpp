// Writes the streams that all segments have (vectors, row ids, null row ids, tombstones) from rows in TID order. The
// codes of key columns lie behind the row ids and the null row ids.
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
	bool placed; // other processes write the vectors:
	bool shared; // ... to files of the format, not to kVectors
	StreamWriter vectors;
	BufFile *row_ids; // spooled, since streams are written one after the other
	BufFile *null_row_ids;
	BufFile *keys; // images of the rows' key columns (key_layout.hpp); null if the index has none
	BufFile *null_keys;
	RowId last_row;
	RowId last_null_row;
};

/// Return the number of blocks of a plain segment with the given numbers of rows.
uint64 segment_blocks(const MetaData *meta, uint64 n_rows, uint64 n_null_rows);

/// Begin a segment. A plain segment is written as its rows come: call segment_write_place before the first row. With a
/// format, call it after segment_write_prepare.
void segment_write_begin(SegmentWriter *writer, const SegmentFormat *format, const SegmentPlan *plan);

/// Set the segment's id and first block. start_block: kBulk: the current end of the file; kBuffers: an extent with as
/// many blocks as the segment needs.
void segment_write_place(SegmentWriter *writer, uint32 segment_id, BlockNumber start_block);

/// Add a row. vector is null for NULL. keys: the image of its key columns; null if the index has none. Rows must come
/// in ascending order of row id (checked).
void segment_write_row(SegmentWriter *writer, RowId row, const void *vector, const char *keys, const RowOrigin &origin);

/// Return the paths of files to which other processes shall write the vectors (SegmentFormat::share), or null.
const RowPaths *segment_write_share(SegmentWriter *writer, double n_rows);

/// Have other processes write the pages of kVectors, before the first row; segment_write_row then reads no vector. The
/// segment is placed, its format null or one that takes such vectors. After segment_write_share: they write these
/// files.
void segment_write_expect_placed(SegmentWriter *writer);

/// After the last row: they have written n_pages; the stream ends with these bytes. Of such files: 0 and none.
void segment_write_placed(SegmentWriter *writer, uint32 n_pages, const void *tail, Size tail_bytes);

/// Call after the last row. *n_blocks: total blocks of the segment. Returns false if the format gave way.
bool segment_write_prepare(SegmentWriter *writer, uint64 *n_blocks);

/// Release all resources without writing the segment.
void segment_write_abandon(SegmentWriter *writer);

/// Write the remaining streams. Return the block after the last one, or InvalidBlockNumber if the format gave way.
/// writer->entry is complete except for its level.
BlockNumber segment_write_end(SegmentWriter *writer);

} // namespace vectorgpu::am
