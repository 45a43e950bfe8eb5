// Scores of nodes of a graph by 16 or 8 lanes of a warp (graph_lanes.cuh): the same scores as those of
// graph_scorers.cuh, bit for bit. A lane does the work of two or four of the 32 lanes of the canonical distance.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/graph_lanes.cuh"
#include "kernels/graph/graph_scorers.cuh"

namespace vectorgpu::kernels
{

/// The sum of a lane's canonical lanes, which are lane, lane + lanes, ...: the upper levels of the canonical tree, lane
/// j and j ^ 16 first, then 8.
template <int lanes>
__device__ __forceinline__ float
sum_of_lane(const float (&v)[kLanes / lanes])
{
	if constexpr (lanes == 16)
		return __fadd_rn(v[0], v[1]);
	else
		return __fadd_rn(__fadd_rn(v[0], v[2]), __fadd_rn(v[1], v[3]));
}

/// v[i]: this lane's part of sum i. Returns sum (lane's own number): the lower levels of the tree, as reduce_pairs does
/// for a whole warp.
template <int lanes, int width = lanes / 2>
__device__ __forceinline__ float
reduce_lanes(float (&v)[lanes], uint32_t lane)
{
	const bool upper = (lane & width) != 0;

#pragma unroll
	for (int i = 0; i < width; i++)
	{
		const float keep = upper ? v[i + width] : v[i];
		const float send = upper ? v[i] : v[i + width];

		v[i] = __fadd_rn(keep, GraphLanes<lanes>::from_xor(send, width));
	}
	if constexpr (width > 1)
		return reduce_lanes<lanes, width / 2>(v, lane);
	else
		return v[0];
}

/// Canonical scores of as many rows as a query has lanes: one for each lane.
template <Metric metric, class FormT, int lanes>
struct GraphLanesScorer : GraphCanonicalRows
{
	__device__ GraphLanesScorer(const GraphArgs &args, uint32_t number, uint32_t lane)
		: GraphCanonicalRows(args, number)
	{
		if constexpr (metric == Metric::kCosine)
			aa = square_sum(lane);
	}

	/// Score nodes [n], 0 < n <= lanes, in shared memory. Lanes from n on get any value.
	__device__ double exact(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		float sums[lanes][kOfLane];
		float squares[metric == Metric::kCosine ? lanes : 1][kOfLane];

#pragma unroll
		for (int r = 0; r < lanes; r++)
#pragma unroll
			for (int c = 0; c < kOfLane; c++)
				sums[r][c] = 0.0f;
		if constexpr (metric == Metric::kCosine)
		{
#pragma unroll
			for (int r = 0; r < lanes; r++)
#pragma unroll
				for (int c = 0; c < kOfLane; c++)
					squares[r][c] = 0.0f;
		}
		for (uint32_t e = lane; e < dim_pad; e += kLanes) // dim_pad is a multiple of it
		{
			float x[kOfLane];
			float y[lanes][kOfLane];

#pragma unroll
			for (int r = 0; r < lanes; r++)
			{
				const uint8_t *row = row_at(nodes, n, r);

#pragma unroll
				for (int c = 0; c < kOfLane; c++)
					y[r][c] = FormT::load(row, e + c * lanes);
			}
#pragma unroll
			for (int c = 0; c < kOfLane; c++)
				x[c] = __ldg(query + e + c * lanes);
#pragma unroll
			for (int r = 0; r < lanes; r++)
#pragma unroll
				for (int c = 0; c < kOfLane; c++)
				{
					sums[r][c] = canonical_step<metric>(x[c], y[r][c], sums[r][c]);
					if constexpr (metric == Metric::kCosine)
						squares[r][c] = __fmaf_rn(y[r][c], y[r][c], squares[r][c]);
				}
		}

		float bb = 0.0f;

		if constexpr (metric == Metric::kCosine)
			bb = reduce(squares, lane);
		return canonical_score<metric>(reduce(sums, lane), aa, bb);
	}

	/// Score up to `most` nodes; most is `lanes`.
	template <uint32_t most>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		static_assert(most == lanes);
		return static_cast<float>(exact(nodes, n, lane)); // cosine: rounded, and computed again at the end
	}

private:
	static constexpr int kOfLane = static_cast<int>(kLanes) / lanes; // canonical lanes

	/// Lane r gets the sum of row r.
	__device__ static float reduce(const float (&sums)[lanes][kOfLane], uint32_t lane)
	{
		float of_lane[lanes];

#pragma unroll
		for (int r = 0; r < lanes; r++)
			of_lane[r] = sum_of_lane<lanes>(sums[r]);
		return reduce_lanes<lanes>(of_lane, lane);
	}

	/// Σ a² of the query: every lane gets the sum.
	__device__ float square_sum(uint32_t lane) const
	{
		float sums[kOfLane] = {};

		for (uint32_t e = lane; e < dim_pad; e += kLanes)
#pragma unroll
			for (int c = 0; c < kOfLane; c++)
			{
				const float a = __ldg(query + e + c * lanes);

				sums[c] = __fmaf_rn(a, a, sums[c]);
			}

		float sum = sum_of_lane<lanes>(sums);

#pragma unroll
		for (int width = lanes / 2; width >= 1; width /= 2)
			sum = __fadd_rn(sum, GraphLanes<lanes>::from_xor(sum, width));
		return sum;
	}
};

} // namespace vectorgpu::kernels
