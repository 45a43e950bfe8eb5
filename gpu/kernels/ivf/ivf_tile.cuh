// What scans of lists by tensor cores share: tiles of the queries of a list by some of its rows, and candidates.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

/// Up to IvfPlan::queries_per_tile queries of a list by up to kIvfRowsPerTile of its rows.
struct ListTile
{
	const uint32_t *numbers; // [n_queries], of the queries
	uint32_t n_queries;
	uint32_t first; // row
	uint32_t end;
};

/// The last list whose first tile is not behind `tile`.
__device__ __forceinline__ uint32_t
list_of_tile(const IvfScanArgs &args, uint32_t tile)
{
	uint32_t list = 0;
	uint32_t high = args.probes.n_lists;

	while (high - list > 1)
	{
		const uint32_t middle = (list + high) / 2;

		if (args.plan.tile_firsts[middle] <= tile)
			list = middle;
		else
			high = middle;
	}
	return list;
}

/// The tile of a number below plan.tile_firsts[n_lists]. Tiles that follow each other share rows.
__device__ __forceinline__ ListTile
list_tile(const IvfScanArgs &args, uint32_t tile)
{
	const IvfPlan &plan = args.plan;
	const uint32_t each = plan.queries_per_tile;
	const uint32_t list = list_of_tile(args, tile);
	const uint32_t n_in_list = plan.firsts[list + 1] - plan.firsts[list];
	const uint32_t n_groups = (n_in_list + each - 1) / each;
	const uint32_t local = tile - plan.tile_firsts[list];
	const uint32_t first_query = local % n_groups * each;
	const uint32_t first = static_cast<uint32_t>(args.probes.offsets[list]) + local / n_groups * kIvfRowsPerTile;

	return {plan.queries + plan.firsts[list] + first_query, min(each, n_in_list - first_query), first,
		min(static_cast<uint32_t>(args.probes.offsets[list + 1]), first + kIvfRowsPerTile)};
}

/// Make a row that is not beyond a query's threshold, by its whole score, a candidate of that query.
__device__ __forceinline__ void
add_candidate(const IvfScanArgs &args, uint32_t query, uint32_t place, double score)
{
	const uint64_t key = key_after(score, args.queries, query, args.rows.row_ids, place);

	if (key > args.thresholds[query] || key >= kNanKey)
		return;

	const uint32_t at = atomicAdd(&args.candidates.counts[query], 1u);

	if (at < args.candidates.capacity)
	{
		args.candidates.keys[static_cast<size_t>(query) * args.candidates.capacity + at] = key;
		args.candidates.rows[static_cast<size_t>(query) * args.candidates.capacity + at] = place;
	}
}

} // namespace vectorgpu::kernels
