// Strings as characters of the server's encoding. PG dialect.
#include "types/match/characters.hpp"

namespace vectorgpu::types
{

Characters
characters_of(const char *text, Size length)
{
	uint32 *offsets;
	int32 n = 0;
	bool one_byte = pg_database_encoding_max_length() == 1;

	if (!one_byte) // most strings are ASCII, in every encoding
	{
		Size i = 0;

		while (i < length && !IS_HIGHBIT_SET(text[i]))
			i++;
		one_byte = i == length;
	}
	if (one_byte)
		return {text, nullptr, static_cast<int32>(length)};

	offsets = static_cast<uint32 *>(allocate_array(length + 1, sizeof(uint32)));
	for (Size i = 0; i < length; i += Max(Min(static_cast<Size>(pg_mblen(text + i)), length - i), 1))
		offsets[n++] = static_cast<uint32>(i);
	offsets[n] = static_cast<uint32>(length);
	return {text, offsets, n};
}

uint32 *
character_codes(const Characters &characters)
{
	uint32 *codes = static_cast<uint32 *>(allocate_array(characters.n, sizeof(uint32)));

	for (int32 i = 0; i < characters.n; i++)
	{
		uint32 code = 0;

		for (const char *p = characters.at(i); p < characters.at(i + 1); p++)
			code = code << 8 | static_cast<uint8>(*p);
		codes[i] = code;
	}
	return codes;
}

} // namespace vectorgpu::types
