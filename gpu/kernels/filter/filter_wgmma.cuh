// The matrix product of the filter by warp groups (sm_90a). A block stays on a processor: one warp brings rows by bulk
// tensor copies, two groups of four warps multiply and judge, each at its own pace, so that one judges while the other
// multiplies. The queries stay in shared memory; if they have too many dimensions for that, they come from L2 with
// every tile of rows. group_pipeline.cuh is the block's layer, group_warp.cuh the warp's; filter_mma.cuh computes the
// same estimates on other devices.
//
// A group of rows of a sampled tile (FilterPass::kMinima) is rows 16 w ... 16 w + 15 of both halves of the tile.
#pragma once

#include "kernels/filter/group_pipeline.cuh"

namespace vectorgpu::kernels
{

/// The tiles of a block: its stripe of them, in the order in which it takes them.
struct GroupStripe
{
	uint32_t first_tile;
	uint32_t n_tiles;
	uint32_t rows_first; // tile 0 of the rows
	uint32_t rows_stride;

	__device__ __forceinline__ GroupStripe(const FilterArgs &args, uint32_t n_query_tiles, uint32_t tiles_per_stripe)
		: first_tile(blockIdx.x / n_query_tiles * tiles_per_stripe),
		  n_tiles(min(tiles_per_stripe, args.n_tiles - min(args.n_tiles, first_tile))), rows_first(args.first_tile),
		  rows_stride(args.tile_stride)
	{
	}

	__device__ __forceinline__ uint32_t end() const { return first_tile + n_tiles; }
	__device__ __forceinline__ uint32_t row_of(uint32_t tile) const
	{
		return (rows_first + tile * rows_stride) * kFilterTileRows;
	}
};

__device__ __forceinline__ const float *
values_of(const FilterArgs &args, float)
{
	return args.row_values;
}

__device__ __forceinline__ const ScaledValue *
values_of(const FilterArgs &args, ScaledValue)
{
	return args.scaled.values;
}

/// Request the values of a tile's rows, if the block has it.
template <class Value>
__device__ __forceinline__ void
ask_values(ValueRing<Value> &ring, const FilterArgs &args, const GroupStripe &stripe, uint32_t tile)
{
	const uint32_t row = stripe.row_of(tile) + ring.row();

	ring.ask(values_of(args, Value{}) + row, tile < stripe.end() && row < args.rows.n_rows);
}

/// Copies rows so that some tiles stay in L2 for the next search (FilterArgs::kept_period).
struct CopyAndKeep
{
	uint32_t period;
	uint32_t n_kept;
	uint64_t staying;
	uint64_t making_way;

	__device__ __forceinline__ explicit CopyAndKeep(const FilterArgs &args)
		: period(args.kept_period), n_kept(args.n_kept), staying(l2_policy_normal()), making_way(l2_policy_first())
	{
	}

	__device__ __forceinline__ void operator()(
		uint32_t to, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier) const
	{
		if (period == 0)
			copy_box(to, map, x, y, barrier);
		else
			copy_box_for(to, map, x, y, barrier, y / kFilterTileRows % period < n_kept ? staying : making_way);
	}
};

/// The thread's thresholds, as registers keep them; -infinity for a sample and beyond the queries. Scaled rows: for a
/// sample bits of 1 / h (take_smallest_scaled).
template <Form form, bool kMinima, int NT>
__device__ __forceinline__ void
load_thresholds(uint32_t (&thresholds)[2 * NT], const FilterArgs &args, const GroupThread &thread, bool is_cosine)
{
#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
	{
		const uint32_t query = thread.query(i);
		const bool is_query = query < args.n_queries;
		const float threshold = !kMinima && is_query ? args.thresholds[query] : -__int_as_float(0x7F800000);

		if constexpr (form == Form::kScaled)
		{
			const float h = is_query ? args.scaled.factors[query] : 1.0f;

			thresholds[i] =
				__float_as_uint(kMinima ? 1.0f / h : kept_scaled_threshold(threshold, h, args.scaled.most_kept));
		}
		else
			thresholds[i] = kept_threshold<form>(threshold, is_cosine);
	}
}

/// Put the factors of the block's queries into shared memory. By all warps that multiply, together.
template <class Shape>
__device__ __forceinline__ void
load_factors(float *factors, const FilterArgs &args, uint32_t first_query)
{
	for (uint32_t i = threadIdx.x; i < Shape::kQueries; i += Shape::kWarps * 32)
		factors[i] = first_query + i < args.n_queries ? args.scaled.factors[first_query + i] : 1.0f;
	asm volatile("bar.sync 1, %0;" ::"n"(Shape::kWarps * 32) : "memory");
}

/// The values at which the sums of a tile begin, by the form of the rows.
template <class Shape, bool kMinima, bool kVariant>
struct TileStart
{
	bool is_cosine;

