// Values in the slots of a delta (kMatch, kSparse).
//
// A slot is a row of the delta: `dim` bytes. A value is a uint32 length and that many bytes; it takes one or more
// slots. Its row is that of the first slot; the others count as dead, and no value begins in them. Nothing that was
// sent is trusted: a value whose last slots have not come, or that is longer than any, is left out.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/copies/row_list.hpp"

namespace vectorgpu::engine
{

/// The value that begins in the slot `at`, of at most `most_bytes` behind its length; n_slots: what it takes. False: it
/// is longer, or its last slots have not come. Throws bad_alloc.
inline bool
read_slot_value(const RowListView &rows, uint64_t at, size_t slot_bytes, uint32_t most_bytes,
	std::vector<uint8_t> *value, uint64_t *n_slots)
{
	uint32_t length;

	std::memcpy(&length, rows.vector(at, slot_bytes), sizeof(length));

	const uint64_t n_bytes = sizeof(length) + uint64_t{length};
	const uint64_t n_wanted = (n_bytes + slot_bytes - 1) / slot_bytes;

	if (length > most_bytes || n_wanted > rows.last - at)
		return false;
	value->resize(n_wanted * slot_bytes);
	for (uint64_t i = 0; i < n_wanted; i++)
		std::memcpy(value->data() + i * slot_bytes, rows.vector(at + i, slot_bytes), slot_bytes);
	*n_slots = n_wanted;
	return true;
}

} // namespace vectorgpu::engine
