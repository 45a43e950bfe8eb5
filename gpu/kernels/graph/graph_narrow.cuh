// The scorer of rounded rows, and its launches. GraphSearch knows it by its type Canonical, which chooses entry points
// and scores what was found.
#pragma once

#include "kernels/graph/graph_launch.cuh"
#include "kernels/graph/graph_narrow.hpp"

namespace vectorgpu::kernels
{

/// A float's byte in units of 1 / inverse; as the host rounds it.
__device__ __forceinline__ int
narrow_byte(float x, float inverse)
{
	constexpr float kNoFraction = 0x1.8p23F;
	const float whole = __fadd_rn(__fadd_rn(__fmul_rn(x, inverse), kNoFraction), -kNoFraction);

	return static_cast<int>(fminf(fmaxf(whole, -127.0f), 127.0f));
}

/// The inverse of a scale; 0: all bytes are.
__device__ __forceinline__ float
narrow_inverse(float scale)
{
	const float inverse = __frcp_rn(scale);

	return scale > 0.0f && isfinite(inverse) ? inverse : 0.0f;
}

__device__ __forceinline__ uint32_t
pack_bytes(const float4 &x, float inverse)
{
	return (narrow_byte(x.x, inverse) & 0xFF) | (narrow_byte(x.y, inverse) & 0xFF) << 8 |
		(narrow_byte(x.z, inverse) & 0xFF) << 16 | (narrow_byte(x.w, inverse) & 0xFF) << 24;
}

/// Scores of rounded rows of up to 128 times `chunks` dimensions: eight lanes a row, 16 bytes each.
template <Metric metric, int chunks>
struct GraphNarrowScorer
{
	using Canonical = GraphScorer<metric, Float32Form>;
	static constexpr bool kByIntegers = true; // a row is one load of a lane, or a few
	// graph_least_blocks. Of long rows more bytes of each are under way.
	static constexpr int kLeastBlocks = chunks == 1 ? 32 : chunks <= 4 ? 24 : 16;

	Canonical canonical;
	const int8_t *rows;
	const NarrowRow *values;
	uint32_t pitch;
	uint32_t n_pieces; // of 16 bytes, in a row
	uint4 x[chunks];
	float weight;

	__device__ GraphNarrowScorer(const GraphArgs &args, uint32_t number, uint32_t lane)
		: canonical(args, number, lane), rows(args.narrow.rows), values(args.narrow.values),
		  pitch(args.narrow.pitch_bytes), n_pieces(args.queries.dim_pad / 16)
	{
		float largest = 0.0f;

#pragma unroll
		for (int c = 0; c < chunks; c++)
			if (c * 8 + lane % 8 < n_pieces)
				for (uint32_t i = 0; i < 4; i++)
					largest = fmaxf(largest, largest_of(piece(c * 8 + lane % 8, i)));
		for (int width = 4; width >= 1; width /= 2)
			largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, width));

		const float scale = __fdiv_rn(largest, 127.0f);
		const float inverse = narrow_inverse(scale);

