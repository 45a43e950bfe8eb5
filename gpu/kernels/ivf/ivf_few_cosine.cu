// Few queries over inverted lists of any numbers for one metric; a file each, so that they build in parallel.
#include "kernels/ivf/ivf_few_reals.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_ivf_few_reals<Metric::kCosine>(
	const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream);
template cudaError_t prepare_ivf_few_reals<Metric::kCosine>();

} // namespace vectorgpu::kernels
