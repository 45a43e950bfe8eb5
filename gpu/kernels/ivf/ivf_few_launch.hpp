// Launchers of ivf_few_reals.cuh, instantiated per metric by ivf_few_<metric>.cu. Called by ivf_few.cu, which has
// checked the arguments.
#pragma once

#include "kernels/ivf/ivf_few.hpp"

namespace vectorgpu::kernels
{

template <Metric metric>
cudaError_t launch_ivf_few_reals(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream);

template <Metric metric>
cudaError_t prepare_ivf_few_reals();

} // namespace vectorgpu::kernels
