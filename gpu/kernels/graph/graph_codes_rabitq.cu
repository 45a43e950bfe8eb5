// Searches of graphs by codes of RaBitQ: a lane a node. engine/graph/codes/code_scores.hpp has their layout. A row's
// numbers are multiplied by the query's elements, four at a time; the elements are the same for all lanes.
#include "kernels/graph/graph_codes.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kFactorBytes = 8; // of a row: add, scale
constexpr uint32_t kHeadBytes = 16;  // of a query: scale, sum
constexpr uint32_t kSlackBytes = 16; // of a query, behind its elements
constexpr float kMostScore = 3.4028234663852886e38f;

/// Scores of 32 nodes: one for each lane. A scorer as in graph_codes.cuh.
template <int bits>
struct GraphRabitqScorer
{
	static constexpr uint32_t kParts = 8 / bits;
	static constexpr uint32_t kMask = ((1u << bits) - 1) * 0x01010101u;

	const uint8_t *rows;
	uint32_t pitch;
	const int8_t *elements; // [kParts, pitch - kFactorBytes]
	float query_scale;
	int32_t query_sum;

	__device__ GraphRabitqScorer(const GraphArgs &args, uint32_t number, uint32_t)
		: GraphRabitqScorer(
			  static_cast<const uint8_t *>(args.rows.vectors), args.rows.pitch_bytes, args.byte_queries, number)
	{
	}
	__device__ GraphRabitqScorer(const uint8_t *codes, uint32_t code_bytes, const uint8_t *queries, uint32_t number)
		: rows(codes), pitch(code_bytes)
	{
		const size_t query_bytes = kHeadBytes + size_t{kParts} * (pitch - kFactorBytes) + kSlackBytes;
		const uint8_t *query = queries + number * query_bytes;
		const uint2 head = __ldg(reinterpret_cast<const uint2 *>(query));

		query_scale = __uint_as_float(head.x);
		query_sum = static_cast<int32_t>(head.y);
		elements = reinterpret_cast<const int8_t *>(query + kHeadBytes);
	}

	/// The products of four words of numbers, from byte number `byte` of the row's on.
	__device__ __forceinline__ int32_t multiply(uint2 first, uint2 second, uint32_t byte, int32_t sum) const
	{
#pragma unroll
		for (uint32_t part = 0; part < kParts; part++)
		{
			const int4 x =
				__ldg(reinterpret_cast<const int4 *>(elements + size_t{part} * (pitch - kFactorBytes) + byte));
			const auto numbers = [part](uint32_t word) { return static_cast<int32_t>(word >> (part * bits) & kMask); };

			sum = __dp4a(numbers(first.x), x.x, sum);
			sum = __dp4a(numbers(first.y), x.y, sum);
			sum = __dp4a(numbers(second.x), x.z, sum);
			sum = __dp4a(numbers(second.y), x.w, sum);
		}
		return sum;
	}

	/// As compute_code_scores, operation by operation.
	__device__ float score_of(uint32_t node) const
	{
		const uint2 *code = reinterpret_cast<const uint2 *>(rows + static_cast<size_t>(node) * pitch);
		const uint2 factors = __ldg(code);
		int32_t product = 0;

		for (uint32_t byte = 0; byte < pitch - kFactorBytes; byte += 16)
			product = multiply(__ldg(code + 1 + byte / 8), __ldg(code + 2 + byte / 8), byte, product);

		const float twice = __int2float_rn(2 * product - query_sum);
		const float scaled = __fmul_rn(__uint_as_float(factors.y), __fmul_rn(query_scale, twice));
		const float score = __fadd_rn(__fadd_rn(__uint_as_float(factors.x), scaled), 0.0f);

		return score < kMostScore ? score : kMostScore;
	}

	__device__ uint32_t order(uint32_t node) const { return float_to_order(score_of(node)); }
	__device__ static float score_of_order(uint32_t order) { return order_to_float(order); }

	/// Score nodes; `most` makes no difference.
	template <uint32_t>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return score_of(nodes[min(lane, n - 1)]);
	}
};

} // namespace

cudaError_t
launch_rabitq_graph(const CodeGraphArgs &args, bool prepare, cudaStream_t stream)
{
	if (!prepare && (args.code_bytes <= kFactorBytes || (args.code_bytes - kFactorBytes) % 16 != 0))
		return cudaErrorInvalidValue;
	switch (args.rabitq_bits)
	{
		case 1:
			return launch_code_scorer<GraphRabitqScorer<1>>(args, prepare, stream);
		case 2:
			return launch_code_scorer<GraphRabitqScorer<2>>(args, prepare, stream);
		case 4:
			return launch_code_scorer<GraphRabitqScorer<4>>(args, prepare, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::kernels
