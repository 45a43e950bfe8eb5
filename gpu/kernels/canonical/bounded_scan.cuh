// Canonical scores of all rows of a small source that is searched after others. Rows that are not beyond the query's
// k-th row of the earlier sources become candidates. There is no threshold to find, and only scores of candidates are
// written: one kernel, and another that merges. See README.md, "Small sources".
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/warp_block/launch.cuh"
#include "kernels/canonical/scores_dispatch.hpp"

namespace vectorgpu::kernels
{

constexpr int kBoundedThreads = 256;
constexpr int kBoundedWarps = kBoundedThreads / 32;
constexpr uint32_t kBoundedMostBlocks = 132 * 4; // along the rows

/// As score_pairs, with the loads of four steps under way at a time: there are few warps to hide their latency.
template <Metric metric, class FormT, int R, int Q, class RowAt>
__device__ __forceinline__ double
score_pairs_ahead(
	const RowAt &row_at, const float *queries, uint32_t n_queries, uint32_t dim_pad, float aa, uint32_t lane)
{
	float sums[32];
	float squares[R];
	const void *rows[R];

#pragma unroll
	for (int i = 0; i < 32; i++)
		sums[i] = 0.0f;
#pragma unroll
	for (int r = 0; r < R; r++)
	{
		squares[r] = 0.0f;
		rows[r] = row_at(r);
	}
#pragma unroll 4
	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
		float x[Q];
		float y[R];

#pragma unroll
		for (int r = 0; r < R; r++)
			y[r] = FormT::load(rows[r], e);
#pragma unroll
		for (int q = 0; q < Q; q++)
			x[q] = __ldg(queries + min(static_cast<uint32_t>(q), n_queries - 1) * dim_pad + e);
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

/// Grid (blocks along the rows, ceil(n_queries / Q)), block 256: a warp takes 32 / Q rows and Q queries at a time.
template <Metric metric, class FormT, int Q>
__global__ void __launch_bounds__(kBoundedThreads)
bounded_scan_kernel(const BoundedScanArgs args)
{
	constexpr uint32_t R = 32 / Q;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t first_query = blockIdx.y * Q;
	const uint32_t n_queries = min(static_cast<uint32_t>(Q), args.queries.n_queries - first_query);
	const uint32_t query = first_query + lane % Q;
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *queries =
		static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(first_query) * dim_pad;
	const Rows &rows = args.rows;
	const char *vectors = static_cast<const char *>(rows.vectors);
	const bool query_used = lane % Q < n_queries;
	uint64_t threshold = 0; // not a key
	float aa = 0.0f;

	let_next_start();
	wait_for_stream();
	if (query_used)
	{
		const uint32_t k = args.queries.k[query];

		threshold = args.best.counts[query] >= k
			? args.best.entries[static_cast<size_t>(query) * args.best.stride + k - 1].key
			: kNanKey;
	}
	if constexpr (metric == Metric::kCosine)
	{
		for (uint32_t q = 0; q < n_queries; q++)
		{
			const float sum = query_square_sum(queries + static_cast<size_t>(q) * dim_pad, dim_pad, lane);

			aa = q == lane % Q ? sum : aa;
		}
	}
	for (uint32_t base = (blockIdx.x * kBoundedWarps + threadIdx.x / 32) * R; base < rows.n_rows;
		base += gridDim.x * kBoundedWarps * R)
	{
		const double score = score_pairs_ahead<metric, FormT, R, Q>([&](int r)
			{ return vectors + static_cast<size_t>(min(base + r, rows.n_rows - 1)) * rows.pitch_bytes; }, queries,
			n_queries, dim_pad, aa, lane);
		const uint32_t row = base + lane / Q;

		if (!query_used || row >= rows.n_rows || row_is_dead(rows, row))
			continue;

		const uint64_t key = key_after(score, args.queries, query, rows.row_ids, row);

		if (key <= threshold) // a candidate's key is never kExcludedKey
		{
			const uint32_t at = atomicAdd(&args.candidates.counts[query], 1u);

			args.candidates.keys[static_cast<size_t>(query) * args.candidates.capacity + at] = key;
			args.candidates.rows[static_cast<size_t>(query) * args.candidates.capacity + at] = row;
		}
	}
}

template <Metric metric, class FormT>
cudaError_t
launch_bounded_scan_form(const BoundedScanArgs &args, cudaStream_t stream)
{
	auto launch = [&]<int Q>()
	{
		const uint32_t wanted = (args.rows.n_rows + kBoundedWarps * (32 / Q) - 1) / (kBoundedWarps * (32 / Q));
		const dim3 grid(
			wanted < kBoundedMostBlocks ? wanted : kBoundedMostBlocks, (args.queries.n_queries + Q - 1) / Q);

		return launch_after(bounded_scan_kernel<metric, FormT, Q>, grid, kBoundedThreads, 0, stream, args);
	};

	return args.queries.n_queries <= 2 ? launch.template operator()<2>() : launch.template operator()<8>();
}

template <Metric metric>
cudaError_t
launch_bounded_scan_metric(const BoundedScanArgs &args, cudaStream_t stream)
{
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch_bounded_scan_form<metric, Float32Form>(args, stream);
		case Form::kFloat16:
			return launch_bounded_scan_form<metric, Float16Form>(args, stream);
		case Form::kByte:
			return launch_bounded_scan_form<metric, ByteForm>(args, stream);
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

} // namespace vectorgpu::kernels
