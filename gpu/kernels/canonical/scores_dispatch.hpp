// The launchers of scores_<metric>.cu, one per metric. Called by scores.cpp.
#pragma once

#include "kernels/filter/filter.hpp"

namespace vectorgpu::kernels
{

template <Metric metric>
cudaError_t launch_scores_metric(const ScoreArgs &args, cudaStream_t stream);
template <Metric metric>
cudaError_t launch_rescore_metric(const RescoreArgs &args, cudaStream_t stream);
template <Metric metric>
cudaError_t launch_finish_metric(
	const FilterSelect &select, const RescoreArgs &args, const Answers &answers, cudaStream_t stream);
template <Metric metric>
cudaError_t launch_bounded_scan_metric(const BoundedScanArgs &args, cudaStream_t stream);
cudaError_t launch_bit_scores(const ScoreArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
