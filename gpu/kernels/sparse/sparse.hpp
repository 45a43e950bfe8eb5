// Host side of the kernel that bounds the distances of sparse vectors. Launchers as in kernels.hpp.
#pragma once

#include "engine/distance/sparse_query.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

/// A query, prepared by engine::sparse_query_init with a hash table.
struct SparseBoundQuery
{
	uint64_t first_slot; // of its slots, 2^(32 - shift) of them, among those of all queries
	uint32_t n;          // elements
	int32_t shift;
	double sum;     // of the elements' absolute values
	double squares; // of the elements
};

struct SparseArgs
{
	Metric metric = Metric::kL2;
	const SparseBoundQuery *queries = nullptr; // [n_queries]
	const engine::SparseSlot *slots = nullptr; // of all queries
	uint32_t n_queries = 0;
	const uint64_t *ends = nullptr; // [rows of the segment] bytes; with the elements, as engine/copies/sparse_rows.hpp
	const uint8_t *elements = nullptr; // 8-byte aligned
	uint32_t first_row = 0;
	uint32_t n_rows = 0;
	float *bounds = nullptr; // out: [n_queries, n_rows]
};

/// Compute for rows [first_row, first_row + n_rows) and each query a number that the distance is not below, or
/// -infinity. Grid: a warp of a block of 8 for each row. Reproducible: bits.
[[nodiscard]] cudaError_t launch_sparse_bounds(const SparseArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
