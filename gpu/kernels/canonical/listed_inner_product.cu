// Scores of listed rows by one metric; a file each, so that they build in parallel.
#include "kernels/canonical/listed.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_listed_metric<Metric::kInnerProduct>(const ListedArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
