// The canonical scores of one metric; a file each, so that they build in parallel.
#include "kernels/canonical/scores.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_scores_metric<Metric::kL1>(const ScoreArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
