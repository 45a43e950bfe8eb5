// A query's threshold in one_pass.cu, from the smallest estimates of the sampled rows.
#pragma once

#include "kernels/filter/filter_bound.cuh"
#include "kernels/filter/one_pass.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kMostMinimaEach = 34; // of a lane

__device__ __forceinline__ float
infinity_f()
{
	return __int_as_float(0x7F800000);
}

/// An upper bound on the k-th smallest of the warp's values: the k-th smallest or little more; infinity if fewer than k
/// are below infinity. All lanes get it.
__device__ inline float
warp_kth_or_more(const float (&values)[kMostMinimaEach], uint32_t k)
{
	constexpr int kMostHalvings = 20;
	float low = infinity_f();
	float high = -infinity_f();
	auto count_to = [&](float most)
	{
		uint32_t n[4] = {}; // independent additions

#pragma unroll
		for (uint32_t j = 0; j < kMostMinimaEach; j++)
			n[j % 4] += values[j] <= most;
		return __reduce_add_sync(0xFFFFFFFFu, (n[0] + n[1]) + (n[2] + n[3]));
	};

#pragma unroll
	for (const float v : values)
	{
		low = fminf(low, v);
		high = fmaxf(high, v < infinity_f() ? v : -infinity_f());
	}
	low = order_to_float(__reduce_min_sync(0xFFFFFFFFu, float_to_order(low)));
	high = order_to_float(__reduce_max_sync(0xFFFFFFFFu, float_to_order(high)));
	if (count_to(high) < k)
		return infinity_f();
	for (int halving = 0; halving < kMostHalvings; halving++)
	{
		const float middle = 0.5f * low + 0.5f * high;
		const uint32_t n = count_to(middle);

		if (n < k)
			low = middle;
		else
			high = middle;
		if (n >= k && n <= k + k / 8)
			break;
	}
	return high;
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

} // namespace vectorgpu::kernels
