// Appending a row to the delta or to the list of aliases. See delta.hpp for the layout.
//
// The inserter locks the page on which the next row starts and keeps the lock until the row is visible, so inserters
// take turns. It then locks the pages into which the row crosses, in ascending order. The record that makes the row
// visible (it changes PageTag::used of the first page) is logged last, so neither a crash nor a standby shows half a
// row. Rows all have one size, so the next insert overwrites the pages that an unfinished insert has written.
#include "storage/delta_append.hpp"

#include "storage/alias.hpp"
#include "storage/delta_append_value.hpp"
#include "storage/delta_chunk.hpp"
#include "storage/delta_map.hpp"
#include "pg/fault.hpp"
#include "pg/generic_record.hpp"
#include "pg/maintenance.hpp"

#include <cstring>

extern "C"
{
#include "access/xloginsert.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kMaxPagesPerRecord = MAX_GENERIC_XLOG_PAGES;

/// The bytes of a row: header, body (the vector and the codes of key columns, or an alias's key), zero padding.
struct RowImage
{
	uint64 header;
	const char *vector; // null: zeros
	Size vector_bytes;
	const char *keys; // behind the vector's place
	Size key_bytes;
	Size row_bytes;
};

/// Copy bytes [from, from + n) of the row.
void
copy_row_bytes(const RowImage *row, Size from, Size n, char *out)
{
	memset(out, 0, n);
	if (from < sizeof(uint64)) // the header never crosses a page border
		memcpy(out, &row->header, sizeof(uint64));
	delta_copy_part(row->vector, sizeof(uint64), row->vector_bytes, from, n, out);
	delta_copy_part(row->keys, sizeof(uint64) + row->vector_bytes, row->key_bytes, from, n, out);
}

/// Write bytes [from, from + n) of the row at `offset` of a page's payload, in place, and add new_rows to the page's
/// count. The hole shrinks: pd_lower is always the end of the data. Call in a critical section.
pg::ChangedPage
put_row_part(Buffer buffer, const RowImage *row, Size from, Size n, Size offset, uint32 new_rows)
{
	constexpr Size header_start = offsetof(PageHeaderData, pd_lower);
	constexpr Size header_end = kTagOffset + offsetof(PageTag, used) + sizeof(PageTag::used);
	const Size start = kPayloadOffset + offset;
	Page page = BufferGetPage(buffer);
	PageHeader header = reinterpret_cast<PageHeader>(page);

	copy_row_bytes(row, from, n, page + start);
	if (start + n > header->pd_lower)
		header->pd_lower = static_cast<LocationIndex>(start + n);
	page_tag(page)->used += new_rows;
	page_seal(page);
	MarkBufferDirty(buffer);
	return {buffer, 2,
		{{static_cast<OffsetNumber>(header_start), static_cast<OffsetNumber>(header_end - header_start)},
			{static_cast<OffsetNumber>(start), static_cast<OffsetNumber>(n)}}};
}

/// Write the parts of the row on pages [from, to] of the chunk, which follow its first page, with one record per
/// kMaxPagesPerRecord pages.
void
write_continuation(Relation index, const ChunkList &list, const DeltaChunk *chunk, const RowImage *row, uint32 from,
	uint32 to, Size first_part)
{
	Size done = first_part;

	for (uint32 position = from; position <= to;)
	{
		const uint32 n = Min(to - position + 1, kMaxPagesPerRecord);
		Buffer buffers[kMaxPagesPerRecord];
		pg::ChangedPage changes[kMaxPagesPerRecord];

		for (uint32 i = 0; i < n; i++)
			buffers[i] = page_read(index, chunk->start_block + position + i, delta_expect(list, chunk, position + i),
				BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr, nullptr);
		(void) VG_FAULT("delta_continuation");
		START_CRIT_SECTION();
		for (uint32 i = 0; i < n; i++)
		{
			const Size part = Min(row->row_bytes - done, kPayloadBytes);

			changes[i] = put_row_part(buffers[i], row, done, part, 0, 0);
			done += part;
		}
		if (RelationNeedsWAL(index))
			pg::log_changed_pages(changes, static_cast<int>(n));
		END_CRIT_SECTION();
		for (uint32 i = 0; i < n; i++)
			UnlockReleaseBuffer(buffers[i]);
		position += n;
	}
}

/// Write the row that starts at `place`. `buffer` holds that page, locked exclusively, and stays locked.
void
write_row(Relation index, const ChunkList &list, const DeltaChunk *chunk, const RowImage *row, DeltaPlace place,
	Buffer buffer)
{
	const Size first_part = Min(row->row_bytes, kPayloadBytes - place.offset);
	const uint32 last = place.position + static_cast<uint32>((place.offset + row->row_bytes - 1) / kPayloadBytes);
	pg::ChangedPage changes[2];
	int n_changes = 1;

	if (last > place.position + 1)
		write_continuation(index, list, chunk, row, place.position + 1, last, first_part);

	if (last == place.position + 1)
	{
		// A row on two pages, the common case, takes one record.
		changes[1].buffer = page_read(index, chunk->start_block + last, delta_expect(list, chunk, last),
			BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr, nullptr);
		n_changes = 2;
		(void) VG_FAULT("delta_publish_two");
	}
	else
		(void) VG_FAULT("delta_publish");

	START_CRIT_SECTION();
	changes[0] = put_row_part(buffer, row, 0, first_part, place.offset, 1);
	if (n_changes == 2)
		changes[1] = put_row_part(changes[1].buffer, row, first_part, row->row_bytes - first_part, 0, 0);
	if (RelationNeedsWAL(index))
		pg::log_changed_pages(changes, n_changes);
	END_CRIT_SECTION();

	page_note_sealed(index, list.uuid, buffer);
	if (n_changes == 2)
	{
		page_note_sealed(index, list.uuid, changes[1].buffer);
		UnlockReleaseBuffer(changes[1].buffer);
	}
}

ChunkList
list_of(const MetaData *meta, PageRole role)
{
	return role == PageRole::kDelta ? delta_list(meta) : alias_list(meta);
}

/// Append a row to one of the lists. meta: the metapage, which is read again when it turns out to be old. False: the
/// aliases have no room.
bool
append_row(Relation index, Relation heap, PageRole role, MetaData *meta, const RowImage *row)
{
	ChunkList list = list_of(meta, role);
	bool foreign = false;
	uint32 n_foreign = 0;
	uint64 number = Max(list_end_hint(index, list.uuid, role), list.first_row);

	if (number == list.first_row)
		number = list_end(index, list, &foreign);
	for (;;)
	{
		const DeltaChunk *chunk;
		DeltaPlace place;
		uint64 visible_end;
		Buffer buffer;

		CHECK_FOR_INTERRUPTS();
		if (foreign)
		{
			// A merge has freed the chunk since the metapage was read.
			if (++n_foreign > kMostMerges)
				page_recycled(index, 0);
			foreign = false;
			meta_read(index, nullptr, meta);
			list = list_of(meta, role);
			number = list_end(index, list, &foreign);
			continue;
		}
		chunk = delta_find_chunk(list, number);
		if (chunk == nullptr)
		{
			if (number >= delta_room_end(list) && !delta_add_chunk(index, heap, role, delta_room_end(list)))
				return false;
			meta_read(index, nullptr, meta);
			list = list_of(meta, role);
			number = list_end(index, list, &foreign);
			continue;
		}
		place = delta_place(list, chunk, number);
		buffer = page_read(index, chunk->start_block + place.position, delta_expect(list, chunk, place.position),
			BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr, &foreign);
		if (foreign)
			continue;
		visible_end = delta_first_start(list, chunk, place.position) + page_tag(BufferGetPage(buffer))->used;
		if (visible_end < delta_first_start(list, chunk, place.position + 1))
		{
			write_row(index, list, chunk, row, delta_place(list, chunk, visible_end), buffer);
			UnlockReleaseBuffer(buffer);
			set_list_end_hint(index, list.uuid, role, visible_end + 1);
			if (role == PageRole::kDelta)
				delta_ask_for_merge(index, meta, visible_end, visible_end + 1);
			return true;
		}
		UnlockReleaseBuffer(buffer);
		if (unlikely(visible_end > delta_first_start(list, chunk, place.position + 1)))
			page_corrupted(index, chunk->start_block + place.position, kTooManyRows);
		number = visible_end; // other inserters have filled the page
	}
}

} // namespace