	__device__ __forceinline__ TileStart(const FilterArgs &args, unsigned char *, const GroupThread &, uint32_t)
		: is_cosine(args.metric == Metric::kCosine)
	{
	}

	template <class Sum>
	__device__ __forceinline__ void operator()(
		Sum (&sums)[2][Shape::NT][4], const uint32_t (&thresholds)[2 * Shape::NT], const float (&values)[4]) const
	{
		start_tile<Shape::form, kMinima, kVariant>(sums, thresholds, values, is_cosine);
	}
};

template <int NT, bool kSplit, bool kStreamed, bool kMinima, bool kVariant>
struct TileStart<GroupShape<Form::kScaled, NT, kSplit, kStreamed>, kMinima, kVariant>
{
	using Shape = GroupShape<Form::kScaled, NT, kSplit, kStreamed>;

	ScaledStart start;
	uint32_t factors; // shared address, of the thread's first query

	/// By all warps that multiply.
	__device__ __forceinline__ TileStart(
		const FilterArgs &args, unsigned char *behind, const GroupThread &thread, uint32_t first_query)
		: start(scaled_start(args.scaled))
	{
		float *of_block = factors_of_queries<Shape>(behind);

		factors = shared_address(of_block + (thread.first_query - first_query) + thread.lane % 4 * 2);
		if constexpr (!kMinima && kVariant)
			load_factors<Shape>(of_block, args, first_query);
	}

