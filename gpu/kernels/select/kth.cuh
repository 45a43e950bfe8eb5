// The k-th smallest of numbers that a block or a warp has: by radix, 8 bits a round, of any number of values behind a
// function; by halving a range, of few that threads hold in registers. Each loop exists once; see README.md, "The k-th
// smallest".
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{

/// The threads that work together, as the template parameter Threads below: all of a block.
struct WholeBlock
{
	static __device__ __forceinline__ uint32_t size() { return blockDim.x; }
	static __device__ __forceinline__ void sync() { __syncthreads(); }
};

/// Shared memory of block_kth_smallest, for numbers of this type.
template <class Number>
struct RadixScratchOf
{
	uint32_t histogram[256];
	uint32_t digit;
	uint32_t rank;
	uint32_t in_bin;
	Number all_ones; // bits that all values have
	Number any_ones; // bits that some value has
};
using RadixScratch = RadixScratchOf<uint32_t>;

/// The bits that all, or some, of a warp's values have.
__device__ __forceinline__ uint32_t
warp_and(uint32_t value)
{
	return __reduce_and_sync(0xFFFFFFFFu, value);
}

__device__ __forceinline__ unsigned long long
warp_and(unsigned long long value)
{
	return static_cast<unsigned long long>(warp_and(static_cast<uint32_t>(value >> 32))) << 32 |
		warp_and(static_cast<uint32_t>(value));
}

__device__ __forceinline__ uint32_t
warp_or(uint32_t value)
{
	return __reduce_or_sync(0xFFFFFFFFu, value);
}

__device__ __forceinline__ unsigned long long
warp_or(unsigned long long value)
{
	return static_cast<unsigned long long>(warp_or(static_cast<uint32_t>(value >> 32))) << 32 |
		warp_or(static_cast<uint32_t>(value));
}

/// Set the digit whose bin has the k-th number of the histogram, k's rank in the bin, and, if kOrMore, the numbers in
/// it. By a warp: 8 counts a thread, prefix sums by shuffles.
template <bool kOrMore, class Number>
__device__ __forceinline__ void
find_digit(RadixScratchOf<Number> *scratch, uint32_t k)
{
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
		if constexpr (kOrMore)
			scratch->in_bin = counts[j];
	}
}

/// The k-th smallest (k from 1) of value(i), i in [0, n), as unsigned numbers; k <= n. All threads of the block call it
/// and get the result. value(i) is called up to five times per i, nine times of 64 bits. Digits begin at the first bit
/// in which values differ, so numbers of one magnitude do not crowd into one bin. kOrMore: a number between the k-th
/// and the next will do, which may take fewer rounds.
template <bool kOrMore = false, class Number, class Value>
__device__ Number
block_kth_smallest(const Value &value, uint32_t n, uint32_t k, RadixScratchOf<Number> *scratch)
{
	constexpr int kBits = 8 * static_cast<int>(sizeof(Number));
	constexpr Number kOnes = ~Number{0};

	if (threadIdx.x == 0)
	{
		scratch->all_ones = kOnes;
		scratch->any_ones = 0;
	}
	__syncthreads();
	{
		Number all = kOnes;
		Number any = 0;

		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		{
			const Number v = value(i);

			all &= v;
			any |= v;
		}
		all = warp_and(all);
		any = warp_or(any);
		if (threadIdx.x % 32 == 0)
		{
			atomicAnd(&scratch->all_ones, all);
			atomicOr(&scratch->any_ones, any);
		}
	}
	__syncthreads();

	const Number differing = scratch->all_ones ^ scratch->any_ones;
	int n_bits; // the lowest decide

	if constexpr (kBits == 32)
		n_bits = kBits - __clz(static_cast<int>(differing));
	else
		n_bits = kBits - __clzll(static_cast<long long>(differing));

	Number mask = n_bits == kBits ? 0 : kOnes << n_bits;
	Number prefix = scratch->all_ones & mask;

	for (int above = n_bits; above > 0; above -= 8)
	{
		const int shift = above > 8 ? above - 8 : 0;

		for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x)
			scratch->histogram[i] = 0;
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		{
			const Number v = value(i);

			if ((v & mask) == prefix)
				atomicAdd(&scratch->histogram[static_cast<uint32_t>((v & ~mask) >> shift) & 0xFF], 1u);
		}
		__syncthreads();
		if (threadIdx.x < 32)
			find_digit<kOrMore>(scratch, k);
		__syncthreads();
		prefix |= static_cast<Number>(scratch->digit) << shift;
		mask = kOnes << shift;
		k = scratch->rank;
		if constexpr (kOrMore)
			if (k == scratch->in_bin) // all of the bin: everything with this prefix is among them
				return prefix | ~mask;
		__syncthreads();
	}
	return prefix;
}

/// A number, and how many of the numbers are at most that. n = 0: the end of the range, where nothing was counted.
template <class Number>
struct HalvedRange
{
	Number bound;
	uint32_t n;
};

/// Halve [low, high], at whose end are at least rank_least numbers, until rank_least ... rank_most numbers are up to
/// its end, or it has one number, or Halving ends it. count_up_to(number): of all numbers. Halving: middle(low, high,
/// round), in [low, high); next(middle), the least number above; goes_on(low, high, round).
template <class Halving, class Number, class CountUpTo>
__device__ __forceinline__ HalvedRange<Number>
halve_range(Number low, Number high, uint32_t rank_least, uint32_t rank_most, const CountUpTo &count_up_to)
{
	uint32_t found = 0;

	for (uint32_t round = 0; Halving::goes_on(low, high, round); round++)
	{
		const Number middle = Halving::middle(low, high, round);
		const uint32_t n = count_up_to(middle);

		if (n < rank_least)
			low = Halving::next(middle);
		else
		{
			high = middle;
			found = n;
			if (n <= rank_most)
				break;
		}
	}
	return {high, found};
}

