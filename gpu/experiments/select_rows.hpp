// The k smallest numbers of each row of a matrix. Only compared: no search uses it.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace vectorgpu::kernels
{

constexpr uint32_t kSelectRowsMostK = 2048;

struct SelectRowsArgs
{
	const float *values = nullptr; // [n_rows, n_columns] row-major, device
	uint32_t n_rows = 0;
	uint32_t n_columns = 0;
	uint32_t k = 0; // 1 ... kSelectRowsMostK
	// [n_rows, k] ascending, NaN last, ties by the smaller column; min(k, n_columns) are written.
	float *out_values = nullptr;
	uint32_t *out_columns = nullptr; // [n_rows, k]
};

/// Async on stream; reproducible.
[[nodiscard]] cudaError_t launch_select_rows(const SelectRowsArgs &args, cudaStream_t stream);

#ifdef VECTORGPU_WARPSELECT
constexpr uint32_t kSelectNetworksMostK = 1024;

/// The same by WarpSelect and BlockSelect, up to kSelectNetworksMostK: launch_select_rows then calls it.
[[nodiscard]] cudaError_t launch_select_rows_networks(const SelectRowsArgs &args, cudaStream_t stream);
#endif

} // namespace vectorgpu::kernels