		weight = narrow_weight(metric, scale);
#pragma unroll
		for (int c = 0; c < chunks; c++)
		{
			const uint32_t at = c * 8 + lane % 8;

			x[c] = make_uint4(0, 0, 0, 0);
			if (at < n_pieces)
				x[c] = make_uint4(pack_bytes(piece(at, 0), inverse), pack_bytes(piece(at, 1), inverse),
					pack_bytes(piece(at, 2), inverse), pack_bytes(piece(at, 3), inverse));
		}
	}

	__device__ __forceinline__ static float largest_of(const float4 &v)
	{
		return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
	}

	/// Four elements of the query: number i of its 16-element piece.
	__device__ __forceinline__ float4 piece(uint32_t at, uint32_t i) const
	{
		return __ldg(reinterpret_cast<const float4 *>(canonical.query) + at * 4 + i);
	}

	__device__ __forceinline__ static int32_t dot(const uint4 &a, const uint4 &b, int32_t sum)
	{
		sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b.x), sum);
		sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b.y), sum);
		sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b.z), sum);
		return __dp4a(static_cast<int>(a.w), static_cast<int>(b.w), sum);
	}

	/// Canonical scores, as of GraphScorer.
	__device__ double exact(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return canonical.exact(nodes, n, lane);
	}
	template <uint32_t steps>
	__device__ double exact_by_few(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return canonical.template exact_by_few<steps>(nodes, n, lane);
	}

	/// Score up to `most` nodes, a multiple of 4.
	template <uint32_t most = 32>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		constexpr uint32_t kGroups = 4; // rows scored side by side
		constexpr uint32_t kRoom = chunks >= 8 ? 1 : 8 / chunks;
		constexpr uint32_t kMostOfGroup = kRoom < 4 ? kRoom : 4;
		constexpr uint32_t kOfGroup = most < kMostOfGroup * kGroups ? most / kGroups : kMostOfGroup;
		constexpr uint32_t kTogether = kOfGroup * kGroups; // under way at once
		const uint32_t group = lane / 8;
		NarrowRow value = narrow_nowhere();
		int32_t mine = 0;

		if (lane < n)
		{
			const float2 loaded = __ldg(reinterpret_cast<const float2 *>(values) + nodes[lane]);

			value = {loaded.x, loaded.y};
		}
#pragma unroll
		for (uint32_t turn = 0; turn < (most + kTogether - 1) / kTogether; turn++)
		{
			uint4 y[kOfGroup][chunks];

			if (turn * kTogether >= n)
				break;
#pragma unroll
			for (uint32_t i = 0; i < kOfGroup; i++)
			{
				const uint32_t r = turn * kTogether + i * kGroups + group;
				const uint4 *row =
					reinterpret_cast<const uint4 *>(rows + static_cast<size_t>(nodes[min(r, n - 1)]) * pitch);

#pragma unroll
				for (int c = 0; c < chunks; c++)
				{
					const uint32_t at = c * 8 + lane % 8;

					y[i][c] = at < n_pieces ? __ldg(row + at) : make_uint4(0, 0, 0, 0);
				}
			}
#pragma unroll
			for (uint32_t i = 0; i < kOfGroup; i++)
			{
				int32_t part = 0;

#pragma unroll
				for (int c = 0; c < chunks; c++)
					part = dot(x[c], y[i][c], part);
#pragma unroll
				for (int width = 4; width >= 1; width /= 2)
					part += __shfl_xor_sync(0xFFFFFFFFu, part, width);

				const int32_t sum = __shfl_sync(0xFFFFFFFFu, part, static_cast<int>(lane % kGroups) * 8);

				if (lane / kGroups == turn * kOfGroup + i)
					mine = sum;
			}
		}
		return narrow_score(mine, value, weight);
	}
};

/// The search sees canonical scores at the end alone, as of cosine.
template <Metric metric>
cudaError_t
launch_graph_narrow(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	const auto launch = [&]<int chunks>(std::integral_constant<int, chunks>)
	{ return launch_graph_scorer<Metric::kCosine, GraphNarrowScorer<metric, chunks>>(args, prepare, stream); };
	cudaError_t error = cudaSuccess;

	if (prepare)
	{
		error = launch(std::integral_constant<int, 1>());
		if (error == cudaSuccess)
			error = launch(std::integral_constant<int, 2>());
		if (error == cudaSuccess)
			error = launch(std::integral_constant<int, 4>());
		return error != cudaSuccess ? error : launch(std::integral_constant<int, 8>());
	}
	if (args.queries.dim_pad <= 128)
		return launch(std::integral_constant<int, 1>());
	if (args.queries.dim_pad <= 256)
		return launch(std::integral_constant<int, 2>());
	return args.queries.dim_pad <= 512 ? launch(std::integral_constant<int, 4>())
									   : launch(std::integral_constant<int, 8>());
}

} // namespace vectorgpu::kernels
