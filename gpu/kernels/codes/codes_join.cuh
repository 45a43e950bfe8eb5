// The parts of a query's candidates, each sorted, joined by one block: merges of two lists at a time in shared memory,
// cut back to the number that is wanted. An entry's place in a merged list is its place in its own list and the number
// of entries of the other one before it, so that a level needs one barrier and no sort.
#pragma once

#include "kernels/codes/codes_launch.hpp"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kJoinedEntries = 4096; // held at a time, unless two lists have more
constexpr uint32_t kMostJoined = 256;     // lists

/// Lists held at a time.
inline uint32_t
joined_lists(uint32_t n_splits, uint32_t stride)
{
	return min(min(n_splits, kMostJoined), max(2u, kJoinedEntries / max(stride, 1u)));
}

/// Shared memory of join_parts: two buffers in turn, and the lengths of the lists in them.
struct JoinBuffers
{
	Entry *entries[2];               // [lists * stride], [(lists + 1) / 2 * stride]
	uint32_t (*counts)[kMostJoined]; // [2]
};

/// How many of entries [n], ascending, are before `entry`; with `ties` also those that equal it.
__device__ __forceinline__ uint32_t
entries_before(const Entry *entries, uint32_t n, const Entry &entry, bool ties)
{
	uint32_t low = 0;

	while (low < n)
	{
		const uint32_t middle = (low + n) / 2;
		const Entry other = entries[middle];

		if (entry_less(other, entry) || (ties && !entry_less(entry, other)))
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/// Merge lists 2 i and 2 i + 1 of buffer `from` to list i of the other one; keep the k first of each. By all threads,
/// after a barrier; ends with one.
__device__ __forceinline__ void
merge_pairs(const JoinBuffers &buffers, uint32_t from, uint32_t n_lists, uint32_t stride, uint32_t k)
{
	const Entry *lists = buffers.entries[from];
	const uint32_t *counts = buffers.counts[from];
	Entry *merged = buffers.entries[1 - from];

	for (uint32_t i = threadIdx.x; i < n_lists * stride; i += blockDim.x)
	{
		const uint32_t list = i / stride;
		const uint32_t at = i % stride;
		const uint32_t other = list ^ 1u;

		if (at >= counts[list])
			continue;

		const Entry entry = lists[i];
		const uint32_t n_other = other < n_lists ? counts[other] : 0;
		const uint32_t rank = at + entries_before(lists + other * stride, n_other, entry, list > other);

		if (rank < k)
			merged[list / 2 * stride + rank] = entry;
	}
	for (uint32_t i = threadIdx.x; i < (n_lists + 1) / 2; i += blockDim.x)
		buffers.counts[1 - from][i] = min(k, counts[2 * i] + (2 * i + 1 < n_lists ? counts[2 * i + 1] : 0));
	__syncthreads();
}

/// Join the parts of a query, `lists` at a time. Returns the number of its candidates; *joined becomes the buffer that
/// they lie in, in order. By all threads; ends with a barrier.
__device__ inline uint32_t
join_parts(const CodedScanArgs &args, uint32_t query, uint32_t lists, const JoinBuffers &buffers, const Entry **joined)
{
	const uint32_t stride = args.stride;
	const uint32_t k = args.wanted[query];
	const Entry *parts = args.parts + static_cast<size_t>(query) * args.n_splits * stride;
	const uint32_t *part_counts = args.part_counts + static_cast<size_t>(query) * args.n_splits;
	uint32_t kept = 0; // lists: none, or the one of the parts so far, in buffer 0
	uint32_t from = 0;

	for (uint32_t first = 0; first < args.n_splits;)
	{
		const uint32_t n_new = min(lists - kept, args.n_splits - first);

		for (uint32_t i = threadIdx.x; i < n_new; i += blockDim.x)
			buffers.counts[0][kept + i] = min(part_counts[first + i], k);
		for (uint32_t i = threadIdx.x; i < n_new * stride; i += blockDim.x)
			if (i % stride < part_counts[first + i / stride])
				buffers.entries[0][kept * stride + i] = parts[static_cast<size_t>(first) * stride + i];
		__syncthreads();
		first += n_new;
		from = 0;
		for (uint32_t n_lists = kept + n_new; n_lists > 1; n_lists = (n_lists + 1) / 2, from = 1 - from)
			merge_pairs(buffers, from, n_lists, stride, k);
		kept = 1;
		if (from != 0 && first < args.n_splits)
		{
			for (uint32_t i = threadIdx.x; i < buffers.counts[1][0]; i += blockDim.x)
				buffers.entries[0][i] = buffers.entries[1][i];
			if (threadIdx.x == 0)
				buffers.counts[0][0] = buffers.counts[1][0];
			__syncthreads();
		}
	}
	*joined = buffers.entries[from];
	return buffers.counts[from][0];
}

} // namespace vectorgpu::kernels
