// The canonical distance on the device: a warp is the 32 lanes of src/engine/distance/README.md ("Canonical distance").
// A warp computes 32 (row, query) pairs at a time, R rows by Q queries. Each thread holds its lane of all 32 sums, and
// one transposed butterfly reduces them, so thread i ends with pair i (row i / Q, query i % Q). The butterfly adds lane
// j and lane j ^ 16, then 8, 4, 2, 1: the sums of the tree, since addition of two numbers commutes. Every operation is
// an explicit intrinsic: the result does not depend on the compiler's contraction.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/warp_block/order.cuh"

namespace vectorgpu::kernels
{

struct Float32Form
{
	using Element = float;
	static __device__ __forceinline__ float load(const void *row, uint32_t i)
	{
		return __ldg(static_cast<const float *>(row) + i);
	}
};

struct Float16Form
{
	using Element = __half;
	static __device__ __forceinline__ float load(const void *row, uint32_t i)
	{
		return __half2float(__ushort_as_half(__ldg(static_cast<const unsigned short *>(row) + i)));
	}
};

struct ByteForm
{
	using Element = uint8_t;
	static __device__ __forceinline__ float load(const void *row, uint32_t i)
	{
		return static_cast<float>(__ldg(static_cast<const unsigned char *>(row) + i));
	}
};

/// v[i]: this thread's lane of sum i. Returns sum (thread's own number). Recursive, so that v stays in registers.
template <int width = 16>
__device__ __forceinline__ float
reduce_pairs(float (&v)[32], uint32_t lane)
{
	const bool upper = (lane & width) != 0;

#pragma unroll
	for (int i = 0; i < width; i++)
	{
		const float keep = upper ? v[i + width] : v[i];
		const float send = upper ? v[i] : v[i + width];

		v[i] = __fadd_rn(keep, __shfl_xor_sync(0xFFFFFFFFu, send, width));
	}
	if constexpr (width > 1)
		return reduce_pairs<width / 2>(v, lane);
	else
		return v[0];
}

template <Metric metric>
__device__ __forceinline__ float
canonical_step(float a, float b, float sum)
{
	if constexpr (metric == Metric::kL2)
	{
		const float d = __fsub_rn(a, b);

		return __fmaf_rn(d, d, sum);
	}
	else if constexpr (metric == Metric::kL1)
		return __fadd_rn(sum, fabsf(__fsub_rn(a, b)));
	else
		return __fmaf_rn(a, b, sum);
}

/// The score from its sums. aa, bb: cosine only.
template <Metric metric>
__device__ __forceinline__ double
canonical_score(float sum, float aa, float bb)
{
	double score;

	if constexpr (metric == Metric::kInnerProduct)
		score = -static_cast<double>(sum);
	else if constexpr (metric == Metric::kCosine)
	{
		if (aa == 0.0f || bb == 0.0f)
			return __longlong_as_double(0x7FF8000000000000ll);

		const double norms = __dmul_rn(static_cast<double>(aa), static_cast<double>(bb));
		const double similarity = __ddiv_rn(static_cast<double>(sum), __dsqrt_rn(norms));

		if (similarity > 1.0)
			score = 0.0;
		else if (similarity < -1.0)
			score = 2.0;
		else
			score = __dsub_rn(1.0, similarity);
	}
	else
		score = static_cast<double>(sum);
	return __dadd_rn(score, 0.0); // -0 becomes +0
}

/// Σ a² of a query [dim_pad] from each thread's lane of it, reduced: every thread gets the sum.
__device__ __forceinline__ float
query_square_sum(const float *query, uint32_t dim_pad, uint32_t lane)
{
	float sum = 0.0f;

	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
		const float a = __ldg(query + e);

		sum = __fmaf_rn(a, a, sum);
	}
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, width));
	return sum;
}

