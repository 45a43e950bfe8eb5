// A string as characters of the server's encoding. PG dialect.
#pragma once

#include "types/match/element_list.hpp"

extern "C"
{
#include "mb/pg_wchar.h"
}

namespace vectorgpu::types
{

/// The positions of a string's characters.
struct Characters
{
	const char *text;
	const uint32 *offsets; // [n + 1] bytes from text; null if each character is one byte
	int32 n;

	const char *at(int32 i) const { return text + (offsets != nullptr ? offsets[i] : static_cast<uint32>(i)); }
};

/// Return the characters of text [length bytes]; offsets are palloc'd. A character that is cut off at the end counts as
/// a shorter one.
extern Characters characters_of(const char *text, Size length);

/// Return the bytes of each character as one number, palloc'd [n]. Characters have at most 4 bytes, and the first of
/// several is never 0.
extern uint32 *character_codes(const Characters &characters);

/// The bytes of the character with this code.
inline int
character_bytes(uint32 code)
{
	return code < 1 << 8 ? 1 : code < 1 << 16 ? 2 : code < 1 << 24 ? 3 : 4;
}

/// Write the bytes of the character with this code; return the byte behind.
inline char *
put_character(char *out, uint32 code)
{
	for (int left = character_bytes(code); left > 0; left--)
		*out++ = static_cast<char>(code >> (8 * (left - 1)));
	return out;
}

} // namespace vectorgpu::types
