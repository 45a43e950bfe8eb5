// Whether the code that runs on the current device contains warp-group products: it was made for sm_90a and the device
// is one.
#pragma once

#include <cuda_runtime.h>

namespace vectorgpu::kernels
{

/// Waits for the device.
[[nodiscard]] cudaError_t probe_groups(bool *has_wgmma);

} // namespace vectorgpu::kernels
