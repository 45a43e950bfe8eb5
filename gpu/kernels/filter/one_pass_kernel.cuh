// The kernel of a search in one pass (see one_pass.hpp), and what a warp of it does. A block stays on a processor, as
// in filter_group_kernel (filter_wgmma.cuh), whose pipeline it shares: one warp brings rows, two groups of four warps
// take turns with the tiles. Rows are requested from the start. The first tile of each group is multiplied before there
// is a threshold; the smallest estimates of its rows are the sample. The sums stay in registers until the thresholds
// are there, and are judged then, so no row is read or multiplied twice. In the end, once all blocks have passed on
// their candidates, a block takes each query and writes its answer to the host.
//
// Blocks wait for each other up to four times, by counters in memory: for the queries, unless they are among the
// arguments; for the sample; for the thresholds, if there are more than kAloneQueries queries (then a block each finds
// them); and for the candidates. If not all blocks can be on the device at a time (another process has some of its
// processors), those that wait give up.
#pragma once

#include "kernels/filter/one_pass_finish.cuh"
#include "kernels/filter/one_pass_pipeline.cuh"
#include "kernels/filter/one_pass_sample.cuh"

namespace vectorgpu::kernels
{

// 256 · 255² < 2²⁴: estimates are halves of whole numbers up to 2²³, no sum of a score is rounded.
constexpr uint32_t kExactDims = 256;
constexpr uint32_t kMostHeld = 4; // tiles of a group whose sums wait for thresholds

/// A warp that multiplies, and its part of the block's tiles.
template <class Shape>
struct OnePassWarp
{
	static constexpr int NT = Shape::NT;

	const OnePassArgs &args;
	const GroupPipeline<Shape> &pipeline;
	const BlockTiles &tiles;
	GroupThread thread;
	uint32_t group;
	ValueRing<float> ring;

	/// Request the values of the group's h-th tile, if it exists.
	__device__ __forceinline__ void ask_values(uint32_t h)
	{
		const uint32_t tile = tiles[group + 2 * h];
		const bool is_tile = tile != BlockTiles::kNone;
		const TilePlace place = place_of(args.parts, is_tile ? tile : 0);
		const uint32_t row = place.row + ring.row();

		ring.ask(args.parts.values[place.part] + row, is_tile && row < args.parts.rows[place.part].n_rows);
	}

	/// The values of the group's h-th tile; requests those of a later one.
	__device__ __forceinline__ void take_values(uint32_t h, float (&values)[4])
	{
		ring.take(values);
		ask_values(h + kValueSlots - 1);
	}

	/// sums += the products of the block's tile_at-th tile.
	__device__ __forceinline__ void multiply(uint32_t tile_at, int (&sums)[2][NT][4]) const
	{
		StagePlace place = place_of_tile(pipeline, tile_at);

		multiply_tile<Shape, false>(pipeline, place, 0, thread.lane, sums);
	}

	/// Sums that begin at zero, of the group's h-th tile, if it exists.
	__device__ __forceinline__ void multiply_ahead(uint32_t h, int (&sums)[2][NT][4], float (&values)[4])
	{
		if (group + 2 * h >= tiles.n_own())
			return;
#pragma unroll
		for (int m = 0; m < 2; m++)
#pragma unroll
			for (int i = 0; i < NT * 4; i++)
				sums[m][i / 4][i % 4] = 0;
		take_values(h, values);
		multiply(group + 2 * h, sums);
	}

	__device__ __forceinline__ JudgedTile judged(uint32_t tile) const
	{
		const TilePlace place = place_of(args.parts, tile);

		return {tile * kFilterTileRows, place.row, args.parts.rows[place.part]};
	}

	/// Write the smallest estimates of the rows of the group's first tile, whose sums began at zero: the warp's part of
	/// the sample.
	__device__ __forceinline__ void write_sample(const int (&sums)[2][NT][4], const float (&values)[4], uint32_t stride)
	{
		float smallest[2 * NT];

#pragma unroll
		for (int i = 0; i < 2 * NT; i++)
			smallest[i] = infinity_f();
		if (group < tiles.n_own())
			take_smallest_of_tile<NT>(smallest, sums, values, judged(tiles[group]), thread, false);
		write_smallest<NT>(smallest, thread, args.n_queries,
			args.minima + blockIdx.x * kBlockMinima + group * 4 + thread.warp % 4, stride);
	}

