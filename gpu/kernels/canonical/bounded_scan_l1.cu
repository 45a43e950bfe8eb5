// The scan of small sources for one metric; a file each, so that they build in parallel.
#include "kernels/canonical/bounded_scan.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_bounded_scan_metric<Metric::kL1>(const BoundedScanArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
