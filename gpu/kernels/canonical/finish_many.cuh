// The steps after the filter for many queries with few candidates each: a warp takes a query. A block to a query, as in
// finish.cuh, would leave most of its threads idle.
#pragma once

#include "kernels/canonical/finish.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kWarpKept = 64; // candidates after the cut, and earlier results, that a warp sorts
constexpr uint32_t kManyMostK = 32;
constexpr int kManyEach = 8; // candidates of a lane

/// Shared memory of a warp.
struct WarpFinishScratch
{
	Entry entries[kWarpKept];
	uint32_t rows[kWarpKept];
	uint32_t n_valid;
};

/// Write the k first of entries [n <= kWarpKept] in shared memory, in order, to `to`, those that are not excluded. By a
/// warp.
__device__ inline void
write_first(const Entry *entries, uint32_t n, uint32_t k, Entry *to)
{
	const uint32_t lane = threadIdx.x % 32;
	Entry mine[kWarpKept / 32];
	uint32_t before[kWarpKept / 32] = {};

#pragma unroll
	for (uint32_t j = 0; j < kWarpKept / 32; j++)
		mine[j] = j * 32 + lane < n ? entries[j * 32 + lane] : Entry{kExcludedKey, kExcludedKey};
	for (uint32_t i = 0; i < n; i++)
	{
		const Entry other = entries[i];

#pragma unroll
		for (uint32_t j = 0; j < kWarpKept / 32; j++)
			before[j] += entry_less(other, mine[j]);
	}
#pragma unroll
	for (uint32_t j = 0; j < kWarpKept / 32; j++)
		if (mine[j].key != kExcludedKey && before[j] < k)
			to[before[j]] = mine[j];
}

/// Finish a query by a warp. False, and nothing has changed, if it has too many candidates for that.
template <Metric metric, class FormT>
__device__ __forceinline__ bool
finish_by_warp(const FilterSelect &select, const Rows &rows, uint32_t query, WarpFinishScratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t dim_pad = select.queries.dim_pad;
	const float *vector = static_cast<const float *>(select.queries.vectors) + static_cast<size_t>(query) * dim_pad;
	Entry *best = select.best.entries + static_cast<size_t>(query) * select.best.stride;
	const uint32_t n_best = select.best.counts[query];
	const uint32_t k = select.queries.k[query];
	WarpCandidates<kManyEach> candidates;
	float aa = 0.0f;

	if (!candidates.load(select, query))
		return false;

	const float cut = candidates.cut(select, query);
	const uint32_t n_kept = candidates.for_each_kept(cut,
		[&](uint32_t at, uint32_t j)
		{
			if (at < kWarpKept)
				scratch->rows[at] = candidates.rows[j];
		});

	if (n_kept + n_best > kWarpKept)
		return false;
	if (lane == 0)
		scratch->n_valid = n_best;
	for (uint32_t i = lane; i < n_best; i += 32)
		scratch->entries[n_kept + i] = best[i];
	__syncwarp();
	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, dim_pad, lane);
	score_rows<metric, FormT, 4>(
		scratch->rows, n_kept, 0, 1, dim_pad, aa,
		[&](uint32_t row, const Rows **of)
		{
			*of = &rows;
			return row;
		},
		[&](uint32_t e) { return __ldg(vector + e); }, [&](double score, const Rows &of, uint32_t row)
		{ return key_after(score, select.queries, query, of.row_ids, row); }, scratch->entries, &scratch->n_valid);
	__syncwarp();
	write_first(scratch->entries, n_kept + n_best, k, best);
	if (lane == 0)
	{
		select.best.counts[query] = min(scratch->n_valid, k);
		set_cut(select, query, n_kept, cut);
	}
	return true;
}

} // namespace vectorgpu::kernels