void
delta_ask_for_merge(Relation index, const MetaData *meta, uint64 first, uint64 end)
{
	const uint64 row_bytes = delta_row_bytes(meta);
	const uint64 before = (first - Min(first, meta->delta_first_row)) * row_bytes;
	const uint64 after = (end - Min(end, meta->delta_first_row)) * row_bytes;

	if (before / BLCKSZ != after / BLCKSZ)
		pg::maintenance_request(index, meta->delta_first_row, after);
}

void
delta_append(Relation index, Relation heap, RowId row_id, const void *vector, const char *keys)
{
	MetaData meta;
	RowImage row = {};

	meta_read(index, nullptr, &meta);
	if (meta.element == ElementType::kSet)
	{
		delta_append_value(index, heap, row_id, static_cast<const char *>(vector), keys);
		return;
	}
	row.header = row_id | (vector == nullptr ? kDeltaNull : 0);
	row.vector = static_cast<const char *>(vector);
	row.vector_bytes = meta_vector_bytes(&meta);
	row.keys = keys;
	row.key_bytes = meta_key_bytes(&meta);
	row.row_bytes = delta_row_bytes(&meta);
	(void) append_row(index, heap, PageRole::kDelta, &meta, &row);
}

bool
alias_append(Relation index, Relation heap, const Alias &alias)
{
	MetaData meta;
	RowImage row = {};

	meta_read(index, nullptr, &meta);
	row.header = alias.row;
	row.vector = reinterpret_cast<const char *>(&alias.key);
	row.vector_bytes = sizeof(alias.key);
	row.row_bytes = kAliasBytes;
	return append_row(index, heap, PageRole::kAlias, &meta, &row);
}

} // namespace vectorgpu::am
