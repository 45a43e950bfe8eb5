// Seeded hash functions of the match-count index: stored in indexes, so never to be changed. No PostgreSQL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

/// A permutation of 64-bit numbers in which every bit of the argument affects every bit of the result (the finaliser of
/// splitmix64, Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t
mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

/// Number i of the random stream of `seed`.
constexpr uint64_t
stream64(uint64_t seed, uint64_t i)
{
	return mix64(mix64(seed ^ UINT64_C(0x6A09E667F3BCC908)) + (i + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

/// A byte string as a 64-bit number: FNV-1a, then mixed.
constexpr uint64_t
hash_bytes(const uint8_t *bytes, size_t length)
{
	uint64_t hash = UINT64_C(0xCBF29CE484222325);

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
	return mix64(hash);
}

/// Uniform in (0, 1), from the upper 52 bits; never 0 or 1.
constexpr double
uniform(uint64_t bits)
{
	return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

/// A 64-bit number reduced to [0, n): multiply and take the upper half.
constexpr uint32_t
reduce(uint64_t hash, uint32_t n)
{
	return static_cast<uint32_t>((hash >> 32) * n >> 32);
}

} // namespace vectorgpu::engine
