// Appending a stored value to the delta. See delta.hpp for the layout.
//
// A value that fits on the tail page and up to three pages after it takes one record, so no part of it is ever visible.
// A longer value, or one that continues in another chunk, takes several records and is written under LockPage(index,
// 1). An inserter that finds part of a value at the end of the delta waits for that lock. If the value is still
// incomplete then, its writer has died, and the inserter marks the part dead. Lock order: page 1, page 0 (a new chunk),
// buffers. As in delta_append, the tail page is locked while a record of it is made.
#include "storage/delta_append_value.hpp"

#include "storage/delta_append.hpp"
#include "storage/delta_chunk.hpp"
#include "storage/delta_map.hpp"
#include "storage/delta_value.hpp"
#include "pg/fault.hpp"
#include "pg/generic_record.hpp"

extern "C"
{
#include "access/generic_xlog.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr BlockNumber kTailLock = 1; // LockPage(index, kTailLock): held to write a value in several records

struct ValueInsert
{
	Relation index;
	Relation heap;
	MetaData meta;
	RowId row;
	const char *value; // null: NULL
	Size value_bytes;
	const char *keys; // the image of its key columns
	Size key_bytes;
	uint64 n_slots;
	uint64 done;    // slots that are visible
	uint64 number;  // number of the next slot
	uint64 checked; // if the delta ends here, its last row is known to be complete
	bool locked;    // kTailLock
};

/// Form slot i of the row (delta_row_bytes).
void
form_slot(const ValueInsert *insert, uint64 i, char *dest)
{
	const Size piece = meta_vector_bytes(&insert->meta);
	uint64 header = i > 0 ? kDeltaContinued | i : insert->row | (insert->value == nullptr ? kDeltaNull : 0);

	memset(dest, 0, delta_row_bytes(&insert->meta));
	memcpy(dest, &header, sizeof(header));
	delta_copy_part(insert->value, 0, insert->value_bytes, i * piece, piece, dest + sizeof(header));
	delta_copy_part(insert->keys, insert->value_bytes, insert->key_bytes, i * piece, piece, dest + sizeof(header));
}

/// Return the number of slots on page `position` from slot `number` on, which lies on that page.
uint64
room_on_page(const ValueInsert *insert, const DeltaChunk *chunk, uint32 position, uint64 number)
{
	return delta_first_start(&insert->meta, chunk, position + 1) - number;
}

/// Write n slots of the value, from first_slot on, at `offset` of a page's payload. Call in a critical section.
pg::ChangedPage
put_slots(const ValueInsert *insert, Buffer buffer, Size offset, uint64 first_slot, uint64 n)
{
	constexpr Size header_start = offsetof(PageHeaderData, pd_lower);
	constexpr Size header_end = kTagOffset + offsetof(PageTag, used) + sizeof(PageTag::used);
	const Size slot_bytes = delta_row_bytes(&insert->meta);
	const Size start = kPayloadOffset + offset;
	Page page = BufferGetPage(buffer);

	for (uint64 i = 0; i < n; i++)
		form_slot(insert, first_slot + i, page + start + i * slot_bytes);
	reinterpret_cast<PageHeader>(page)->pd_lower = static_cast<LocationIndex>(start + n * slot_bytes);
	page_tag(page)->used += static_cast<uint32>(n);
	page_seal(page);
	MarkBufferDirty(buffer);
	return {buffer, 2,
		{{static_cast<OffsetNumber>(header_start), static_cast<OffsetNumber>(header_end - header_start)},
			{static_cast<OffsetNumber>(start), static_cast<OffsetNumber>(n * slot_bytes)}}};
}

/// Write one record: as many of the remaining slots as fit on the tail page (`tail`, locked) and the pages after it.
void
write_slots(ValueInsert *insert, const DeltaChunk *chunk, uint32 position, Buffer tail)
{
	Buffer buffers[MAX_GENERIC_XLOG_PAGES] = {tail};
	pg::ChangedPage changes[MAX_GENERIC_XLOG_PAGES];
	uint64 counts[MAX_GENERIC_XLOG_PAGES];
	uint64 left = insert->n_slots - insert->done;
	uint64 number = insert->number;
	int n_pages = 0;

	while (left > 0 && n_pages < MAX_GENERIC_XLOG_PAGES && position + n_pages < chunk->n_blocks)
	{
		const uint32 at = position + static_cast<uint32>(n_pages);
		const uint64 room = room_on_page(insert, chunk, at, number);

		if (n_pages > 0)
		{
			buffers[n_pages] = page_read(insert->index, chunk->start_block + at, delta_expect(&insert->meta, chunk, at),
				BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr, nullptr);
			if (page_tag(BufferGetPage(buffers[n_pages]))->used != 0)
				page_corrupted(insert->index, chunk->start_block + at, "The page has rows after the end of the delta.");
		}
		counts[n_pages] = Min(room, left);
		left -= counts[n_pages];
		number += counts[n_pages];
		n_pages++;
	}
	(void) VG_FAULT("delta_publish_value");
	START_CRIT_SECTION();
	for (int i = 0; i < n_pages; i++)
	{
		const DeltaPlace place = delta_place(&insert->meta, chunk, insert->number);

		changes[i] = put_slots(insert, buffers[i], place.offset, insert->done, counts[i]);
		insert->number += counts[i];
		insert->done += counts[i];
	}
	if (RelationNeedsWAL(insert->index))
		pg::log_changed_pages(changes, n_pages);
	END_CRIT_SECTION();
	for (int i = 0; i < n_pages; i++)
		page_note_sealed(insert->index, insert->meta.uuid, buffers[i]);
	for (int i = 1; i < n_pages; i++)
		UnlockReleaseBuffer(buffers[i]);
	set_list_end_hint(insert->index, insert->meta.uuid, PageRole::kDelta, insert->number);
}

/// True if the remaining slots fit into one record that begins at insert->number.
bool
fits_one_record(const ValueInsert *insert, const DeltaChunk *chunk, uint32 position)
{
	const uint32 last = Min(position + MAX_GENERIC_XLOG_PAGES, chunk->n_blocks);

	return insert->number + (insert->n_slots - insert->done) <= delta_first_start(&insert->meta, chunk, last);
}

/// Mark the part of a value that begins at `first` dead, and set its length to that of the part.
void
close_part(ValueInsert *insert, uint64 first)
{
	const DeltaChunk *chunk = delta_find_chunk(&insert->meta, first);
	const uint32 length =
		static_cast<uint32>((insert->number - first) * meta_vector_bytes(&insert->meta) - sizeof(uint32));
	DeltaPlace place;
	GenericXLogState *xlog;
	uint64 header;
	Buffer buffer;
	Page page;
	char *slot;

	if (chunk == nullptr)
		page_corrupted(insert->index, 0, "The chunks of the delta have gaps.");
	place = delta_place(&insert->meta, chunk, first);
	buffer = page_read(insert->index, chunk->start_block + place.position,
		delta_expect(&insert->meta, chunk, place.position), BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr,
		nullptr);
	(void) VG_FAULT("delta_close_part");
	xlog = GenericXLogStart(insert->index);
	page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	slot = page_payload(page) + place.offset;
	memcpy(&header, slot, sizeof(header));
	header |= kDeltaDead;
	// The part of NULL has no length yet, and with key columns its codes may be missing.
	if (meta_key_bytes(&insert->meta) > 0)
		header = (header & ~kDeltaNull) | kDeltaPart;
	memcpy(slot, &header, sizeof(header));
	memcpy(slot + sizeof(header), &length, sizeof(length));
	page_seal(page);
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/// Return the end of the visible rows on the page of slot insert->number: that number, unless another inserter has
/// added rows.
uint64
end_on_page(ValueInsert *insert, const DeltaChunk *chunk, bool *foreign)
{
	const DeltaPlace place = delta_place(&insert->meta, chunk, insert->number);
	Buffer buffer = page_read(insert->index, chunk->start_block + place.position,
		delta_expect(&insert->meta, chunk, place.position), BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, nullptr,
		foreign);
	uint64 end;

	if (*foreign)
		return insert->number;
	end = delta_first_start(&insert->meta, chunk, place.position) + page_tag(BufferGetPage(buffer))->used;
	UnlockReleaseBuffer(buffer);
	return end;
}

/// Make sure that the delta ends with a complete row at insert->number; wait for an inserter that is writing one.
/// Returns false if the caller must look again.
bool
ends_whole(ValueInsert *insert, const DeltaChunk *chunk, bool *foreign)
{
	uint64 whole;
	uint64 end;

	if (insert->done > 0 || insert->checked == insert->number)
		return true;
	whole = delta_whole_end(insert->index, &insert->meta, insert->number, foreign);
	if (*foreign)
		return false;
	if (whole == insert->number)
	{
		insert->checked = whole;
		return true;
	}
	// Another inserter may meanwhile have written a value over several pages: then the number is only the end of one
	// page, within a complete value. All slots of one record become visible at once, so if a slot was visible above and
	// no slot follows it now, the value has no further slots.
	end = end_on_page(insert, chunk, foreign);
	if (*foreign)
		return false;
	if (end != insert->number)
	{
		insert->number = end;
		return false;
	}
	if (!insert->locked)
	{
		LockPage(insert->index, kTailLock, ExclusiveLock);
		insert->locked = true;
		insert->number = delta_visible_end(insert->index, &insert->meta, foreign);
		return false;
	}
	close_part(insert, whole);
	return false;
}

/// Try once to write more slots. Sets *foreign if a merge has freed the chunk since the metapage was read.
void
advance(ValueInsert *insert, bool *foreign)
{
	const DeltaChunk *chunk = delta_find_chunk(&insert->meta, insert->number);
	uint64 visible_end;
	DeltaPlace place;
	Buffer buffer;

	if (chunk == nullptr)
	{
		if (insert->number >= delta_room_end(&insert->meta))
			delta_add_chunk(insert->index, insert->heap, PageRole::kDelta, delta_room_end(&insert->meta));
		meta_read(insert->index, nullptr, &insert->meta);
		insert->number = delta_visible_end(insert->index, &insert->meta, foreign);
		return;
	}
	if (!ends_whole(insert, chunk, foreign))
		return;
	place = delta_place(&insert->meta, chunk, insert->number);
	buffer = page_read(insert->index, chunk->start_block + place.position,
		delta_expect(&insert->meta, chunk, place.position), BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr,
		foreign);
	if (*foreign)
		return;
	visible_end = delta_first_start(&insert->meta, chunk, place.position) + page_tag(BufferGetPage(buffer))->used;
	if (unlikely(visible_end > delta_first_start(&insert->meta, chunk, place.position + 1)))
	{
		UnlockReleaseBuffer(buffer);
		page_corrupted(insert->index, chunk->start_block + place.position, kTooManyRows);
	}
	if (visible_end != insert->number)
	{
		UnlockReleaseBuffer(buffer);
		insert->number = visible_end; // other inserters have added rows
		return;
	}
	if (!insert->locked && !fits_one_record(insert, chunk, place.position))
	{
		UnlockReleaseBuffer(buffer);
		LockPage(insert->index, kTailLock, ExclusiveLock);
		insert->locked = true;
		return;
	}
	write_slots(insert, chunk, place.position, buffer);
	UnlockReleaseBuffer(buffer);
	if (insert->done < insert->n_slots)
		(void) VG_FAULT("delta_value_part");
}

} // namespace

void
delta_append_value(Relation index, Relation heap, RowId row, const char *value, const char *keys)
{
	ValueInsert *insert = static_cast<ValueInsert *>(palloc0(sizeof(ValueInsert)));
	bool foreign = false;
	uint32 n_foreign = 0;

	insert->index = index;
	insert->heap = heap;
	insert->row = row;
	insert->value = value;
	insert->value_bytes = value != nullptr ? stored_bytes(value) : 0;
	insert->keys = keys;
	insert->checked = PG_UINT64_MAX;
	meta_read(index, nullptr, &insert->meta);
	insert->key_bytes = meta_key_bytes(&insert->meta);
	insert->n_slots = delta_slots(&insert->meta, value);
	insert->number = delta_visible_end(index, &insert->meta, &foreign);
	while (insert->done < insert->n_slots)
	{
		CHECK_FOR_INTERRUPTS();
		if (foreign)
		{
			if (++n_foreign > kMostMerges)
				page_recycled(index, 0);
			foreign = false;
			meta_read(index, nullptr, &insert->meta);
			insert->number = delta_visible_end(index, &insert->meta, &foreign);
			continue;
		}
		advance(insert, &foreign);
	}
	if (insert->locked)
		UnlockPage(index, kTailLock, ExclusiveLock);
	delta_ask_for_merge(index, &insert->meta, insert->number - insert->n_slots, insert->number);
	pfree(insert);
}

} // namespace vectorgpu::am
