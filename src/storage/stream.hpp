// Streams: typed arrays over contiguous blocks. Byte b is on block start + b / kPayloadBytes. PG dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// Reads a stream front to back in runs of whole items, without copying except for items that cross a page border.
/// Holds at most one pin and share lock, on the page of the current run, until the next call.
struct StreamCursor
{
	Relation index;
	IndexUuid uuid;
	uint32 segment;
	StreamKind kind;
	StreamEntry entry;
	Size item_bytes;
	BufferAccessStrategy strategy;
	uint64 next_byte; // of the next item
	Buffer buffer;    // locked, or InvalidBuffer
	uint32 page_position;
	char *scratch;        // one item, for those that cross a border
	bool foreign;         // met a recycled page: stop, read the manifest again
	ptrdiff_t page_ahead; // from a byte of the current page to the one to prefetch meanwhile, on the next page if it is
						  // known where that lies
	ptrdiff_t read_ahead; // the same for the current run; for an item in the scratch 0, there is nothing to do
};

/// Starts at item `first_item`. palloc's one item's scratch in the current context.
void stream_open(StreamCursor *cursor, Relation index, const MetaData *meta, const SegmentEntry *segment,
	StreamKind kind, Size item_bytes, uint64 first_item, BufferAccessStrategy strategy);

/// The next run: *items points to *n_items whole items, valid until the next call. False at the end (or
/// cursor->foreign).
bool stream_next_run(StreamCursor *cursor, const void **items, uint64 *n_items);

/// Lets go of the page until the next call of stream_next_run; the last run's items are no longer valid.
void stream_release(StreamCursor *cursor);

void stream_close(StreamCursor *cursor);

/// Copies n_bytes from byte `offset` on. Returns false if a page was foreign (see page_read).
bool stream_read(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, uint64 offset,
	Size n_bytes, void *dest, BufferAccessStrategy strategy);

/// Copies items [n] here and there to dest [n, item_bytes]; a page is locked once for items in a row that lie on it.
/// item_bytes divides kPayloadBytes. Returns false if a page was foreign.
bool stream_gather(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, Size item_bytes,
	const uint64 *items, uint64 n, void *dest, BufferAccessStrategy strategy);

} // namespace vectorgpu::am
