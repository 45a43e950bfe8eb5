// Conditions on the key columns behind the first column, and the rows that another index has found: the rows of each
// segment that meet them, and the same for rows of the delta. PG dialect. Used by the files of this folder.
#pragma once

#include "am/keys/key_condition.hpp"
#include "am/scan/row_set.hpp"
#include "storage/metapage.hpp"

extern "C"
{
#include "storage/buf.h"
}

namespace vectorgpu::am
{

/// The live rows of a segment that meet the conditions, certainly or perhaps: bits as in tombstones (row i is bit i % 8
/// of byte i / 8).
struct PassingRows
{
	uint32 segment;   // its id
	uint8 *rows;      // [n_rows] bits
	uint64 n_rows;    // set in rows
	uint8 *null_rows; // [n_null_rows] bits of the rows whose first column is NULL
	uint64 n_null_rows;
};

struct KeyFilter
{
	KeyProgram conditions;
	const RowSet *rows;    // the only ones that the scan may return; null: all
	RowSet entries;        // with rows: the entries of these, which may be shared (am/alias)
	MemoryContext context; // of the bitmaps
	bool given_known;      // with rows: given_rows_fit
	uint8 *given;          // null: there are too many, or a merge has made a newer version
	Size n_given_bytes;
	uint32 n_segments; // known so far
	PassingRows segments[kMaxSegments];
	uint64 n_passing; // rows of the segments and of the delta that met them in the last pass
};

/// True if rows that pass need no check of their values.
bool key_filter_decides(const KeyFilter *filter);

/// Forget what is known of segments: the manifest was read again.
void key_filter_reset(KeyFilter *filter);

/// The rows of the segment. Null if a page was foreign (see page_read).
const PassingRows *key_filter_rows(KeyFilter *filter, Relation index, const MetaData *meta, const SegmentEntry *segment,
	BufferAccessStrategy strategy);

/// True if the row of the delta with this image meets the conditions, certainly or perhaps.
bool key_filter_passes(const KeyFilter *filter, const MetaData *meta, RowId row, const char *image);

/// Mark in headers [n] as dead (kDeltaDead) the rows of the delta that do not meet the conditions. bodies: as from
/// delta_read_bodies.
void key_filter_delta(
	KeyFilter *filter, const MetaData *meta, uint64 *headers, const char *bodies, Size stride, uint64 n);

/// The same of rows [first, first + n) of a delta of stored values, by the codes of each. Returns false if a page was
/// foreign.
bool key_filter_values(
	const KeyFilter *filter, Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers);

} // namespace vectorgpu::am
