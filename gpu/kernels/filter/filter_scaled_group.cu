// The filter's product by warp groups for one form of rows; a file each, so that they build in parallel.
#include "kernels/filter/filter_group_launch.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_group_form<Form::kScaled, FilterPass::kMinima>(
	const FilterArgs &args, uint32_t n_slots, cudaStream_t stream);
template cudaError_t launch_group_form<Form::kScaled, FilterPass::kCandidates>(
	const FilterArgs &args, uint32_t n_slots, cudaStream_t stream);
template cudaError_t prepare_group_form<Form::kScaled>();

} // namespace vectorgpu::kernels
