// The filter's matrix product for one form of rows; a file each, so that they build in parallel.
#include "kernels/filter/filter_launch.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_filter_form<Form::kByte, FilterPass::kMinima>(const FilterArgs &args, cudaStream_t stream);
template cudaError_t launch_filter_form<Form::kByte, FilterPass::kCandidates>(
	const FilterArgs &args, cudaStream_t stream);
template cudaError_t launch_filter_form<Form::kByte, FilterPass::kBins>(const FilterArgs &args, cudaStream_t stream);
template cudaError_t bins_slots_form<Form::kByte>(
	uint32_t n_queries, uint32_t dim_pad, uint32_t *slots, uint32_t *n_query_tiles);
template cudaError_t prepare_filter_form<Form::kByte>();

} // namespace vectorgpu::kernels
