// Whether the code that the current device runs has warp-group products in it: it was made for sm_90a and the device is
// one.
#pragma once

#include <cuda_runtime.h>

namespace vectorgpu::kernels
{

/// Waits for the device.
[[nodiscard]] cudaError_t probe_groups(bool *has_wgmma);

} // namespace vectorgpu::kernels
