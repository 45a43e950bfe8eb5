// PartialReduce by warp groups (sm_90a), rows of bytes: the pass over the rows, where a bin keeps one number. Twice the
// estimate is a whole number, shifted left, with the tile's number within the block's stripe below. Of two such keys
// the smaller is the nearer row, of equals the earlier: a multiplication and a minimum for each score.
#include <climits>

#include "kernels/filter/filter_group_launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

using BinsShape = GroupShape<Form::kByte, 8, true>; // keys need the registers that sums of more queries would take

/// The rows of a thread in the tiles of a block's stripe: every n_stripes-th tile of the rows.
template <class Shape>
struct BinRows
{
	const FilterArgs &args;
	uint32_t stripe;
	GroupThread thread;
	float next_values[4];
	uint32_t next_dead[4]; // its lowest bit

	__device__ __forceinline__ uint32_t tile_row(uint32_t tile) const
	{
		return (stripe + tile * args.n_stripes) * kFilterTileRows;
	}

	/// Load what is used a tile later.
	__device__ __forceinline__ void read(uint32_t tile)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			const uint32_t row = tile_row(tile) + thread.row(i);

			next_values[i] = row < args.rows.n_rows ? __ldg(args.row_values + row) : __int_as_float(0x7FFFFFFF);
			next_dead[i] = 0;
			if (args.rows.dead != nullptr)
			{
				const uint64_t bit =
					static_cast<uint64_t>(args.rows.dead_start + static_cast<int64_t>(row)); // negative: huge

				if (bit < args.rows.dead_bits)
					next_dead[i] = static_cast<uint32_t>(args.rows.dead[bit / 8]) >> (bit % 8);
			}
		}
	}
};

/// Let the thread's bins take the rows of a tile: best[i][q], of row i and query q of the thread.
template <int NT>
__device__ __forceinline__ void
take_keys(int (&best)[4][2 * NT], const int (&sums)[2][NT][4], const float (&values)[4], const uint32_t (&dead)[4],
	uint32_t tile, uint32_t tile_bits)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		const bool counts = values[i] == values[i] && (dead[i] & 1) == 0;
		const int factor = counts ? -(2 << tile_bits) : 0;
		const int base = counts ? (__float2int_rn(2.0f * values[i]) << tile_bits) + static_cast<int>(tile) : INT_MAX;

#pragma unroll
		for (int q = 0; q < 2 * NT; q++)
			best[i][q] = min(best[i][q], sums[i / 2][q / 2][i % 2 * 2 + q % 2] * factor + base);
	}
}

template <int NT>
__device__ __forceinline__ void
write_keys(const FilterArgs &args, uint32_t stripe, const GroupThread &thread, const int (&best)[4][2 * NT])
{
	const size_t n_places = static_cast<size_t>(args.n_stripes) * kFilterTileRows;
	int *keys = args.bin_keys + stripe * kFilterTileRows + thread.row(0);

#pragma unroll
	for (int q = 0; q < 2 * NT; q++)
		if (thread.query(q) < args.n_queries)
#pragma unroll
			for (int i = 0; i < 4; i++)
				keys[thread.query(q) * n_places + GroupThread::rows_to(i)] = best[i][q];
}

/// Grid n_stripes * n_query_tiles, block BinsShape::kThreads; shared memory and boxes as filter_group_kernel. Metrics
/// L2 and inner product.
__global__ void __launch_bounds__(BinsShape::kThreads, 1)
bins_group_kernel(const FilterArgs args, const __grid_constant__ CUtensorMap rows,
	const __grid_constant__ CUtensorMap queries, uint32_t n_query_tiles, uint32_t n_stages)
{
#if VECTORGPU_HAS_WGMMA
	constexpr int NT = BinsShape::NT;
	extern __shared__ unsigned char shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = uniform_warp();
	const uint32_t group = warp / 4;
	const uint32_t first_query = blockIdx.x % n_query_tiles * BinsShape::kQueries;
	const uint32_t stripe = blockIdx.x / n_query_tiles;
	const uint32_t n_tiles =
		(args.n_tiles - stripe + args.n_stripes - 1) / args.n_stripes; // n_stripes <= n_tiles: at least one
	const GroupPipeline<BinsShape> pipeline(shared, args.rows.pitch_bytes, n_stages);
	BinRows<BinsShape> own{args, stripe, {lane, warp, first_query + group * NT * 8}, {}, {}};

	let_next_start();
	if (threadIdx.x == 0)
		pipeline.init();
	__syncthreads();
	if (warp >= BinsShape::kWarps)
	{
		give_registers<24>();
		if (warp == BinsShape::kWarps && lane == 0)
			pipeline.bring(&rows, &queries, first_query, n_tiles, [&](uint32_t i) { return own.tile_row(i); });
		else
			wait_for_stream();
		return;
	}
	take_registers<240>();

	int sums[2][NT][4];
	int best[4][2 * NT];

#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int q = 0; q < 2 * NT; q++)
			best[i][q] = INT_MAX;
#pragma unroll
	for (int q = 0; q < NT; q++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			sums[0][q][i] = sums[1][q][i] = 0;
	own.read(0);
	wait_for_stream();
	barrier_wait(pipeline.queries_here, 0);

	StagePlace place{0, 0};

	for (uint32_t tile = 0; tile < n_tiles; tile++)
	{
		float values[4];
		uint32_t dead[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			values[i] = own.next_values[i];
			dead[i] = own.next_dead[i];
		}
		if (tile + 1 < n_tiles)
			own.read(tile + 1);
		multiply_tile<BinsShape, true>(pipeline, place, group * NT * 8 * kChunkBytes, lane, sums);
		take_keys<NT>(best, sums, values, dead, tile, args.key_tile_bits);
	}
	write_keys<NT>(args, stripe, own.thread, best);
#endif
}

} // namespace

uint32_t
bins_group_tile_bits(uint32_t dim_pad)
{
	const uint64_t largest = uint64_t{2} * 255 * 255 * dim_pad; // of twice the estimate
	uint32_t bits = 0;

	while (bits < kMostKeyTileBits && ((largest + 1) << (bits + 1)) <= INT_MAX)
		bits++;
	return bits >= kLeastKeyTileBits && group_stages<BinsShape>(dim_pad) >= kLeastGroupStages ? bits : 0;
}

cudaError_t
launch_bins_group(const FilterArgs &args, cudaStream_t stream)
{
	const uint32_t n_query_tiles = (args.n_queries + BinsShape::kQueries - 1) / BinsShape::kQueries;
	const uint32_t n_stages = group_stages<BinsShape>(args.dim_pad);
	CUtensorMap rows;
	CUtensorMap queries;

	if (cudaError_t error = describe_rows(
			args.rows.vectors, args.rows.n_rows, args.rows.pitch_bytes, kChunkBytes, kFilterTileRows, &rows);
		error != cudaSuccess)
		return error;
	if (cudaError_t error = describe_rows(args.operand, args.n_queries, operand_bytes(Form::kByte, args.dim_pad),
			kChunkBytes, BinsShape::kQueries, &queries);
		error != cudaSuccess)
		return error;
	return launch_after(bins_group_kernel, args.n_stripes * n_query_tiles, BinsShape::kThreads,
		group_fixed_bytes<BinsShape>(args.dim_pad) + n_stages * kGroupStageBytes, stream, args, rows, queries,
		n_query_tiles, n_stages);
}

cudaError_t
prepare_bins_group()
{
	return cudaFuncSetAttribute(
		bins_group_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(filter_most_shared()));
}

} // namespace vectorgpu::kernels
