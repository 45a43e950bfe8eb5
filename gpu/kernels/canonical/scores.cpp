// Which score kernel for which metric, and keys on the host.
#include <bit>
#include <limits>

#include "kernels/canonical/scores_dispatch.hpp"

namespace vectorgpu::kernels
{

double
key_to_score(uint64_t key)
{
	if (key >= kNanKey)
		return std::numeric_limits<double>::quiet_NaN();
	return std::bit_cast<double>((key >> 63) != 0 ? key & 0x7FFFFFFFFFFFFFFFu : ~key);
}

uint64_t
score_to_key(double score)
{
	if (score != score)
		return kNanKey;

	const uint64_t bits = std::bit_cast<uint64_t>(score + 0.0);

	return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000u;
}

cudaError_t
launch_scores(const ScoreArgs &args, cudaStream_t stream)
{
	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess; // an empty grid is an error
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_scores_metric<Metric::kL2>(args, stream);
		case Metric::kInnerProduct:
			return launch_scores_metric<Metric::kInnerProduct>(args, stream);
		case Metric::kCosine:
			return launch_scores_metric<Metric::kCosine>(args, stream);
		case Metric::kL1:
			return launch_scores_metric<Metric::kL1>(args, stream);
		case Metric::kHamming:
		case Metric::kJaccard:
			return launch_bit_scores(args, stream);
		case Metric::kMatchCount:
		case Metric::kEdit:
			break; // not for vectors
	}
	return cudaErrorInvalidValue;
}

cudaError_t
launch_bounded_scan(const BoundedScanArgs &args, uint32_t max_k, cudaStream_t stream)
{
	cudaError_t error = cudaErrorInvalidValue;

	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess;
	if (args.metric == Metric::kL2)
		error = launch_bounded_scan_metric<Metric::kL2>(args, stream);
	else if (args.metric == Metric::kInnerProduct)
		error = launch_bounded_scan_metric<Metric::kInnerProduct>(args, stream);
	else if (args.metric == Metric::kCosine)
		error = launch_bounded_scan_metric<Metric::kCosine>(args, stream);
	else if (args.metric == Metric::kL1)
		error = launch_bounded_scan_metric<Metric::kL1>(args, stream);
	return error != cudaSuccess
		? error
		: launch_bounded_merge(args.queries, args.candidates, args.rows.row_ids, args.best, max_k, stream);
}

cudaError_t
launch_rescore(const RescoreArgs &args, cudaStream_t stream)
{
	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess;
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_rescore_metric<Metric::kL2>(args, stream);
		case Metric::kInnerProduct:
			return launch_rescore_metric<Metric::kInnerProduct>(args, stream);
		case Metric::kCosine:
			return launch_rescore_metric<Metric::kCosine>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

cudaError_t
launch_finish(const FilterSelect &select, const RescoreArgs &args, cudaStream_t stream, const Answers &answers)
{
	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess;
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_finish_metric<Metric::kL2>(select, args, answers, stream);
		case Metric::kInnerProduct:
			return launch_finish_metric<Metric::kInnerProduct>(select, args, answers, stream);
		case Metric::kCosine:
			return launch_finish_metric<Metric::kCosine>(select, args, answers, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::kernels
