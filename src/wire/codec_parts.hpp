// Shared by the files of the codec: the parsers of a request's body, after its header, and the reads they are made of.
#pragma once

#include <cstring>

#include "wire/codec.hpp"

namespace vectorgpu::wire
{

/// Parse the body of a request of copy_messages.hpp (parse_build_body: of build_messages.hpp) whose header is in *view.
/// kType: it is none of these.
ParseResult parse_copy_body(const uint8_t *body, size_t length, RequestView *view);
ParseResult parse_build_body(const uint8_t *body, size_t length, RequestView *view);

/// Copy a structure out of memory that may change. The barrier keeps the compiler from reading the source again later.
template <typename T>
void
copy_out(const uint8_t *data, T *to)
{
	memcpy(to, data, sizeof(T));
	asm volatile("" : : : "memory");
}

inline bool
all_zero(const void *data, size_t bytes)
{
	const uint8_t *p = static_cast<const uint8_t *>(data);

	for (size_t i = 0; i < bytes; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/// The body is one structure and nothing else.
template <typename T>
ParseResult
only(const uint8_t *body, size_t length, T *to)
{
	if (length < sizeof(T))
		return ParseResult::kTruncated;
	if (length > sizeof(T))
		return ParseResult::kLength;
	copy_out(body, to);
	return ParseResult::kOk;
}

/// The body is empty.
inline ParseResult
nothing(size_t length)
{
	return length == 0 ? ParseResult::kOk : ParseResult::kLength;
}

} // namespace vectorgpu::wire
