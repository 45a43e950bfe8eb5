// What follows the filter for small k, a block to a query: cutting its candidates back, canonical scores of those that are left,
// the merge into what the query has found. Few candidates (nearly always) stay in registers and shared memory all the way.
#pragma once

#include "kernels/canonical.cuh"
#include "kernels/filter_bound.cuh"
#include "kernels/merge.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kFewCandidates = kFewEach * kSelectThreads;
constexpr int kRowsOfWarp = 4; // rows that a warp scores together

/// Canonical scores of n_rows <= kRowsOfWarp rows with one query: thread r gets row r's. row_at(r): pointer to row r, for any r.
/// The same sums in the same order as score_pairs; fewer rows at a time, for a few rows that many warps share.
template <Metric metric, class FormT, class RowAt>
__device__ __forceinline__ double
score_few(const RowAt &row_at, const float *query, uint32_t dim_pad, float aa, uint32_t lane)
{
	float sums[kRowsOfWarp] = {};
	float squares[kRowsOfWarp] = {};
	const void *rows[kRowsOfWarp];
	float mine = 0.0f;
	float mine_squares = 0.0f;

#pragma unroll
	for (int r = 0; r < kRowsOfWarp; r++)
		rows[r] = row_at(r);
#pragma unroll 8
	for (uint32_t e = lane; e < dim_pad; e += kLanes)
	{
		const float x = __ldg(query + e);

#pragma unroll
		for (int r = 0; r < kRowsOfWarp; r++)
		{
			const float y = FormT::load(rows[r], e);

			sums[r] = canonical_step<metric>(x, y, sums[r]);
			if constexpr (metric == Metric::kCosine)
				squares[r] = __fmaf_rn(y, y, squares[r]);
		}
	}
#pragma unroll
	for (int r = 0; r < kRowsOfWarp; r++)
	{
#pragma unroll
		for (int width = 16; width >= 1; width /= 2)
		{
			sums[r] = __fadd_rn(sums[r], __shfl_xor_sync(0xFFFFFFFFu, sums[r], width));
			if constexpr (metric == Metric::kCosine)
				squares[r] = __fadd_rn(squares[r], __shfl_xor_sync(0xFFFFFFFFu, squares[r], width));
		}
		mine = static_cast<int>(lane) == r ? sums[r] : mine;
		mine_squares = static_cast<int>(lane) == r ? squares[r] : mine_squares;
	}
	return canonical_score<metric>(mine, aa, mine_squares);
}

/// All of it for a query with few candidates; false, and nothing is changed, if there are too many for it. Block of
/// kSelectThreads; entries [kMergeLeast].
template <Metric metric, class FormT>
__device__ inline bool
finish_few(const FilterSelect &args, const Rows &rows, uint32_t query, Entry *entries)
{
	__shared__ FewScratch scratch;
	__shared__ uint32_t kept_rows[kMergeLeast];
	__shared__ uint32_t n_kept_shared;
	__shared__ uint32_t n_valid_shared;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t k = args.queries.k[query];
	const uint32_t count = args.candidates.counts[query];
	const uint32_t n_best = args.best.counts[query];
	const float threshold = args.thresholds[query];
	const double norm = args.prepared.norms[query];
	const uint32_t *candidate_rows = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	const float *estimates = args.candidates.estimates + static_cast<size_t>(query) * args.candidates.capacity;
	Entry *best = args.best.entries + static_cast<size_t>(query) * args.best.stride;

	if (args.prepared.redo[query] != 0 || count > args.candidates.capacity || count > kFewCandidates)
		return false;
	if (threadIdx.x == 0)
	{
		n_kept_shared = 0;
		n_valid_shared = 0;
	}

	uint32_t order[kFewEach];
	uint32_t row_of[kFewEach];

#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kSelectThreads + threadIdx.x;

		order[j] = i < count ? float_to_order(estimates[i]) : 0xFFFFFFFFu;
		row_of[j] = i < count ? candidate_rows[i] : 0;
	}

	float cut = threshold;

	if (k <= count)
	{
		const uint32_t kth = block_kth_of_few(order, k, &scratch);

		if (kth != 0xFFFFFFFFu) // NaN: fewer than k candidates have an estimate
			cut = fminf(cut, __double2float_ru(cut_for_estimate(args.bound, norm, order_to_float(kth))));
	}
	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const bool keep = j * kSelectThreads + threadIdx.x < count && !(order_to_float(order[j]) > cut); // NaN stays

		if (keep)
		{
			const uint32_t at = atomicAdd(&n_kept_shared, 1u);

			if (at < kMergeLeast)
				kept_rows[at] = row_of[j];
		}
	}
	__syncthreads();

	const uint32_t n_kept = n_kept_shared;

	if (n_kept + n_best > kMergeLeast)
		return false;

	const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * args.queries.dim_pad;
	float aa = 0.0f;

	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, args.queries.dim_pad, lane);
	for (uint32_t base = warp * kRowsOfWarp; base < n_kept; base += kSelectThreads / 32 * kRowsOfWarp)
	{
		const uint32_t i = min(base + lane % kRowsOfWarp, n_kept - 1);
		const uint32_t row = kept_rows[i];
		const uint64_t row_id = rows.row_ids[row];
		const double score = score_few<metric, FormT>(
			[&](int r)
			{ return static_cast<const char *>(rows.vectors) + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, row, r)) * rows.pitch_bytes; },
			vector, args.queries.dim_pad, aa, lane);

		if (lane < kRowsOfWarp && base + lane < n_kept)
		{
			const uint64_t key = key_after(score, args.queries, query, rows.row_ids, row);

			entries[base + lane] = key == kExcludedKey ? Entry{kExcludedKey, kExcludedKey} : Entry{key, row_id};
			if (key != kExcludedKey)
				atomicAdd(&n_valid_shared, 1u);
		}
	}
	for (uint32_t i = threadIdx.x; i < n_best; i += kSelectThreads)
		entries[n_kept + i] = best[i];

	const uint32_t n_sorted = flush_entries(entries, n_kept + n_best, k); // begins with a barrier
	const uint32_t n_found = min(n_sorted, n_valid_shared + n_best);

	for (uint32_t i = threadIdx.x; i < n_found; i += kSelectThreads)
		best[i] = entries[i];
	if (threadIdx.x == 0)
	{
		args.best.counts[query] = n_found;
		args.candidates.counts[query] = n_kept;
		args.thresholds[query] = cut;
		atomicAdd(reinterpret_cast<unsigned long long *>(args.n_rescored), static_cast<unsigned long long>(n_kept));
	}
	return true;
}

} // namespace vectorgpu::kernels
