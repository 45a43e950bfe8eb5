// Scan of inverted lists whose rows and queries are whole numbers 0 ... 255, list by list, on the tensor cores' integer
// units. Up to kIvfMostByteDims dimensions every partial sum of the canonical distance is an integer below 2^24, so the
// canonical score of L2 and of the inner product is that integer, whatever the order of summation: nothing is
// estimated, nothing is scored again.
#include <climits>

#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf_tile.cuh"
#include "kernels/warp_block/mma.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr int kTiles = kIvfByteQueriesPerTile / 8; // of 8 queries
constexpr uint32_t kRowsAtOnce = 16;

/// The largest whole number whose key is not above the threshold.
__device__ __forceinline__ int
threshold_to_int(uint64_t threshold)
{
	if (threshold >= kNanKey)
		return INT_MAX;

	const uint64_t bits = (threshold >> 63) != 0 ? threshold & 0x7FFFFFFFFFFFFFFFu : ~threshold;

	return __double2int_rd(__longlong_as_double(static_cast<long long>(bits))); // saturates
}

/// A thread's fragments of the queries of a tile, and what their rows are judged by. Steps: as ivf_scan_bytes_kernel's.
/// A thread has query t * 8 + group as a fragment, and the sums of queries t * 8 + part * 2 + {0, 1}.
template <Metric metric, int Steps>
struct ByteQueries
{
	uint32_t elements[kTiles][Steps][2];
	int thresholds[kTiles][2];
	int norms[kTiles][2];

	__device__ __forceinline__ void load(const IvfScanArgs &args, const ListTile &tile, uint32_t group, uint32_t part)
	{
		const uint32_t dim_pad = args.queries.dim_pad;
		const int n_steps = static_cast<int>(dim_pad / 32);

#pragma unroll
		for (int t = 0; t < kTiles; t++)
		{
			const uint32_t mine = tile.numbers[min(t * 8 + group, tile.n_queries - 1)];
			const uint32_t *query =
				reinterpret_cast<const uint32_t *>(args.byte_queries + static_cast<size_t>(mine) * dim_pad);

#pragma unroll
			for (int step = 0; step < Steps; step++)
			{
				elements[t][step][0] = step < n_steps ? __ldg(query + step * 8 + part) : 0;
				elements[t][step][1] = step < n_steps ? __ldg(query + step * 8 + 4 + part) : 0;
			}
#pragma unroll
			for (int j = 0; j < 2; j++)
			{
				const uint32_t column = t * 8 + part * 2 + j;
				const uint32_t number = tile.numbers[min(column, tile.n_queries - 1)];

				thresholds[t][j] = column < tile.n_queries ? threshold_to_int(args.thresholds[number]) : INT_MIN;
				norms[t][j] = metric == Metric::kL2 ? args.byte_norms[number] : 0;
			}
		}
	}

	/// sums += the products of the rows at these two places with all queries.
	__device__ __forceinline__ void multiply_rows(int (&sums)[kTiles][4], const IvfScanArgs &args,
		const uint32_t (&places)[2], const ListTile &tile, uint32_t part) const
	{
		const uint8_t *block = static_cast<const uint8_t *>(args.rows.vectors);
		const int n_steps = static_cast<int>(args.queries.dim_pad / 32);
		const int n_tiles = static_cast<int>((tile.n_queries + 7) / 8);
		const uint32_t *rows[2];

#pragma unroll
		for (int r = 0; r < 2; r++)
			rows[r] =
				reinterpret_cast<const uint32_t *>(block + static_cast<size_t>(places[r]) * args.rows.pitch_bytes);
#pragma unroll
		for (int step = 0; step < Steps; step++)
		{
			if (step >= n_steps)
				break;

			const uint32_t fragment[4] = {__ldg(rows[0] + step * 8 + part), __ldg(rows[1] + step * 8 + part),
				__ldg(rows[0] + step * 8 + 4 + part), __ldg(rows[1] + step * 8 + 4 + part)};

#pragma unroll
			for (int t = 0; t < kTiles; t++)
				if (t < n_tiles)
					multiply<Form::kByte>(sums[t], fragment, elements[t][step]);
		}
	}
};

/// Any grid, block 256: each warp takes the next tile, up to 32 queries of a list by up to 256 of its rows. Steps: of
/// 32 dimensions, at least as many as the rows have.
template <Metric metric, int Steps>
__global__ void __launch_bounds__(kThreads)
ivf_scan_bytes_kernel(const IvfScanArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = lane / 4; // a row, and a query, of the fragments
	const uint32_t part = lane % 4;
	const uint32_t n_all = args.plan.tile_firsts[args.probes.n_lists];

	for (;;)
	{
		uint32_t next = 0;

		if (lane == 0)
			next = atomicAdd(args.plan.next_tile, 1u);
		next = __shfl_sync(0xFFFFFFFFu, next, 0);
		if (next >= n_all)
			return;

		const ListTile tile = list_tile(args, next);
		ByteQueries<metric, Steps> queries;

		queries.load(args, tile, group, part);
		for (uint32_t base = tile.first; base < tile.end; base += kRowsAtOnce)
		{
			const uint32_t places[2] = {min(base + group, tile.end - 1), min(base + group + 8, tile.end - 1)};
			int row_norms[2] = {0, 0};
			int sums[kTiles][4] = {};

			if (metric == Metric::kL2)
			{
#pragma unroll
				for (int r = 0; r < 2; r++)
					row_norms[r] = __float2int_rn(2.0f * __ldg(args.row_values + places[r]));
			}
			queries.multiply_rows(sums, args, places, tile, part);
#pragma unroll
			for (int t = 0; t < kTiles; t++)
			{
#pragma unroll
				for (int i = 0; i < 4; i++)
				{
					const int j = i % 2;
					const int r = i / 2;
					const int value =
						metric == Metric::kL2 ? queries.norms[t][j] + row_norms[r] - 2 * sums[t][i] : -sums[t][i];
					const uint32_t place = base + group + 8 * r;
					const uint32_t column = t * 8 + part * 2 + j;

					if (value > queries.thresholds[t][j] || place >= tile.end || row_is_dead(args.rows, place) ||
						column >= tile.n_queries)
						continue;
					add_candidate(args, tile.numbers[column], place, static_cast<double>(value));
				}
			}
			__syncwarp();
		}
	}
}

template <Metric metric>
cudaError_t
launch(const IvfScanArgs &args, cudaStream_t stream)
{
	constexpr unsigned int kBlocks = 132 * 6; // keeps a large device busy

	if (args.queries.dim_pad <= 64)
		ivf_scan_bytes_kernel<metric, 2><<<kBlocks, kThreads, 0, stream>>>(args);
	else if (args.queries.dim_pad <= 128)
		ivf_scan_bytes_kernel<metric, 4><<<kBlocks, kThreads, 0, stream>>>(args);
	else
		ivf_scan_bytes_kernel<metric, 8><<<kBlocks, kThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace

bool
ivf_bytes_are_exact(Metric metric, Form form, uint32_t dim_pad)
{
	return form == Form::kByte && (metric == Metric::kL2 || metric == Metric::kInnerProduct) &&
		dim_pad <= kIvfMostByteDims;
}

cudaError_t
launch_ivf_scan_bytes(const IvfScanArgs &args, cudaStream_t stream)
{
	if (args.rows.n_rows == 0 || args.queries.n_queries == 0)
		return cudaSuccess;
	return args.metric == Metric::kL2 ? launch<Metric::kL2>(args, stream) : launch<Metric::kInnerProduct>(args, stream);
}

} // namespace vectorgpu::kernels
