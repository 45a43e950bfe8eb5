// Rows of a source copied one after another, in the order of a list: what searches read of rows that pass where these
// are packed (gpu/cuda/passing). Launchers as in kernels.hpp.
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

/// Rows of a source in some order.
struct PackOrder
{
	const uint32_t *numbers = nullptr; // [n]
	const uint32_t *places = nullptr;  // the row of each number; null: a row is a number
	uint32_t n = 0;
};

/// Set to [n, bytes] to from [n_rows, bytes], in the order. bytes: 4, 8, or a multiple of 16; both aligned to that, at
/// most to 16. cudaErrorInvalidValue otherwise. Reproducible.
[[nodiscard]] cudaError_t launch_pack(
	const PackOrder &order, const void *from, uint32_t bytes, void *to, cudaStream_t stream);

/// Set dead [ceil(n / 32)] to the rows that are dead, in the order; bits behind the last are 0.
[[nodiscard]] cudaError_t launch_pack_dead(
	const PackOrder &order, const Rows &rows, uint32_t *dead, cudaStream_t stream);

} // namespace vectorgpu::kernels
