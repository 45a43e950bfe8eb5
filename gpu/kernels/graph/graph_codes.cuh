// Searches of graphs by codes: the entry points nearest to each query, then the search of graph_search.cuh with a
// scorer of codes. graph_codes.cu launches those of projections, graph_codes_rabitq.cu those of RaBitQ.
//
// A scorer has, beside those of graph_scorers.cuh, order(code): the score of a code as a number that sorts like it, and
// score_of_order, the score again; and is made of queries' codes and a number as well.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/graph/graph_codes.hpp"
#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kEntryThreads = 128;
constexpr uint32_t kManyQueries = 1024; // from here on a warp each keeps the device busy
constexpr uint32_t kWide = 512;         // wider lists of four queries leave a multiprocessor few blocks

/// Set begin [n_begin] of each query to the entry points nearest to it by (score, number). Grid n_queries, block
/// kEntryThreads, shared 4 n_entries bytes.
template <class Scorer>
__global__ void __launch_bounds__(kEntryThreads)
code_entries_kernel(CodeGraphArgs args)
{
	extern __shared__ uint32_t orders[];
	const Scorer scorer(args.entry_codes, args.code_bytes, args.query_codes, blockIdx.x);
	uint64_t last = 0; // the last one taken, plus 1

	for (uint32_t i = threadIdx.x; i < args.n_entries; i += kEntryThreads)
		orders[i] = scorer.order(i);
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	for (uint32_t taken = 0; taken < args.n_begin; taken++)
	{
		uint64_t best = ~uint64_t{0};

		for (uint32_t i = threadIdx.x; i < args.n_entries; i += 32)
		{
			const uint64_t item = static_cast<uint64_t>(orders[i]) << 32 | i;

			if (item >= last && item < best)
				best = item;
		}
#pragma unroll
		for (int step = 16; step > 0; step /= 2)
			best = min(best, __shfl_xor_sync(0xFFFFFFFFu, best, step));
		if (threadIdx.x == 0)
			args.begin[static_cast<size_t>(blockIdx.x) * args.n_begin + taken] = {
				device_score_to_key(static_cast<double>(Scorer::score_of_order(static_cast<uint32_t>(best >> 32)))),
				static_cast<uint32_t>(best)};
		last = best + 1;
	}
}

/// The arguments in the form of the search of graph_search.cuh.
inline GraphArgs
code_graph_args(const CodeGraphArgs &args)
{
	GraphArgs graph;

	graph.metric = Metric::kL2; // any but cosine: scores in the list are exact
	graph.rows.vectors = args.codes;
	graph.rows.n_rows = args.n_rows;
	graph.rows.pitch_bytes = args.code_bytes;
	graph.queries.n_queries = args.n_queries;
	graph.edges = args.edges;
	graph.degree = args.degree;
	graph.entry_nodes = args.entry_nodes;
	graph.begin = args.begin;
	graph.n_begin = args.n_begin;
	graph.widths = args.widths;
	graph.max_width = args.max_width;
	graph.byte_queries = args.query_codes;
	graph.candidates = args.found;
	graph.tuning.steps = kGraphDefaultSteps;
	graph.tuning.warps = args.n_queries >= kManyQueries && args.max_width <= kWide ? 1 : 4;
	graph.tuning.table_bits = graph.tuning.warps == 1
		? static_cast<uint32_t>(std::bit_width(std::clamp(args.max_width * 8, 512u, 4096u) - 1))
		: static_cast<uint32_t>(std::bit_width(std::clamp(args.max_width * 20, 512u, 8192u) - 1));
	return graph;
}

template <class Scorer>
cudaError_t
launch_code_scorer(const CodeGraphArgs &args, bool prepare, cudaStream_t stream)
{
	const GraphArgs graph = code_graph_args(args);
	cudaError_t error;

	if (prepare)
	{
		error = launch_graph_kernel<Metric::kL2, Scorer, 1>(graph, true, stream);
		return error != cudaSuccess ? error : launch_graph_kernel<Metric::kL2, Scorer, 4>(graph, true, stream);
	}
	code_entries_kernel<Scorer><<<args.n_queries, kEntryThreads, args.n_entries * sizeof(uint32_t), stream>>>(args);
	error = cudaGetLastError();
	if (error != cudaSuccess)
		return error;
	return graph.tuning.warps == 1 ? launch_graph_kernel<Metric::kL2, Scorer, 1>(graph, false, stream)
								   : launch_graph_kernel<Metric::kL2, Scorer, 4>(graph, false, stream);
}

/// Launch, or prepare, searches by codes of RaBitQ of args.rabitq_bits.
[[nodiscard]] cudaError_t launch_rabitq_graph(const CodeGraphArgs &args, bool prepare, cudaStream_t stream);

} // namespace vectorgpu::kernels
