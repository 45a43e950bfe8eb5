// Searches of graphs with several queries in one warp (Zhao, Tan, Li 2020, section 5): each query by 16 or 8 lanes,
// which do what a warp does in graph_search.cuh. Only compared: no index uses it. It lies here and not in
// gpu/experiments because the engine's options reach it (GraphTuning::lanes), as the benchmark and the tests do.
#pragma once

#include "kernels/graph/graph_lanes_scorers.cuh"
#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{

// Queries of a block, as with a warp for each: then the same shared memory is enough for the widest.
constexpr uint32_t kGraphLanesQueries = 4;

/// args.tuning is complete. Grid ceil(n_queries / kGraphLanesQueries), block kGraphLanesQueries * lanes: one warp, or
/// two. Shared memory: shared_bytes (graph_shared_bytes) for each query of the block. Writes args.candidates;
/// reproducible as launch_graph_search.
template <Metric metric, class Scorer, int lanes>
__global__ void __launch_bounds__(kGraphLanesQueries * lanes)
graph_lanes_kernel(GraphArgs args, uint32_t shared_bytes)
{
	extern __shared__ __align__(16) uint8_t graph_shared[];
	const uint32_t in_block = threadIdx.x / lanes;
	const uint32_t query = blockIdx.x * kGraphLanesQueries + in_block;

	// Lanes without a query leave, or reach the end long before the others of their warp: no operation names lanes of
	// another query (graph_lanes.cuh).
	if (query < args.queries.n_queries)
		GraphSearch<metric, Scorer, 1, lanes>(args, query, graph_shared + in_block * shared_bytes, threadIdx.x % lanes)
			.run();
}

template <Metric metric, class Scorer, int lanes>
cudaError_t
launch_graph_lanes_kernel(const GraphArgs &args, cudaStream_t stream)
{
	const uint32_t each = graph_shared_bytes(args.max_width, args.tuning.steps, args.tuning.table_bits,
		args.tuning.visited != GraphVisited::kNone, 1, lanes);

	// Not once per device, as for kernels that all searches use: preparing a kernel loads it, and most engines never
	// launch these.
	if (const cudaError_t error = allow_graph_shared(graph_lanes_kernel<metric, Scorer, lanes>); error != cudaSuccess)
		return error;
	graph_lanes_kernel<metric, Scorer, lanes><<<(args.queries.n_queries + kGraphLanesQueries - 1) / kGraphLanesQueries,
		kGraphLanesQueries * lanes, kGraphLanesQueries * each, stream>>>(args, each);
	return cudaGetLastError();
}

template <Metric metric, int lanes>
struct ScoredByLanes
{
	template <Metric, class FormT>
	using Vectors = GraphLanesScorer<metric, FormT, lanes>;

	static cudaError_t launch(const GraphArgs &args, cudaStream_t stream)
	{
		return with_graph_scorer<metric, lanes, Vectors>(args,
			[&]<class Scorer>(Scorer *) { return launch_graph_lanes_kernel<metric, Scorer, lanes>(args, stream); });
	}
};

template <Metric metric>
cudaError_t
launch_graph_lanes(const GraphArgs &args, cudaStream_t stream)
{
	return args.tuning.lanes == 16 ? ScoredByLanes<metric, 16>::launch(args, stream)
								   : ScoredByLanes<metric, 8>::launch(args, stream);
}

} // namespace vectorgpu::kernels
