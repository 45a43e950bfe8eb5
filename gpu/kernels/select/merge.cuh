// The merge of candidates into a query's results, for one block. Used by select.cu and scores.cuh.
#pragma once

#include "kernels/select/block_sort.cuh"

namespace vectorgpu::kernels
{

constexpr int kMergeThreads = 256;
constexpr uint32_t kMergeLeast = 512; // entries of the smallest merge buffer: k + threads must fit

/// Entries of the merge buffer for results of up to max_k rows.
inline uint32_t
merge_entries(uint32_t max_k)
{
	uint32_t n = kMergeLeast;

	while (n < 2 * max_k)
		n *= 2;
	return n;
}

/// Sort the first `fill` of entries and keep k. Returns how many are kept.
template <class Threads = WholeBlock>
__device__ inline uint32_t
flush_entries(Entry *entries, uint32_t fill, uint32_t k)
{
	uint32_t n = 2;

	while (n < fill)
		n *= 2;
	Threads::sync();
	for (uint32_t i = fill + threadIdx.x; i < n; i += Threads::size())
		entries[i] = {kExcludedKey, kExcludedKey};
	block_sort<Threads>(entries, n);
	return min(fill, k);
}

/// Set best to the k first of best and of `count` candidates; entries [n_entries] in shared memory. A buffer after the
/// k first takes candidates before the k-th; when it is full, all are sorted and cut back to k. entry_at(i, threshold):
/// candidate i, or, if it does not count, any entry not before the threshold.
template <class EntryAt>
__device__ __forceinline__ void
merge_candidates(uint32_t k, uint32_t count, const EntryAt &entry_at, const Best &best, uint32_t query, Entry *entries,
	uint32_t n_entries)
{
	__shared__ uint32_t shared_fill;
	Entry *kept = best.entries + static_cast<size_t>(query) * best.stride;
	uint32_t fill = best.counts[query];
	Entry threshold = {kExcludedKey, 0}; // no excluded entry comes before it

	if (count == 0)
		return;
	for (uint32_t i = threadIdx.x; i < fill; i += blockDim.x)
		entries[i] = kept[i];
	if (threadIdx.x == 0)
		shared_fill = fill;
	__syncthreads();
	if (fill >= k)
		threshold = entries[k - 1];
	for (uint32_t base = 0; base < count; base += blockDim.x)
	{
		const uint32_t i = base + threadIdx.x;
		Entry entry = {kExcludedKey, 0};

		if (i < count)
			entry = entry_at(i, threshold);
		if (entry_less(entry, threshold))
			entries[atomicAdd(&shared_fill, 1u)] = entry;
		__syncthreads();
		fill = shared_fill;
		__syncthreads(); // all have read it before the next round adds
		if (fill + blockDim.x > n_entries)
		{
			fill = flush_entries(entries, fill, k);
			if (threadIdx.x == 0)
				shared_fill = fill;
			if (fill >= k)
				threshold = entries[k - 1];
			__syncthreads();
		}
	}
	fill = flush_entries(entries, fill, k);
	for (uint32_t i = threadIdx.x; i < fill; i += blockDim.x)
		kept[i] = entries[i];
	if (threadIdx.x == 0)
		best.counts[query] = fill;
}

/// The same for the candidates of a filter or a scan.
__device__ inline void
merge_block(const Queries &queries, const Candidates &candidates, const uint64_t *row_ids, const Best &best,
	uint32_t query, Entry *entries, uint32_t n_entries)
{
	const uint64_t *keys = candidates.keys + static_cast<size_t>(query) * candidates.capacity;
	const uint32_t *rows = candidates.rows + static_cast<size_t>(query) * candidates.capacity;

	merge_candidates(
		queries.k[query], min(candidates.counts[query], candidates.capacity), [&](uint32_t i, const Entry &threshold)
		{ return keys[i] <= threshold.key ? Entry{keys[i], row_ids[rows[i]]} : Entry{kExcludedKey, 0}; }, best, query,
		entries, n_entries);
}

} // namespace vectorgpu::kernels
