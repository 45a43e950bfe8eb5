// Functions for a graph search with a block of its own (graph_search.cuh): the nearest entry points, within warps.
#pragma once

#include <cstdint>

#include "kernels/graph/graph.hpp"
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

/// Lane i gets the i-th nearest entry point (score, number) among those that warp `number` of n_warps looks at, `most`
/// at a time. nodes [32] in shared memory: the warp's.
template <uint32_t most, class Scorer>
__device__ __forceinline__ uint64_t
score_entries(const GraphArgs &args, Scorer scorer, uint32_t *nodes, uint32_t number, uint32_t n_warps, uint32_t lane)
{
	uint64_t first = ~uint64_t{0};

	scorer.rows = static_cast<const uint8_t *>(args.entries.vectors);
	for (uint32_t base = number * most; base < args.entries.n_rows; base += n_warps * most)
	{
		nodes[lane] = base + lane;
		__syncwarp();

		const uint32_t n = min(most, args.entries.n_rows - base);
		const float score = scorer.template score<most>(nodes, n, lane);

		first = warp_first(first,
			lane < n ? static_cast<uint64_t>(float_to_order(score)) << 32 | (base + lane) : ~uint64_t{0}, args.n_begin,
			lane);
		__syncwarp();
	}
	return first;
}

/// Lane i gets the i-th of a query's entry_items that warp `number` of n_warps looks at.
__device__ __forceinline__ uint64_t
first_entry_items(const GraphArgs &args, uint32_t query, uint32_t number, uint32_t n_warps, uint32_t lane)
{
	static_assert(kGraphEntryItems <= 64 * kGraphAloneWarps);
	const uint32_t each = kGraphEntryItems / n_warps;
	const uint64_t *items = args.entry_items + static_cast<size_t>(query) * kGraphEntryItems + number * each;

	return warp_first(lane < each ? items[lane] : ~uint64_t{0}, lane + 32 < each ? items[lane + 32] : ~uint64_t{0},
		args.n_begin, lane);
}

/// Request a cache line that will be read soon.
__device__ __forceinline__ void
prefetch_to_l2(const void *address)
{
	asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

} // namespace vectorgpu::kernels
