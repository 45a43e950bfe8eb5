// What the sources of elements share: lists, shortened strings, slices of single keys. PG dialect. Used by the files of
// this folder.
#pragma once

#include "types/match/element.hpp"

namespace vectorgpu::types
{

/// palloc of n * size bytes, beyond 1 GB if need be.
inline void *
allocate_array(int64 n, Size size)
{
	return palloc_extended(Max(static_cast<Size>(n), 1) * size, MCXT_ALLOC_HUGE);
}

inline Element *
new_elements(int64 n)
{
	return static_cast<Element *>(allocate_array(n, sizeof(Element)));
}

inline uint8 *
new_bytes(int64 n)
{
	return static_cast<uint8 *>(allocate_array(n, 1));
}

inline void
put_uint32(uint8 *bytes, uint32 value)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = static_cast<uint8>(value >> (24 - 8 * i));
}

inline void
put_uint64(uint8 *bytes, uint64 value)
{
	put_uint32(bytes, static_cast<uint32>(value >> 32));
	put_uint32(bytes + 4, static_cast<uint32>(value));
}

/// Order-preserving big-endian forms of signed integers.
inline void
put_int32(uint8 *bytes, int32 value)
{
	put_uint32(bytes, static_cast<uint32>(value) ^ (UINT32_C(1) << 31));
}

inline void
put_int64(uint8 *bytes, int64 value)
{
	put_uint64(bytes, static_cast<uint64>(value) ^ (UINT64_C(1) << 63));
}

/// A string as a key of at most `limit` bytes: itself if it is shorter than that, else limit bytes, palloc'd: its first
/// bytes and its SHA-256. No string that fits has `limit` bytes, so that no two strings share a key.
extern ElementKey string_key(const char *string, Size length, uint32 limit);

/// Sorts elements [n] by (attribute, key), in place, and drops those that are there already.
extern ElementList sorted_set(Element *elements, int64 n);

/// One slice for each element: the equality with its key.
extern SliceList slices_of_elements(const ElementList &list);

} // namespace vectorgpu::types
