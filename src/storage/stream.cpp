// Reading streams: cursor over runs of items, random access. See stream.hpp.
#include "storage/stream.hpp"

#include "engine/distance/distance.hpp"
#include "pg/block_file.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "storage/smgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr ptrdiff_t kTurnBytes = 1024; // bytes of the next page to prefetch when the cursor turns a page

PageExpectation
expect_page(const IndexUuid &uuid, uint32 segment, StreamKind kind, uint32 position)
{
	return {uuid, PageRole::kStream, kind, segment, position};
}

ChecksumPolicy
policy_of(StreamKind kind)
{
	return kind == StreamKind::kTombstones ? ChecksumPolicy::kAlways : ChecksumPolicy::kFirstRead;
}

/// Return the probable address in memory of page `position` of the stream, or null.
const char *
cursor_whereabouts(const StreamCursor *cursor, uint32 position)
{
	if (position * static_cast<uint64>(kPayloadBytes) >= cursor->entry.n_bytes)
		return nullptr;
	return page_whereabouts(cursor->index, cursor->uuid, cursor->entry.start_block + position);
}

/// memcpy that prefetches ahead as the engine's kernels do.
void
copy_reading_ahead(char *dest, const char *source, Size n_bytes, ptrdiff_t read_ahead)
{
	for (Size line = 0; line < n_bytes; line += 64)
		__builtin_prefetch(source + read_ahead + line);
	memcpy(dest, source, n_bytes);
}

/// Lock page `position` of the stream; returns false if it was foreign. The next page is prefetched meanwhile: its
/// first bytes here, so that memory is busy while pages are unpinned and pinned, the others by the code that works on
/// this page, which uses page_ahead. That prefetch reaches into a third page if it directly follows the next one in
/// memory.
bool
cursor_turn_to(StreamCursor *cursor, uint32 position)
{
	const BlockNumber block = cursor->entry.start_block + position;
	const char *next;
	const char *third;

	if (BufferIsValid(cursor->buffer) && cursor->page_position == position)
		return true;
	next = cursor_whereabouts(cursor, position + 1);
	third = next != nullptr ? cursor_whereabouts(cursor, position + 2) : nullptr;
	for (Size line = 0; next != nullptr && line < kTurnBytes; line += 64)
		__builtin_prefetch(next + line);

	if (BufferIsValid(cursor->buffer))
		UnlockReleaseBuffer(cursor->buffer);
	cursor->buffer = InvalidBuffer;
	cursor->buffer =
		page_run_read(&cursor->pages, block, expect_page(cursor->uuid, cursor->segment, cursor->kind, position),
			BUFFER_LOCK_SHARE, policy_of(cursor->kind), &cursor->foreign);
	cursor->page_position = position;
	if (!BufferIsValid(cursor->buffer))
	{
		page_run_end(&cursor->pages);
		return false;
	}
	cursor->page_ahead = engine::kReadAheadBytes;
	if (next != nullptr)
		cursor->page_ahead = next - BufferGetPage(cursor->buffer) + (third == next + BLCKSZ ? kTurnBytes : 0);
	return true;
}

} // namespace

void
stream_open(StreamCursor *cursor, Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind,
	Size item_bytes, uint64 first_item, BufferAccessStrategy strategy)
{
	cursor->index = index;
	cursor->uuid = meta->uuid;
	cursor->segment = segment->id;
	cursor->kind = kind;
	cursor->entry = segment->streams[static_cast<int>(kind)];
	cursor->item_bytes = item_bytes;
	page_run_begin(&cursor->pages, index, 0, strategy);
	cursor->next_byte = first_item * item_bytes;
	cursor->buffer = InvalidBuffer;
	cursor->page_position = 0;
	cursor->page_ahead = cursor->read_ahead = engine::kReadAheadBytes;
	cursor->scratch = static_cast<char *>(palloc(item_bytes));
	cursor->foreign = false;
}

void
stream_read_ahead(StreamCursor *cursor)
{
	cursor->pages.end = cursor->entry.start_block + static_cast<BlockNumber>(stream_blocks(cursor->entry.n_bytes));
}

bool
stream_next_run(StreamCursor *cursor, const void **items, uint64 *n_items)
{
	uint32 position;
	Size offset;
	Size on_page;

	if (cursor->next_byte + cursor->item_bytes > cursor->entry.n_bytes)
	{
		stream_close(cursor);
		return false;
	}
	position = static_cast<uint32>(cursor->next_byte / kPayloadBytes);
	offset = cursor->next_byte % kPayloadBytes;
	if (!cursor_turn_to(cursor, position))
		return false;

	on_page = Min(kPayloadBytes, cursor->entry.n_bytes - static_cast<uint64>(position) * kPayloadBytes) - offset;
	if (on_page >= cursor->item_bytes)
	{
		*items = page_payload(BufferGetPage(cursor->buffer)) + offset;
		*n_items = on_page / cursor->item_bytes;
		cursor->next_byte += *n_items * cursor->item_bytes;
		cursor->read_ahead = cursor->page_ahead;
		return true;
	}

	// The next item crosses into the next page or pages: assemble it in the scratch.
	for (Size have = 0; have < cursor->item_bytes; position++, offset = 0)
	{
		const Size part = Min(cursor->item_bytes - have, kPayloadBytes - offset);

		if (!cursor_turn_to(cursor, position))
			return false;
		copy_reading_ahead(
			cursor->scratch + have, page_payload(BufferGetPage(cursor->buffer)) + offset, part, cursor->page_ahead);
		have += part;
	}
	*items = cursor->scratch;
	*n_items = 1;
	cursor->read_ahead = 0;
	cursor->next_byte += cursor->item_bytes;
	return true;
}

