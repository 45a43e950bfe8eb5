// Counts of bits for Hamming and Jaccard scores: whole numbers, exact in any order of additions.
#pragma once

#include <cstdint>

#include "common/types.hpp"

namespace vectorgpu::kernels
{

/// Add the counts of two words. Hamming: first, the bits that differ. Jaccard: first, the bits in both; second, the
/// bits in either.
template <Metric metric>
__device__ __forceinline__ void
count_bits(uint32_t a, uint32_t b, uint32_t &first, uint32_t &second)
{
	if constexpr (metric == Metric::kHamming)
		first += __popc(a ^ b);
	else
	{
		first += __popc(a & b);
		second += __popc(a | b);
	}
}

template <Metric metric>
__device__ __forceinline__ void
count_bits(const uint4 &a, const uint4 &b, uint32_t &first, uint32_t &second)
{
	count_bits<metric>(a.x, b.x, first, second);
	count_bits<metric>(a.y, b.y, first, second);
	count_bits<metric>(a.z, b.z, first, second);
	count_bits<metric>(a.w, b.w, first, second);
}

/// The canonical score (src/engine/distance/README.md, "Canonical distance").
template <Metric metric>
__device__ __forceinline__ double
bits_score(uint32_t first, uint32_t second)
{
	if constexpr (metric == Metric::kHamming)
		return static_cast<double>(first);
	else
		return first == 0 ? 1.0 : __dsub_rn(1.0, __ddiv_rn(static_cast<double>(first), static_cast<double>(second)));
}

} // namespace vectorgpu::kernels
