// Few numbers or entries of a query ranked by counting the smaller ones of each: fewer barriers than halving ranges or
// sorting. By the kSelectThreads of Threads.
#pragma once

#include "kernels/filter/filter_bound.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{

// Up to this many are ranked by counting the smaller ones, instead of halving ranges.
constexpr uint32_t kRankedCandidates = 512;

// Up to this many entries are sorted so; each is compared with all others.
constexpr uint32_t kRankedEntries = 64;

/// Sort entries [n] in shared memory, n at most Threads::size(), by counting for each the entries before it. Begins
/// with a barrier; one must follow.
template <class Threads>
__device__ inline void
rank_entries(Entry *entries, uint32_t n)
{
	Entry mine = {kExcludedKey, kExcludedKey};
	uint32_t rank = 0;

	Threads::sync();
	if (threadIdx.x < n)
	{
		mine = entries[threadIdx.x];
		for (uint32_t j = 0; j < n; j++)
		{
			const Entry other = entries[j];

			rank += entry_less(other, mine) || (j < threadIdx.x && !entry_less(mine, other));
		}
	}
	Threads::sync();
	if (threadIdx.x < n)
		entries[rank] = mine;
}

static_assert(2 * kSelectThreads == kRankedCandidates && kMergeLeast >= kRankedCandidates);

/// For the one or two orders of this thread (j * kSelectThreads + threadIdx.x) of count <= kRankedCandidates: how many
/// others are smaller. orders [kRankedCandidates] in shared memory, at a multiple of 16.
template <class Threads>
__device__ inline void
count_smaller(const uint32_t (&mine)[2], uint32_t count, uint32_t *orders, uint32_t (&smaller)[2])
{
	const uint32_t end = (count + 3) / 4 * 4;

#pragma unroll
	for (uint32_t j = 0; j < 2; j++)
	{
		const uint32_t i = j * kSelectThreads + threadIdx.x;

		smaller[j] = 0;
		if (i < end)
			orders[i] = mine[j]; // after the last: 0xFFFFFFFF, which is smaller than no other
	}
	Threads::sync();
	for (uint32_t i = 0; i < end; i += 4)
	{
		const uint4 others = *reinterpret_cast<const uint4 *>(orders + i);

		smaller[0] += (others.x < mine[0]) + (others.y < mine[0]) + (others.z < mine[0]) + (others.w < mine[0]);
		if (count > kSelectThreads) // of all threads
			smaller[1] += (others.x < mine[1]) + (others.y < mine[1]) + (others.z < mine[1]) + (others.w < mine[1]);
	}
}

// Up to this many candidates the k-th is found by counting, which takes fewer barriers than halving.
constexpr uint32_t kCountedCandidates = 128;

/// The k-th smallest of these numbers, as block_kth_of_few; k <= count <= kRankedCandidates. *most: shared, 0 before.
template <class Threads>
__device__ inline uint32_t
kth_by_count(const uint32_t (&mine)[2], uint32_t count, uint32_t k, uint32_t *orders, uint32_t *most)
{
	uint32_t smaller[2];
	uint32_t largest = 0; // of the k smallest and those that equal the k-th

	count_smaller<Threads>(mine, count, orders, smaller);
#pragma unroll
	for (uint32_t j = 0; j < 2; j++)
		if (j * kSelectThreads + threadIdx.x < count && smaller[j] < k)
			largest = max(largest, mine[j]);
	largest = __reduce_max_sync(0xFFFFFFFFu, largest);
	if (threadIdx.x % 32 == 0 && largest != 0)
		atomicMax(most, largest);
	Threads::sync();
	return *most;
}

} // namespace vectorgpu::kernels
