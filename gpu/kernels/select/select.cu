// The k first of many scores: thresholds from minima of groups, compaction, merge. See README.md, "Selection".
#include "kernels/warp_block/launch.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThresholdThreads = 512;
constexpr int kCompactThreads = 256;
constexpr uint32_t kCompactPerThread = 16;

/// Grid n_queries, block 512. The k-th smallest of the minima's upper halves bounds k different rows from above.
__global__ void __launch_bounds__(kThresholdThreads)
thresholds_kernel(const Queries queries, const uint64_t *minima, uint32_t n_groups, const Best best,
	uint64_t *thresholds, uint32_t *counts)
{
	__shared__ RadixScratch scratch;
	__shared__ uint32_t high[kMaxGroups];
	const uint32_t query = blockIdx.x;
	const uint32_t k = queries.k[query];
	uint64_t threshold = kNanKey;

	if (k <= n_groups)
	{
		for (uint32_t i = threadIdx.x; i < n_groups; i += blockDim.x)
			high[i] = static_cast<uint32_t>(minima[static_cast<size_t>(query) * kMaxGroups + i] >> 32);
		__syncthreads();

		const uint32_t kth = block_kth_smallest([&](uint32_t i) { return high[i]; }, n_groups, k, &scratch);

		threshold = min(threshold, (static_cast<uint64_t>(kth) << 32) | 0xFFFFFFFFu);
	}
	if (threadIdx.x == 0)
	{
		if (best.counts[query] >= k)
			threshold = min(threshold, best.entries[static_cast<size_t>(query) * best.stride + k - 1].key);
		thresholds[query] = threshold;
		counts[query] = 0;
	}
}

/// Grid (ceil(n_rows / 4096), n_queries), block 256.
__global__ void __launch_bounds__(kCompactThreads)
compact_kernel(
	const uint64_t *keys, uint64_t key_stride, uint32_t n_rows, const uint64_t *thresholds, const Candidates candidates)
{
	const uint32_t query = blockIdx.y;
	const uint64_t threshold = thresholds[query];
	const uint32_t first = blockIdx.x * (kCompactThreads * kCompactPerThread) + threadIdx.x;
	const uint64_t *query_keys = keys + query * key_stride;
	uint64_t key[kCompactPerThread];

#pragma unroll
	for (uint32_t i = 0; i < kCompactPerThread; i++)
	{
		const uint32_t row = first + i * kCompactThreads;

		key[i] = row < n_rows ? query_keys[row] : kExcludedKey;
	}
#pragma unroll
	for (uint32_t i = 0; i < kCompactPerThread; i++)
	{
		const bool taken = key[i] <= threshold; // a key that passes is never kExcludedKey
		const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, taken);

		if (ballot == 0)
			continue;

		const uint32_t lane = threadIdx.x % 32;
		uint32_t base = 0;

		if (lane == 0)
			base = atomicAdd(&candidates.counts[query], static_cast<uint32_t>(__popc(ballot)));
		base = __shfl_sync(0xFFFFFFFFu, base, 0) + __popc(ballot & ((1u << lane) - 1));
		if (taken && base < candidates.capacity)
		{
			candidates.keys[static_cast<size_t>(query) * candidates.capacity + base] = key[i];
			candidates.rows[static_cast<size_t>(query) * candidates.capacity + base] = first + i * kCompactThreads;
		}
	}
}

/// Grid n_queries, block 256, shared: n_entries entries.
__global__ void __launch_bounds__(kMergeThreads)
merge_kernel(const Queries queries, const Candidates candidates, const uint64_t *row_ids, const Best best,
	uint32_t n_entries, uint8_t *redo)
{
	extern __shared__ Entry entries[];

	if (redo != nullptr && threadIdx.x == 0 && candidates.counts[blockIdx.x] > candidates.capacity)
		redo[blockIdx.x] = 1;
	merge_block(queries, candidates, row_ids, best, blockIdx.x, entries, n_entries);
}

/// The same after a bounded scan.
__global__ void __launch_bounds__(kMergeThreads)
bounded_merge_kernel(
	const Queries queries, const Candidates candidates, const uint64_t *row_ids, const Best best, uint32_t n_entries)
{
	extern __shared__ Entry entries[];

	let_next_start();
	wait_for_stream();
	if (candidates.counts[blockIdx.x] == 0)
		return;
	merge_block(queries, candidates, row_ids, best, blockIdx.x, entries, n_entries);
	__syncthreads();
	if (threadIdx.x == 0)
		candidates.counts[blockIdx.x] = 0;
}

