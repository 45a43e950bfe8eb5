// The thresholds of a search in one pass, from the smallest estimates of the sampled rows.
#pragma once

#include "kernels/filter/filter_bound.cuh"
#include "kernels/filter/one_pass_pipeline.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kMostMinimaEach = 34; // of a lane
constexpr uint32_t kBlockMinima = 8;     // of a query: 32 rows each, a warp's of a tile
constexpr uint32_t kAloneQueries = 16;   // up to this many queries, each block computes all thresholds redundantly

__device__ __forceinline__ float
infinity_f()
{
	return __int_as_float(0x7F800000);
}

/// A query's threshold from its sample, by a warp. Reads values that other blocks have written.
__device__ inline float
sampled_threshold(const OnePassArgs &args, uint32_t query, uint32_t k, double norm, uint32_t n_minima, uint32_t lane)
{
	const float *minima = args.minima + static_cast<size_t>(query) * n_minima;
	float mine[kMostMinimaEach];

#pragma unroll
	for (uint32_t j = 0; j < kMostMinimaEach; j++)
		mine[j] = j * 32 + lane < n_minima ? __ldcg(minima + j * 32 + lane) : infinity_f();

	const double cut =
		fmin(cut_for_estimate(args.bound, norm, warp_kth_or_more(mine, k)), largest_estimate(args.bound, norm));

	return __double2float_ru(cut);
}

/// Set the thresholds of all queries, once all blocks have written their part of the sample. By the threads that
/// multiply; ends with a barrier.
template <class Shape>
__device__ __forceinline__ void
find_thresholds(const OnePassQueries &queries, float *thresholds_of, uint32_t warp, uint32_t lane)
{
	const OnePassArgs &args = queries.args;
	const uint32_t n_minima = gridDim.x * kBlockMinima;
	const uint32_t all_sampled = args.counters.before[1] + gridDim.x;
	auto threshold_of = [&](uint32_t query)
	{ return sampled_threshold(args, query, queries.k(query), queries.norm(query), n_minima, lane); };

	if (args.n_queries <= kAloneQueries)
	{
		// One thread polls: all warps of all blocks would delay those that count.
		if (threadIdx.x == 0)
			wait_for_count(args.counters, OnePassCounters::kSampled, all_sampled);
		stamp_once(args.stamps, OnePassStamps::kAllSampled);
		Consumers::sync();
		for (uint32_t query = warp; query < args.n_queries; query += Shape::kWarps)
		{
			const float threshold = threshold_of(query);

			if (lane == 0)
				thresholds_of[query] = threshold;
		}
	}
	else
	{
		for (uint32_t query = blockIdx.x + warp * gridDim.x; query < args.n_queries; query += Shape::kWarps * gridDim.x)
		{
			if (lane == 0)
				wait_for_count(args.counters, OnePassCounters::kSampled, all_sampled);
			stamp_once(args.stamps, OnePassStamps::kAllSampled);
			__syncwarp();

			const float threshold = threshold_of(query);

			if (lane == 0)
			{
				args.thresholds[query] = threshold;
				count_up(args.counters.counters + OnePassCounters::kThresholds * OnePassCounters::kStride);
			}
		}
		if (threadIdx.x == 0)
			wait_for_count(args.counters, OnePassCounters::kThresholds, args.counters.before[2] + args.n_queries);
		Consumers::sync();
		if (threadIdx.x < args.n_queries)
			thresholds_of[threadIdx.x] = __ldcg(args.thresholds + threadIdx.x);
	}
	Consumers::sync();
}

} // namespace vectorgpu::kernels
