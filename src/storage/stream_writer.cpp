// Writing streams: in bulk past the buffer cache (a relation that no other session can see), or through it. See
// stream_writer.hpp.
#include "storage/stream_writer.hpp"

#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/xloginsert.h"
#include "storage/smgr.h"
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

char *
batch_page(StreamWriter *writer, uint32 i)
{
	return writer->pages + static_cast<Size>(i) * BLCKSZ;
}

/// Log the batch, then write it to the file. kBulk: the file must end where the batch begins.
void
flush_bulk(StreamWriter *writer)
{
	Page pages[kBulkBatchPages];
	BlockNumber blocks[kBulkBatchPages];

	for (uint32 i = 0; i < writer->n_pages; i++)
	{
		pages[i] = batch_page(writer, i);
		blocks[i] = writer->next_block + i;
	}
	(void) VG_FAULT("bulk_write");
	if (writer->logged)
		log_newpages(&pg::file_of(writer->index), MAIN_FORKNUM, static_cast<int>(writer->n_pages), blocks, pages, true);
	for (uint32 i = 0; i < writer->n_pages; i++)
		PageSetChecksumInplace(pages[i], blocks[i]);
	if (writer->mode == WriteMode::kBulk)
		pg::block_file_append(&writer->file, writer->index, writer->next_block, writer->pages, writer->n_pages);
	else
		pg::block_file_write(&writer->file, writer->index, writer->next_block, writer->pages, writer->n_pages);
}

void
flush_buffers(StreamWriter *writer)
{
	(void) VG_FAULT("buffer_write");
	ensure_blocks(writer->index, writer->next_block + writer->n_pages);
	for (uint32 i = 0; i < writer->n_pages; i++)
		buffered_write_page(writer->index, writer->next_block + i, batch_page(writer, i));
}

void
flush(StreamWriter *writer)
{
	if (writer->n_pages == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	if (writer->mode == WriteMode::kBuffers)
		flush_buffers(writer);
	else
		flush_bulk(writer);
	writer->next_block += writer->n_pages;
	writer->n_pages = 0;
}

/// Return the payload of the page being filled; format the page first if it is new.
char *
open_page(StreamWriter *writer)
{
	Page page = batch_page(writer, writer->n_pages);

	if (writer->page_fill == 0)
		page_init(page, writer->uuid, PageRole::kStream, writer->kind, writer->segment, writer->position);
	return page_payload(page);
}

void
close_page(StreamWriter *writer)
{
	Page page = batch_page(writer, writer->n_pages);

	page_tag(page)->used = static_cast<uint32>(writer->page_fill);
	page_seal(page);
	writer->page_fill = 0;
	writer->position++;
	writer->n_pages++;
	if (writer->n_pages == kBulkBatchPages)
		flush(writer);
}

void
end_batch(StreamWriter *writer)
{
	pg::block_file_close(&writer->file);
	pfree(writer->pages);
	writer->pages = nullptr;
}

} // namespace

void
stream_write_begin(StreamWriter *writer, Relation index, WriteMode mode, const IndexUuid &uuid, uint32 segment,
	StreamKind kind, BlockNumber start_block)
{
	memset(writer, 0, sizeof(*writer));
	writer->index = index;
	writer->mode = mode;
	writer->logged = RelationNeedsWAL(index);
	writer->uuid = uuid;
	writer->segment = segment;
	writer->kind = kind;
	writer->start_block = start_block;
	writer->next_block = start_block;
	writer->pages = pg::palloc_pages(kBulkBatchPages, false);
}

void
stream_write(StreamWriter *writer, const void *data, Size n_bytes)
{
	const char *in = static_cast<const char *>(data);

	writer->n_bytes += n_bytes;
	while (n_bytes > 0)
	{
		const Size part = Min(n_bytes, kPayloadBytes - writer->page_fill);

		memcpy(open_page(writer) + writer->page_fill, in, part);
		writer->page_fill += part;
		in += part;
		n_bytes -= part;
		if (writer->page_fill == kPayloadBytes)
			close_page(writer);
	}
}

void
stream_write_zeros(StreamWriter *writer, uint64 n_bytes)
{
	writer->n_bytes += n_bytes;
	while (n_bytes > 0)
	{
		const Size part = Min(n_bytes, kPayloadBytes - writer->page_fill);

		(void) open_page(writer); // formatted pages are zero
		writer->page_fill += part;
		n_bytes -= part;
		if (writer->page_fill == kPayloadBytes)
			close_page(writer);
	}
}

void
stream_write_end(StreamWriter *writer, StreamEntry *entry)
{
	if (writer->page_fill > 0)
		close_page(writer);
	flush(writer);
	end_batch(writer);
	entry->start_block = writer->start_block;
	entry->reserved = 0;
	entry->n_bytes = writer->n_bytes;
}

void
stream_reserve(Relation index, BlockNumber last)
{
	const Page page = pg::palloc_pages(1, true);

	smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, last, page, true);
	pfree(page);
}

void
stream_write_part_begin(StreamWriter *writer, Relation index, bool logged, const IndexUuid &uuid, uint32 segment,
	StreamKind kind, BlockNumber start_block, uint32 position)
{
	stream_write_begin(writer, index, WriteMode::kReserved, uuid, segment, kind, start_block);
	writer->logged = logged;
	writer->next_block = start_block + position;
	writer->position = position;
}

void
stream_write_part_end(StreamWriter *writer)
{
	if (writer->page_fill > 0)
		close_page(writer);
	flush(writer);
	end_batch(writer);
}

void
stream_write_skip(StreamWriter *writer, uint32 n_pages)
{
	Assert(writer->n_bytes == 0);
	writer->next_block += n_pages;
	writer->position += n_pages;
	writer->n_bytes = n_pages * kPayloadBytes;
}

void
buffered_write_page(Relation index, BlockNumber block, Page page)
{
	Buffer buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, nullptr);

	START_CRIT_SECTION();
	memcpy(BufferGetPage(buffer), page, BLCKSZ);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(index))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

void
bulk_write_page(Relation index, ForkNumber fork, BlockNumber block, Page page)
{
	(void) VG_FAULT("bulk_write_page");
	// The init fork of an unlogged index is logged although the index is not: a crash restores the index from it.
	if (RelationNeedsWAL(index) || fork == INIT_FORKNUM)
		log_newpage(&pg::file_of(index), fork, block, page, true);
	PageSetChecksumInplace(page, block);
	smgrextend(RelationGetSmgr(index), fork, block, page, true);
}

void
bulk_finish(Relation index, ForkNumber fork)
{
	(void) VG_FAULT("bulk_sync");
	if (!RelationUsesLocalBuffers(index))
		smgrimmedsync(RelationGetSmgr(index), fork);
}

} // namespace vectorgpu::am
