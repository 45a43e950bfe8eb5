// Reading streams: typed arrays over contiguous blocks. Byte b is on block start + b / kPayloadBytes. PG dialect.
#pragma once

#include "storage/metapage.hpp"
#include "storage/page_run.hpp"

namespace vectorgpu::am
{

/// Reads a stream front to back in runs of whole items. Copies only items that cross a page border. Holds at most one
/// pin and share lock, on the page of the current run, until the next call.
struct StreamCursor
{
	Relation index;
	IndexUuid uuid;
	uint32 segment;
	StreamKind kind;
	StreamEntry entry;
	Size item_bytes;
	PageRun pages;
	uint64 next_byte; // of the next item
	Buffer buffer;    // locked, or InvalidBuffer
	uint32 page_position;
	char *scratch;        // holds one item that crosses a page border
	bool foreign;         // a page was recycled: stop and read the manifest again
	ptrdiff_t page_ahead; // distance from a byte of the current page to the one to prefetch, on the next page if its
						  // address is known
	ptrdiff_t read_ahead; // the same for the current run; 0 for an item in the scratch, which needs no prefetch
};

/// Start at item `first_item`. Allocates the scratch of one item in the current context.
void stream_open(StreamCursor *cursor, Relation index, const MetaData *meta, const SegmentEntry *segment,
	StreamKind kind, Size item_bytes, uint64 first_item, BufferAccessStrategy strategy);

/// Read ahead to the end of the stream, for a caller that reads all of it. If it stops before the end, it closes the
/// cursor.
void stream_read_ahead(StreamCursor *cursor);

/// Get the next run: *items points to *n_items whole items, valid until the next call. Returns false at the end or if
/// cursor->foreign.
bool stream_next_run(StreamCursor *cursor, const void **items, uint64 *n_items);

/// Release the page until the next call of stream_next_run. The items of the last run become invalid.
void stream_release(StreamCursor *cursor);

void stream_close(StreamCursor *cursor);

/// Copy n_bytes from byte `offset` on. Returns false if a page was foreign (see page_read).
bool stream_read(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, uint64 offset,
	Size n_bytes, void *dest, BufferAccessStrategy strategy);

/// The same for a stream that this transaction has written past the buffer cache, of a relation that no other session
/// sees: reads the files. An error if a page is none of the stream.
void stream_read_written(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind,
	uint64 offset, Size n_bytes, void *dest);

/// Copy the n items with the given numbers to dest [n, item_bytes]. Consecutive items on one page lock it once.
/// item_bytes divides kPayloadBytes. Returns false if a page was foreign.
bool stream_gather(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, Size item_bytes,
	const uint64 *items, uint64 n, void *dest, BufferAccessStrategy strategy);

} // namespace vectorgpu::am
