// Which kernel scores listed rows, those of bits, and the k first of a query's lists. See README.md, "Listed rows".
#include "kernels/canonical/bits.cuh"
#include "kernels/canonical/finish.cuh"
#include "kernels/canonical/listed.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kTeam = 8; // threads of a row of bits: 128 bytes at a time

/// As listed_scores_kernel, for rows of bits and jobs of one query: 8 threads to a row.
template <Metric metric>
__global__ void __launch_bounds__(kListedThreads)
listed_bits_kernel(const ListedArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = blockIdx.x * kListedWarps + threadIdx.x / 32;

	let_next_start();
	wait_for_stream();
	if (group >= args.n_groups)
		return;

	const ListedJob job = args.jobs[find_job(args, group, lane)];
	const Rows &rows = args.sources[job.source];
	const ListedQuery &listed = args.listed[job.first_query];
	const uint32_t own = group - job.first_group;
	const uint32_t n_vectors = rows.pitch_bytes / 16;
	const uint4 *x = reinterpret_cast<const uint4 *>(
		static_cast<const char *>(args.queries.vectors) + static_cast<size_t>(job.first_query) * rows.pitch_bytes);
	uint64_t *keys = args.keys + listed.first_key + static_cast<uint64_t>(job.group_of_query + own) * listed.group_rows;
	uint64_t smallest = kExcludedKey;

	for (uint32_t base = 0; base < listed.group_rows; base += 32 / kTeam)
	{
		const uint32_t i = own * listed.group_rows + base + lane / kTeam;
		const uint32_t row = listed_row(job, min(i, job.n_rows - 1));
		const uint4 *y = reinterpret_cast<const uint4 *>(
			static_cast<const char *>(rows.vectors) + static_cast<size_t>(row) * rows.pitch_bytes);
		uint32_t first = 0;
		uint32_t second = 0;
		uint64_t key = kExcludedKey;

		for (uint32_t e = lane % kTeam; e < n_vectors; e += kTeam)
			count_bits<metric>(__ldg(x + e), __ldg(y + e), first, second);
#pragma unroll
		for (int width = kTeam / 2; width >= 1; width /= 2)
		{
			first += __shfl_xor_sync(0xFFFFFFFFu, first, width);
			second += __shfl_xor_sync(0xFFFFFFFFu, second, width);
		}
		if (i < job.n_rows && !row_is_dead(rows, row))
			key = key_after(bits_score<metric>(first, second), args.queries, job.first_query, rows.row_ids, row);
		if (lane % kTeam == 0)
			keys[base + lane / kTeam] = key;
		smallest = min(smallest, key);
	}
	put_minimum<1>(args, job, own, smallest, lane);
}

/// The row id of key i of a query's group.
__device__ __forceinline__ uint64_t
listed_row_id(const ListedArgs &args, const ListedQuery &listed, uint32_t group, uint32_t i)
{
	uint32_t j = listed.first_job;

	while (j + 1 < listed.first_job + listed.n_jobs && group >= args.jobs[j + 1].group_of_query)
		j++;

	const ListedJob &job = args.jobs[j];

	return args.sources[job.source].row_ids[listed_row(job, (group - job.group_of_query) * listed.group_rows + i)];
}

/// Grid n_queries, block 256, shared: n_entries entries. The k-th smallest of the groups' minima bounds k rows, so only
/// the keys of groups up to it are read: about k groups, in any order of rows.
__global__ void __launch_bounds__(kMergeThreads)
listed_select_kernel(const ListedArgs args, uint32_t n_entries, const Answers answers)
{
	extern __shared__ Entry entries[];
	__shared__ RadixScratch scratch;
	__shared__ uint32_t high[kMaxGroups];
	__shared__ uint16_t chosen[kMaxGroups];
	__shared__ uint32_t n_chosen;
	const uint32_t query = blockIdx.x;

	wait_for_stream();

	const ListedQuery listed = args.listed[query];
	const uint32_t k = args.queries.k[query];
	const uint64_t *keys = args.keys + listed.first_key;
	uint32_t bound = 0xFFFFFFFFu;

	if (threadIdx.x == 0)
		n_chosen = 0;
	for (uint32_t i = threadIdx.x; i < listed.n_groups; i += blockDim.x)
		high[i] = static_cast<uint32_t>(args.minima[listed.first_minimum + i] >> 32);
	__syncthreads();
	if (k <= listed.n_groups)
		bound = block_kth_smallest([&](uint32_t i) { return high[i]; }, listed.n_groups, k, &scratch);
	for (uint32_t i = threadIdx.x; i < listed.n_groups; i += blockDim.x)
		if (high[i] <= bound)
			chosen[atomicAdd(&n_chosen, 1u)] = static_cast<uint16_t>(i);
	__syncthreads();

	const uint64_t most = static_cast<uint64_t>(bound) << 32 | 0xFFFFFFFFu;

	merge_candidates(
		k, n_chosen * listed.group_rows,
		[&](uint32_t i, const Entry &threshold)
		{
			const uint32_t group = chosen[i / listed.group_rows];
			const uint32_t at = i % listed.group_rows;
			const uint64_t key = keys[static_cast<uint64_t>(group) * listed.group_rows + at];

			return key <= most && key <= threshold.key && key != kExcludedKey
				? Entry{key, listed_row_id(args, listed, group, at)}
				: Entry{kExcludedKey, 0};
		},
		args.best, query, entries, n_entries);
	__syncthreads(); // the count is complete
	give_answer<WholeBlock>(answers, query, args.best.entries + static_cast<size_t>(query) * args.best.stride,
		args.best.counts[query], 0, false);
}

} // namespace

cudaError_t
launch_listed_scores(const ListedArgs &args, cudaStream_t stream)
{
	const uint32_t blocks = (args.n_groups + kListedWarps - 1) / kListedWarps;

	if (args.n_groups == 0)
		return cudaSuccess; // an empty grid is an error
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_listed_metric<Metric::kL2>(args, stream);
		case Metric::kInnerProduct:
			return launch_listed_metric<Metric::kInnerProduct>(args, stream);
		case Metric::kCosine:
			return launch_listed_metric<Metric::kCosine>(args, stream);
		case Metric::kL1:
			return launch_listed_metric<Metric::kL1>(args, stream);
		case Metric::kHamming:
			return launch_after(listed_bits_kernel<Metric::kHamming>, blocks, kListedThreads, 0, stream, args);
		case Metric::kJaccard:
			return launch_after(listed_bits_kernel<Metric::kJaccard>, blocks, kListedThreads, 0, stream, args);
		case Metric::kMatchCount:
		case Metric::kEdit:
			break; // not for vectors
	}
	return cudaErrorInvalidValue;
}

cudaError_t
launch_listed_select(const ListedArgs &args, uint32_t max_k, const Answers &answers, cudaStream_t stream)
{
	const uint32_t n = merge_entries(max_k);

	if (args.queries.n_queries == 0)
		return cudaSuccess;
	return launch_after(
		listed_select_kernel, args.queries.n_queries, kMergeThreads, n * sizeof(Entry), stream, args, n, answers);
}

cudaError_t
prepare_listed_kernels()
{
	return cudaFuncSetAttribute(listed_select_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(merge_entries(kMaxSelectK) * sizeof(Entry)));
}

} // namespace vectorgpu::kernels
