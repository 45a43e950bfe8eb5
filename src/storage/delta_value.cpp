// Stored values in the delta: their slots, reading them, and the end of the last complete one. See delta.hpp.
#include "storage/delta_value.hpp"

#include "storage/delta_map.hpp"
#include "engine/distance/sparse.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kHeadersPerRead = 1024;

/// Bytes of a value in one slot.
Size
piece_bytes(const MetaData *meta)
{
	return meta_vector_bytes(meta);
}

/// Copy bytes [from, from + n) of the row's slots, which exist, to dest. False if a page was foreign.
bool
read_bytes(Relation index, const MetaData *meta, uint64 first, Size from, Size n, char *dest)
{
	const Size piece = piece_bytes(meta);
	char *slot = static_cast<char *>(palloc(piece));
	bool intact = true;

	for (Size done = 0; done < n && intact;)
	{
		const Size start = (from + done) % piece;
		const Size part = Min(n - done, piece - start);
		uint64 header;

		intact = delta_read(index, meta, first + (from + done) / piece, 1, &header, slot, piece);
		memcpy(dest + done, slot + start, part);
		done += part;
	}
	pfree(slot);
	return intact;
}

uint64
slots_for(const MetaData *meta, Size n_bytes)
{
	return Max((n_bytes + piece_bytes(meta) - 1) / piece_bytes(meta), UINT64CONST(1));
}

/// The most bytes of a stored value, with its length.
Size
most_bytes(const MetaData *meta)
{
	return meta->am == AmId::kSparse ? sizeof(uint32) + engine::kMostSparseBytes : kMaxValueBytes;
}

/// Return delta_used_bytes of the row whose first slot has number `first`. Raise an error if its value is longer than
/// any, or does not end where there is room for rows: memory is taken for what this returns.
Size
used_bytes(Relation index, const MetaData *meta, uint64 first, uint64 header, const char *first_piece)
{
	const Size used = delta_used_bytes(meta, header, first_piece);

	if ((header & kDeltaNull) == 0 && stored_bytes(first_piece) > most_bytes(meta))
		page_corrupted(index, 0, psprintf("Row " UINT64_FORMAT " of the delta is longer than any value.", first));
	if (slots_for(meta, used) > delta_room_end(meta) - first)
		page_corrupted(index, 0, psprintf("Row " UINT64_FORMAT " of the delta is longer than the delta.", first));
	return used;
}

} // namespace

uint64
delta_slots(const MetaData *meta, const char *value)
{
	return slots_for(meta, (value != nullptr ? stored_bytes(value) : 0) + meta_key_bytes(meta));
}

Size
delta_used_bytes(const MetaData *meta, uint64 header, const char *first)
{
	const Size value = (header & kDeltaNull) != 0 ? 0 : stored_bytes(first);

	return value + ((header & kDeltaPart) != 0 ? 0 : meta_key_bytes(meta));
}

uint64
delta_slots_of(const MetaData *meta, uint64 header, const char *first)
{
	return slots_for(meta, delta_used_bytes(meta, header, first));
}

uint64
delta_count_rows(Relation index, const MetaData *meta, uint64 end)
{
	uint64 n_rows = 0;
	uint64 *headers;

	if (meta->element != ElementType::kSet)
		return end - meta->delta_first_row;
	headers = static_cast<uint64 *>(palloc(kHeadersPerRead * sizeof(uint64)));
	for (uint64 row = meta->delta_first_row; row < end; row += kHeadersPerRead)
	{
		const uint64 n = Min(kHeadersPerRead, end - row);

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(index, meta, row, n, headers, nullptr, 0))
			page_recycled(index, 0);
		for (uint64 i = 0; i < n; i++)
			n_rows += delta_starts_row(headers[i]);
	}
	pfree(headers);
	return n_rows;
}

bool
delta_read_value(Relation index, const MetaData *meta, uint64 first, ValueBuffer *dest)
{
	const Size piece = piece_bytes(meta);
	uint64 headers[64];
	uint64 n_slots;

	value_reserve(dest, piece);
	if (!delta_read(index, meta, first, 1, headers, dest->data, piece))
		return false;
	n_slots = slots_for(meta, used_bytes(index, meta, first, headers[0], dest->data));
	value_reserve(dest, n_slots * piece);
	for (uint64 slot = 1; slot < n_slots; slot += lengthof(headers))
	{
		const uint64 n = Min(static_cast<uint64>(lengthof(headers)), n_slots - slot);

		if (!delta_read(index, meta, first + slot, n, headers, dest->data + slot * piece, piece))
			return false;
		for (uint64 i = 0; i < n; i++)
			if ((headers[i] & (kDeltaContinued | kDeltaRowIdMask)) != (kDeltaContinued | (slot + i)))
				page_corrupted(index, 0, psprintf("Row " UINT64_FORMAT " of the delta is not whole.", first));
	}
	return true;
}

bool
delta_read_keys(Relation index, const MetaData *meta, uint64 first, char *image)
{
	const Size n_bytes = meta_key_bytes(meta);
	char *piece = static_cast<char *>(palloc(piece_bytes(meta)));
	uint64 header;
	Size used;
	bool intact = delta_read(index, meta, first, 1, &header, piece, piece_bytes(meta));

	if (intact)
	{
		used = used_bytes(index, meta, first, header, piece);
		// Usually all of it is in the first slot.
		if (used <= piece_bytes(meta))
			memcpy(image, piece + used - n_bytes, n_bytes);
		else
			intact = read_bytes(index, meta, first, used - n_bytes, n_bytes, image);
	}
	pfree(piece);
	return intact;
}

uint64
delta_whole_end(Relation index, const MetaData *meta, uint64 visible_end, bool *foreign)
{
	char *piece;
	uint64 header;
	uint64 first = visible_end - 1;
	uint64 n_slots;

	if (visible_end <= meta->delta_first_row)
		return visible_end;
	piece = static_cast<char *>(palloc(piece_bytes(meta)));
	*foreign = !delta_read(index, meta, first, 1, &header, piece, 0);
	if (!*foreign && !delta_starts_row(header))
	{
		const uint64 back = header & kDeltaRowIdMask;

		if (back == 0 || back > first - meta->delta_first_row)
			page_corrupted(index, 0, psprintf("Slot " UINT64_FORMAT " of the delta belongs to no row.", first));
		first -= back;
		*foreign = !delta_read(index, meta, first, 1, &header, piece, 0);
	}
	if (*foreign)
	{
		pfree(piece);
		return visible_end;
	}
	n_slots = delta_slots_of(meta, header, piece);
	pfree(piece);
	return first + n_slots <= visible_end ? visible_end : first;
}

} // namespace vectorgpu::am
