// Searches of graphs by codes: the search of graph_search.cuh with Hamming distances for scores, whole numbers up to
// 512, and the entry points nearest to each query.
#include <algorithm>
#include <bit>

#include "kernels/graph/graph_codes.hpp"
#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kEntryThreads = 128;
constexpr uint32_t kManyQueries = 1024; // from here on a warp each keeps the device busy
constexpr uint32_t kWide = 512;         // wider lists of four queries leave a multiprocessor few blocks
constexpr uint32_t kGatherThreads = 256;

/// A code in registers.
template <int words>
struct Code
{
	uint32_t word[words];

	__device__ Code(const uint8_t *codes, size_t number)
	{
		if constexpr (words % 4 == 0)
		{
			const uint4 *from = reinterpret_cast<const uint4 *>(codes) + number * (words / 4);

#pragma unroll
			for (int i = 0; i < words / 4; i++)
			{
				const uint4 piece = __ldg(from + i);

				word[4 * i] = piece.x;
				word[4 * i + 1] = piece.y;
				word[4 * i + 2] = piece.z;
				word[4 * i + 3] = piece.w;
			}
		}
		else
		{
			const uint32_t *from = reinterpret_cast<const uint32_t *>(codes) + number * words;

#pragma unroll
			for (int i = 0; i < words; i++)
				word[i] = __ldg(from + i);
		}
	}

	__device__ uint32_t distance(const Code &other) const
	{
		uint32_t sum = 0;

#pragma unroll
		for (int i = 0; i < words; i++)
			sum += __popc(word[i] ^ other.word[i]);
		return sum;
	}
};

/// Hamming distances of 32 nodes: one for each lane. A scorer as in graph_scorers.cuh.
template <int words>
struct GraphCodeScorer
{
	const uint8_t *rows;
	Code<words> query;

	__device__ GraphCodeScorer(const GraphArgs &args, uint32_t number, uint32_t)
		: rows(static_cast<const uint8_t *>(args.rows.vectors)), query(args.byte_queries, number)
	{
	}

	/// Score nodes; `most` makes no difference.
	template <uint32_t>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return static_cast<float>(query.distance(Code<words>(rows, nodes[min(lane, n - 1)])));
	}
};

/// Set begin [n_begin] of each query to the entry points nearest to it by (distance, number). Grid n_queries, block
/// kEntryThreads, shared 4 n_entries bytes.
template <int words>
__global__ void __launch_bounds__(kEntryThreads)
code_entries_kernel(CodeGraphArgs args)
{
	extern __shared__ uint32_t distances[];
	const Code<words> query(args.query_codes, blockIdx.x);
	uint64_t last = 0; // the last one taken, plus 1

	for (uint32_t i = threadIdx.x; i < args.n_entries; i += kEntryThreads)
		distances[i] = query.distance(Code<words>(args.entry_codes, i));
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	for (uint32_t taken = 0; taken < args.n_begin; taken++)
	{
		uint64_t best = ~uint64_t{0};

		for (uint32_t i = threadIdx.x; i < args.n_entries; i += 32)
		{
			const uint64_t item = static_cast<uint64_t>(distances[i]) << 32 | i;

			if (item >= last && item < best)
				best = item;
		}
#pragma unroll
		for (int step = 16; step > 0; step /= 2)
			best = min(best, __shfl_xor_sync(0xFFFFFFFFu, best, step));
		if (threadIdx.x == 0)
			args.begin[static_cast<size_t>(blockIdx.x) * args.n_begin + taken] = {
				device_score_to_key(static_cast<double>(best >> 32)), static_cast<uint32_t>(best)};
		last = best + 1;
	}
}

/// Words of 4 bytes. Grid (blocks), block kGatherThreads.
__global__ void
code_gather_kernel(const uint32_t *from, uint32_t words, const uint32_t *nodes, uint32_t n, uint32_t *to)
{
	for (size_t i = blockIdx.x * size_t{kGatherThreads} + threadIdx.x; i < static_cast<size_t>(n) * words;
		i += size_t{gridDim.x} * kGatherThreads)
		to[i] = __ldg(from + static_cast<size_t>(nodes[i / words]) * words + i % words);
}

/// The arguments in the form of the search of graph_search.cuh.
GraphArgs
graph_args(const CodeGraphArgs &args)
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

template <int words>
cudaError_t
launch_words(const CodeGraphArgs &args, bool prepare, cudaStream_t stream)
{
	const GraphArgs graph = graph_args(args);
	cudaError_t error;

	if (prepare)
	{
		error = launch_graph_kernel<Metric::kL2, GraphCodeScorer<words>, 1>(graph, true, stream);
		return error != cudaSuccess ? error
									: launch_graph_kernel<Metric::kL2, GraphCodeScorer<words>, 4>(graph, true, stream);
	}
	code_entries_kernel<words><<<args.n_queries, kEntryThreads, args.n_entries * sizeof(uint32_t), stream>>>(args);
	error = cudaGetLastError();
	if (error != cudaSuccess)
		return error;
	return graph.tuning.warps == 1 ? launch_graph_kernel<Metric::kL2, GraphCodeScorer<words>, 1>(graph, false, stream)
								   : launch_graph_kernel<Metric::kL2, GraphCodeScorer<words>, 4>(graph, false, stream);
}

cudaError_t
dispatch(const CodeGraphArgs &args, bool prepare, cudaStream_t stream)
{
	switch (args.code_bytes)
	{
		case 4:
			return launch_words<1>(args, prepare, stream);
		case 8:
			return launch_words<2>(args, prepare, stream);
		case 16:
			return launch_words<4>(args, prepare, stream);
		case 32:
			return launch_words<8>(args, prepare, stream);
		case 64:
			return launch_words<16>(args, prepare, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace

cudaError_t
launch_code_graph_search(const CodeGraphArgs &args, cudaStream_t stream)
{
	if (args.n_queries == 0 || args.n_rows == 0)
		return cudaSuccess;
	if (args.max_width < 1 || args.max_width > kCodeGraphMostWidth || args.degree == 0 ||
		args.found.capacity < args.max_width || args.n_entries < 1 || args.n_entries > kCodeGraphMostEntries ||
		args.n_begin < 1 || args.n_begin > kCodeGraphMostBegin || args.n_begin > args.n_entries)
		return cudaErrorInvalidValue;
	return dispatch(args, false, stream);
}

cudaError_t
launch_code_gather(
	const uint8_t *codes, uint32_t code_bytes, const uint32_t *nodes, uint32_t n, uint8_t *to, cudaStream_t stream)
{
	const uint32_t words = code_bytes / 4;

	if (n == 0)
		return cudaSuccess;
	code_gather_kernel<<<std::min<uint32_t>(1024, (n * words + kGatherThreads - 1) / kGatherThreads), kGatherThreads, 0,
		stream>>>(reinterpret_cast<const uint32_t *>(codes), words, nodes, n, reinterpret_cast<uint32_t *>(to));
	return cudaGetLastError();
}

cudaError_t
prepare_code_graph_kernels()
{
	CodeGraphArgs args;

	for (const uint32_t code_bytes : {4u, 8u, 16u, 32u, 64u})
	{
		args.code_bytes = code_bytes;
		if (const cudaError_t error = dispatch(args, true, nullptr); error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

} // namespace vectorgpu::kernels
