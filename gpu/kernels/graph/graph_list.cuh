// The list of a search of a graph (graph_search.cuh): its items, and the shared memory of a query.
#pragma once

#include "kernels/graph/graph_alone.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kInfinity = 0xFF800000u; // float_to_order of it

/// An item of the list: score, node, mark. Orders as (score, node).
__device__ __forceinline__ uint64_t
graph_item(float score, uint32_t node)
{
	return static_cast<uint64_t>(min(float_to_order(score), kInfinity)) << 32 | node << 1; // NaN counts as infinite
}

__device__ __forceinline__ uint32_t
node_of(uint64_t item)
{
	return static_cast<uint32_t>(item) >> 1;
}

/// How many of items [n], ascending, are below `item`.
__device__ __forceinline__ uint32_t
place_of(const uint64_t *items, uint32_t n, uint64_t item)
{
	uint32_t first = 0;

	while (n > 0)
	{
		const uint32_t half = n / 2;

		if (items[first + half] < item)
		{
			first += half + 1;
			n -= half + 1;
		}
		else
			n = half;
	}
	return first;
}

/// Nodes of a query that are scored at a time: 32 of each warp, of four warps at least, or one of each lane if it has
/// less than a warp.
__host__ __device__ constexpr uint32_t
graph_scored_nodes(uint32_t warps, uint32_t lanes)
{
	return lanes < 32 ? lanes : (warps > 4 ? warps : 4) * 32;
}

/// Bytes of shared memory of a query with this many warps, or this many lanes of one.
__host__ __device__ __forceinline__ uint32_t
graph_shared_bytes(
	uint32_t width, uint32_t steps, uint32_t table_bits, bool has_table, uint32_t warps, uint32_t lanes = 32)
{
	const uint32_t list = (width + 1) / 2 * 2 * 8;
	const uint32_t candidates = steps * 32 * (8 + 8 + 4);
	const uint32_t row_ids = warps == kGraphAloneWarps ? list : 0;

	return list + candidates + graph_scored_nodes(warps, lanes) * 4 + 64 + (has_table ? 4u << table_bits : 0) + row_ids;
}

} // namespace vectorgpu::kernels
