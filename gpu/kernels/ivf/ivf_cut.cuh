// The choice among the nearest lists of a query with conditions, by the rows in them that pass (IvfCut). One function,
// so that a query has the same lists in whatever way they are scanned.
#pragma once

#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kCutThreads = kIvfMostCut;
constexpr uint32_t kFullList = 1024; // parts of a full list, counted as whole numbers so that sums have no rounding

/// Shared memory of cut_lists.
struct CutScratch
{
	uint64_t warp_sums[kCutThreads / 32];
	uint32_t warp_full[kCutThreads / 32];
	float wanted;
	uint32_t n_lists;
};

/// Parts of kFullList that a list counts for.
__device__ __forceinline__ uint32_t
full_parts(uint32_t n_pass, uint32_t n_rows)
{
	if (n_pass == 0)
		return 0;

	const float share = static_cast<float>(n_pass) / static_cast<float>(n_rows);

	return static_cast<uint32_t>(
		static_cast<float>(kFullList) * (sqrtf(share) * (1.0f + 0.6f * share * (1.0f - share))));
}

/// How many of a query's lists it looks at, 0 if its rows lie away from it. n_pass, n_rows: of this thread's list, in
/// the order in which lists are near. most: the lists, up to kIvfMostCut. share: of all rows that passes. By a block of
/// kCutThreads; begins with a barrier.
__device__ __forceinline__ uint32_t
cut_lists(const IvfCut &cut, float share, uint32_t n_pass, uint32_t n_rows, uint32_t most, CutScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t least = static_cast<uint32_t>(ceilf(cut.least * static_cast<float>(most)));
	const uint32_t least_full = static_cast<uint32_t>(ceilf(cut.full * static_cast<float>(most))) * kFullList;
	const uint32_t n_lists = threadIdx.x + 1;
	unsigned long long sum = n_lists <= most ? static_cast<unsigned long long>(n_rows) << 32 | n_pass : 0;
	uint32_t full = n_lists <= most ? full_parts(n_pass, n_rows) : 0;

	__syncthreads();
#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const unsigned long long other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);
		const uint32_t other_full = __shfl_up_sync(0xFFFFFFFFu, full, offset);

		if (static_cast<int>(lane) >= offset)
		{
			sum += other;
			full += other_full;
		}
	}
	if (lane == 31)
	{
		scratch->warp_sums[threadIdx.x / 32] = sum;
		scratch->warp_full[threadIdx.x / 32] = full;
	}
	if (threadIdx.x == 0)
		scratch->n_lists = most + 1;
	__syncthreads();
	for (uint32_t w = 0; w < threadIdx.x / 32; w++)
	{
		sum += scratch->warp_sums[w];
		full += scratch->warp_full[w];
	}
	if (n_lists == least)
		scratch->wanted = share * static_cast<float>(static_cast<uint32_t>(sum >> 32));
	__syncthreads();
	if ((n_lists >= least || full >= least_full) && n_lists <= most &&
		static_cast<float>(static_cast<uint32_t>(sum)) >= scratch->wanted)
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
