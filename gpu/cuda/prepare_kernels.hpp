// Attributes of the kernels, once per device, before any launch.
#pragma once

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

/// Set the shared-memory limits of all kernels on the current device.
Status prepare_kernels(const Device &device);

} // namespace vectorgpu::cuda