/// Grid n_queries, block 256, shared: n_entries entries. The k-th smallest upper half lets little more than k keys
/// pass.
__global__ void __launch_bounds__(kMergeThreads)
select_keys_kernel(const Queries queries, const uint64_t *keys, uint64_t key_stride, uint32_t n_rows, const Best best,
	uint32_t n_entries)
{
	extern __shared__ Entry entries[];
	__shared__ RadixScratch scratch;
	const uint64_t *query_keys = keys + blockIdx.x * key_stride;

	wait_for_stream();
	let_next_start(); // only now: see launch_select_keys

	const uint32_t k = min(queries.k[blockIdx.x], n_rows);
	const uint32_t kth =
		block_kth_smallest([&](uint32_t i) { return static_cast<uint32_t>(query_keys[i] >> 32); }, n_rows, k, &scratch);

	if (threadIdx.x == 0)
		best.counts[blockIdx.x] = 0;
	__syncthreads();
	merge_candidates(
		k, n_rows,
		[&](uint32_t i, const Entry &)
		{
			return static_cast<uint32_t>(query_keys[i] >> 32) <= kth ? Entry{query_keys[i], i} : Entry{kExcludedKey, 0};
		},
		best, blockIdx.x, entries, n_entries);
}

} // namespace

cudaError_t
launch_thresholds(const Queries &queries, const uint64_t *minima, uint32_t n_groups, const Best &best,
	uint64_t *thresholds, uint32_t *counts, cudaStream_t stream)
{
	thresholds_kernel<<<queries.n_queries, kThresholdThreads, 0, stream>>>(
		queries, minima, n_groups, best, thresholds, counts);
	return cudaGetLastError();
}

cudaError_t
launch_compact(const Queries &queries, const uint64_t *keys, uint64_t key_stride, uint32_t n_rows,
	const uint64_t *thresholds, const Candidates &candidates, cudaStream_t stream)
{
	constexpr uint32_t kPerBlock = kCompactThreads * kCompactPerThread;

	compact_kernel<<<dim3((n_rows + kPerBlock - 1) / kPerBlock, queries.n_queries), kCompactThreads, 0, stream>>>(
		keys, key_stride, n_rows, thresholds, candidates);
	return cudaGetLastError();
}

cudaError_t
launch_merge(const Queries &queries, const Candidates &candidates, const uint64_t *row_ids, const Best &best,
	uint32_t max_k, cudaStream_t stream, uint8_t *redo)
{
	const uint32_t n = merge_entries(max_k);

	merge_kernel<<<queries.n_queries, kMergeThreads, n * sizeof(Entry), stream>>>(
		queries, candidates, row_ids, best, n, redo);
	return cudaGetLastError();
}

cudaError_t
launch_bounded_merge(const Queries &queries, const Candidates &candidates, const uint64_t *row_ids, const Best &best,
	uint32_t max_k, cudaStream_t stream)
{
	const uint32_t n = merge_entries(max_k);

	return launch_after(bounded_merge_kernel, queries.n_queries, kMergeThreads, n * sizeof(Entry), stream, queries,
		candidates, row_ids, best, n);
}

cudaError_t
launch_select_keys(const Queries &queries, const uint64_t *keys, uint64_t key_stride, uint32_t n_rows, const Best &best,
	uint32_t max_k, cudaStream_t stream)
{
	const uint32_t n = merge_entries(max_k);

	if (queries.n_queries == 0 || n_rows == 0)
		return cudaSuccess;
	return launch_after(select_keys_kernel, queries.n_queries, kMergeThreads, n * sizeof(Entry), stream, queries, keys,
		key_stride, n_rows, best, n);
}

cudaError_t
prepare_select_kernels()
{
	constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
	const int bytes = static_cast<int>(merge_entries(kMaxSelectK) * sizeof(Entry));
	cudaError_t error = cudaFuncSetAttribute(merge_kernel, kLimit, bytes);

	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(bounded_merge_kernel, kLimit, bytes);
	return error != cudaSuccess ? error : cudaFuncSetAttribute(select_keys_kernel, kLimit, bytes);
}

} // namespace vectorgpu::kernels
