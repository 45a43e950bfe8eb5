// The parts of a query's candidates, each sorted, joined by one block: the first ones of them all.
//
// Many parts: an entry some way down each part is looked at. If enough parts have theirs up to a key, at least as many
// entries as are wanted are up to it. These are gathered, mostly the heads of the parts, and selected from. Few parts,
// and parts whose entries tie: merges of two at a time, cut back to the number wanted. An entry's place in a merged
// list is its place in its own list and the number of entries of the other one before it, so that a level needs one
// barrier and no sort.
#pragma once

#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kJoinedEntries = 4096; // held at a time, unless two lists have more
constexpr uint32_t kMostJoined = 256;     // lists
constexpr uint32_t kMostGathered = 512;   // parts that are gathered from

constexpr uint32_t kLeastGatheredEntries = 512; // of all parts: fewer are merged in as little time
constexpr uint32_t kGatheredParts = 20;         // parts that are to have their looked-at entry up to the cut
constexpr uint32_t kGatheredShare = 3;          // they are at most this share of the parts
constexpr uint32_t kPartsAhead = 8;             // whose entries a warp reads together

/// Lists held at a time.
inline uint32_t
joined_lists(uint32_t n_splits, uint32_t stride)
{
	return min(min(n_splits, kMostJoined), max(2u, kJoinedEntries / max(stride, 1u)));
}

/// Static shared memory of join_parts.
struct JoinScratch
{
	uint32_t counts[2][kMostJoined];        // of the lists in the buffers
	uint32_t part_counts[kMostGathered];    // gather_parts: of the parts, and
	unsigned long long keys[kMostGathered]; // the keys of their entries that are looked at
	KeyRadix radix;
	uint32_t fill;
};

/// Two buffers in turn.
struct JoinBuffers
{
	Entry *entries[2]; // [lists * stride], at least n_first; [(lists + 1) / 2 * stride]
	uint32_t n_first;
	JoinScratch *scratch;
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
	const uint32_t *counts = buffers.scratch->counts[from];
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
		buffers.scratch->counts[1 - from][i] = min(k, counts[2 * i] + (2 * i + 1 < n_lists ? counts[2 * i + 1] : 0));
	__syncthreads();
}

/// Gather entries of the parts of a query, k of them or more, up to a key, to entries [n_entries], in any order; all if
/// there are fewer. Returns how many there are, more than n_entries if there is no room. By all threads, after a
/// barrier; ends with one.
__device__ inline uint32_t
gather_parts(
	const CodedScanArgs &args, uint32_t query, uint32_t k, Entry *entries, uint32_t n_entries, JoinScratch *scratch)
{
	const uint32_t n = args.n_splits;
	const Entry *parts = args.parts + static_cast<size_t>(query) * n * args.stride;
	const uint32_t *part_counts = args.part_counts + static_cast<size_t>(query) * n;
	const uint32_t n_parts = max(1u, min(kGatheredParts, n / kGatheredShare));
	const uint32_t depth = (k + n_parts - 1) / n_parts; // n_parts parts up to there have k entries or more
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t n_warps = blockDim.x / 32;

	for (uint32_t part = threadIdx.x; part < n; part += blockDim.x)
	{
		const uint32_t count = part_counts[part];

		scratch->part_counts[part] = min(count, k);
		scratch->keys[part] =
			count >= depth ? parts[static_cast<size_t>(part) * args.stride + depth - 1].key : kExcludedKey;
	}
	if (threadIdx.x == 0)
		scratch->fill = 0;
	__syncthreads();

	// kExcludedKey if fewer parts have `depth` entries: then all are gathered.
	const unsigned long long cut = block_kth_smallest<true, unsigned long long>(
		[&](uint32_t i) { return scratch->keys[i]; }, n, n_parts, &scratch->radix);

	for (uint32_t first = threadIdx.x / 32; first < n; first += kPartsAhead * n_warps)
	{
		Entry ahead[kPartsAhead];

#pragma unroll
		for (uint32_t j = 0; j < kPartsAhead; j++)
		{
			const uint32_t part = first + j * n_warps;

			ahead[j] = {kExcludedKey, kExcludedKey};
			if (part < n && lane < scratch->part_counts[part])
				ahead[j] = parts[static_cast<size_t>(part) * args.stride + lane];
		}
#pragma unroll
		for (uint32_t j = 0; j < kPartsAhead; j++)
		{
			const uint32_t part = first + j * n_warps;
			const uint32_t count = part < n ? scratch->part_counts[part] : 0;
			Entry entry = ahead[j];

			for (uint32_t base = 0;;)
			{
				const bool taken = base + lane < count && entry.key <= cut;

				append_taken(entry, taken, lane, entries, &scratch->fill, n_entries);
				base += 32;
				if (base >= count || __all_sync(0xFFFFFFFFu, taken) == 0)
					break;
				if (base + lane < count)
					entry = parts[static_cast<size_t>(part) * args.stride + base + lane];
			}
		}
	}
	__syncthreads();
	return scratch->fill;
}

/// Merge the parts of a query, `lists` at a time. Returns the number of its candidates; *joined becomes the buffer that
/// they lie in, in order. By all threads; ends with a barrier.
__device__ inline uint32_t
merge_parts(const CodedScanArgs &args, uint32_t query, uint32_t k, uint32_t lists, const JoinBuffers &buffers,
	const Entry **joined)
{
	const uint32_t stride = args.stride;
	const Entry *parts = args.parts + static_cast<size_t>(query) * args.n_splits * stride;
	const uint32_t *part_counts = args.part_counts + static_cast<size_t>(query) * args.n_splits;
	uint32_t(*counts)[kMostJoined] = buffers.scratch->counts;
	uint32_t kept = 0; // lists: none, or the one of the parts so far, in buffer 0
	uint32_t from = 0;

	for (uint32_t first = 0; first < args.n_splits;)
	{
		const uint32_t n_new = min(lists - kept, args.n_splits - first);

		for (uint32_t i = threadIdx.x; i < n_new; i += blockDim.x)
			counts[0][kept + i] = min(part_counts[first + i], k);
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
			for (uint32_t i = threadIdx.x; i < counts[1][0]; i += blockDim.x)
				buffers.entries[0][i] = buffers.entries[1][i];
			if (threadIdx.x == 0)
				counts[0][0] = counts[1][0];
			__syncthreads();
		}
	}
	*joined = buffers.entries[from];
	return counts[from][0];
}

/// Join the parts of a query. Returns the number of its candidates; *joined becomes the buffer that they lie in, in
/// order if `ordered`. By all threads; ends with a barrier.
__device__ inline uint32_t
join_parts(const CodedScanArgs &args, uint32_t query, uint32_t lists, bool ordered, const JoinBuffers &buffers,
	const Entry **joined)
{
	const uint32_t k = args.wanted[query];

	if (k > 0 && args.n_splits <= kMostGathered && args.n_splits * args.stride > kLeastGatheredEntries)
	{
		Entry *entries = buffers.entries[0];
		uint32_t n = gather_parts(args, query, k, entries, buffers.n_first, buffers.scratch);

		if (n <= buffers.n_first)
		{
			*joined = entries;
			n = keep_first(entries, n, k, &buffers.scratch->radix, &buffers.scratch->fill);
			return n > k || ordered ? flush_entries(entries, n, k) : n;
		}
	}
	return merge_parts(args, query, k, lists, buffers, joined);
}

} // namespace vectorgpu::kernels
