// Descriptions of matrices for bulk tensor copies (TMA). The driver's function is found through cudart, so nothing
// links to the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace vectorgpu::kernels
{

/// A matrix of n_rows rows of row_bytes (a multiple of 16), densely stored; copied by boxes of box_bytes (at most 128)
/// x box_rows (at most 256) with 128-byte swizzle, zeros beyond its ends. cudaErrorNotSupported: the driver has no such
/// copies.
[[nodiscard]] cudaError_t describe_rows(
	const void *matrix, uint64_t n_rows, uint64_t row_bytes, uint32_t box_bytes, uint32_t box_rows, CUtensorMap *map);

} // namespace vectorgpu::kernels
