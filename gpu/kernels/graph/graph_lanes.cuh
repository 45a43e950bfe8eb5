// Operations of the lanes of a query in a search of a graph (graph_search.cuh): all 32 of a warp, or 16 or 8 of them,
// so that two or four queries share a warp. Blocks have one dimension, and a query's lanes are neighbours that begin at
// a multiple of their number. Every operation names the lanes of its query only: queries of one warp diverge, and none
// waits for another.
#pragma once

#include <cstdint>

namespace vectorgpu::kernels
{

template <int lanes>
struct GraphLanes
{
	static_assert(lanes == 32 || lanes == 16 || lanes == 8);

	/// The number in the warp of the query's first lane.
	__device__ __forceinline__ static uint32_t first()
	{
		if constexpr (lanes == 32)
			return 0;
		else
			return threadIdx.x % 32 / lanes * lanes;
	}

	__device__ __forceinline__ static unsigned mask()
	{
		if constexpr (lanes == 32)
			return 0xFFFFFFFFu;
		else
			return ((1u << lanes) - 1) << first();
	}

	/// Bit i: the value of lane i of the query.
	__device__ __forceinline__ static unsigned ballot(bool here) { return __ballot_sync(mask(), here) >> first(); }

	__device__ __forceinline__ static bool any(bool here) { return __any_sync(mask(), here) != 0; }

	/// Make earlier writes of the query's lanes to shared memory visible to all of them.
	__device__ __forceinline__ static void sync() { __syncwarp(mask()); }

	/// The value of the lane whose number differs by `bits`, which is below `lanes`.
	template <class T>
	__device__ __forceinline__ static T from_xor(T value, int bits)
	{
		return __shfl_xor_sync(mask(), value, bits);
	}

	/// The value of lane `number` of the query.
	template <class T>
	__device__ __forceinline__ static T from(T value, uint32_t number)
	{
		return __shfl_sync(mask(), value, static_cast<int>(number), lanes);
	}
};

} // namespace vectorgpu::kernels
