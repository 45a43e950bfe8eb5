// The first launch of the search of few queries over inverted lists: canonical scores of all centroids, as orders, and
// the queries on the device.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf_few.hpp"
#include "kernels/ivf/ivf_few_lists.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

constexpr int kRankQueries = 8; // and rows / kRankQueries, of a warp
constexpr int kRankRows = 32 / kRankQueries;
constexpr uint32_t kRankBlocks = 132; // at least kIvfFewMostQueries / kRankQueries

static_assert(kRankQueries == kFewWarps); // a warp for each query's norm

/// The place of elements 4 i ... 4 i + 3 of queries that lie one after another.
template <class QueryForm>
__device__ __forceinline__ float4
four_elements(const IvfFewArgs &args, const IvfFewInline &travelling, uint32_t i)
{
	if constexpr (sizeof(typename QueryForm::Element) == 1)
	{
		const uint32_t word =
			args.host_vectors != nullptr ? static_cast<const uint32_t *>(args.host_vectors)[i] : travelling.words[i];

		return make_float4(static_cast<float>(word & 0xFF), static_cast<float>(word >> 8 & 0xFF),
			static_cast<float>(word >> 16 & 0xFF), static_cast<float>(word >> 24));
	}
	else
		return args.host_vectors != nullptr
			? static_cast<const float4 *>(args.host_vectors)[i]
			: make_float4(__uint_as_float(travelling.words[4 * i]), __uint_as_float(travelling.words[4 * i + 1]),
				  __uint_as_float(travelling.words[4 * i + 2]), __uint_as_float(travelling.words[4 * i + 3]));
}

/// Σ a² of a query [dim_pad] in shared memory, with the bits of query_square_sum. By a warp.
__device__ __forceinline__ float
shared_square_sum(const float *query, uint32_t dim_pad, uint32_t lane)
{
	float sum = 0.0f;

	for (uint32_t e = lane; e < dim_pad; e += kLanes)
		sum = __fmaf_rn(query[e], query[e], sum);
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, width));
	return sum;
}

/// The queries of a block: kRankQueries, or fewer in the last.
struct RankQueries
{
	uint32_t first;
	uint32_t n_here;
	uint32_t first_four; // groups of four elements
	uint32_t n_fours;

	__device__ __forceinline__ explicit RankQueries(const IvfFewArgs &args)
		: first(blockIdx.y * kRankQueries), n_here(min(static_cast<uint32_t>(kRankQueries), args.n_queries - first)),
		  first_four(first * args.dim_pad / 4), n_fours(n_here * args.dim_pad / 4)
	{
	}
};

/// By a warp: the canonical score of centroid lane / kRankQueries of the next kRankRows and query lane % kRankQueries.
/// vectors: [kRankQueries, dim_pad], shared memory; aa: of the lane's query.
template <Metric metric>
__device__ __forceinline__ double
score_lists(const IvfFewArgs &args, const float *vectors, float aa, uint32_t first_list, uint32_t lane)
{
	constexpr bool kCosine = metric == Metric::kCosine;
	const uint32_t dim_pad = args.dim_pad;
	const float *rows[kRankRows];
	float sums[32] = {};
	float squares[kCosine ? kRankRows : 1] = {};

#pragma unroll
	for (int r = 0; r < kRankRows; r++)
		rows[r] = args.centroids + static_cast<size_t>(min(first_list + r, args.n_lists - 1)) * dim_pad;
#pragma unroll 4
	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
		float y[kRankRows];

#pragma unroll
		for (int r = 0; r < kRankRows; r++)
			y[r] = __ldg(rows[r] + e);
#pragma unroll
		for (int q = 0; q < kRankQueries; q++)
		{
			const float x = vectors[q * dim_pad + e];

#pragma unroll
			for (int r = 0; r < kRankRows; r++)
				sums[r * kRankQueries + q] = canonical_step<metric>(x, y[r], sums[r * kRankQueries + q]);
		}
		if constexpr (kCosine)
		{
#pragma unroll
			for (int r = 0; r < kRankRows; r++)
				squares[r] = __fmaf_rn(y[r], y[r], squares[r]);
		}
	}

	float bb = 0.0f;

	if constexpr (kCosine)
	{
		float spread[32];

#pragma unroll
		for (int i = 0; i < 32; i++)
			spread[i] = squares[i / kRankQueries];
		bb = reduce_pairs(spread, lane);
	}
	return canonical_score<metric>(reduce_pairs(sums, lane), aa, bb);
}

/// Write a centroid's score as an order; for cosine, as the halves of its key.
template <Metric metric>
__device__ __forceinline__ void
write_order(const IvfFewArgs &args, uint32_t query, uint32_t list, double score)
{
	const size_t at = static_cast<size_t>(query) * args.n_lists + list;

	if constexpr (metric == Metric::kCosine)
	{
		const uint64_t key = device_score_to_key(score);

		args.orders[at] = static_cast<uint32_t>(key >> 32);
		args.lows[at] = static_cast<uint32_t>(key);
	}
	else
		args.orders[at] = float_to_order(static_cast<float>(score)); // it is a float
}

