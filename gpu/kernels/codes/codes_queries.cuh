// What all kernels that make queries ready for codes begin with: the factor that gives a query length 1, and the number
// of candidates that the first pass wants.
#pragma once

#include "kernels/codes/codes_launch.hpp"

namespace vectorgpu::kernels
{

/// Σ x² with the bits of engine/ivf's square_norm: 32 sums in double, the rest one by one, then the sums in order. All
/// threads of a warp get it.
__device__ inline double
square_norm(const float *x, uint32_t dim, uint32_t lane)
{
	const uint32_t whole = dim / 32 * 32;
	double mine = 0.0;
	double sum = 0.0;

	for (uint32_t d = lane; d < whole; d += 32)
	{
		const double v = static_cast<double>(x[d]);

		mine = __dadd_rn(mine, __dmul_rn(v, v));
	}
	for (uint32_t d = whole; d < dim; d++)
	{
		const double v = static_cast<double>(x[d]);

		sum = __dadd_rn(sum, __dmul_rn(v, v));
	}
	for (int j = 0; j < 32; j++)
		sum = __dadd_rn(sum, __shfl_sync(0xFFFFFFFFu, mine, j));
	return sum;
}

/// The factor of unit_of; below 0: none. By all threads; *shared is of the block.
__device__ __forceinline__ double
unit_scale(Metric metric, const float *vector, uint32_t dim, double *shared)
{
	if (metric != Metric::kCosine)
		return -1.0;
	if (threadIdx.x < 32)
	{
		const double squares = square_norm(vector, dim, threadIdx.x);

		if (threadIdx.x == 0)
			*shared = squares > 0.0 ? __ddiv_rn(1.0, __dsqrt_rn(squares)) : -1.0;
	}
	__syncthreads();
	return *shared;
}

/// An element of the query; for cosine of the query of length 1.
__device__ __forceinline__ float
unit_of(float x, double scale)
{
	return scale >= 0.0 ? __double2float_rn(__dmul_rn(static_cast<double>(x), scale)) : x;
}

/// Set the query's numbers of candidates for the first pass. By one thread.
__device__ __forceinline__ void
begin_passes(const CodePasses &passes, uint32_t query)
{
	const uint32_t candidates = passes.candidates[query];

	passes.left[query] = candidates;
	passes.wanted[query] = min(candidates, kMostPassCandidates);
}

} // namespace vectorgpu::kernels
