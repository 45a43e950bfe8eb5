// Scans of inverted lists for one metric; a file each, so that they build in parallel.
#include "kernels/ivf/ivf_scan.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_ivf_metric<Metric::kInnerProduct>(
	IvfKernel kernel, const IvfScanArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
