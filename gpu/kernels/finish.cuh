// What follows the filter for small k, a block to a query: cutting its candidates back, canonical scores of those that are left,
// the merge into what the query has found. Few candidates (nearly always) stay in registers and shared memory all the way.
#pragma once

#include "kernels/canonical.cuh"
#include "kernels/filter_bound.cuh"
#include "kernels/merge.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kFewCandidates = kFewEach * kSelectThreads;
static_assert(kFewCandidates == kFinishMostCandidates);

/// Canonical scores of n_rows <= kRows rows with one query: thread r gets row r's. row_at(r): pointer to row r, for any r.
/// The same sums in the same order as score_pairs; fewer rows at a time, for a few rows that many warps share, with the loads of many steps
/// on the way together.
template <Metric metric, class FormT, int kRows, class RowAt>
__device__ __forceinline__ double
score_few(const RowAt &row_at, const float *query, uint32_t dim_pad, float aa, uint32_t lane)
{
	constexpr int kAhead = 32 / kRows; // steps
	float sums[kRows] = {};
	float squares[kRows] = {};
	const void *rows[kRows];
	float mine = 0.0f;
	float mine_squares = 0.0f;

#pragma unroll
	for (int r = 0; r < kRows; r++)
		rows[r] = row_at(r);
	for (uint32_t base = 0; base < dim_pad; base += kAhead * kLanes)
	{
		float x[kAhead];
		float y[kAhead][kRows];

#pragma unroll
		for (int j = 0; j < kAhead; j++)
		{
			const uint32_t e = base + j * kLanes;
			const bool counts = e < dim_pad; // a multiple of kLanes

			x[j] = counts ? __ldg(query + e + lane) : 0.0f;
#pragma unroll
			for (int r = 0; r < kRows; r++)
				y[j][r] = counts ? FormT::load(rows[r], e + lane) : 0.0f;
		}
#pragma unroll
		for (int j = 0; j < kAhead; j++)
		{
			if (base + j * kLanes >= dim_pad)
				break;
#pragma unroll
			for (int r = 0; r < kRows; r++)
			{
				sums[r] = canonical_step<metric>(x[j], y[j][r], sums[r]);
				if constexpr (metric == Metric::kCosine)
					squares[r] = __fmaf_rn(y[j][r], y[j][r], squares[r]);
			}
		}
	}
#pragma unroll
	for (int r = 0; r < kRows; r++)
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
/// kSelectThreads; entries [kMergeLeast] has the result. parts: see launch_finish.
template <Metric metric, class FormT>
__device__ inline bool
finish_few(const FilterSelect &args, const Rows &rows, const RowParts &parts, uint32_t query, Entry *entries)
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
	auto rescore = [&]<int kRows>() // that a warp scores together
	{
		for (uint32_t base = warp * kRows; base < n_kept; base += kSelectThreads / 32 * kRows)
		{
			const uint32_t number = kept_rows[min(base + lane % kRows, n_kept - 1)];
			const uint32_t part = parts.n > 1 ? part_of(parts, number) : 0;
			const Rows &of = parts.n > 0 ? parts.rows[part] : rows;
			const uint32_t row = parts.n > 0 ? number - parts.first_row[part] : number;
			const uint64_t row_id = of.row_ids[row];
			const uint64_t address = reinterpret_cast<uint64_t>(of.vectors) + static_cast<uint64_t>(row) * of.pitch_bytes;
			const double score = score_few<metric, FormT, kRows>(
				[&](int r) { return reinterpret_cast<const char *>(__shfl_sync(0xFFFFFFFFu, address, r)); }, vector, args.queries.dim_pad, aa,
				lane);

			if (lane < kRows && base + lane < n_kept)
			{
				const uint64_t key = key_after(score, args.queries, query, of.row_ids, row);

				entries[base + lane] = key == kExcludedKey ? Entry{kExcludedKey, kExcludedKey} : Entry{key, row_id};
				if (key != kExcludedKey)
					atomicAdd(&n_valid_shared, 1u);
			}
		}
	};

	// A few rows are shared out to all warps, many share the loads of the query.
	if (n_kept <= 2 * kSelectThreads / 32)
		rescore.template operator()<2>();
	else
		rescore.template operator()<4>();
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
