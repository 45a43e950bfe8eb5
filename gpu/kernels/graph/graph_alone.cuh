// Functions for a graph search with a block of its own (graph_search.cuh): the nearest entry points, within warps.
#pragma once

#include <cstdint>

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{

/// The least of all lanes' items; every lane gets it.
__device__ __forceinline__ uint64_t
warp_least(uint64_t item)
{
	const uint32_t high = __reduce_min_sync(0xFFFFFFFFu, static_cast<uint32_t>(item >> 32));
	const uint32_t low = __reduce_min_sync(
		0xFFFFFFFFu, static_cast<uint32_t>(item >> 32) == high ? static_cast<uint32_t>(item) : 0xFFFFFFFFu);

	return static_cast<uint64_t>(high) << 32 | low;
}

/// Lane i < n gets the i-th of all lanes' a and b, ascending; other lanes get all ones. Items differ, except all ones,
/// which stands for no item.
__device__ __forceinline__ uint64_t
warp_first(uint64_t a, uint64_t b, uint32_t n, uint32_t lane)
{
	uint64_t mine = ~uint64_t{0};

	for (uint32_t i = 0; i < n; i++)
	{
		const uint64_t least = warp_least(a < b ? a : b);

		if (a == least)
			a = ~uint64_t{0};
		else if (b == least)
			b = ~uint64_t{0};
		if (lane == i)
			mine = least;
	}
	return mine;
}

/// Request a cache line that will be read soon.
__device__ __forceinline__ void
prefetch_to_l2(const void *address)
{
	asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

} // namespace vectorgpu::kernels
