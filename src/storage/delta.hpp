// The delta: rows inserted since the last merge, in order of arrival, in chunks of blocks. PG dialect.
// A delta row is a uint64 header (row id in bits 0-47, flags above) and the vector, padded to 8 bytes; rows may cross
// pages. Rows are numbered from the index's build on and never renumbered. A row is visible once the page that it
// starts on counts it (PageTag::used); its other pages are written and logged before.
//
// A stored value (value_format.hpp) has no fixed size: it is cut into pieces of dim bytes that take as many rows of the
// delta as it needs, one behind the other. Such rows are called slots; they fill pages without crossing their borders.
// The header of the first slot has row id and flags, those of the others say how far back the first one is. The value
// is there when its last slot is visible: a delta end lies behind a whole value, always. What an insert that died left
// of a value, the next one marks dead.
#pragma once

#include "storage/value_format.hpp"

namespace vectorgpu::am
{

constexpr uint64 kDeltaRowIdMask = (UINT64CONST(1) << 48) - 1;
constexpr uint64 kDeltaNull = UINT64CONST(1) << 48; // the value is NULL
constexpr uint64 kDeltaDead = UINT64CONST(1) << 49; // tombstone, set by vacuum
constexpr uint64 kDeltaContinued = UINT64CONST(1)
	<< 50; // a further slot; bits 0-47: how many slots back the first one is

/// True if the header is that of a row's first slot, or of a row that has only one.
inline bool
delta_starts_row(uint64 header)
{
	return (header & kDeltaContinued) == 0;
}

/// Slots of a stored value, or of NULL: null.
uint64 delta_slots(const MetaData *meta, const char *value);

/// Bytes of one delta row.
inline Size
delta_row_bytes(const MetaData *meta)
{
	return 8 + MAXALIGN(meta_vector_bytes(meta));
}

/// Rows that a chunk has room for.
uint64 chunk_capacity(const MetaData *meta, const DeltaChunk *chunk);

/// Appends a row. vector is null for NULL. Touches the delta's tail page (and the pages that the row crosses into)
/// only, but for a new chunk now and then. heap is needed for the horizon of recycled extents.
void delta_append(Relation index, Relation heap, RowId row, const void *vector);

/// The number of the first row that does not exist yet (delta end). Reads a few tags. Sets *foreign like page_read, or
/// raises 40001 if that is null.
uint64 delta_end(Relation index, const MetaData *meta, bool *foreign);

/// Copies rows [first, first + n) (all must exist: < delta_end): headers [n], vectors [n] `vector_stride` bytes apart;
/// vectors may be null. Returns false if a page was foreign.
bool delta_read(
	Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers, void *vectors, Size vector_stride);

/// Rows before `end`, those with several slots once.
uint64 delta_count_rows(Relation index, const MetaData *meta, uint64 end);

/// The stored value whose first slot is `first`, into dest (grown as needed). False if a page was foreign.
bool delta_read_value(Relation index, const MetaData *meta, uint64 first, ValueBuffer *dest);

/// The end of the last whole row before `visible_end`, up to which slots are visible. Sets *foreign like page_read.
uint64 delta_whole_end(Relation index, const MetaData *meta, uint64 visible_end, bool *foreign);

/// Sets kDeltaDead on the given rows (numbers ascending), in place, one GenericXLog record a page.
void delta_mark_dead(Relation index, const MetaData *meta, const uint64 *rows, uint64 n);

} // namespace vectorgpu::am
