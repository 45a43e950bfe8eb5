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

/// How pages are written.
enum class WriteMode : uint8
{
	kBulk,    // a relation nobody else can see: past the buffer cache, logged in batches, fsynced by bulk_finish
	kBuffers, // a live relation: through shared buffers, a full image each
};

constexpr uint32 kBulkBatchPages = 32; // log_newpages takes XLR_MAX_BLOCK_ID pages a record

/// Writes a stream's pages in order.
struct StreamWriter
{
	Relation index;
	WriteMode mode;
	IndexUuid uuid;
	uint32 segment;
	StreamKind kind;
	BlockNumber start_block;
	BlockNumber next_block; // of the first page in the batch
	uint64 n_bytes;
	char *pages;     // the batch: kBulkBatchPages pages
	uint32 n_pages;  // whole pages waiting in the batch
	Size page_fill;  // payload bytes in the page being filled
	uint32 position; // of the page being filled, within the stream
};

void stream_write_begin(StreamWriter *writer, Relation index, WriteMode mode, const IndexUuid &uuid, uint32 segment,
	StreamKind kind, BlockNumber start_block);
void stream_write(StreamWriter *writer, const void *data, Size n_bytes);
void stream_write_zeros(StreamWriter *writer, uint64 n_bytes);

/// Flushes; *entry tells what was written.
void stream_write_end(StreamWriter *writer, StreamEntry *entry);

/// Writes one page of the main fork through the buffer cache; the block must exist. Logged if the relation is.
void buffered_write_page(Relation index, BlockNumber block, Page page);

/// kBulk: appends one page of its own (the metapage) to the fork; logged if the fork is.
void bulk_write_page(Relation index, ForkNumber fork, BlockNumber block, Page page);

/// kBulk: fsyncs what was written past the buffer cache.
void bulk_finish(Relation index, ForkNumber fork);

} // namespace vectorgpu::am
