// The delta: finding its end, reading rows, marking rows dead. The first two also serve the list of aliases. Appending
// is in delta_append.cpp.
#include "storage/delta.hpp"

#include "storage/delta_map.hpp"
#include "storage/delta_value.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// The rows that start on a page: the number after the last visible one, and whether the page has room for no other.
struct PageFill
{
	uint64 end;
	bool full;
};

bool
read_fill(
	Relation index, const ChunkList &list, const DeltaChunk *chunk, uint32 position, PageFill *fill, bool *foreign)
{
	Buffer buffer = page_read(index, chunk->start_block + position, delta_expect(list, chunk, position),
		BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, nullptr, foreign);
	uint32 used;

	if (!BufferIsValid(buffer))
		return false;
	used = page_tag(BufferGetPage(buffer))->used;
	UnlockReleaseBuffer(buffer);
	fill->end = delta_first_start(list, chunk, position) + used;
	if (unlikely(fill->end > delta_first_start(list, chunk, position + 1)))
		page_corrupted(index, chunk->start_block + position, kTooManyRows);
	fill->full = fill->end == delta_first_start(list, chunk, position + 1);
	return true;
}

} // namespace

uint64
chunk_capacity(const MetaData *meta, const DeltaChunk *chunk)
{
	return chunk_capacity(delta_list(meta), chunk);
}

uint64
delta_end(Relation index, const MetaData *meta, bool *foreign)
{
	bool met_foreign = false;
	uint64 end = delta_visible_end(index, meta, foreign);

	if (meta->element != ElementType::kSet || (foreign != nullptr && *foreign))
		return end;
	end = delta_whole_end(index, meta, end, foreign != nullptr ? foreign : &met_foreign);
	if (met_foreign)
		page_recycled(index, 0);
	return end;
}

uint64
list_end(Relation index, const ChunkList &list, bool *foreign)
{
	const uint64 hint = Max(list_end_hint(index, list.uuid, list.role), list.first_row);
	const DeltaChunk *chunk = delta_find_chunk(list, hint);
	uint64 low;  // rows before it are visible
	uint64 high; // this one is not
	PageFill fill;

	if (list.n_chunks == 0)
		return list.first_row;

	// Usually the end is on the page where it was last seen, or where the chunks begin.
	if (chunk != nullptr)
	{
		if (!read_fill(index, list, chunk, delta_place(list, chunk, hint).position, &fill, foreign))
			return hint;
		if (!fill.full)
		{
			set_list_end_hint(index, list.uuid, list.role, fill.end);
			return fill.end;
		}
		low = fill.end;
	}
	else
		low = Max(list.first_row, list.chunks[0].first_row);

	// A chunk is added when the previous one is full, so visibility is monotone over all chunks: bisect by rows.
	high = delta_room_end(list);
	while (low < high)
	{
		const uint64 middle = low + (high - low) / 2;

		chunk = delta_find_chunk(list, middle);
		if (chunk == nullptr)
			page_corrupted(index, 0, kChunkGaps);
		if (!read_fill(index, list, chunk, delta_place(list, chunk, middle).position, &fill, foreign))
			return low;
		if (fill.end > middle)
			low = fill.end;
		else if (fill.end > delta_first_start(list, chunk, delta_place(list, chunk, middle).position))
		{
			low = fill.end; // the page has some rows but not this one: it holds the end
			break;
		}
		else
			high = delta_first_start(list, chunk, delta_place(list, chunk, middle).position);
	}
	set_list_end_hint(index, list.uuid, list.role, low);
	return low;
}

bool
list_read(Relation index, const ChunkList &list, uint64 first, uint64 n, uint64 *headers, void *bodies, Size stride)
{
	const DeltaChunk *chunk = nullptr;
	Buffer buffer = InvalidBuffer;
	uint32 locked = 0;
	bool foreign = false;

	for (uint64 i = 0; i < n; i++)
	{
		const uint64 row = first + i;
		char *out = bodies != nullptr ? static_cast<char *>(bodies) + i * stride : nullptr;
		Size left = bodies != nullptr ? list.body_bytes : 0;
		DeltaPlace place;
		bool at_header = true;

		if (chunk == nullptr || row >= chunk->first_row + chunk_capacity(list, chunk))
		{
			if (BufferIsValid(buffer))
				UnlockReleaseBuffer(buffer);
			buffer = InvalidBuffer;
			chunk = delta_find_chunk(list, row);
			if (chunk == nullptr)
				page_corrupted(index, 0, kChunkGaps);
		}
		place = delta_place(list, chunk, row);
		while (at_header || left > 0)
		{
			Size part;

			if (!BufferIsValid(buffer) || locked != place.position)
			{
				if (BufferIsValid(buffer))
					UnlockReleaseBuffer(buffer);
				buffer =
					page_read(index, chunk->start_block + place.position, delta_expect(list, chunk, place.position),
						BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, nullptr, &foreign);
				if (foreign)
					return false;
				locked = place.position;
			}
			if (at_header)
			{
				memcpy(&headers[i], page_payload(BufferGetPage(buffer)) + place.offset, sizeof(uint64));
				place.offset += sizeof(uint64);
				at_header = false;
			}
			part = Min(left, kPayloadBytes - place.offset);
			if (part > 0)
				memcpy(out, page_payload(BufferGetPage(buffer)) + place.offset, part);
			if (out != nullptr)
				out += part;
			left -= part;
			place.position++; // only used if the row continues
			place.offset = 0;
		}
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	return true;
}

uint64
delta_visible_end(Relation index, const MetaData *meta, bool *foreign)
{
	return list_end(index, delta_list(meta), foreign);
}

bool
delta_read(
	Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers, void *vectors, Size vector_stride)
{
	ChunkList list = delta_list(meta);

	list.body_bytes = meta_vector_bytes(meta);
	return list_read(index, list, first, n, headers, vectors, vector_stride);
}

bool
delta_read_bodies(
	Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers, void *bodies, Size stride)
{
	return list_read(index, delta_list(meta), first, n, headers, bodies, stride);
}

void
delta_mark_dead(Relation index, const MetaData *meta, const uint64 *rows, uint64 n)
{
	uint64 i = 0;

	while (i < n)
	{
		const DeltaChunk *chunk = delta_find_chunk(meta, rows[i]);
		GenericXLogState *xlog;
		uint32 position;
		Buffer buffer;
		Page page;

		if (chunk == nullptr)
			page_corrupted(index, 0, kChunkGaps);
		position = delta_place(meta, chunk, rows[i]).position;
		(void) VG_FAULT("delta_mark_dead");
		buffer = page_read(index, chunk->start_block + position, delta_expect(meta, chunk, position),
			BUFFER_LOCK_EXCLUSIVE, ChecksumPolicy::kAlways, nullptr, nullptr);
		xlog = GenericXLogStart(index);
		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
		for (; i < n && rows[i] < chunk->first_row + chunk_capacity(meta, chunk); i++)
		{
			const DeltaPlace place = delta_place(meta, chunk, rows[i]);
			uint64 header;

			if (place.position != position)
				break;
			memcpy(&header, page_payload(page) + place.offset, sizeof(header));
			header |= kDeltaDead;
			memcpy(page_payload(page) + place.offset, &header, sizeof(header));
		}
		page_seal(page);
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
}

} // namespace vectorgpu::am
