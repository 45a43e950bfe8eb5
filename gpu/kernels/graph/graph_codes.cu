// Searches of graphs by codes of projections: Hamming distances, whole numbers up to 512, are the scores. And what the
// host calls for codes of either kind.
#include "kernels/graph/graph_codes.cuh"

namespace vectorgpu::kernels
{
namespace
{

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
		: GraphCodeScorer(static_cast<const uint8_t *>(args.rows.vectors), 4 * words, args.byte_queries, number)
	{
	}
	__device__ GraphCodeScorer(const uint8_t *codes, uint32_t, const uint8_t *queries, uint32_t number)
		: rows(codes), query(queries, number)
	{
	}

	__device__ uint32_t order(uint32_t node) const { return query.distance(Code<words>(rows, node)); }
	__device__ static float score_of_order(uint32_t order) { return static_cast<float>(order); }

	/// Score nodes; `most` makes no difference.
	template <uint32_t>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return score_of_order(order(nodes[min(lane, n - 1)]));
	}
};

/// Words of 4 bytes. Grid (blocks), block kGatherThreads.
__global__ void
code_gather_kernel(const uint32_t *from, uint32_t words, const uint32_t *nodes, uint32_t n, uint32_t *to)
{
	for (size_t i = blockIdx.x * size_t{kGatherThreads} + threadIdx.x; i < static_cast<size_t>(n) * words;
		i += size_t{gridDim.x} * kGatherThreads)
		to[i] = __ldg(from + static_cast<size_t>(nodes[i / words]) * words + i % words);
}

cudaError_t
dispatch(const CodeGraphArgs &args, bool prepare, cudaStream_t stream)
{
	if (args.rabitq_bits != 0)
		return launch_rabitq_graph(args, prepare, stream);
	switch (args.code_bytes)
	{
		case 4:
			return launch_code_scorer<GraphCodeScorer<1>>(args, prepare, stream);
		case 8:
			return launch_code_scorer<GraphCodeScorer<2>>(args, prepare, stream);
		case 16:
			return launch_code_scorer<GraphCodeScorer<4>>(args, prepare, stream);
		case 32:
			return launch_code_scorer<GraphCodeScorer<8>>(args, prepare, stream);
		case 64:
			return launch_code_scorer<GraphCodeScorer<16>>(args, prepare, stream);
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
	const size_t n_blocks = (size_t{n} * words + kGatherThreads - 1) / kGatherThreads;

	if (n == 0)
		return cudaSuccess;
	code_gather_kernel<<<static_cast<uint32_t>(std::min<size_t>(1024, n_blocks)), kGatherThreads, 0, stream>>>(
		reinterpret_cast<const uint32_t *>(codes), words, nodes, n, reinterpret_cast<uint32_t *>(to));
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
	for (const uint32_t bits : {1u, 2u, 4u})
	{
		args.rabitq_bits = bits;
		if (const cudaError_t error = dispatch(args, true, nullptr); error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

} // namespace vectorgpu::kernels
