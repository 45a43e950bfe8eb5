// How a block of the search of few queries over inverted lists (ivf_few_scan.cuh) chooses a query's lists and lays out
// their rows in chunks.
#pragma once

#include "kernels/select/kth.cuh"
#include "kernels/ivf/ivf_cut.cuh"
#include "kernels/ivf/ivf_few.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kFewThreads = 256;
constexpr uint32_t kFewWarps = kFewThreads / 32;
// Lists that are put in order: near lists first give a good threshold, nothing else depends on it.
constexpr uint32_t kFewMostRanked = 256;

static_assert(kCutThreads == kFewThreads && kIvfMostCut <= kFewMostRanked);

/// Shared memory of a block of few_scan_kernel, besides the orders of the lists and the query.
struct FewListScratch
{
	uint32_t chosen_order[kIvfFewMostProbes];
	uint32_t chosen_list[kIvfFewMostProbes];
	uint32_t first[kIvfFewMostProbes]; // the place where a list begins
	uint32_t end[kIvfFewMostProbes];
	uint32_t chunk_first[kIvfFewMostProbes + 1]; // number of its first chunk
	uint32_t warp_sums[kFewWarps];
	uint32_t list_sums[2][kFewWarps];
	uint32_t n_below;
	uint32_t n_equal;
	uint32_t fill; // rows held
	uint32_t is_last;
	CutScratch cut;
	RadixScratch radix;
	FewScratch few;
};

/// Set chosen_* to the n_probes first lists by (score, list), ascending by list: all blocks of a query must have the
/// same lists in the same places. orders: shared [n_lists]; kPairs: these are the upper halves of scores' keys, lows
/// [n_lists] in device memory the lower ones.
template <bool kPairs>
__device__ __forceinline__ void
choose_lists(const uint32_t *orders, const uint32_t *lows, uint32_t n_lists, uint32_t n_probes, FewListScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t lower = (1u << lane) - 1;
	uint32_t before = 0; // of the lists before: those below the k-th, those equal to it in the upper half
	uint32_t kth_low = 0;
	bool by_lows = false; // lists whose upper halves equal the k-th's are ordered by the lower ones
	const auto is_below = [&](uint32_t i, uint32_t order, uint32_t kth)
	{ return order < kth || (by_lows && order == kth && lows[i] < kth_low); };
	const auto is_tied = [&](uint32_t i, uint32_t order, uint32_t kth)
	{ return order == kth && (!by_lows || lows[i] == kth_low); };

	if (threadIdx.x == 0)
		scratch->n_below = scratch->n_equal = 0;

	const uint32_t kth = block_kth_smallest(
		[&](uint32_t i) { return orders[i]; }, n_lists, n_probes, &scratch->radix); // begins with a barrier
	const auto count = [&](uint32_t *n, const auto &counts)
	{
		uint32_t n_mine = 0;

		for (uint32_t i = threadIdx.x; i < n_lists; i += kFewThreads)
			n_mine += counts(i);
		n_mine = __reduce_add_sync(0xFFFFFFFFu, n_mine);
		if (lane == 0)
			atomicAdd(n, n_mine);
	};

	count(&scratch->n_below, [&](uint32_t i) { return orders[i] < kth; });
	if constexpr (kPairs)
		count(&scratch->n_equal, [&](uint32_t i) { return orders[i] == kth; });
	__syncthreads();

	uint32_t n_tied = n_probes - scratch->n_below; // that are chosen

	if constexpr (kPairs)
		if (scratch->n_equal > n_tied) // of all threads alike
		{
			kth_low = block_kth_smallest(
				[&](uint32_t i) { return orders[i] == kth ? lows[i] : 0xFFFFFFFFu; }, n_lists, n_tied, &scratch->radix);
			by_lows = true;
			count(&scratch->n_below, [&](uint32_t i)
				{ return orders[i] == kth && lows[i] < kth_low; }); // its barriers come after n_below was read
			__syncthreads();
			n_tied = n_probes - scratch->n_below;
		}
	for (uint32_t base = 0; base < n_lists; base += kFewThreads)
	{
		const uint32_t i = base + threadIdx.x;
		const uint32_t order = i < n_lists ? orders[i] : 0;
		const bool below = i < n_lists && is_below(i, order, kth);
		const bool tied = i < n_lists && is_tied(i, order, kth);
		const uint32_t all_below = __ballot_sync(0xFFFFFFFFu, below);
		const uint32_t all_tied = __ballot_sync(0xFFFFFFFFu, tied);
		uint32_t *sums = scratch->list_sums[base / kFewThreads % 2]; // two in turn, so one barrier a round is enough

		if (lane == 0)
			sums[warp] = __popc(all_below) | __popc(all_tied) << 16;
		__syncthreads();

		uint32_t own = before;

		for (uint32_t w = 0; w < kFewWarps; w++)
		{
			own += w < warp ? sums[w] : 0;
			before += sums[w];
		}

		const uint32_t n_tied_before = (own >> 16) + __popc(all_tied & lower);

		if (below || (tied && n_tied_before < n_tied))
		{
			const uint32_t at = (own & 0xFFFF) + __popc(all_below & lower) + min(n_tied_before, n_tied);

			scratch->chosen_order[at] = order;
			scratch->chosen_list[at] = i;
		}
	}
	__syncthreads();
}

