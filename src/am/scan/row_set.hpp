// Rows that another index has found, as the passing set of a scan: single rows, and pages of the table that may hold
// others (lossy pages of a bitmap). PG dialect. Used by key_filter.cpp, and by who gives a scan such rows.
#pragma once

#include "storage/metapage.hpp"

extern "C"
{
#include "nodes/tidbitmap.h"
#include "storage/buf.h"
}

namespace vectorgpu::am
{

struct RowSet
{
	const RowId *rows; // [n_rows] ascending
	uint64 n_rows;
	const BlockNumber *blocks; // [n_blocks] ascending: every row on them counts as found
	uint64 n_blocks;
	bool exact; // no row found needs a check of the conditions
};

/// The rows of a bitmap, in the current memory context. Keeps within work_mem: rows beyond it count as pages.
RowSet row_set_of_bitmap(TIDBitmap *bitmap);

/// The rows of the set and n others, in the current memory context. others [n]: in any order, repeated or not; they are
/// sorted in place.
RowSet row_set_with(const RowSet *set, RowId *others, uint64 n);

bool row_set_is_empty(const RowSet *set);
bool row_set_has(const RowSet *set, RowId row);

/// Set the bits of those rows of `ids` (kRowIds or kNullRowIds) of the segment that the set has. bits: [n_rows], zero.
/// Holds no content lock when it returns. False if a page was foreign (see page_read).
bool row_set_mark(const RowSet *set, Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids,
	uint64 n_rows, uint8 *bits, BufferAccessStrategy strategy);

} // namespace vectorgpu::am
