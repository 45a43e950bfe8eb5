// The canonical scores of one metric; a file each, so that they build in parallel.
#include "kernels/canonical/scores.cuh"

namespace vectorgpu::kernels
{

template cudaError_t launch_scores_metric<Metric::kL2>(const ScoreArgs &args, cudaStream_t stream);
template cudaError_t launch_rescore_metric<Metric::kL2>(const RescoreArgs &args, cudaStream_t stream);
template cudaError_t launch_finish_metric<Metric::kL2>(
	const FilterSelect &select, const RescoreArgs &args, const Answers &answers, cudaStream_t stream);

} // namespace vectorgpu::kernels
