// Reading the codes of a segment's key columns, which lie behind the row ids of its rows and of its NULL rows
// (key_layout.hpp). PG dialect.
#pragma once

#include "storage/stream.hpp"

namespace vectorgpu::am
{

/// Copy the images of rows [first, first + n) of `ids` (kRowIds or kNullRowIds) to images [n, key_image_bytes]. Returns
/// false if a page was foreign (see page_read).
bool key_read_images(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint64 first,
	uint64 n, char *images, BufferAccessStrategy strategy);

/// Copy the codes of one stream, of rows [first, first + n), to dest [n, width]. Returns false if a page was foreign.
bool key_read_codes(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint32 stream,
	uint64 first, uint64 n, void *dest, BufferAccessStrategy strategy);

/// Copy the NULL bits of a column, of rows [first, first + n), to dest [(n + 7) / 8]. first: a multiple of 8. Bits
/// behind the last row may be set. Returns false if a page was foreign.
bool key_read_nulls(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint32 column,
	uint64 first, uint64 n, void *dest, BufferAccessStrategy strategy);

/// Copy bytes [position, position + n_bytes) of the area of codes of a segment's rows. Returns false if a page was
/// foreign.
bool key_read_area(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, uint64 n_bytes,
	void *dest, BufferAccessStrategy strategy);

} // namespace vectorgpu::am
