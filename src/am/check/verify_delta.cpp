// vectorgpu_check, the delta: page fill, flags, padding, values. See verify_delta.hpp. PG dialect.
#include "am/check/verify_delta.hpp"

#include "am/method/am_interface.hpp"
#include "storage/delta_map.hpp"
#include "storage/delta_value.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr Size kMaxPieceBytes = 1024; // greatest size of the part of a stored value in one slot

/// Return the end of the last complete row.
uint64
whole_end(PageCheck *check, uint64 visible_end)
{
	bool foreign = false;
	const uint64 end = delta_whole_end(check->index, check->meta, visible_end, &foreign);

	if (foreign)
		page_recycled(check->index, 0);
	return end;
}

/// Copy bytes [from, from + n) of a chunk. *position: the page of the chunk in check->copy (PG_UINT32_MAX: none).
void
read_chunk_bytes(PageCheck *check, const DeltaChunk *chunk, uint32 *position, uint64 from, Size n, char *out)
{
	while (n > 0)
	{
		const uint32 wanted = static_cast<uint32>(from / kPayloadBytes);
		const Size offset = from % kPayloadBytes;
		const Size part = Min(n, kPayloadBytes - offset);

		if (*position != wanted)
		{
			check_copy_page(check, chunk->start_block + wanted, delta_expect(check->meta, chunk, wanted));
			check->result->pages_checked--; // check_delta_fill has counted it
			*position = wanted;
		}
		memcpy(out, checked_payload(check) + offset, part);
		from += part;
		out += part;
		n -= part;
	}
}

void
check_delta_row(PageCheck *check, BlockNumber block, const char *row)
{
	const Size vector_size = meta_vector_bytes(check->meta);
	const Size body_size = delta_body_bytes(check->meta);
	const Size row_size = delta_row_bytes(check->meta);
	uint64 header;

	memcpy(&header, row, sizeof(header));
	if ((header & ~(kDeltaRowIdMask | kDeltaNull | kDeltaDead)) != 0)
		page_corrupted(check->index, block, "A row of the delta has flags that do not exist.");
	if (!valid_row_id(header & kDeltaRowIdMask))
		page_corrupted(
			check->index, block, psprintf("Row ID " UINT64_FORMAT " cannot be a TID.", header & kDeltaRowIdMask));
	if (!all_zero(row + sizeof(header) + body_size, row_size - sizeof(header) - body_size))
		page_corrupted(check->index, block, "There are bytes between two rows of the delta.");
	if ((header & kDeltaNull) != 0 && !all_zero(row + sizeof(header), vector_size))
		page_corrupted(check->index, block, "A NULL row of the delta has a value.");
	if ((header & kDeltaDead) != 0)
		check->result->dead_rows++;
	else if ((header & kDeltaNull) != 0)
		check->result->null_rows++;
	else
		check->result->rows++;
}

/// True if the first slot of a row can have the header's flags.
bool
flags_exist(const MetaData *meta, uint64 header)
{
	const uint64 flags = header & ~kDeltaRowIdMask;

	if ((flags & kDeltaPart) != 0)
		return meta_key_bytes(meta) > 0 && flags == (kDeltaPart | kDeltaDead);
	return (flags & ~(kDeltaNull | kDeltaDead)) == 0;
}

