// Scores of nodes of a graph, by a warp: canonical scores of all forms, and scores of bytes by integers. 16 or 8 lanes
// of a warp compute the latter as well; their canonical scores are in graph_lanes_scorers.cuh.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/graph_lanes.cuh"

namespace vectorgpu::kernels
{

constexpr int kFewRows = 16; // of score_few_rows, at most

/// Canonical scores of 16, 8 or 4 rows for a query: lane i gets that of row i % rows. Fewer rows than score_pairs_at
/// takes, but more of each under way at once, for a warp whose latency no other warps hide; or, with few `steps`, fewer
/// registers. steps: of kLanes elements, under way at once.
template <Metric metric, class FormT, int rows, uint32_t steps = 64 / rows, class RowAt>
__device__ __forceinline__ double
score_few_rows(const RowAt &row_at, const float *query, uint32_t dim_pad, float aa, uint32_t lane)
{
	static_assert(rows == 16 || rows == 8 || rows == 4);
	float sums[32]; // [rows] of them, in the order of reduce_pairs
	float squares[32];
	const auto reduce = [lane](float(&v)[32])
	{
#pragma unroll
		for (int width = 16; width >= rows; width /= 2)
#pragma unroll
			for (int r = 0; r < rows; r++)
				v[r] = __fadd_rn(v[r], __shfl_xor_sync(0xFFFFFFFFu, v[r], width));
		return reduce_pairs<rows / 2>(v, lane);
	};

#pragma unroll
	for (int r = 0; r < rows; r++)
		sums[r] = squares[r] = 0.0f;
	for (uint32_t first = lane; first < dim_pad; first += steps * kLanes)
	{
		float x[steps];
		float y[steps][rows];

#pragma unroll
		for (uint32_t s = 0; s < steps; s++)
		{
			const uint32_t e = first + s * kLanes;

			x[s] = e < dim_pad ? __ldg(query + e) : 0.0f;
#pragma unroll
			for (int r = 0; r < rows; r++)
				y[s][r] =
					e < dim_pad ? FormT::load(row_at(r), e) : 0.0f; // zeros beyond the end add nothing, as padding does
		}
#pragma unroll
		for (uint32_t s = 0; s < steps; s++)
#pragma unroll
			for (int r = 0; r < rows; r++)
			{
				sums[r] = canonical_step<metric>(x[s], y[s][r], sums[r]);
				if constexpr (metric == Metric::kCosine)
					squares[r] = __fmaf_rn(y[s][r], y[s][r], squares[r]);
			}
	}

	const float bb = metric == Metric::kCosine ? reduce(squares) : 0.0f;

	return canonical_score<metric>(reduce(sums), aa, bb);
}

/// The rows of a graph and one query, for canonical scores.
struct GraphCanonicalRows
{
	const uint8_t *rows;
	const float *query;
	uint32_t pitch;
	uint32_t dim_pad;
	float aa = 0.0f; // cosine

	__device__ GraphCanonicalRows(const GraphArgs &args, uint32_t number)
		: rows(static_cast<const uint8_t *>(args.rows.vectors)),
		  query(static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(number) * args.queries.dim_pad),
		  pitch(args.rows.pitch_bytes), dim_pad(args.queries.dim_pad)
	{
	}

	/// Row number r of nodes [n], n > 0; beyond the last, the last again.
	__device__ __forceinline__ const uint8_t *row_at(const uint32_t *nodes, uint32_t n, int r) const
	{
		return rows + static_cast<size_t>(nodes[min(static_cast<uint32_t>(r), n - 1)]) * pitch;
	}
};

/// Canonical scores of 32 rows: one for each lane of the warp.
template <Metric metric, class FormT>
struct GraphScorer : GraphCanonicalRows
{
	static constexpr bool kByIntegers = false; // a row is a chain of loads
	static constexpr int kLeastBlocks = 12;    // graph_least_blocks

	__device__ GraphScorer(const GraphArgs &args, uint32_t number, uint32_t lane) : GraphCanonicalRows(args, number)
	{
		if constexpr (metric == Metric::kCosine)
			aa = query_square_sum(query, dim_pad, lane);
	}

	/// Score nodes [n], n > 0, in shared memory. Lanes from n on get any value.
	__device__ double exact(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return score_pairs_at<metric, FormT, 32, 1>(
			[&](int r) { return row_at(nodes, n, r); }, [&](int) { return query; }, dim_pad, aa, lane);
	}

	/// The same by eight rows at a time, `steps` times kLanes elements of each: with fewer registers.
	template <uint32_t steps>
	__device__ double exact_by_few(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		constexpr int kRows = 8;
		double mine = 0.0;

#pragma unroll 1
		for (uint32_t first = 0; first < n; first += kRows)
		{
			const double score = score_few_rows<metric, FormT, kRows, steps>(
				[&](int r) { return row_at(nodes + first, n - first, r); }, query, dim_pad, aa, lane);

			if (lane / kRows == first / kRows)
				mine = score;
		}
		return mine;
	}

