// Host side of the kernels that check data on the device: values derived earlier from rows against values derived from
// them again. Launchers as in kernels.hpp. They add to the counters.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace vectorgpu::kernels
{

/// *n_different += words that differ. a, b [n_words]. Grid-stride, block 256.
[[nodiscard]] cudaError_t launch_compare(
	const uint32_t *a, const uint32_t *b, uint64_t n_words, uint32_t *n_different, cudaStream_t stream);

/// *n_different += bytes that are not 0 after the first used_bytes of each row of rows [n_rows, pitch_bytes].
/// Grid-stride, block 256.
[[nodiscard]] cudaError_t launch_check_padding(const uint8_t *rows, uint64_t n_rows, uint32_t pitch_bytes,
	uint32_t used_bytes, uint32_t *n_different, cudaStream_t stream);

} // namespace vectorgpu::kernels