/// Scores of R rows x Q queries, R * Q = 32. row_at(r): pointer to row r. query_at(q): pointer to query q [dim_pad].
/// aa: Σ a² of this thread's query (cosine).
template <Metric metric, class FormT, int R, int Q, class RowAt, class QueryAt>
__device__ __forceinline__ double
score_pairs_at(const RowAt &row_at, const QueryAt &query_at, uint32_t dim_pad, float aa, uint32_t lane)
{
	float sums[32];
	float squares[metric == Metric::kCosine ? R : 1];

#pragma unroll
	for (int i = 0; i < 32; i++)
		sums[i] = 0.0f;
	if constexpr (metric == Metric::kCosine)
	{
#pragma unroll
		for (int r = 0; r < R; r++)
			squares[r] = 0.0f;
	}

	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
		float x[Q];
		float y[R];

#pragma unroll
		for (int r = 0; r < R; r++)
			y[r] = FormT::load(row_at(r), e);
#pragma unroll
		for (int q = 0; q < Q; q++)
			x[q] = __ldg(query_at(q) + e);
#pragma unroll
		for (int r = 0; r < R; r++)
		{
#pragma unroll
			for (int q = 0; q < Q; q++)
				sums[r * Q + q] = canonical_step<metric>(x[q], y[r], sums[r * Q + q]);
			if constexpr (metric == Metric::kCosine)
				squares[r] = __fmaf_rn(y[r], y[r], squares[r]);
		}
	}

	float bb = 0.0f;

	if constexpr (metric == Metric::kCosine)
	{
		float spread[32];

#pragma unroll
		for (int i = 0; i < 32; i++)
			spread[i] = squares[i / Q];
		bb = reduce_pairs(spread, lane);
	}
	return canonical_score<metric>(reduce_pairs(sums, lane), aa, bb);
}

/// As score_pairs, for queries dim_pad apart; beyond n_queries the last query is repeated.
template <Metric metric, class FormT, int R, int Q, class RowAt>
__device__ __forceinline__ double
score_pairs(const RowAt &row_at, const float *queries, uint32_t n_queries, uint32_t dim_pad, float aa, uint32_t lane)
{
	return score_pairs_at<metric, FormT, R, Q>(
		row_at,
		[&](int q)
		{
			return queries +
				static_cast<size_t>(
					Q == 1 || static_cast<uint32_t>(q) < n_queries ? static_cast<uint32_t>(q) : n_queries - 1) *
				dim_pad;
		},
		dim_pad, aa, lane);
}

/// Scores of 32 pairs that share nothing: thread i ends with that of row_at(i) and query_at(i) [dim_pad]. aa: Σ a² of
/// this thread's query (cosine).
template <Metric metric, class FormT, class RowAt, class QueryAt>
__device__ __forceinline__ double
score_pairs_apart(const RowAt &row_at, const QueryAt &query_at, uint32_t dim_pad, float aa, uint32_t lane)
{
	float sums[32];
	float squares[metric == Metric::kCosine ? 32 : 1];

#pragma unroll
	for (int i = 0; i < 32; i++)
	{
		sums[i] = 0.0f;
		if constexpr (metric == Metric::kCosine)
			squares[i] = 0.0f;
	}
	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
#pragma unroll
		for (int i = 0; i < 32; i++)
		{
			const float y = FormT::load(row_at(i), e);

			sums[i] = canonical_step<metric>(__ldg(query_at(i) + e), y, sums[i]);
			if constexpr (metric == Metric::kCosine)
				squares[i] = __fmaf_rn(y, y, squares[i]);
		}
	}

	float bb = 0.0f;

	if constexpr (metric == Metric::kCosine)
		bb = reduce_pairs(squares, lane);
	return canonical_score<metric>(reduce_pairs(sums, lane), aa, bb);
}

/// The key of a score under a query's `after`. row_ids is read only on a tie.
__device__ __forceinline__ uint64_t
key_after(double score, const Queries &queries, uint32_t query, const uint64_t *row_ids, uint32_t row)
{
	const uint64_t key = device_score_to_key(score);

	if (queries.after != nullptr && queries.has_after[query] != 0)
	{
		const Entry after = queries.after[query];

		if (key < after.key || (key == after.key && row_ids[row] <= after.row))
			return kExcludedKey;
	}
	return key;
}

} // namespace vectorgpu::kernels