	/// Score up to `most` nodes.
	template <uint32_t most = 32>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		if constexpr (most <= kFewRows)
			return static_cast<float>(score_few_rows<metric, FormT, most>(
				[&](int r) { return row_at(nodes, n, r); }, query, dim_pad, aa, lane));
		else
			return static_cast<float>(exact(nodes, n, lane)); // cosine: rounded, and computed again at the end
	}
};

/// Scores of bytes of up to 128 times `chunks` dimensions by integers: eight lanes a row, of the `lanes` of a query.
/// Integers below 2^24 are canonical scores.
template <Metric metric, int chunks, int lanes = 32>
struct GraphByteScorer
{
	static constexpr bool kByIntegers = true;                  // a row is one load of a lane, or two
	static constexpr int kLeastBlocks = chunks == 1 ? 32 : 28; // graph_least_blocks

	const uint8_t *rows;
	uint32_t pitch;
	uint32_t n_pieces; // of 16 bytes, in a row
	uint4 x[chunks];
	int32_t xx;

	__device__ GraphByteScorer(const GraphArgs &args, uint32_t number, uint32_t lane)
		: rows(static_cast<const uint8_t *>(args.rows.vectors)), pitch(args.rows.pitch_bytes),
		  n_pieces(args.queries.dim_pad / 16)
	{
		const uint4 *query =
			reinterpret_cast<const uint4 *>(args.byte_queries + static_cast<size_t>(number) * args.queries.dim_pad);
		uint32_t sum = 0;

#pragma unroll
		for (int c = 0; c < chunks; c++)
		{
			const uint32_t piece = c * 8 + lane % 8;

			x[c] = piece < n_pieces ? __ldg(query + piece) : make_uint4(0, 0, 0, 0);
			sum = __dp4a(x[c].x, x[c].x, sum);
			sum = __dp4a(x[c].y, x[c].y, sum);
			sum = __dp4a(x[c].z, x[c].z, sum);
			sum = __dp4a(x[c].w, x[c].w, sum);
		}
		xx = group_sum(static_cast<int32_t>(sum));
	}

	__device__ static int32_t group_sum(int32_t sum)
	{
		sum += GraphLanes<lanes>::from_xor(sum, 4);
		sum += GraphLanes<lanes>::from_xor(sum, 2);
		return sum + GraphLanes<lanes>::from_xor(sum, 1);
	}

	/// Score up to `most` nodes, a multiple of lanes / 8.
	template <uint32_t most = lanes>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		constexpr uint32_t kGroups = lanes / 8; // rows scored side by side
		constexpr uint32_t kOfGroup = most < 4 * kGroups ? most / kGroups : 4;
		constexpr uint32_t kTogether = kOfGroup * kGroups; // under way at once
		const uint32_t group = lane / 8;
		int32_t mine = 0;

#pragma unroll
		for (uint32_t turn = 0; turn < (most + kTogether - 1) / kTogether; turn++)
		{
			uint4 y[kOfGroup][chunks];

			if (turn * kTogether >= n)
				break;
#pragma unroll
			for (uint32_t i = 0; i < kOfGroup; i++)
			{
				const uint32_t r = turn * kTogether + i * kGroups + group;
				const uint4 *row =
					reinterpret_cast<const uint4 *>(rows + static_cast<size_t>(nodes[min(r, n - 1)]) * pitch);

#pragma unroll
				for (int c = 0; c < chunks; c++)
				{
					const uint32_t piece = c * 8 + lane % 8;

					y[i][c] = piece < n_pieces ? __ldg(row + piece) : make_uint4(0, 0, 0, 0);
				}
			}
#pragma unroll
			for (uint32_t i = 0; i < kOfGroup; i++)
			{
				uint32_t xy = 0;
				uint32_t yy = 0;

#pragma unroll
				for (int c = 0; c < chunks; c++)
				{
					xy = __dp4a(x[c].x, y[i][c].x, xy);
					xy = __dp4a(x[c].y, y[i][c].y, xy);
					xy = __dp4a(x[c].z, y[i][c].z, xy);
					xy = __dp4a(x[c].w, y[i][c].w, xy);
					if constexpr (metric == Metric::kL2)
					{
						yy = __dp4a(y[i][c].x, y[i][c].x, yy);
						yy = __dp4a(y[i][c].y, y[i][c].y, yy);
						yy = __dp4a(y[i][c].z, y[i][c].z, yy);
						yy = __dp4a(y[i][c].w, y[i][c].w, yy);
					}
				}

				const int32_t part = metric == Metric::kL2 ? static_cast<int32_t>(yy) - 2 * static_cast<int32_t>(xy)
														   : -static_cast<int32_t>(xy);
				const int32_t sum = GraphLanes<lanes>::from(group_sum(part), (lane % kGroups) * 8);

				if (lane / kGroups == turn * kOfGroup + i)
					mine = sum;
			}
		}
		return static_cast<float>(metric == Metric::kL2 ? mine + xx : mine);
	}
};

} // namespace vectorgpu::kernels
