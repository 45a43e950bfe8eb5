// Scan of inverted lists whose rows and queries are whole numbers 0 ... 255, list by list, on the tensor cores' integer
// units. Up to kIvfMostByteDims dimensions every partial sum of the canonical distance is an integer below 2^24, so the
// canonical score of L2 and of the inner product is that integer, whatever the order of summation: nothing is
// estimated, nothing is scored again.
#include <climits>

#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr int kTiles = kIvfByteQueriesPerTile / 8; // of 8 queries
constexpr uint32_t kRowsAtOnce = 16;

/// sums += rows (16 x 32 bytes) times queries (32 bytes x 8): PTX's m16n8k32.
__device__ __forceinline__ void
multiply(int (&sums)[4], const uint32_t (&rows)[4], uint32_t query_low, uint32_t query_high)
{
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
				 "%1, %2, %3};"
		: "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
		: "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(query_low), "r"(query_high));
}

/// The largest whole number whose key is not above the threshold.
__device__ __forceinline__ int
threshold_to_int(uint64_t threshold)
{
	if (threshold >= kNanKey)
		return INT_MAX;

	const uint64_t bits = (threshold >> 63) != 0 ? threshold & 0x7FFFFFFFFFFFFFFFu : ~threshold;

	return __double2int_rd(__longlong_as_double(static_cast<long long>(bits))); // saturates
}

/// Any grid, block 256: each warp takes the next tile, up to 32 queries of a list by up to 256 of its rows. Steps: of
/// 32 dimensions, at least as many as the rows have.
template <Metric metric, int Steps>
__global__ void __launch_bounds__(kThreads)
ivf_scan_bytes_kernel(const IvfScanArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = lane / 4; // a row, and a query, of the fragments
	const uint32_t part = lane % 4;
	const uint32_t dim_pad = args.queries.dim_pad;
	const int n_steps = static_cast<int>(dim_pad / 32);
	const uint8_t *block = static_cast<const uint8_t *>(args.rows.vectors);
	const IvfPlan &plan = args.plan;
	const uint32_t n_all = plan.tile_firsts[args.probes.n_lists];

	for (;;)
	{
		uint32_t tile = 0;

		if (lane == 0)
			tile = atomicAdd(plan.next_tile, 1u);
		tile = __shfl_sync(0xFFFFFFFFu, tile, 0);
		if (tile >= n_all)
			return;

		uint32_t list = 0; // the last whose first tile is not behind `tile`
		uint32_t high = args.probes.n_lists;

		while (high - list > 1)
		{
			const uint32_t middle = (list + high) / 2;

			if (plan.tile_firsts[middle] <= tile)
				list = middle;
			else
				high = middle;
		}

		const uint32_t n_in_list = plan.firsts[list + 1] - plan.firsts[list];
		const uint32_t n_groups = (n_in_list + kIvfByteQueriesPerTile - 1) / kIvfByteQueriesPerTile;
		const uint32_t local = tile - plan.tile_firsts[list];
		const uint32_t first_query = local % n_groups * kIvfByteQueriesPerTile;
		const uint32_t n_queries = min(kIvfByteQueriesPerTile, n_in_list - first_query);
		const int n_tiles = static_cast<int>((n_queries + 7) / 8);
		const uint32_t *numbers = plan.queries + plan.firsts[list] + first_query;
		const uint32_t first = static_cast<uint32_t>(args.probes.offsets[list]) + local / n_groups * kIvfRowsPerTile;
		const uint32_t end = min(static_cast<uint32_t>(args.probes.offsets[list + 1]), first + kIvfRowsPerTile);
		uint32_t queries[kTiles][Steps][2];
		int thresholds[kTiles][2];
		int norms[kTiles][2];

#pragma unroll
		for (int t = 0; t < kTiles; t++)
		{
			const uint32_t mine = numbers[min(t * 8 + group, n_queries - 1)];
			const uint32_t *query =
				reinterpret_cast<const uint32_t *>(args.byte_queries + static_cast<size_t>(mine) * dim_pad);

#pragma unroll
			for (int step = 0; step < Steps; step++)
			{
				queries[t][step][0] = step < n_steps ? __ldg(query + step * 8 + part) : 0;
				queries[t][step][1] = step < n_steps ? __ldg(query + step * 8 + 4 + part) : 0;
			}
#pragma unroll
			for (int j = 0; j < 2; j++)
			{
				const uint32_t column = t * 8 + part * 2 + j;
				const uint32_t number = numbers[min(column, n_queries - 1)];

				thresholds[t][j] = column < n_queries ? threshold_to_int(args.thresholds[number]) : INT_MIN;
				norms[t][j] = metric == Metric::kL2 ? args.byte_norms[number] : 0;
			}
		}
		for (uint32_t base = first; base < end; base += kRowsAtOnce)
		{
			const uint32_t places[2] = {min(base + group, end - 1), min(base + group + 8, end - 1)};
			const uint32_t *rows[2];
			int row_norms[2] = {0, 0};
			int sums[kTiles][4] = {};

#pragma unroll
			for (int r = 0; r < 2; r++)
			{
				rows[r] =
					reinterpret_cast<const uint32_t *>(block + static_cast<size_t>(places[r]) * args.rows.pitch_bytes);
				if (metric == Metric::kL2)
					row_norms[r] = __float2int_rn(2.0f * __ldg(args.row_values + places[r]));
			}
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
						multiply(sums[t], fragment, queries[t][step][0], queries[t][step][1]);
			}
#pragma unroll
			for (int t = 0; t < kTiles; t++)
			{
#pragma unroll
				for (int i = 0; i < 4; i++)
				{
					const int j = i % 2;
					const int r = i / 2;
					const int value = metric == Metric::kL2 ? norms[t][j] + row_norms[r] - 2 * sums[t][i] : -sums[t][i];
					const uint32_t place = base + group + 8 * r;

					if (value > thresholds[t][j] || place >= end || row_is_dead(args.rows, place))
						continue;

					const uint32_t column = t * 8 + part * 2 + j;

					if (column >= n_queries)
						continue;

					const uint32_t query = numbers[column];
					const uint64_t key =
						key_after(static_cast<double>(value), args.queries, query, args.rows.row_ids, place);

					if (key > args.thresholds[query] || key >= kNanKey)
						continue;

					const uint32_t at = atomicAdd(&args.candidates.counts[query], 1u);

					if (at < args.candidates.capacity)
					{
						args.candidates.keys[static_cast<size_t>(query) * args.candidates.capacity + at] = key;
						args.candidates.rows[static_cast<size_t>(query) * args.candidates.capacity + at] = place;
					}
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
