// Min-hash signatures of sets: Pr[signatures agree at i] is the Jaccard similarity of the sets (Broder 1997; the
// generic scheme of Zhou et al., section IV-A, equation 1). No PostgreSQL, no allocation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/match/hash_family.hpp"

namespace vectorgpu::engine
{

/// Add one element to the minima [hashes], which start as all ones. `element` is hash_bytes of its key. Function i is
/// h_i(x) = mix64(x xor stream64(seed, i)).
inline void
minhash_add(uint64_t element, uint64_t seed, int hashes, uint64_t *minima)
{
	for (int i = 0; i < hashes; i++)
		minima[i] = std::min(minima[i], mix64(element ^ stream64(seed, static_cast<uint64_t>(i))));
}

/// The stored part of a minimum: 32 bits, so that sets with different minima agree with probability 2^-32.
constexpr uint32_t
minhash_value(uint64_t minimum)
{
	return static_cast<uint32_t>(mix64(minimum) >> 32);
}

} // namespace vectorgpu::engine
