// Rows that fail a search's conditions, joined with dead ones: a bitmap that every other kernel takes as Rows::dead.
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

/// Which rows of a source pass. Rows whose bit is outside [0, n_bits) fail.
struct PassBits
{
	const uint8_t *bits = nullptr; // bit i of byte i / 8 is 1 << (i % 8)
	int64_t start = 0;             // bit of number 0
	uint64_t n_bits = 0;
	const uint32_t *numbers = nullptr; // [n_rows] the number of each row; null: a row is a number
};

/// Set dead [ceil(n_rows / 8)] to the rows of `rows` that are dead or fail; bits behind the last row are 0.
[[nodiscard]] cudaError_t launch_join_dead(const PassBits &pass, const Rows &rows, uint8_t *dead, cudaStream_t stream);

} // namespace vectorgpu::kernels
