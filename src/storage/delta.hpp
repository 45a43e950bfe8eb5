// The delta: rows inserted since the last merge, in order of arrival, stored in chunks of blocks. PG dialect.
// A delta row is a uint64 header (row id in bits 0-47, flags above) followed by the vector and the codes of the row's
// key columns (key_layout.hpp), padded to 8 bytes. Rows may cross pages. They are numbered from the index's build on
// and never renumbered. A row is visible once the page on which it starts counts it (PageTag::used); the other pages of
// the row are written and logged earlier.
//
// A stored value (value_format.hpp) has no fixed size. It is cut into pieces of dim bytes, each stored in a delta row
// of its own; such rows are called slots. They fill pages without crossing page borders. The header of the first slot
// holds row id and flags; the header of each later slot says how far back the first one is. A value is visible when its
// last slot is visible, so a delta end never lies within a value. If an insert dies in the middle of a value, the next
// insert marks the part dead (delta_append_value.cpp). The codes of the row's key columns follow the value's last byte,
// and begin the first slot of NULL; the value's length does not count them.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

constexpr uint64 kDeltaRowIdMask = (UINT64CONST(1) << 48) - 1;
constexpr uint64 kDeltaNull = UINT64CONST(1) << 48; // the value is NULL
constexpr uint64 kDeltaDead = UINT64CONST(1) << 49; // tombstone, set by vacuum
constexpr uint64 kDeltaContinued = UINT64CONST(1)
	<< 50;                                          // a later slot; bits 0-47: how many slots back the first one is
constexpr uint64 kDeltaPart = UINT64CONST(1) << 51; // a dead part of a row with key columns: no codes follow its length

/// True if the header is that of a row's first or only slot.
inline bool
delta_starts_row(uint64 header)
{
	return (header & kDeltaContinued) == 0;
}

/// Bytes of a delta row behind its header: the vector, or its place if it is NULL, and the codes. Of a slot: its piece.
inline Size
delta_body_bytes(const MetaData *meta)
{
	return meta_vector_bytes(meta) + (meta->element == ElementType::kSet ? 0 : meta_key_bytes(meta));
}

/// Bytes of one delta row.
inline Size
delta_row_bytes(const MetaData *meta)
{
	return 8 + MAXALIGN(delta_body_bytes(meta));
}

/// Return how many rows fit into a chunk.
uint64 chunk_capacity(const MetaData *meta, const DeltaChunk *chunk);

/// Return the number of the first row that does not exist yet (the delta end). Reads a few pages. If one of them is
/// foreign (see page_read), sets *foreign, or raises 40001 if foreign is null.
uint64 delta_end(Relation index, const MetaData *meta, bool *foreign);

/// Return the number of the first slot that is not visible. It differs from delta_end where a stored value is
/// incomplete. *foreign as for delta_end.
uint64 delta_visible_end(Relation index, const MetaData *meta, bool *foreign);

/// Copy rows [first, first + n), all of which must exist (< delta_end): headers [n], and vectors [n] at intervals of
/// `vector_stride` bytes unless vectors is null. Returns false if a page was foreign.
bool delta_read(
	Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers, void *vectors, Size vector_stride);

/// Copy rows as delta_read does, with the codes of their key columns: bodies [n] of delta_body_bytes at intervals of
/// `stride` bytes. Not of stored values (delta_read_keys).
bool delta_read_bodies(
	Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers, void *bodies, Size stride);

/// Set kDeltaDead on the given rows (ascending numbers) in place, with one GenericXLog record per page.
void delta_mark_dead(Relation index, const MetaData *meta, const uint64 *rows, uint64 n);

} // namespace vectorgpu::am
