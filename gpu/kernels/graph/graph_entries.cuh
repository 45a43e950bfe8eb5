// The nearest entry points of queries with blocks of their own, found by the whole device in a launch before the search
// (README.md, "Few queries: a block each"). A graph of many groups has thousands of entry points, megabytes of wide
// rows, which the few multiprocessors of one search would read one part after the other.
#pragma once

#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{

/// Grid (kGraphEntryBlocks, n_queries), block kGraphAloneWarps * 32. items as in launch_graph_entries.
template <class Scorer>
__global__ void __launch_bounds__(kGraphAloneWarps * 32)
graph_entries_kernel(GraphArgs args, uint64_t *items)
{
	static_assert(kGraphAloneWarps * kGraphMostBegin == 64); // two items a lane
	constexpr uint32_t kRows = Scorer::kByIntegers ? 32 : 4; // that a warp takes at a time
	__shared__ uint32_t nodes[kGraphAloneWarps][32];
	__shared__ uint64_t firsts[kGraphAloneWarps * kGraphMostBegin];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	// Neighbouring numbers are in different blocks, so that few entry points are shared out among all.
	const uint64_t mine = score_entries<kRows>(args, Scorer(args, blockIdx.y, lane), nodes[warp],
		warp * kGraphEntryBlocks + blockIdx.x, kGraphAloneWarps * kGraphEntryBlocks, lane);

	if (lane < kGraphMostBegin)
		firsts[warp * kGraphMostBegin + lane] = mine;
	__syncthreads();
	if (warp == 0)
	{
		const uint64_t first = warp_first(firsts[lane], firsts[lane + 32], args.n_begin, lane);

		if (lane < kGraphMostBegin)
			items[(static_cast<size_t>(blockIdx.y) * kGraphEntryBlocks + blockIdx.x) * kGraphMostBegin + lane] = first;
	}
}

template <Metric metric>
cudaError_t
launch_graph_entries_metric(const GraphArgs &args, uint64_t *items, cudaStream_t stream)
{
	return with_graph_scorer<metric, 32, GraphScorer>(args,
		[&]<class Scorer>(Scorer *)
		{
			graph_entries_kernel<Scorer>
				<<<dim3(kGraphEntryBlocks, args.queries.n_queries), kGraphAloneWarps * 32, 0, stream>>>(args, items);
			return cudaGetLastError();
		});
}

} // namespace vectorgpu::kernels
