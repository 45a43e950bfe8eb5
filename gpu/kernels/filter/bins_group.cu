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
	const uint32_t warp =
		__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0); // lets the compiler see that all lanes have the same number
	const uint32_t first_query = blockIdx.x % n_query_tiles * BinsShape::kQueries;
	const uint32_t stripe = blockIdx.x / n_query_tiles;
	const uint32_t n_tiles =
		(args.n_tiles - stripe + args.n_stripes - 1) / args.n_stripes; // n_stripes <= n_tiles: at least one
	const GroupPipeline<BinsShape> pipeline(shared, args.rows.pitch_bytes, n_stages);
	auto tile_row = [&](uint32_t i) { return (stripe + i * args.n_stripes) * kFilterTileRows; };

	let_next_start();
	if (threadIdx.x == 0)
		pipeline.init();
	__syncthreads();
	if (warp >= BinsShape::kWarps)
	{
		give_registers<24>();
		if (warp == BinsShape::kWarps && lane == 0)
			pipeline.bring(&rows, &queries, first_query, n_tiles, tile_row);
		else
			wait_for_stream();
		return;
	}
	take_registers<240>();

	const uint32_t group = warp / 4;
	const uint32_t my_operand = pipeline.operand + group * NT * 8 * kChunkBytes;
	auto row_of = [&](uint32_t tile, int i)
	{ return tile_row(tile) + i / 2 * 64 + warp % 4 * 16 + i % 2 * 8 + lane / 4; };
	float next_values[4];
	uint32_t next_dead[4]; // its lowest bit

	// Values loaded here are used a tile later.
	auto read_rows = [&](uint32_t tile)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			const uint32_t row = row_of(tile, i);

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
	};

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
	read_rows(0);
	wait_for_stream();
	barrier_wait(pipeline.queries_here, 0);

	uint32_t stage = 0;
	uint32_t round = 0;

	for (uint32_t tile = 0; tile < n_tiles; tile++)
	{
		uint32_t last_stage = 0;
		float values[4];
		uint32_t dead[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			values[i] = next_values[i];
			dead[i] = next_dead[i];
		}
		if (tile + 1 < n_tiles)
			read_rows(tile + 1);
		hold_sums(sums[0]);
		hold_sums(sums[1]);
		for (uint32_t chunk = 0; chunk < pipeline.n_chunks; chunk++)
		{
			const uint64_t a = operand_descriptor(pipeline.start + stage * kGroupStageBytes);
			const uint64_t b = operand_descriptor(my_operand + chunk * BinsShape::kQueries * kChunkBytes);

			barrier_wait(pipeline.full(stage), round & 1);
			products_begin();
#pragma unroll
			for (uint32_t k = 0; k < kChunkBytes; k += 32)
			{
				GroupProduct<Form::kByte, NT>::add(sums[0], a + k / 16, b + k / 16, chunk + k);
				GroupProduct<Form::kByte, NT>::add(sums[1], a + (64 * kChunkBytes + k) / 16, b + k / 16, chunk + k);
			}
			products_commit();
			if (chunk > 0)
			{
				products_wait<1>();
				if (lane == 0)
					barrier_arrive(pipeline.empty(last_stage));
			}
			last_stage = stage;
			if (++stage == n_stages)
			{
				stage = 0;
				round++;
			}
		}
		products_wait<0>();
		hold_sums(sums[0]);
		hold_sums(sums[1]);
		if (lane == 0)
			barrier_arrive(pipeline.empty(last_stage));
#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			const bool counts = values[i] == values[i] && (dead[i] & 1) == 0;
			const int factor = counts ? -(2 << args.key_tile_bits) : 0;
			const int base =
				counts ? (__float2int_rn(2.0f * values[i]) << args.key_tile_bits) + static_cast<int>(tile) : INT_MAX;

#pragma unroll
			for (int q = 0; q < 2 * NT; q++)
				best[i][q] = min(best[i][q], sums[i / 2][q / 2][i % 2 * 2 + q % 2] * factor + base);
		}
	}

	const size_t n_places = static_cast<size_t>(args.n_stripes) * kFilterTileRows;

#pragma unroll
	for (int q = 0; q < 2 * NT; q++)
	{
		const uint32_t query = first_query + group * NT * 8 + q / 2 * 8 + lane % 4 * 2 + q % 2;

		if (query < args.n_queries)
#pragma unroll
			for (int i = 0; i < 4; i++)
				args.bin_keys[query * n_places + stripe * kFilterTileRows + i / 2 * 64 + warp % 4 * 16 + i % 2 * 8 +
					lane / 4] = best[i][q];
	}
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