	__device__ __forceinline__ void operator()(
		int (&sums)[2][NT][4], const uint32_t (&thresholds)[2 * NT], const ScaledValue (&values)[4]) const
	{
#pragma unroll
		for (int m = 0; m < 2; m++)
		{
			const ScaledValue of[2] = {values[2 * m], values[2 * m + 1]};

			start_scaled_sums<kMinima, kVariant>(sums[m], thresholds, of, factors, start);
		}
	}
};

/// Grid and tiles as filter_kernel (filter_mma.cuh), candidates and minima only; block Shape::kThreads; shared
/// group_fixed_bytes and the stages, Shape::kStageBytes each. rows: [n_rows, pitch_bytes], boxes of kChunkBytes x
/// kFilterTileRows; queries: [n_queries, operand_bytes], boxes of kChunkBytes x Shape::kQueries; both with 128B
/// swizzle. kVariant: of bytes, cosine; of scaled rows, L2; see start_sums and start_scaled_sums.
template <class Shape, FilterPass kPass, bool kVariant>
__global__ void __launch_bounds__(Shape::kThreads, 1)
filter_group_kernel(const FilterArgs args, const __grid_constant__ CUtensorMap rows,
	const __grid_constant__ CUtensorMap queries, uint32_t n_query_tiles, uint32_t tiles_per_stripe, uint32_t n_stages)
{
#if VECTORGPU_HAS_WGMMA
	constexpr bool kMinima = kPass == FilterPass::kMinima;
	constexpr bool kReadOnce = !Shape::kSplit; // few queries: each row is read once
	constexpr int NT = Shape::NT;
	extern __shared__ unsigned char shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = uniform_warp();
	const uint32_t first_query = blockIdx.x % n_query_tiles * Shape::kQueries;
	const GroupStripe stripe(args, n_query_tiles, tiles_per_stripe);
	const GroupPipeline<Shape> pipeline(shared, args.rows.pitch_bytes, n_stages);

	let_next_start();
	if (stripe.n_tiles == 0)
		return;
	pipeline.begin();
	if (warp >= Shape::kWarps)
	{
		auto row_of_tile = [&](uint32_t i) { return stripe.row_of(stripe.first_tile + i); };

		give_registers<kReadOnce ? 40 : 24>();
		if (warp != Shape::kWarps || lane != 0)
			wait_for_stream();
		else if constexpr (kReadOnce)
			pipeline.bring(&rows, &queries, first_query, stripe.n_tiles, row_of_tile, CopyAndKeep(args));
		else
			pipeline.bring(&rows, &queries, first_query, stripe.n_tiles, row_of_tile);
		return;
	}
	take_registers<kReadOnce ? 232 : 240>();

	const uint32_t group = warp / 4;
	const GroupThread thread{lane, warp, first_query + (Shape::kSplit ? group * NT * 8 : 0)};
	const bool is_cosine = args.metric == Metric::kCosine;
	const WarpMemory<Shape> own(pipeline.behind, warp);
	using Value = typename RowValue<Shape::form>::Type;
	auto pass_on_one = [&](const Staged &candidate)
	{
		if constexpr (Shape::form == Form::kScaled)
			pass_on_scaled(args, candidate);
		else
			pass_on<Shape::form>(args, candidate);
	};
	WarpStaging<decltype(pass_on_one)> staging{pass_on_one, own.staged, own.count};
	ValueRing<Value> ring(own.values, warp, lane);
	uint32_t thresholds[2 * NT];
	constexpr uint32_t kStep = Shape::kSplit ? 1 : Shape::kGroups;
	const uint32_t first_mine = stripe.first_tile + (Shape::kSplit ? 0 : group);

#pragma unroll
	for (uint32_t i = 0; i + 1 < kValueSlots; i++)
		ask_values(ring, args, stripe, first_mine + i * kStep);
	wait_for_stream();
	load_thresholds<Shape::form, kMinima, NT>(thresholds, args, thread, is_cosine);

	const TileStart<Shape, kMinima, kVariant> start(args, pipeline.behind, thread, first_query);

	if constexpr (!Shape::kStreamed)
		barrier_wait(pipeline.queries_here, 0);

	typename Accumulator<Shape::form>::Type sums[2][NT][4];

	for (uint32_t tile = first_mine; tile < stripe.end(); tile += kStep)
	{
		const JudgedTile judged{stripe.row_of(tile), stripe.row_of(tile), args.rows};
		StagePlace place = place_of_tile(pipeline, tile - stripe.first_tile);
		Value values[4];

		ring.take(values);
		ask_values(ring, args, stripe, tile + (kValueSlots - 1) * kStep);
		start(sums, thresholds, values);
		multiply_tile<Shape, false>(pipeline, place, Shape::kSplit ? group * NT * 8 * kChunkBytes : 0, lane, sums);
		if constexpr (kMinima)
		{
			float smallest[2 * NT];

#pragma unroll
			for (int i = 0; i < 2 * NT; i++)
				smallest[i] = __int_as_float(0x7F800000);
			if constexpr (Shape::form == Form::kScaled)
				take_smallest_of_tile<NT>(smallest, sums, values, judged, thread, thresholds);
			else
				take_smallest_of_tile<NT>(smallest, sums, values, judged, thread, is_cosine);
			write_smallest<NT>(smallest, thread, args.n_queries, args.minima + tile * kFilterGroupsPerTile + warp % 4,
				args.minima_stride);
		}
		else
			judge_tile<NT, kReadOnce>(sums, values, judged, thread, args.n_queries, staging);
	}
	if constexpr (!kMinima)
		staging.flush(0);
#endif
}

} // namespace vectorgpu::kernels
