// Searches of graphs over bit strings: the search of graph_search.cuh with counts of bits for scores.
#include "kernels/canonical/bits.cuh"
#include "kernels/graph/graph_bits.hpp"
#include "kernels/graph/graph_launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

/// Canonical scores of 32 nodes: eight lanes a row, 128 bytes of it at a time, four rows of each eight lanes under way
/// at once. A scorer as in graph_scorers.cuh.
template <Metric metric>
struct GraphBitScorer
{
	static constexpr uint32_t kTeam = 8; // lanes of a row
	static constexpr uint32_t kTeams = 32 / kTeam;
	static constexpr uint32_t kRowsOfTeam = 4; // at once

	const uint8_t *rows;
	const uint4 *query;
	uint32_t pitch;

	__device__ GraphBitScorer(const GraphArgs &args, uint32_t number, uint32_t)
		: rows(static_cast<const uint8_t *>(args.rows.vectors)),
		  query(reinterpret_cast<const uint4 *>(static_cast<const uint8_t *>(args.queries.vectors) +
			  static_cast<size_t>(number) * args.rows.pitch_bytes)),
		  pitch(args.rows.pitch_bytes)
	{
	}

	/// Score nodes [n], 0 < n <= 32, in shared memory, to as many lanes, the first. All lanes of the warp call it.
	__device__ double exact(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		constexpr uint32_t kTogether = kTeams * kRowsOfTeam;
		const uint32_t n_pieces = pitch / 16;
		double mine = 0;

#pragma unroll 1
		for (uint32_t base = 0; base < n; base += kTogether)
		{
			const uint4 *row[kRowsOfTeam];
			uint32_t first[kRowsOfTeam];
			uint32_t second[kRowsOfTeam];

#pragma unroll
			for (uint32_t i = 0; i < kRowsOfTeam; i++)
			{
				const uint32_t number = min(base + i * kTeams + lane / kTeam, n - 1); // beyond the last, the last again

				row[i] = reinterpret_cast<const uint4 *>(rows + static_cast<size_t>(nodes[number]) * pitch);
				first[i] = second[i] = 0;
			}
			for (uint32_t piece = lane % kTeam; piece < n_pieces; piece += kTeam)
			{
				const uint4 x = __ldg(query + piece);
				uint4 y[kRowsOfTeam];

#pragma unroll
				for (uint32_t i = 0; i < kRowsOfTeam; i++)
					y[i] = __ldg(row[i] + piece);
#pragma unroll
				for (uint32_t i = 0; i < kRowsOfTeam; i++)
					count_bits<metric>(x, y[i], first[i], second[i]);
			}
			__syncwarp(); // lanes have different numbers of pieces
#pragma unroll
			for (uint32_t i = 0; i < kRowsOfTeam; i++)
			{
				const uint32_t of_row = team_sum(first[i], lane);
				const uint32_t of_either = metric == Metric::kJaccard ? team_sum(second[i], lane) : 0;

				if (lane / kTeams == base / kTeams + i)
					mine = bits_score<metric>(of_row, of_either);
			}
		}
		return mine;
	}

	/// Score up to `most` nodes. Hamming distances are exact as floats; Jaccard's are rounded, and computed again at
	/// the end.
	template <uint32_t most = 32>
	__device__ float score(const uint32_t *nodes, uint32_t n, uint32_t lane) const
	{
		return static_cast<float>(exact(nodes, n, lane));
	}

private:
	/// The sum of the lanes of team lane % kTeams.
	__device__ static uint32_t team_sum(uint32_t count, uint32_t lane)
	{
#pragma unroll
		for (int width = kTeam / 2; width >= 1; width /= 2)
			count += __shfl_xor_sync(0xFFFFFFFFu, count, width);
		return __shfl_sync(0xFFFFFFFFu, count, static_cast<int>(lane % kTeams * kTeam));
	}
};

} // namespace

cudaError_t
launch_graph_bits(const GraphArgs &args, bool prepare, cudaStream_t stream)
{
	// The template's metric says only whether the list's scores are exact (L2) or rounded (cosine).
	if (prepare)
	{
		const cudaError_t error =
			launch_graph_scorer<Metric::kL2, GraphBitScorer<Metric::kHamming>>(args, true, stream);

		return error != cudaSuccess
			? error
			: launch_graph_scorer<Metric::kCosine, GraphBitScorer<Metric::kJaccard>>(args, true, stream);
	}
	switch (args.metric)
	{
		case Metric::kHamming:
			return launch_graph_scorer<Metric::kL2, GraphBitScorer<Metric::kHamming>>(args, false, stream);
		case Metric::kJaccard:
			return launch_graph_scorer<Metric::kCosine, GraphBitScorer<Metric::kJaccard>>(args, false, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::kernels
