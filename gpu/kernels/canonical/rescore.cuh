// Canonical scores of a query's candidates, for the candidates of a filter (scores.cuh) and of codes
// (codes/codes_refine.cu).
#pragma once

#include "kernels/canonical/canonical.cuh"

namespace vectorgpu::kernels
{

/// Set the keys of a query's candidates, 32 at a time: warp `warp` of `n_warps`. key_of(score, row): a candidate's key.
template <Metric metric, class FormT, class KeyOf>
__device__ __forceinline__ void
rescore_candidates(const RescoreArgs &args, uint32_t query, uint32_t warp, uint32_t n_warps, const KeyOf &key_of)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t count = min(args.candidates.counts[query], args.candidates.capacity);
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
	const uint32_t *candidate_rows = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	uint64_t *keys = args.candidates.keys + static_cast<size_t>(query) * args.candidates.capacity;
	const char *block = static_cast<const char *>(args.rows.vectors);
	float aa = 0.0f;

	if (warp * 32 >= count)
		return;
	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, dim_pad, lane);
	for (uint32_t base = warp * 32; base < count; base += n_warps * 32)
	{
		const uint32_t mine = candidate_rows[min(base + lane, count - 1)];
		const double score = score_pairs<metric, FormT, 32, 1>([&](int r)
			{ return block + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, mine, r)) * args.rows.pitch_bytes; }, vector,
			1, dim_pad, aa, lane);

		if (base + lane < count)
			keys[base + lane] = key_of(score, mine);
	}
}

} // namespace vectorgpu::kernels
