// Live rows of segments and of the delta in one ascending order of row id, for merges and the check. Holds no pin and
// no lock between calls. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"
#include "am/maintain/row_count.hpp"

namespace vectorgpu::am
{

/// One ascending sequence: the rows or the NULL rows of a segment, or the delta.
struct RowSource
{
	const SegmentEntry *segment; // null: the delta
	bool null_rows;
	uint64 n_rows;  // of the sequence, including dead ones; unused for the delta
	uint64 next;    // first row after the batch
	uint32 n_batch; // rows in the batch
	uint32 at;      // index of the current row in the batch
	RowId *rows;
	uint64 *numbers; // delta: numbers of the rows
	bool *is_null;   // delta
	uint8 *dead;     // segments: tombstones of the batch
	char *vectors;   // null if vectors are not wanted
	char *keys;      // images of key columns; null if there are none, or vectors are not wanted
	char *bodies;    // delta: scratch for rows with key columns
	bool finished;
};

constexpr uint32 kMaxRowSources = 2 * kMaxSegments + 1;

struct RowMerge
{
	Relation index;
	const MetaData *meta;
	const SegmentFormat *format;
	const ValueFormat *values; // null: vectors
	bool with_vectors;
	ValueBuffer value; // stored values: that of the current row
	BufferAccessStrategy strategy;
	Tuplesortstate *delta;
	MemoryContext context;
	uint32 batch_rows;
	uint32 n_sources;
	RowSource sources[kMaxRowSources];
	RowId last; // 0: none yet
};

struct MergedRow
{
	RowId row;
	bool is_null;
	const void *vector; // valid until the next call; null for NULL, or if vectors are not wanted
	const char *keys; // the image of its key columns, valid as long; null if there are none, or vectors are not wanted
	const RowSource *source;
};

/// Return the origin of a source's current row; NULL rows are numbered separately.
inline RowOrigin
row_origin(const RowSource *source)
{
	return {source->segment, source->segment != nullptr ? source->next - source->n_batch + source->at : 0};
}

/// Begin. segments: indexes into meta->segments. delta: from sort_delta, may be null; the caller frees it.
void row_merge_begin(RowMerge *merge, Relation index, const MetaData *meta, const uint32 *segments, uint32 n_segments,
	Tuplesortstate *delta, bool with_vectors, BufferAccessStrategy strategy);

/// Get the next row; returns false at the end. Raises ERRCODE_INDEX_CORRUPTED if a row id occurs twice.
bool row_merge_next(RowMerge *merge, MergedRow *row);

void row_merge_end(RowMerge *merge);

} // namespace vectorgpu::am