/// Check the delta of an index of stored values: flags, slots, padding, values.
void
check_delta_values(PageCheck *check, uint64 end)
{
	const MetaData *meta = check->meta;
	const ValueFormat *values = access_method(check->index, meta)->values;
	const Size piece = meta_vector_bytes(meta);
	const uint64 dead_before = check->result->dead_rows;
	ValueBuffer value = {nullptr, 0};

	for (uint64 row = meta->delta_first_row; row < end;)
	{
		const char *problem = nullptr;
		uint64 header;
		uint64 n_slots;
		Size used;
		char first[kMaxPieceBytes];

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(check->index, meta, row, 1, &header, first, piece))
			page_recycled(check->index, 0);
		if (!delta_starts_row(header) || !valid_row_id(header & kDeltaRowIdMask) || !flags_exist(meta, header))
			page_corrupted(check->index, 0, psprintf("Slot " UINT64_FORMAT " of the delta does not begin a row.", row));
		n_slots = delta_slots_of(meta, header, first);
		if (n_slots > end - row)
			page_corrupted(check->index, 0, psprintf("Row " UINT64_FORMAT " of the delta is not whole.", row));
		if (!delta_read_value(check->index, meta, row, &value))
			page_recycled(check->index, 0);
		used = delta_used_bytes(meta, header, value.data);
		if (!all_zero(value.data + used, n_slots * piece - used))
			problem = (header & kDeltaNull) != 0 ? "A NULL row of the delta has a value."
												 : "There are bytes between two rows of the delta.";
		else if ((header & (kDeltaDead | kDeltaNull)) == 0)
			problem = values->check(value.data);
		if (problem != nullptr)
			page_corrupted(check->index, 0, psprintf("Row " UINT64_FORMAT " of the delta: %s", row, problem));
		if ((header & kDeltaDead) != 0)
			check->result->dead_rows++;
		else if ((header & kDeltaNull) != 0)
			check->result->null_rows++;
		else
			check->result->rows++;
		check->result->delta_rows++;
		row += n_slots;
	}
	if (check->result->dead_rows - dead_before < meta->delta_dead)
		page_corrupted(check->index, 0, "The delta has fewer dead rows than the metapage says.");
	if (value.data != nullptr)
		pfree(value.data);
}

} // namespace

uint64
check_list_fill(PageCheck *check, const ChunkList &list)
{
	uint64 end = list.first_row;
	bool later_rows = false;

	for (uint32 i = list.n_chunks; i > 0; i--)
	{
		const DeltaChunk *chunk = &list.chunks[i - 1];

		for (uint32 left = chunk->n_blocks; left > 0; left--)
		{
			const uint32 position = left - 1;
			const BlockNumber block = chunk->start_block + position;
			const uint64 first = delta_first_start(list, chunk, position);
			const uint64 room = delta_first_start(list, chunk, position + 1) - first;
			uint32 used;

			check_copy_page(check, block, delta_expect(list, chunk, position));
			used = page_tag(check->copy.data)->used;
			if (used > room)
				page_corrupted(check->index, block,
					psprintf("The page counts %u rows, but has room for " UINT64_FORMAT ".", used, room));
			if (later_rows && used < room)
				page_corrupted(check->index, block, "The page has gaps, but rows follow on a later one.");
			if (used > 0 && !later_rows)
				end = first + used;
			later_rows = later_rows || used > 0;
		}
	}
	if (end < list.first_row)
		page_corrupted(check->index, 0,
			list.role == PageRole::kDelta ? "The delta ends before its first row."
										  : "The shared entries end before the first one.");
	return end;
}

uint64
check_delta_fill(PageCheck *check)
{
	const uint64 end = check_list_fill(check, delta_list(check->meta));

	return check->meta->element == ElementType::kSet ? whole_end(check, end) : end;
}

void
check_delta(PageCheck *check, uint64 end)
{
	const MetaData *meta = check->meta;
	const Size row_size = delta_row_bytes(meta);
	char *row_bytes = static_cast<char *>(palloc(row_size));
	const uint64 dead_before = check->result->dead_rows;
	const DeltaChunk *chunk = nullptr;
	uint32 position = PG_UINT32_MAX;

	if (meta->element == ElementType::kSet)
	{
		check_delta_values(check, end);
		return;
	}
	for (uint64 row = meta->delta_first_row; row < end; row++)
	{
		const uint64 n_before = check->result->rows;
		BlockNumber block;
		DeltaPlace place;

		if (chunk == nullptr || row >= chunk->first_row + chunk_capacity(meta, chunk))
		{
			chunk = delta_find_chunk(meta, row);
			position = PG_UINT32_MAX;
		}
		place = delta_place(meta, chunk, row);
		block = chunk->start_block + place.position;
		read_chunk_bytes(check, chunk, &position, (row - chunk->first_row) * row_size, row_size, row_bytes);
		check_delta_row(check, block, row_bytes);
		if (check->result->rows > n_before)
			check_vectors(check, block, row_bytes + sizeof(uint64), 0, meta_vector_bytes(meta));
	}
	check->result->delta_rows = end - meta->delta_first_row;
	// There may be more than the metapage says: a vacuum is running or was cancelled.
	if (check->result->dead_rows - dead_before < meta->delta_dead)
		page_corrupted(check->index, 0, "The delta has fewer dead rows than the metapage says.");
	pfree(row_bytes);
}

} // namespace vectorgpu::am
