// Codes of values that have no fixed width: what equality is decided by, and what order is. Pure functions, which may
// palloc; PG dialect.
#pragma once

#include "am/keys/key_kind.hpp"

namespace vectorgpu::am
{

/// A numeric rounded to a double of 52 bits, and the lowest bit: 0 if the value has at most 15 digits that count, so
/// that no other such value has this code; 1 otherwise. So (code | 1) sorts as values do, up to equality.
uint64 numeric_code(Datum value);

inline bool
is_exact_numeric(uint64 code)
{
	return (code & 1) == 0;
}

/// In the low byte of a code by which equality is decided: the code is a hash, and equal codes are no proof.
constexpr uint64 kHashedBytes = 0xFF;

constexpr uint64
hashed_code(uint64 hash)
{
	return hash | kHashedBytes;
}

/// Whether an equal code proves an equal value.
constexpr bool
is_whole_value(uint64 code)
{
	return (code & 0xFF) != kHashedBytes;
}

/// A byte string of at most kShortBytes: its bytes, most significant first, and its length in the low byte.
constexpr size_t kShortBytes = 7;
uint64 short_bytes_code(const char *bytes, size_t size);

/// The first eight bytes, most significant first, zeros behind the end: sorts as the byte strings, up to equality.
uint64 prefix_code(const char *bytes, size_t size);

/// An IPv4 address and the length of its netmask. False, and no code, if it is one of IPv6.
bool ipv4_code(Datum value, uint64 *code);

} // namespace vectorgpu::am