void
stream_release(StreamCursor *cursor)
{
	if (BufferIsValid(cursor->buffer))
		UnlockReleaseBuffer(cursor->buffer);
	cursor->buffer = InvalidBuffer;
}

void
stream_close(StreamCursor *cursor)
{
	stream_release(cursor);
	page_run_end(&cursor->pages);
	if (cursor->scratch != nullptr)
		pfree(cursor->scratch);
	cursor->scratch = nullptr;
}

bool
stream_read(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, uint64 offset,
	Size n_bytes, void *dest, BufferAccessStrategy strategy)
{
	const StreamEntry *entry = &segment->streams[static_cast<int>(kind)];
	char *out = static_cast<char *>(dest);
	bool foreign = false;
	PageRun pages;

	Assert(offset + n_bytes <= entry->n_bytes);
	page_run_begin(&pages, index,
		entry->start_block + static_cast<BlockNumber>((offset + n_bytes + kPayloadBytes - 1) / kPayloadBytes),
		strategy);
	while (n_bytes > 0)
	{
		const uint32 position = static_cast<uint32>(offset / kPayloadBytes);
		const Size start = offset % kPayloadBytes;
		const Size part = Min(n_bytes, kPayloadBytes - start);
		Buffer buffer = page_run_read(&pages, entry->start_block + position,
			expect_page(meta->uuid, segment->id, kind, position), BUFFER_LOCK_SHARE, policy_of(kind), &foreign);

		if (foreign)
			break;
		memcpy(out, page_payload(BufferGetPage(buffer)) + start, part);
		UnlockReleaseBuffer(buffer);
		out += part;
		offset += part;
		n_bytes -= part;
	}
	page_run_end(&pages);
	return !foreign;
}

void
stream_read_written(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, uint64 offset,
	Size n_bytes, void *dest)
{
	constexpr Size kPagesPerCall = pg::kWrittenBytes / BLCKSZ;
	const StreamEntry *entry = &segment->streams[static_cast<int>(kind)];
	char *out = static_cast<char *>(dest);
	char *pages = static_cast<char *>(pg::palloc_pages(kPagesPerCall, false));
	pg::BlockFile file = {};

	Assert(offset + n_bytes <= entry->n_bytes);
	while (n_bytes > 0)
	{
		const uint32 first = static_cast<uint32>(offset / kPayloadBytes);
		const Size in_pages = (offset % kPayloadBytes + n_bytes + kPayloadBytes - 1) / kPayloadBytes;
		const uint32 n_pages = static_cast<uint32>(Min(in_pages, kPagesPerCall));

		CHECK_FOR_INTERRUPTS();
		pg::block_file_read(&file, index, entry->start_block + first, pages, n_pages);
		for (uint32 i = 0; i < n_pages; i++)
		{
			const Page page = pages + static_cast<Size>(i) * BLCKSZ;
			const Size start = offset % kPayloadBytes;
			const Size part = Min(n_bytes, kPayloadBytes - start);
			const PageTag *tag = page_tag(page);

			if (!uuid_equal(tag->uuid, meta->uuid) || tag->stream != kind || tag->owner != segment->id ||
				tag->position != first + i)
				page_corrupted(
					index, entry->start_block + first + i, "The page is not the one that the build has written.");
			memcpy(out, page_payload(page) + start, part);
			out += part;
			offset += part;
			n_bytes -= part;
		}
	}
	pg::block_file_close(&file);
	pfree(pages);
}

bool
stream_gather(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, Size item_bytes,
	const uint64 *items, uint64 n, void *dest, BufferAccessStrategy strategy)
{
	const StreamEntry *entry = &segment->streams[static_cast<int>(kind)];
	char *out = static_cast<char *>(dest);
	Buffer buffer = InvalidBuffer;
	uint32 locked = 0;

	Assert(kPayloadBytes % item_bytes == 0);
	for (uint64 i = 0; i < n; i++)
	{
		const uint64 byte = items[i] * item_bytes;
		const uint32 position = static_cast<uint32>(byte / kPayloadBytes);

		Assert(byte + item_bytes <= entry->n_bytes);
		if (!BufferIsValid(buffer) || locked != position)
		{
			bool foreign = false;

			if (BufferIsValid(buffer))
				UnlockReleaseBuffer(buffer);
			buffer =
				page_read(index, entry->start_block + position, expect_page(meta->uuid, segment->id, kind, position),
					BUFFER_LOCK_SHARE, policy_of(kind), strategy, &foreign);
			if (foreign)
				return false;
			locked = position;
		}
		memcpy(out + i * item_bytes, page_payload(BufferGetPage(buffer)) + byte % kPayloadBytes, item_bytes);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	return true;
}

} // namespace vectorgpu::am
