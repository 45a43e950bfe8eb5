// Writing streams and single pages, in bulk past the buffer cache or through it. PG dialect.
#pragma once

#include "pg/block_file.hpp"
#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// How pages are written.
enum class WriteMode : uint8
{
	kBulk, // a relation that no other session can see: past the buffer cache, logged in batches, fsynced by bulk_finish
	kBuffers,  // a live relation: through shared buffers, a full image of each page
	kReserved, // as kBulk, but into blocks that stream_reserve has made; several processes write at a time
};

constexpr uint32 kBulkBatchPages = 32; // log_newpages takes XLR_MAX_BLOCK_ID pages per record

/// Writes a stream's pages in order.
struct StreamWriter
{
	Relation index;
	WriteMode mode;
	bool logged;
	IndexUuid uuid;
	uint32 segment;
	StreamKind kind;
	BlockNumber start_block;
	BlockNumber next_block; // of the first page in the batch
	uint64 n_bytes;
	char *pages;        // the batch: kBulkBatchPages pages
	uint32 n_pages;     // full pages waiting in the batch
	Size page_fill;     // payload bytes in the page being filled
	uint32 position;    // of the page being filled, within the stream
	pg::BlockFile file; // kBulk and kReserved
};

/// Start a stream at start_block. kBulk: the file must end there. Allocates the batch in the current context.
void stream_write_begin(StreamWriter *writer, Relation index, WriteMode mode, const IndexUuid &uuid, uint32 segment,
	StreamKind kind, BlockNumber start_block);
void stream_write(StreamWriter *writer, const void *data, Size n_bytes);

/// Extend the file, so that it ends behind block `last`. Other blocks that this adds are zeros. One process at a time.
void stream_reserve(Relation index, BlockNumber last);

/// Write pages of a stream from page `position` on, in blocks that are reserved: stream_write, in all a multiple of a
/// page's payload but at the end of the stream, then stream_write_part_end. logged: whether the relation is; the
/// creating process decides.
void stream_write_part_begin(StreamWriter *writer, Relation index, bool logged, const IndexUuid &uuid, uint32 segment,
	StreamKind kind, BlockNumber start_block, uint32 position);
void stream_write_part_end(StreamWriter *writer);

/// Count pages that others have written as the stream's first ones. Nothing has been written yet.
void stream_write_skip(StreamWriter *writer, uint32 n_pages);
void stream_write_zeros(StreamWriter *writer, uint64 n_bytes);

/// Write what is left in the batch; *entry describes the finished stream.
void stream_write_end(StreamWriter *writer, StreamEntry *entry);

/// Write one page of the main fork through the buffer cache; the block must exist. Logged if the relation is.
void buffered_write_page(Relation index, BlockNumber block, Page page);

/// kBulk: append one page (the metapage) to the fork; logged if the fork is.
void bulk_write_page(Relation index, ForkNumber fork, BlockNumber block, Page page);

/// kBulk: fsync the pages that were written past the buffer cache.
void bulk_finish(Relation index, ForkNumber fork);

} // namespace vectorgpu::am
