// Selection inside one block: k-th smallest of numbers (radix, 8 bits a round) and a power-of-two bitonic sort of
// entries.
#pragma once

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{

/// The threads that work together, as the template parameter Threads below: all of a block.
struct WholeBlock
{
	static __device__ __forceinline__ uint32_t size() { return blockDim.x; }
	static __device__ __forceinline__ void sync() { __syncthreads(); }
};

/// Shared memory of block_kth_smallest.
struct RadixScratch
{
	uint32_t histogram[256];
	uint32_t digit;
	uint32_t rank;
	uint32_t all_ones; // bits that all values have
	uint32_t any_ones; // bits that some value has
};

/// The k-th smallest (k from 1) of value(i), i in [0, n), as unsigned numbers; k <= n. All threads of the block call it
/// and get the result. value(i) is called up to five times per i. Digits begin at the first bit in which values differ,
/// so numbers of one magnitude do not crowd into one bin.
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
			// One warp finds the digit: 8 counts a thread, prefix sums by shuffles.
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

constexpr int kFewEach = 8; // numbers that a thread of block_kth_of_few holds

/// Shared memory of block_kth_of_few.
struct FewScratch
{
	uint32_t parts[2][32]; // of each warp, in turn
};

/// A number of [low, high), low < high: half-way between the floats whose orders they are, if that is a number, since
/// estimates lie on both sides of zero and are spread evenly rather than by magnitude. Every fourth round halves the
/// orders instead, which bounds the number of rounds.
__device__ __forceinline__ uint32_t
order_between(uint32_t low, uint32_t high, uint32_t round)
{
	const uint32_t middle = float_to_order(0.5f * order_to_float(low) + 0.5f * order_to_float(high));

	return round % 4 != 3 && middle >= low && middle < high ? middle : low + (high - low) / 2;
}

/// The k-th smallest (k from 1) of the numbers, orders of floats, that the threads hold. Places without a number hold
/// 0xFFFFFFFF; with fewer than k numbers that is the result. Halves the range repeatedly: for at most kFewEach numbers
/// a thread this is faster than histograms. All of Threads call it and get the result.
template <class Threads = WholeBlock>
__device__ inline uint32_t
block_kth_of_few(const uint32_t (&values)[kFewEach], uint32_t k, FewScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t n_warps = Threads::size() / 32;
	uint32_t round = 0;
	// The parts of all warps, joined by all; two places in turn, so one barrier a round is enough.
	auto joined = [&](uint32_t part, auto join, uint32_t neutral)
	{
		uint32_t *parts = scratch->parts[round++ % 2];

		if (lane == 0)
			parts[warp] = part;
		Threads::sync();
		return join(lane < n_warps ? parts[lane] : neutral);
	};
	auto sum = [](uint32_t v) { return __reduce_add_sync(0xFFFFFFFFu, v); };
	auto largest = [](uint32_t v) { return __reduce_max_sync(0xFFFFFFFFu, v); };
	auto smallest = [](uint32_t v) { return __reduce_min_sync(0xFFFFFFFFu, v); };
	uint32_t low = 0xFFFFFFFFu;
	uint32_t high = 0; // of numbers other than 0xFFFFFFFF

#pragma unroll
	for (const uint32_t v : values)
	{
		low = min(low, v);
		high = max(high, v == 0xFFFFFFFFu ? 0 : v);
	}
	low = joined(smallest(low), smallest, 0xFFFFFFFFu);
	high = joined(largest(high), largest, 0);
	if (low == 0xFFFFFFFFu)
		return low;

	// The result is in [low, high]; with fewer than k numbers up to high it is 0xFFFFFFFF.
	uint32_t first = 0;
	uint32_t halvings = 0;
	uint32_t n_up_to = 0;

#pragma unroll
	for (const uint32_t v : values)
		n_up_to += v <= high;
	if (joined(sum(n_up_to), sum, 0) < k)
		return 0xFFFFFFFFu;
	for (first = low; first < high;)
	{
		const uint32_t middle = order_between(first, high, halvings++);
		uint32_t below = 0;

#pragma unroll
		for (const uint32_t v : values)
			below += v <= middle;
		below = joined(sum(below), sum, 0);
		if (below == k)
		{
			uint32_t most = 0;

#pragma unroll
			for (const uint32_t v : values)
				most = v <= middle ? max(most, v) : most;
			return joined(largest(most), largest, 0);
		}
		if (below > k)
			high = middle;
		else
			first = middle + 1;
	}
	return first;
}

/// Sort entries [n], shared memory, n a power of two. All of Threads call it; ends with a barrier.
template <class Threads = WholeBlock>
__device__ inline void
block_sort(Entry *entries, uint32_t n)
{
	for (uint32_t size = 2; size <= n; size *= 2)
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
		{
			Threads::sync();
			for (uint32_t i = threadIdx.x; i < n / 2; i += Threads::size())
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
	Threads::sync();
}

} // namespace vectorgpu::kernels
