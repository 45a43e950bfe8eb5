// The filter's matrix product for one form of rows; one file each, so that they build in parallel (instances.cmake).
#include "kernels/filter_mma.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_filter_form<Form::kFloat32, true>(const FilterArgs &args, cudaStream_t stream);
template cudaError_t launch_filter_form<Form::kFloat32, false>(const FilterArgs &args, cudaStream_t stream);
template cudaError_t prepare_filter_form<Form::kFloat32>();

} // namespace vectorgpu::kernels
