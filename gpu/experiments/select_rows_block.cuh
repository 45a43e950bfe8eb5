// Operations of the threads of a block that select from a row: sums, halving a range until it contains the wanted rank,
// sorting the remaining keys.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/select/kth.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kSelectThreads = 256;

/// Sums and the like over a block's warps: one barrier each.
struct BlockJoin
{
	uint32_t (*parts)[32];
	uint32_t round;

	template <class Join>
	__device__ __forceinline__ uint32_t operator()(uint32_t of_warp, const Join &join, uint32_t neutral)
	{
		uint32_t *mine = parts[round++ & 1];

		if (threadIdx.x % 32 == 0)
			mine[threadIdx.x / 32] = of_warp;
		__syncthreads();
		return join(threadIdx.x % 32 < kSelectThreads / 32 ? mine[threadIdx.x % 32] : neutral);
	}

	__device__ __forceinline__ uint32_t sum(uint32_t value)
	{
		auto add = [](uint32_t v) { return __reduce_add_sync(0xFFFFFFFFu, v); };

		return (*this)(add(value), add, 0);
	}

	/// The sum of the threads before this one.
	__device__ __forceinline__ uint32_t sum_before(uint32_t value)
	{
		uint32_t up_to = value;

#pragma unroll
		for (uint32_t offset = 1; offset < 32; offset *= 2)
		{
			const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, up_to, offset);

			up_to += threadIdx.x % 32 >= offset ? other : 0;
		}

		const uint32_t of_warps = (*this)(
			__shfl_sync(0xFFFFFFFFu, up_to, 31), [](uint32_t part)
			{ return __reduce_add_sync(0xFFFFFFFFu, threadIdx.x % 32 < threadIdx.x / 32 ? part : 0); }, 0);

		return of_warps + up_to - value;
	}

	__device__ __forceinline__ uint32_t least(uint32_t value)
	{
		auto least = [](uint32_t v) { return __reduce_min_sync(0xFFFFFFFFu, v); };

		return (*this)(least(value), least, 0xFFFFFFFFu);
	}

	__device__ __forceinline__ uint32_t most(uint32_t value)
	{
		auto most = [](uint32_t v) { return __reduce_max_sync(0xFFFFFFFFu, v); };

		return (*this)(most(value), most, 0);
	}
};

/// The first number of [low, high] up to which count_up_to finds from rank_least to rank_most numbers; if there is
/// none, the rank_least-th smallest. At least rank_least numbers are not above high. count_up_to counts one thread's.
/// found: how many there are (of all).
template <class CountUpTo>
__device__ __forceinline__ uint32_t
halve_block_range(uint32_t low, uint32_t high, uint32_t rank_least, uint32_t rank_most, uint32_t *found,
	const CountUpTo &count_up_to, BlockJoin *join)
{
	const HalvedRange<uint32_t> halved = halve_range<HalveNumbers>(
		low, high, rank_least, rank_most, [&](uint32_t limit) { return join->sum(count_up_to(limit)); });

	*found = halved.n != 0 ? halved.n : *found;
	return halved.bound;
}

/// Sort keys [n] for n = kEach * kSelectThreads, or a smaller power of two if kEach is 1 (then the first n of
/// kSelectThreads). Bitonic, with kEach neighbouring keys in each thread's registers: strides below kEach stay in the
/// thread, those of a warp are shuffles, and only the widest go through shared memory. All threads call it after a
/// barrier; ends with one.
template <int kEach>
__device__ __noinline__ void
sort_pair_keys(uint64_t *keys, uint32_t n)
{
	const uint32_t thread = threadIdx.x;
	uint64_t mine[kEach]; // keys thread * kEach + j; at first in any order

#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
		mine[j] = keys[j * kSelectThreads + thread];
#pragma unroll 1
	for (uint32_t size = 2; size <= n; size *= 2)
	{
		uint32_t stride = size / 2;

#pragma unroll 1
		for (; stride >= kEach; stride /= 2)
		{
			const uint32_t apart = stride / kEach; // threads
			const bool keep_less = ((thread & apart) == 0) == ((thread * kEach & size) == 0);

			if (apart >= 32)
			{
				__syncthreads(); // earlier writes have been read
#pragma unroll
				for (uint32_t j = 0; j < kEach; j++)
					keys[j * kSelectThreads + thread] = mine[j];
				__syncthreads();
			}
#pragma unroll
			for (uint32_t j = 0; j < kEach; j++)
			{
				const uint64_t other = apart >= 32 ? keys[j * kSelectThreads + (thread ^ apart)]
												   : __shfl_xor_sync(0xFFFFFFFFu, mine[j], static_cast<int>(apart));

				if ((other < mine[j]) == keep_less)
					mine[j] = other;
			}
		}
#pragma unroll
		for (uint32_t near = kEach / 2; near > 0; near /= 2)
			if (near < size) // uniform
			{
#pragma unroll
				for (uint32_t j = 0; j < kEach; j++)
					if ((j & near) == 0)
					{
						const uint64_t low = mine[j];
						const uint64_t high = mine[j + near];
						const bool swap = (high < low) == (((thread * kEach + j) & size) == 0);

						mine[j] = swap ? high : low;
						mine[j + near] = swap ? low : high;
					}
			}
	}
	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
		keys[thread * kEach + j] = mine[j];
	__syncthreads();
}

} // namespace vectorgpu::kernels
