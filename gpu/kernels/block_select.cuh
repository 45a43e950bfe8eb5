// Selection inside one block: k-th smallest of numbers (radix, 8 bits a round) and a power-of-two bitonic sort of entries.
#pragma once

#include "kernels/order.cuh"

namespace vectorgpu::kernels
{

/// Shared memory of block_kth_smallest.
struct RadixScratch
{
	uint32_t histogram[256];
	uint32_t digit;
	uint32_t rank;
	uint32_t all_ones; // bits that all values have
	uint32_t any_ones; // bits that some value has
};

/// The k-th smallest (k from 1) of value(i), i in [0, n), as unsigned numbers; k <= n. All threads of the block call it and
/// get the result. value(i) is called up to five times per i. Digits begin at the first bit in which values differ, so that
/// numbers of one magnitude do not crowd into one bin.
template <class Value>
__device__ uint32_t
block_kth_smallest(const Value &value, uint32_t n, uint32_t k, RadixScratch *scratch)
{
	if (threadIdx.x == 0)
	{
		scratch->all_ones = 0xFFFFFFFFu;
		scratch->any_ones = 0;
	}
	__syncthreads();
	{
		uint32_t all = 0xFFFFFFFFu;
		uint32_t any = 0;

		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		{
			const uint32_t v = value(i);

			all &= v;
			any |= v;
		}
		all = __reduce_and_sync(0xFFFFFFFFu, all);
		any = __reduce_or_sync(0xFFFFFFFFu, any);
		if (threadIdx.x % 32 == 0)
		{
			atomicAnd(&scratch->all_ones, all);
			atomicOr(&scratch->any_ones, any);
		}
	}
	__syncthreads();

	const uint32_t differing = scratch->all_ones ^ scratch->any_ones;
	const int n_bits = 32 - __clz(static_cast<int>(differing)); // the lowest n_bits decide
	uint32_t mask = n_bits == 32 ? 0 : 0xFFFFFFFFu << n_bits;
	uint32_t prefix = scratch->all_ones & mask;

	for (int above = n_bits; above > 0; above -= 8)
	{
		const int shift = above > 8 ? above - 8 : 0;

		for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x)
			scratch->histogram[i] = 0;
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		{
			const uint32_t v = value(i);

			if ((v & mask) == prefix)
				atomicAdd(&scratch->histogram[((v & ~mask) >> shift) & 0xFF], 1u);
		}
		__syncthreads();
		if (threadIdx.x < 32)
		{
			// A warp finds the digit: 8 counts a thread, prefix sums by shuffles.
			uint32_t counts[8];
			uint32_t sum = 0;

			for (int j = 0; j < 8; j++)
			{
				counts[j] = scratch->histogram[threadIdx.x * 8 + j];
				sum += counts[j];
			}

			uint32_t before = sum;

			for (int offset = 1; offset < 32; offset *= 2)
			{
				const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, before, offset);

				if (static_cast<int>(threadIdx.x) >= offset)
					before += other;
			}
			before -= sum;
			if (k > before && k <= before + sum)
			{
				int j = 0;

				while (k > before + counts[j])
					before += counts[j++];
				scratch->digit = threadIdx.x * 8 + j;
				scratch->rank = k - before;
			}
		}
		__syncthreads();
		prefix |= scratch->digit << shift;
		mask = 0xFFFFFFFFu << shift;
		k = scratch->rank;
		__syncthreads();
	}
	return prefix;
}

/// Sorts entries [n], shared memory, n a power of two. All threads of the block call it; ends with a barrier.
__device__ inline void
block_sort(Entry *entries, uint32_t n)
{
	for (uint32_t size = 2; size <= n; size *= 2)
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
		{
			__syncthreads();
			for (uint32_t i = threadIdx.x; i < n / 2; i += blockDim.x)
			{
				const uint32_t low = 2 * i - (i & (stride - 1));
				const uint32_t high = low + stride;
				const bool ascending = (low & size) == 0;
				const Entry a = entries[low];
				const Entry b = entries[high];

				if (entry_less(b, a) == ascending)
				{
					entries[low] = b;
					entries[high] = a;
				}
			}
		}
	__syncthreads();
}

} // namespace vectorgpu::kernels