/// Halves a range of unsigned numbers.
struct HalveNumbers
{
	static __device__ __forceinline__ bool goes_on(uint32_t low, uint32_t high, uint32_t) { return low < high; }
	static __device__ __forceinline__ uint32_t middle(uint32_t low, uint32_t high, uint32_t)
	{
		return low + (high - low) / 2;
	}
	static __device__ __forceinline__ uint32_t next(uint32_t middle) { return middle + 1; }
};

/// Halves a range of orders of floats: half-way between the floats, if that is a number, since estimates lie on both
/// sides of zero and are spread evenly rather than by magnitude. Every fourth round halves the orders instead, which
/// bounds the number of rounds.
struct HalveOrders : HalveNumbers
{
	static __device__ __forceinline__ uint32_t middle(uint32_t low, uint32_t high, uint32_t round)
	{
		const uint32_t middle = float_to_order(0.5f * order_to_float(low) + 0.5f * order_to_float(high));

		return round % 4 != 3 && middle >= low && middle < high ? middle : low + (high - low) / 2;
	}
};

/// Halves a range of floats a few times.
struct HalveFloats
{
	static constexpr uint32_t kMostHalvings = 20;

	static __device__ __forceinline__ bool goes_on(float, float, uint32_t round) { return round < kMostHalvings; }
	static __device__ __forceinline__ float middle(float low, float high, uint32_t) { return 0.5f * low + 0.5f * high; }
	static __device__ __forceinline__ float next(float middle) { return middle; }
};

constexpr int kFewEach = 8; // numbers that a thread of block_kth_of_few holds

/// Shared memory of block_kth_of_few.
struct FewScratch
{
	uint32_t parts[2][32]; // of each warp, in turn
};

/// The k-th smallest (k from 1) of the numbers, orders of floats, that the threads hold. Places without a number hold
/// 0xFFFFFFFF; with fewer than k numbers that is the result. joined(part, join, neutral): the parts of all warps,
/// joined by the function, the same in all threads.
template <int kEach, class Joined>
__device__ __forceinline__ uint32_t
kth_of_few(const uint32_t (&values)[kEach], uint32_t k, const Joined &joined)
{
	auto sum = [](uint32_t v) { return __reduce_add_sync(0xFFFFFFFFu, v); };
	auto largest = [](uint32_t v) { return __reduce_max_sync(0xFFFFFFFFu, v); };
	auto smallest = [](uint32_t v) { return __reduce_min_sync(0xFFFFFFFFu, v); };
	auto count_up_to = [&](uint32_t most)
	{
		uint32_t n = 0;

#pragma unroll
		for (const uint32_t v : values)
			n += v <= most;
		return joined(sum(n), sum, 0);
	};
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
	if (count_up_to(high) < k) // the result is in [low, high], or there is none
		return 0xFFFFFFFFu;

	const HalvedRange<uint32_t> found = halve_range<HalveOrders>(low, high, k, k, count_up_to);

	if (found.n != k)
		return found.bound;

	uint32_t most = 0;

#pragma unroll
	for (const uint32_t v : values)
		most = v <= found.bound ? max(most, v) : most;
	return joined(largest(most), largest, 0);
}

/// The same of the numbers of several warps. For at most kFewEach numbers a thread this is faster than histograms. All
/// of Threads call it and get the result.
template <class Threads = WholeBlock>
__device__ inline uint32_t
block_kth_of_few(const uint32_t (&values)[kFewEach], uint32_t k, FewScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t n_warps = Threads::size() / 32;
	uint32_t round = 0;

	// Two places in turn, so one barrier a round is enough.
	return kth_of_few(values, k,
		[&](uint32_t part, auto join, uint32_t neutral)
		{
			uint32_t *parts = scratch->parts[round++ % 2];

			if (lane == 0)
				parts[warp] = part;
			Threads::sync();
			return join(lane < n_warps ? parts[lane] : neutral);
		});
}

/// The same of the numbers of one warp.
template <int kEach>
__device__ inline uint32_t
warp_kth_of_few(const uint32_t (&values)[kEach], uint32_t k)
{
	return kth_of_few(values, k, [](uint32_t part, auto, uint32_t) { return part; });
}

/// An upper bound on the k-th smallest of the warp's values, kEach a lane: the k-th smallest or little more; infinity
/// if fewer than k are below infinity. All lanes get it.
template <int kEach>
__device__ inline float
warp_kth_or_more(const float (&values)[kEach], uint32_t k)
{
	const float infinity = __int_as_float(0x7F800000);
	float low = infinity;
	float high = -infinity;
	auto count_up_to = [&](float most)
	{
		uint32_t n[4] = {}; // independent additions

#pragma unroll
		for (int j = 0; j < kEach; j++)
			n[j % 4] += values[j] <= most;
		return __reduce_add_sync(0xFFFFFFFFu, (n[0] + n[1]) + (n[2] + n[3]));
	};

#pragma unroll
	for (const float v : values)
	{
		low = fminf(low, v);
		high = fmaxf(high, v < infinity ? v : -infinity);
	}
	low = order_to_float(__reduce_min_sync(0xFFFFFFFFu, float_to_order(low)));
	high = order_to_float(__reduce_max_sync(0xFFFFFFFFu, float_to_order(high)));
	return count_up_to(high) < k ? infinity : halve_range<HalveFloats>(low, high, k, k + k / 8, count_up_to).bound;
}

} // namespace vectorgpu::kernels