/// Write the block's queries to memory, as the following launches read them. vectors: the same in shared memory.
template <class QueryForm>
__device__ __forceinline__ void
keep_queries(const IvfFewArgs &args, const IvfFewInline &travelling, const RankQueries &queries, const float4 *vectors)
{
	if (!args.vectors_are_there)
	{
		if constexpr (sizeof(typename QueryForm::Element) == 1)
		{
			for (uint32_t i = threadIdx.x; i < queries.n_fours; i += kFewThreads)
				static_cast<uint32_t *>(args.vectors)[queries.first_four + i] = args.host_vectors != nullptr
					? static_cast<const uint32_t *>(args.host_vectors)[queries.first_four + i]
					: travelling.words[queries.first_four + i];
		}
		else
		{
			for (uint32_t i = threadIdx.x; i < queries.n_fours; i += kFewThreads)
				static_cast<float4 *>(args.vectors)[queries.first_four + i] = vectors[i];
		}
	}
	if (threadIdx.x < queries.n_here)
	{
		const uint32_t number = queries.first + threadIdx.x;

		args.queries[number] = args.host_queries != nullptr ? args.host_queries[number] : travelling.queries[number];
		args.n_found[number] = 0;
		args.n_done[number] = 0;
	}
}

/// Grid (any, ceil(n_queries / 8)), block 256, shared [8, dim_pad] floats: a warp scores 4 centroids at a time for 8
/// queries. If the queries are not on the device, each block reads its queries over the bus: then take few blocks.
template <Metric metric, class QueryForm>
__global__ void __launch_bounds__(kFewThreads)
few_rank_kernel(const __grid_constant__ IvfFewArgs args, const __grid_constant__ IvfFewInline travelling)
{
	extern __shared__ float4 shared_vectors[]; // [kRankQueries, dim_pad]
	__shared__ float norms[kRankQueries];      // cosine
	const float *vectors = reinterpret_cast<const float *>(shared_vectors);
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const RankQueries queries(args);
	const uint32_t query = lane % kRankQueries;
	bool waited = false;

	let_next_start();
	if (args.vectors_are_there)
	{
		wait_for_stream(); // for the copy
		waited = true;
	}
	for (uint32_t i = threadIdx.x; i < kRankQueries * args.dim_pad / 4; i += kFewThreads)
		shared_vectors[i] = i < queries.n_fours ? four_elements<QueryForm>(args, travelling, queries.first_four + i)
												: make_float4(0.0f, 0.0f, 0.0f, 0.0f);
	__syncthreads();

	float aa = 0.0f;

	if constexpr (metric == Metric::kCosine)
	{
		const float sum = shared_square_sum(vectors + warp * args.dim_pad, args.dim_pad, lane);

		if (lane == 0)
			norms[warp] = sum;
		__syncthreads();
		aa = norms[query];
	}
	for (uint32_t first_list = (blockIdx.x * kFewWarps + warp) * kRankRows; first_list < args.n_lists;
		first_list += gridDim.x * kFewWarps * kRankRows)
	{
		const double score = score_lists<metric>(args, vectors, aa, first_list, lane);
		const uint32_t list = first_list + lane / kRankQueries;

		if (!waited)
			wait_for_stream(); // the end of the search before may still run
		waited = true;
		if (query < queries.n_here && list < args.n_lists)
			write_order<metric>(args, queries.first + query, list, score);
	}
	if (!waited)
		wait_for_stream();
	if (blockIdx.x == 0)
		keep_queries<QueryForm>(args, travelling, queries, shared_vectors);
}

/// The caller provides the metric and the queries' form.
template <Metric metric, class QueryForm>
cudaError_t
launch_few_rank(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	const uint32_t n_groups = (args.n_queries + kRankQueries - 1) / kRankQueries;
	const uint32_t n_parts = (args.n_lists + kRankRows * kFewWarps - 1) / (kRankRows * kFewWarps);
	const uint32_t wanted = (args.vectors_are_there ? 2 * kRankBlocks : kRankBlocks) / n_groups;

	return launch_after(few_rank_kernel<metric, QueryForm>, dim3(n_parts < wanted ? n_parts : wanted, n_groups),
		kFewThreads, kRankQueries * args.dim_pad * sizeof(float), stream, args, travelling);
}

/// Set the attributes of few_rank_kernel, for the most dimensions that these queries may have.
template <Metric metric, class QueryForm>
cudaError_t
prepare_few_rank(uint32_t most_dims)
{
	return cudaFuncSetAttribute(few_rank_kernel<metric, QueryForm>, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(kRankQueries * most_dims * sizeof(float)));
}

} // namespace vectorgpu::kernels
