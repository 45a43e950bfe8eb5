// Lists of elements, shortened strings, slices of single keys: shared by the sources of elements. PG dialect. Used by
// the files of this folder.
#pragma once

#include "types/match/element.hpp"

namespace vectorgpu::types
{

/// palloc n * size bytes, which may be more than 1 GB.
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

/// Return a string as a key of at most `limit` bytes: the string itself if it is shorter, else `limit` palloc'd bytes,
/// its first bytes and its SHA-256. A key of an unshortened string has fewer than `limit` bytes, so no two strings
/// share a key.
extern ElementKey string_key(const char *string, Size length, uint32 limit);

/// Sort elements [n] by (attribute, key) in place and drop duplicates.
extern ElementList sorted_set(Element *elements, int64 n);

/// Return one slice per element: equality with its key.
extern SliceList slices_of_elements(const ElementList &list);

} // namespace vectorgpu::types
