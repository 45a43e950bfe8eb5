// The kernels' limits of shared memory, set when an engine starts.
#pragma once

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

/// Set them for all kernels on the thread's device. Call before any launch.
Status prepare_kernels(const Device &device);

} // namespace vectorgpu::cuda
