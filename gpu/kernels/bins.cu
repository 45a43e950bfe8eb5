// PartialReduce after its pass over the rows: the parts of each bin become one candidate.
#include "kernels/filter_bound.cuh"
#include "kernels/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kSelectThreads)
collect_bins_kernel(const FilterSelect args, const float *bin_estimates, const uint32_t *bin_rows, uint32_t n_places,
	uint32_t n_bins)
{
	__shared__ uint32_t n_found;
	const uint32_t query = blockIdx.x;
	const float *estimates = bin_estimates + static_cast<size_t>(query) * n_places;
	const uint32_t *rows = bin_rows + static_cast<size_t>(query) * n_places;
	const size_t first = static_cast<size_t>(query) * args.candidates.capacity;

	let_next_start();
	wait_for_stream();
	if (threadIdx.x == 0)
		n_found = 0;
	__syncthreads();
	for (uint32_t bin = threadIdx.x; bin < n_bins; bin += blockDim.x)
	{
		float best = __int_as_float(0x7F800000);
		uint32_t best_row = kNoBinRow;

		for (uint32_t place = bin; place < n_places; place += n_bins)
		{
			const uint32_t row = rows[place];
			const float estimate = estimates[place];

			if (row != kNoBinRow && (estimate < best || (estimate == best && row < best_row)))
			{
				best = estimate;
				best_row = row;
			}
		}
		if (best_row != kNoBinRow)
		{
			const uint32_t at = atomicAdd(&n_found, 1u);

			args.candidates.rows[first + at] = best_row;
			args.candidates.estimates[first + at] = best;
		}
	}
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	if (n_found < args.queries.k[query])
		args.prepared.redo[query] = 1;
	args.candidates.counts[query] = n_found;
	args.thresholds[query] = __int_as_float(args.prepared.redo[query] != 0 ? 0xFF800000 : 0x7F800000);
}

} // namespace

cudaError_t
launch_collect_bins(const FilterSelect &args, const float *bin_estimates, const uint32_t *bin_rows, uint32_t n_places,
	uint32_t n_bins, cudaStream_t stream)
{
	return launch_after(collect_bins_kernel, args.queries.n_queries, kSelectThreads, 0, stream, args, bin_estimates, bin_rows, n_places, n_bins);
}

} // namespace vectorgpu::kernels