	/// Judge all tiles of the group: those whose sums are held, which began at zero, and the others.
	template <int kHeld, class PassOn>
	__device__ __forceinline__ void judge_all(const int (&held)[kHeld][2][NT][4], const float (&held_values)[kHeld][4],
		const float *thresholds, WarpStaging<PassOn> &staging)
	{
		uint32_t starts[2 * NT];
		int sums[2][NT][4];

#pragma unroll
		for (int i = 0; i < 2 * NT; i++)
			starts[i] = kept_threshold<Form::kByte>(
				thread.query(i) < args.n_queries ? thresholds[thread.query(i)] : -infinity_f(), false);
#pragma unroll
		for (int h = 0; h < kHeld; h++)
			if (group + 2 * h < tiles.n_own())
			{
				// Add the value at which the sums would have begun: exact in whole numbers.
				start_tile<Form::kByte, false, false>(sums, starts, held_values[h], false);
#pragma unroll
				for (int m = 0; m < 2; m++)
#pragma unroll
					for (int i = 0; i < NT * 4; i++)
						sums[m][i / 4][i % 4] += held[h][m][i / 4][i % 4];
				judge_tile<NT, true>(
					sums, held_values[h], judged(tiles[group + 2 * h]), thread, args.n_queries, staging);
			}
		for (uint32_t at = group + 2 * kHeld, tile = tiles[at]; tile != BlockTiles::kNone; at += 2, tile = tiles[at])
		{
			float values[4];

			take_values(at / 2, values);
			start_tile<Form::kByte, false, false>(sums, starts, values, false);
			multiply(at, sums);
			judge_tile<NT, true>(sums, values, judged(tile), thread, args.n_queries, staging);
		}
	}
};

/// Grid: blocks that are all on the device at a time, at most n_tiles; block Shape::kThreads; shared group_fixed_bytes
/// and the stages. maps: as filter_group_kernel's.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
one_pass_kernel(const __grid_constant__ OnePassArgs args, const __grid_constant__ OnePassMaps maps,
	const __grid_constant__ OnePassInline given, const __grid_constant__ OnePassPlan plan, uint32_t n_tiles_all,
	uint32_t n_stages)
{
#if VECTORGPU_HAS_WGMMA
	constexpr int NT = Shape::NT;
	constexpr bool kManySums = NT >= 4; // the block's registers are then redistributed
	constexpr int kHeld = NT == 1 ? kMostHeld : 1;
	extern __shared__ unsigned char shared[];
	__shared__ float thresholds_of[Shape::kQueries];
	__shared__ bool all_passed_on;
	__shared__ uint32_t tile_list[BlockTiles::kPlaces];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = uniform_warp();
	BlockTiles tiles(args, n_tiles_all, plan, tile_list);
	const GroupPipeline<Shape> pipeline(shared, args.parts.rows[0].pitch_bytes, n_stages);
	unsigned char *operand = shared + (pipeline.operand - shared_address(shared));
	const OnePassQueries queries(args, given, pipeline.n_chunks * kChunkBytes);

	static_assert(!Shape::kSplit && Shape::kWarps * 32 == kConsumers);
	let_next_start();
	stamp_once(args.stamps, OnePassStamps::kBegin);
	pipeline.begin();
	if (warp >= Shape::kWarps)
	{
		if constexpr (kManySums)
			give_registers<40>();
		if (warp == Shape::kWarps && lane == 0)
			bring_parts<Shape>(pipeline, args, maps, plan, !queries.are_given, tiles);
		return;
	}
	if constexpr (kManySums)
		take_registers<232>();

	const WarpMemory<Shape> own(pipeline.behind, warp);
	OnePassWarp<Shape> worker{
		args, pipeline, tiles, {lane, warp, 0}, warp / 4, ValueRing<float>(own.values, warp, lane)};
	int held[kHeld][2][NT][4];
	float held_values[kHeld][4];

#pragma unroll
	for (uint32_t h = 0; h + 1 < kValueSlots; h++)
		worker.ask_values(h);
	take_queries<Shape>(pipeline, queries, operand);
	if (!queries.are_given)
		barrier_wait(pipeline.queries_here, 0);
	stamp_once(args.stamps, OnePassStamps::kQueriesHere);
	worker.multiply_ahead(0, held[0], held_values[0]);
	stamp_once(args.stamps, OnePassStamps::kFirstProduct);
	worker.write_sample(held[0], held_values[0], gridDim.x * kBlockMinima);
	all_count_up(args, OnePassCounters::kSampled);
	stamp_once(args.stamps, OnePassStamps::kSampled);
	// Meanwhile other blocks reach this point.
#pragma unroll
	for (int h = 1; h < kHeld; h++)
		worker.multiply_ahead(h, held[h], held_values[h]);
	find_thresholds<Shape>(queries, thresholds_of, warp, lane);
	stamp_once(args.stamps, OnePassStamps::kThresholds);

	// Candidates wait in shared memory, each warp's separately.
	auto pass_on = [&](const Staged &candidate) { pass_on_part(args, candidate, thresholds_of); };
	WarpStaging<decltype(pass_on)> staging{pass_on, own.staged, own.count};

	worker.judge_all(held, held_values, thresholds_of, staging);
	stamp_once(args.stamps, OnePassStamps::kRowsDone);
	staging.flush(0);
	all_count_up(args, OnePassCounters::kPassedOn);
	stamp_once(args.stamps, OnePassStamps::kPassedOn);

	// A block finishes each query.
	FinishScratch *scratch = reinterpret_cast<FinishScratch *>(
		shared + (pipeline.start - shared_address(shared))); // the stages are not needed any more

	static_assert(sizeof(FinishScratch) <= kGroupStageBytes);
	for (uint32_t query = blockIdx.x; query < args.n_queries; query += gridDim.x)
	{
		if (threadIdx.x == 0)
			all_passed_on =
				wait_for_count(args.counters, OnePassCounters::kPassedOn, args.counters.before[3] + gridDim.x);
		stamp_once(args.stamps, OnePassStamps::kAllPassedOn);
		Consumers::sync();
		finish_query<Shape>(args, all_passed_on, plan.tuning.exact_scores && args.dim_pad <= kExactDims,
			plan.tuning.ranked, query, queries.k(query), queries.norm(query), thresholds_of[query], operand, scratch);
		Consumers::sync();
	}
#endif
}

} // namespace vectorgpu::kernels
