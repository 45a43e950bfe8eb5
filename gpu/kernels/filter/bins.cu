// PartialReduce after its pass over the rows: the parts of each bin become one candidate.
#include <climits>

#include "kernels/filter/filter_bound.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

struct BinPart
{
	float estimate;
	uint32_t row; // kNoBinRow: no row
};

/// An entry that the pass has written for a place: estimate and row, or a key (BinsForm).
template <bool kKeys>
__device__ __forceinline__ BinPart
read_part(const FilterArgs &bins, size_t first, uint32_t place)
{
	if constexpr (!kKeys)
		return {bins.bin_estimates[first + place], bins.bin_rows[first + place]};

	const int key = bins.bin_keys[first + place];
	const uint32_t tile = static_cast<uint32_t>(key) & ((1u << bins.key_tile_bits) - 1);

	if (key == INT_MAX)
		return {__int_as_float(0x7F800000), kNoBinRow};
	return {0.5f * static_cast<float>(key >> bins.key_tile_bits),
		(tile * bins.n_stripes + place / kFilterTileRows) * kFilterTileRows + place % kFilterTileRows};
}

/// Grid n_queries, block 256.
template <bool kKeys>
__global__ void __launch_bounds__(kSelectThreads)
collect_bins_kernel(const FilterSelect args, const FilterArgs bins, uint32_t n_bins)
{
	__shared__ uint32_t n_found;
	const uint32_t query = blockIdx.x;
	const uint32_t n_places = bins.n_stripes * kFilterTileRows;
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
			const BinPart part = read_part<kKeys>(bins, static_cast<size_t>(query) * n_places, place);

			if (part.row != kNoBinRow && (part.estimate < best || (part.estimate == best && part.row < best_row)))
			{
				best = part.estimate;
				best_row = part.row;
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
launch_collect_bins(const FilterSelect &args, const FilterArgs &bins, uint32_t n_bins, cudaStream_t stream)
{
	if (bins.bin_keys != nullptr)
		return launch_after(
			collect_bins_kernel<true>, args.queries.n_queries, kSelectThreads, 0, stream, args, bins, n_bins);
	return launch_after(
		collect_bins_kernel<false>, args.queries.n_queries, kSelectThreads, 0, stream, args, bins, n_bins);
}

} // namespace vectorgpu::kernels