/// Set first and end of the chosen lists, nearest first if they are not many, in the same places in all blocks. Returns
/// how many lists the query looks at; 0: its rows lie away from it (IvfCut). lows: as choose_lists. Ends with a
/// barrier.
template <bool kPairs>
__device__ __forceinline__ uint32_t
rank_lists(const IvfFewArgs &args, const uint32_t *lows, uint32_t n_probes, FewListScratch *scratch)
{
	const bool is_cut = args.cut.n_pass != nullptr && n_probes < args.n_lists;
	const float share =
		is_cut ? passing_share(args.cut, args.offsets, args.n_lists) : 0.0f; // early: it waits for memory
	const auto comes_before = [&](uint32_t other, uint32_t list)
	{ return kPairs && lows[other] != lows[list] ? lows[other] < lows[list] : other < list; };

	for (uint32_t i = threadIdx.x; i < n_probes; i += kFewThreads)
	{
		const uint32_t order = scratch->chosen_order[i];
		const uint32_t list = scratch->chosen_list[i];
		uint32_t slot = i;

		if (n_probes <= kFewMostRanked)
		{
			slot = 0;
			for (uint32_t other = 0; other < n_probes; other++)
			{
				const uint32_t its = scratch->chosen_order[other];

				slot += its < order || (its == order && comes_before(scratch->chosen_list[other], list));
			}
		}

		scratch->first[slot] = static_cast<uint32_t>(__ldg(args.offsets + list));
		scratch->end[slot] = static_cast<uint32_t>(__ldg(args.offsets + list + 1));
		if (is_cut)
			scratch->chunk_first[slot] = __ldg(args.cut.n_pass + list);
	}
	__syncthreads();
	if (!is_cut)
		return n_probes;

	const uint32_t slot = threadIdx.x;
	const uint32_t n_pass = scratch->chunk_first[slot];
	const uint32_t n_rows = scratch->end[slot] - scratch->first[slot];

	if (n_pass == 0)
		scratch->end[slot] = scratch->first[slot]; // nothing to be read there
	return cut_lists(args.cut, share, n_pass, n_rows, n_probes, &scratch->cut);
}

/// Set chunk_first of the lists ranked. Returns the number of chunks, each of kChunkRows rows except a list's last.
template <uint32_t kChunkRows>
__device__ __forceinline__ uint32_t
lay_out_lists(uint32_t n_probes, FewListScratch *scratch)
{
	constexpr uint32_t kEach = kIvfFewMostProbes / kFewThreads;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	uint32_t counts[kEach];
	uint32_t sum = 0;

#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
	{
		const uint32_t slot = threadIdx.x * kEach + j;

		counts[j] = slot < n_probes ? (scratch->end[slot] - scratch->first[slot] + kChunkRows - 1) / kChunkRows : 0;
		sum += counts[j];
	}

	uint32_t before = sum;

#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, before, offset);

		if (static_cast<int>(lane) >= offset)
			before += other;
	}
	if (lane == 31)
		scratch->warp_sums[warp] = before;
	__syncthreads();
	before -= sum;
	for (uint32_t w = 0; w < warp; w++)
		before += scratch->warp_sums[w];
#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
	{
		const uint32_t slot = threadIdx.x * kEach + j;

		if (slot <= n_probes)
			scratch->chunk_first[slot] = before;
		before += counts[j];
	}
	if (threadIdx.x == kFewThreads - 1 && n_probes == kIvfFewMostProbes)
		scratch->chunk_first[n_probes] = before;
	__syncthreads();
	return scratch->chunk_first[n_probes];
}

/// The slot of a chunk's list.
__device__ __forceinline__ uint32_t
slot_of(uint32_t chunk, uint32_t n_probes, const FewListScratch &scratch)
{
	uint32_t low = 0; // the last slot whose first chunk is not behind it
	uint32_t high = n_probes;

	while (high - low > 1)
	{
		const uint32_t middle = (low + high) / 2;

		if (scratch.chunk_first[middle] <= chunk)
			low = middle;
		else
			high = middle;
	}
	return low;
}

} // namespace vectorgpu::kernels
