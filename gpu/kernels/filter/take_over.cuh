// The first kernel of a search over few queries takes them over from pinned memory: a kernel that only copies them
// would be one launch more.
#pragma once

#include "kernels/filter/filter.hpp"

namespace vectorgpu::kernels
{

/// Copy the block's query [dim_pad] to the device, if it is incoming, and the block's share of what lies behind the
/// vectors, but for redo: set_redo. Grid n_queries; ends with a barrier.
__device__ __forceinline__ void
take_over(const Incoming &incoming, const Queries &queries, const uint8_t *redo)
{
	if (incoming.from == nullptr)
		return;

	const auto *from = static_cast<const uint4 *>(incoming.from);
	auto *to = static_cast<uint4 *>(incoming.to);
	const uint32_t n_units = static_cast<uint32_t>(incoming.bytes / sizeof(uint4));
	const uint32_t each = queries.dim_pad * sizeof(float) / sizeof(uint4);
	const uint32_t behind = gridDim.x * each;
	const uint32_t redo_begin = static_cast<uint32_t>(reinterpret_cast<const uint4 *>(redo) - to);
	const uint32_t redo_end = redo_begin + (gridDim.x + sizeof(uint4) - 1) / sizeof(uint4);

	// Both loads are under way together: each takes a microsecond.
	for (uint32_t round = 0;; round++)
	{
		const uint32_t mine = round * blockDim.x + threadIdx.x;
		const uint32_t of_query = blockIdx.x * each + mine;
		const uint32_t rest = behind + (round * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
		const bool has_rest = rest < n_units && (rest < redo_begin || rest >= redo_end);
		uint4 element = {0, 0, 0, 0};
		uint4 other = {0, 0, 0, 0};

		if (mine >= each && rest >= n_units)
			break;
		if (mine < each)
			element = from[of_query];
		if (has_rest)
			other = from[rest];
		if (mine < each)
			to[of_query] = element;
		if (has_rest)
			to[rest] = other;
	}
	__syncthreads();
}

/// Mark the block's query for another way if it is bad. By one thread. Another source may have marked it: a mark is
/// never taken back, except for an incoming chunk, whose marks are not yet set.
__device__ __forceinline__ void
set_redo(const Incoming &incoming, bool is_bad, uint8_t *redo)
{
	if (is_bad)
		redo[blockIdx.x] = 1;
	else if (incoming.from != nullptr)
		redo[blockIdx.x] = 0;
}

} // namespace vectorgpu::kernels
