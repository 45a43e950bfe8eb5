// Host side of the kernels that choose the edges of a graph from lists of nearest rows, and add edges back. They make
// what src/engine/graph's prune by rank and add_reverse make. Launchers as in kernels.hpp.
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kEdgeMostList = 384;   // rows of a list
constexpr uint32_t kEdgeMostDegree = 256; // edges of a row

/// Device memory. Numbers of rows are below n_rows; all ones: none, behind the last.
struct EdgeArgs
{
	uint32_t n_rows = 0;
	uint32_t k = 0;                  // at most kEdgeMostList
	uint32_t degree = 0;             // at most kEdgeMostDegree
	const uint32_t *lists = nullptr; // [n_rows, k], no row twice in one
	const uint8_t *chosen = nullptr; // [n_rows]; rows with zero keep their forward edges; null: none do
	uint32_t *forward = nullptr;     // in (with `chosen`), out [n_rows, degree]
};

/// Set forward to the best edges of each row: those with the fewest detours, then by rank. Grid ceil(n_rows / 4), block
/// 128: a warp a row. Reproducible.
[[nodiscard]] cudaError_t launch_forward_edges(const EdgeArgs &args, cudaStream_t stream);

/// Device memory. n_rows * degree is below 2^31. With temp == nullptr only temp_bytes is set.
struct ReverseArgs
{
	uint32_t n_rows = 0;
	uint32_t degree = 0;               // at most kEdgeMostDegree
	const uint32_t *forward = nullptr; // [n_rows, degree]
	uint32_t *ends = nullptr;          // scratch [degree, n_rows]
	uint32_t *sorted_ends = nullptr;   // scratch [degree, n_rows]
	uint32_t *begins = nullptr;        // scratch [degree, n_rows]
	uint32_t *sorted_begins = nullptr; // scratch [degree, n_rows]
	uint32_t *first = nullptr;         // scratch [n_rows + 1]
	void *temp = nullptr;
	size_t temp_bytes = 0;
	uint32_t *edges = nullptr; // out [n_rows, degree]; may be `ends` or `begins`
};

/// Set edges to the first half of each row's forward edges, then edges to rows that have one to it, the first `degree`
/// by (rank of the edge, row), then its other forward edges; no row twice. Reproducible.
[[nodiscard]] cudaError_t launch_reverse_edges(ReverseArgs *args, cudaStream_t stream);

} // namespace vectorgpu::kernels
