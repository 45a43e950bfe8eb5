// The kernel that scores listed rows, instantiated per metric by listed_<metric>.cu.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/canonical/listed_dispatch.hpp"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

constexpr int kListedThreads = 128;
constexpr uint32_t kListedWarps = kListedThreads / 32;

/// The job that has a group, by a warp: the last one that does not begin behind it.
__device__ __forceinline__ uint32_t
find_job(const ListedArgs &args, uint32_t group, uint32_t lane)
{
	uint32_t first = 0;
	uint32_t n = args.n_jobs;

	while (n > 1)
	{
		const uint32_t step = (n + 31) / 32;
		const bool begun = lane * step < n && args.jobs[first + lane * step].first_group <= group;
		const uint32_t last = __popc(__ballot_sync(0xFFFFFFFFu, begun)) - 1;

		first += last * step;
		n = min(step, n - last * step);
	}
	return first;
}

/// The row of the list's i-th number.
__device__ __forceinline__ uint32_t
listed_row(const ListedJob &job, uint32_t i)
{
	const uint32_t number = __ldg(job.numbers + i);

	return job.places == nullptr ? number : __ldg(job.places + number);
}

/// Write the smallest key of a group: `smallest` is of this thread's rows and of query lane % Q.
template <int Q>
__device__ __forceinline__ void
put_minimum(const ListedArgs &args, const ListedJob &job, uint32_t group, uint64_t smallest, uint32_t lane)
{
#pragma unroll
	for (int width = 16; width >= Q; width /= 2)
		smallest = min(smallest,
			static_cast<uint64_t>(__shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(smallest), width)));
	if (lane < min(job.n_queries, static_cast<uint32_t>(Q)))
		args.minima[args.listed[job.first_query + lane].first_minimum + job.group_of_query + group] = smallest;
}

/// Keys of a group of the job's rows, for Q queries: 32 / Q rows at a time.
template <Metric metric, class FormT, int Q>
__device__ __forceinline__ void
score_listed_group(const ListedArgs &args, const ListedJob &job, uint32_t group, uint32_t lane)
{
	constexpr uint32_t R = 32 / Q;
	const Rows &rows = args.sources[job.source];
	const char *block = static_cast<const char *>(rows.vectors);
	const uint32_t pitch = rows.pitch_bytes;
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *queries =
		static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(job.first_query) * dim_pad;
	const uint32_t query = lane % Q;
	const bool is_used = query < job.n_queries;
	const ListedQuery &listed = args.listed[job.first_query + (is_used ? query : 0)];
	const uint32_t group_rows = listed.group_rows;
	const uint32_t first = group * group_rows;
	uint64_t *keys = args.keys + listed.first_key + static_cast<uint64_t>(job.group_of_query + group) * group_rows;
	float aa = 0.0f;
	uint64_t smallest = kExcludedKey;

	if constexpr (metric == Metric::kCosine)
		for (uint32_t q = 0; q < min(job.n_queries, static_cast<uint32_t>(Q)); q++)
		{
			const float sum = query_square_sum(queries + static_cast<size_t>(q) * dim_pad, dim_pad, lane);

			aa = q == query ? sum : aa;
		}
	for (uint32_t base = 0; base < group_rows; base += R)
	{
		const uint32_t i = base + lane / Q;
		uint64_t key = kExcludedKey;

		if (first + base < job.n_rows)
		{
			const uint32_t row = listed_row(job, min(first + i, job.n_rows - 1));
			const double score = score_pairs<metric, FormT, R, Q>([&](int r)
				{ return block + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, row, r * Q)) * pitch; }, queries,
				job.n_queries, dim_pad, aa, lane);

			if (first + i < job.n_rows && !row_is_dead(rows, row))
				key = key_after(score, args.queries, job.first_query + (is_used ? query : 0), rows.row_ids, row);
		}
		if (is_used)
			keys[i] = key;
		smallest = min(smallest, key);
	}
	put_minimum<Q>(args, job, group, smallest, lane);
}

/// Grid ceil(n_groups / 4), block 128: a warp takes a group. Jobs whose source has another form are left out.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kListedThreads)
listed_scores_kernel(const ListedArgs args, Form form)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = blockIdx.x * kListedWarps + threadIdx.x / 32;

	let_next_start();
	wait_for_stream();
	if (group >= args.n_groups)
		return;

	const ListedJob job = args.jobs[find_job(args, group, lane)];

	if (args.sources[job.source].form != form)
		return;
	if (job.n_queries == 1)
		score_listed_group<metric, FormT, 1>(args, job, group - job.first_group, lane);
	else
		score_listed_group<metric, FormT, kListedQueries>(args, job, group - job.first_group, lane);
}

template <Metric metric>
cudaError_t
launch_listed_metric(const ListedArgs &args, cudaStream_t stream)
{
	const uint32_t blocks = (args.n_groups + kListedWarps - 1) / kListedWarps;
	cudaError_t error = cudaSuccess;
	const auto launch = [&](auto kernel, Form form)
	{
		if (error == cudaSuccess && args.forms[static_cast<size_t>(form)])
			error = launch_after(kernel, blocks, kListedThreads, 0, stream, args, form);
	};

	launch(listed_scores_kernel<metric, Float32Form>, Form::kFloat32);
	launch(listed_scores_kernel<metric, Float16Form>, Form::kFloat16);
	if (args.bytes == nullptr)
		launch(listed_scores_kernel<metric, ByteForm>, Form::kByte);
	else if (error == cudaSuccess && args.forms[static_cast<size_t>(Form::kByte)])
		error = launch_listed_bytes(args, stream);
	return error;
}

} // namespace vectorgpu::kernels
