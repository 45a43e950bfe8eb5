// The choice among the nearest lists of a query with conditions, by the rows in them that pass (IvfCut). One function,
// so that a query has the same lists in whatever way they are scanned.
#pragma once

#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kCutThreads = kIvfMostCut;

/// Shared memory of cut_lists.
struct CutScratch
{
	uint64_t warp_sums[kCutThreads / 32];
	float wanted;
	uint32_t n_lists;
};

/// How many of a query's lists it looks at, 0 if its rows lie away from it. n_pass, n_rows: of this thread's list, in
/// the order in which lists are near. most: the lists, up to kIvfMostCut. share: of all rows that passes. By a block of
/// kCutThreads; begins with a barrier.
__device__ __forceinline__ uint32_t
cut_lists(const IvfCut &cut, float share, uint32_t n_pass, uint32_t n_rows, uint32_t most, CutScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t least = static_cast<uint32_t>(ceilf(cut.least * static_cast<float>(most)));
	const uint32_t n_lists = threadIdx.x + 1;
	unsigned long long sum = n_lists <= most ? static_cast<unsigned long long>(n_rows) << 32 | n_pass : 0;

	__syncthreads();
#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const unsigned long long other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);

		if (static_cast<int>(lane) >= offset)
			sum += other;
	}
	if (lane == 31)
		scratch->warp_sums[threadIdx.x / 32] = sum;
	if (threadIdx.x == 0)
		scratch->n_lists = most + 1;
	__syncthreads();
	for (uint32_t w = 0; w < threadIdx.x / 32; w++)
		sum += scratch->warp_sums[w];
	if (n_lists == least)
		scratch->wanted = share * static_cast<float>(static_cast<uint32_t>(sum >> 32));
	__syncthreads();
	if (n_lists >= least && n_lists <= most && static_cast<float>(static_cast<uint32_t>(sum)) >= scratch->wanted)
		atomicMin(&scratch->n_lists, n_lists);
	__syncthreads();
	return scratch->n_lists <= most ? scratch->n_lists : 0;
}

/// The share of all rows that passes and lives.
__device__ __forceinline__ float
passing_share(const IvfCut &cut, const uint64_t *offsets, uint32_t n_lists)
{
	return static_cast<float>(__ldg(cut.n_pass + n_lists)) / static_cast<float>(__ldg(offsets + n_lists));
}

} // namespace vectorgpu::kernels
