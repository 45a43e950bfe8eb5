// Live rows of segments and of the delta in one ascending order of row id: what a merge writes and what the check
// compares. Holds no pin and no lock between calls. PG dialect.
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
	uint64 n_rows;  // of the sequence, dead ones included; unused for the delta
	uint64 next;    // first row behind the batch
	uint32 n_batch; // rows in the batch
	uint32 at;      // the current row, within the batch
	RowId *rows;
	uint64 *numbers; // delta: number of the row
	bool *is_null;   // delta
	uint8 *dead;     // segments: tombstones of the batch
	char *vectors;   // null if not wanted
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
	ValueBuffer value; // stored values: of the current row
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
	const RowSource *source;
};

/// Of a source's current row; NULL rows are numbered apart.
inline RowOrigin
row_origin(const RowSource *source)
{
	return {source->segment, source->segment != nullptr ? source->next - source->n_batch + source->at : 0};
}

/// segments: indexes into meta->segments. delta: of sort_delta, may be null; stays the caller's.
void row_merge_begin(RowMerge *merge, Relation index, const MetaData *meta, const uint32 *segments, uint32 n_segments,
	Tuplesortstate *delta, bool with_vectors, BufferAccessStrategy strategy);

/// The next row; false at the end. A row id that comes twice raises ERRCODE_INDEX_CORRUPTED.
bool row_merge_next(RowMerge *merge, MergedRow *row);

void row_merge_end(RowMerge *merge);

} // namespace vectorgpu::am
