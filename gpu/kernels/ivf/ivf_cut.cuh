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
	uint32_t warp_sums[kCutThreads / 32];
	uint32_t n_lists;
};

/// How many of a query's lists it looks at, 0 if its rows lie away from it. n_pass: of this thread's list, in the order
/// in which lists are near, most: the lists, up to kIvfMostCut. By a block of kCutThreads; begins with a barrier.
__device__ __forceinline__ uint32_t
cut_lists(const IvfCut &cut, uint32_t n_pass, uint32_t most, CutScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const float least = ceilf(cut.least * static_cast<float>(most));
	const float wanted = cut.rows_each * static_cast<float>(most);
	uint32_t sum = threadIdx.x < most ? n_pass : 0;

	__syncthreads();
#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);

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

	const uint32_t n_lists = threadIdx.x + 1;

	if (n_lists <= most && static_cast<float>(n_lists) >= least && static_cast<float>(sum) >= wanted)
		atomicMin(&scratch->n_lists, n_lists);
	__syncthreads();
	return scratch->n_lists <= most ? scratch->n_lists : 0;
}

} // namespace vectorgpu::kernels
