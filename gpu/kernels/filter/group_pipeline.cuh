// The block's layer of the products by warp groups (sm_90a), which filter_wgmma.cuh, bins_group.cu and
// one_pass_kernel.cuh share: the shape of a block, its shared memory, how one warp brings rows and queries by bulk
// tensor copies, and how two groups of four warps multiply them. The warp's layer is group_warp.cuh.
#pragma once

#include "kernels/filter/group_warp.cuh"
#include "kernels/warp_block/launch.cuh"
#include "kernels/warp_block/wgmma.cuh"

namespace vectorgpu::kernels
{

/// kSplit: both warp groups take all tiles, each half of the block's queries, so a row is fetched once for twice as
/// many; else they take turns with the tiles, for all queries of the block. kStreamed: a stage has a chunk of the
/// queries after the rows'.
template <Form form_, int NT_, bool kSplit_, bool kStreamed_ = false>
struct GroupShape
{
	static_assert(kSplit_ || !kStreamed_); // groups that take turns with tiles are at different chunks

	static constexpr Form form = form_;
	static constexpr int NT = NT_;
	static constexpr bool kSplit = kSplit_;
	static constexpr bool kStreamed = kStreamed_;
	static constexpr int kGroups = 2;
	static constexpr int kQueries = NT * 8 * (kSplit ? kGroups : 1);
	static constexpr int kWarps = 4 * kGroups; // that multiply
	static constexpr int kThreads =
		32 * (kWarps + 4); // a group gives up its registers as a whole, so the copying warp has three idle ones
	static constexpr uint32_t kStageBytes = (kFilterTileRows + (kStreamed ? kQueries : 0)) * kChunkBytes;
};

constexpr uint32_t kGroupStageBytes = kFilterTileRows * kChunkBytes; // the rows' part of a stage
constexpr uint32_t kMostGroupStages = 12;
constexpr uint32_t kLeastGroupStages = 3;
// Copies of a block: enough for the memory's bandwidth; more only delay other loads.
constexpr uint32_t kStagesOnTheWay = 4;

/// copy_box as a class.
struct CopyBox
{
	__device__ __forceinline__ void operator()(
		uint32_t to, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier) const
	{
		copy_box(to, map, x, y, barrier);
	}
};

/// Shared memory besides the stages: alignment, operands, barriers; candidates, values and a count for each warp
/// (WarpMemory); for scaled rows a factor for each query.
template <class Shape>
size_t
group_fixed_bytes(uint32_t dim_pad)
{
	return 1024 + (Shape::kStreamed ? 0 : Shape::kQueries * operand_bytes(Shape::form, dim_pad)) +
		(2 * kMostGroupStages + 1) * sizeof(uint64_t) +
		Shape::kWarps *
		(kWarpStaged * sizeof(Staged) + kValueSlots * kWarpRows * sizeof(typename RowValue<Shape::form>::Type) +
			sizeof(uint32_t)) +
		(Shape::form == Form::kScaled ? Shape::kQueries * sizeof(float) : 0);
}

/// The layout of a block's shared memory: stages of rows, the queries' operand, a barrier pair for each stage and one
/// for the operand.
template <class Shape>
struct GroupPipeline
{
	uint32_t n_chunks; // of a row
	uint32_t n_stages;
	uint32_t start; // the stages
	uint32_t operand;
	uint32_t barriers;
	uint32_t queries_here;
	unsigned char *behind; // the rest

	__device__ __forceinline__ GroupPipeline(unsigned char *shared, uint32_t pitch_bytes, uint32_t stages)
		: n_chunks((pitch_bytes + kChunkBytes - 1) / kChunkBytes), n_stages(stages),
		  start((shared_address(shared) + 1023) / 1024 * 1024), operand(start + n_stages * Shape::kStageBytes)
	{
		unsigned char *places = shared +
			(operand + (Shape::kStreamed ? 0 : n_chunks * Shape::kQueries * kChunkBytes) - shared_address(shared));

		barriers = shared_address(places);
		queries_here = barriers + 2 * kMostGroupStages * 8;
		behind = places + (2 * kMostGroupStages + 1) * 8;
	}

	__device__ __forceinline__ uint32_t rows_of(uint32_t stage) const { return start + stage * Shape::kStageBytes; }

	/// The chunk of queries that goes with the rows in a stage.
	__device__ __forceinline__ uint32_t queries_of(uint32_t stage, uint32_t chunk) const
	{
		return Shape::kStreamed ? rows_of(stage) + kGroupStageBytes : operand + chunk * Shape::kQueries * kChunkBytes;
	}

	__device__ __forceinline__ uint32_t full(uint32_t stage) const { return barriers + stage * 16; }
	__device__ __forceinline__ uint32_t empty(uint32_t stage) const { return barriers + stage * 16 + 8; }

	/// By one thread, before a barrier of all.
	__device__ __forceinline__ void init() const
	{
		for (uint32_t i = 0; i < n_stages; i++)
		{
			barrier_init(full(i), 1);
			barrier_init(empty(i), Shape::kSplit ? Shape::kWarps : 4);
		}
		barrier_init(queries_here, 1);
		barriers_visible();
	}

	/// By all threads, at the beginning: the barriers, and no warp has staged a candidate.
	__device__ __forceinline__ void begin() const
	{
		if (threadIdx.x == 0)
			init();
		if (threadIdx.x < Shape::kWarps)
			*WarpMemory<Shape>(behind, threadIdx.x).count = 0;
		__syncthreads();
	}

	/// By the copying thread, before a step's copy: wait until the stage is free, and at most this many copies are
	/// under way.
	__device__ __forceinline__ void wait_for_turn(
		uint32_t step, uint32_t stage, uint32_t round, uint32_t most_on_the_way = kStagesOnTheWay) const
	{
		if (n_stages > most_on_the_way && step >= most_on_the_way)
		{
			const uint32_t before =
				stage >= most_on_the_way ? stage - most_on_the_way : stage + n_stages - most_on_the_way;

			barrier_wait(full(before), (stage >= most_on_the_way ? round : round - 1) & 1);
		}
		if (round > 0)
			barrier_wait(empty(stage), (round - 1) & 1);
	}

	/// By one thread: bring n_tiles tiles, row_of_tile(i) the first row of each, and the block's queries. copy_rows: as
	/// copy_box.
	template <class RowOfTile, class CopyRows = CopyBox>
	__device__ __forceinline__ void bring(const CUtensorMap *rows, const CUtensorMap *queries, uint32_t first_query,
		uint32_t n_tiles, RowOfTile row_of_tile, CopyRows copy_rows = {}) const
	{
		const uint32_t n_steps = n_tiles * n_chunks;
		uint32_t tile = 0;
		uint32_t chunk = 0;
		uint32_t stage = 0;
		uint32_t round = 0;

		for (uint32_t step = 0; step < n_steps; step++)
		{
			// Rows do not depend on earlier kernels; the queries do.
			if (step == min(n_stages, n_steps - 1) && !Shape::kStreamed)
			{
				wait_for_stream();
				barrier_expect(queries_here, n_chunks * Shape::kQueries * kChunkBytes);
				for (uint32_t i = 0; i < n_chunks; i++)
					copy_box(operand + i * Shape::kQueries * kChunkBytes, queries, i * kChunkBytes, first_query,
						queries_here);
			}
			wait_for_turn(step, stage, round);
			barrier_expect(full(stage), Shape::kStageBytes);
			copy_rows(rows_of(stage), rows, chunk * kChunkBytes, row_of_tile(tile), full(stage));
			if constexpr (Shape::kStreamed)
			{
				const uint32_t n_ahead = min(min(n_stages, kStagesOnTheWay), n_steps);

				if (step + 1 == n_ahead) // up to which stages have been waited for
				{
					wait_for_stream();
					for (uint32_t i = 0; i < n_ahead; i++)
						copy_box(queries_of(i, 0), queries, i % n_chunks * kChunkBytes, first_query, full(i));
				}
				else if (step >= n_ahead)
					copy_box(queries_of(stage, 0), queries, chunk * kChunkBytes, first_query, full(stage));
			}
			if (++chunk == n_chunks)
			{
				chunk = 0;
				tile++;
			}
			if (++stage == n_stages)
			{
				stage = 0;
				round++;
			}
		}
	}
};

/// A place in the ring of stages.
struct StagePlace
{
	uint32_t stage;
	uint32_t round; // of the ring

	__device__ __forceinline__ void advance(uint32_t n_stages)
	{
		if (++stage == n_stages)
		{
			stage = 0;
			round++;
		}
	}
};

/// The place of the first chunk of a block's tile_at-th tile.
template <class Shape>
__device__ __forceinline__ StagePlace
place_of_tile(const GroupPipeline<Shape> &pipeline, uint32_t tile_at)
{
	const uint32_t step = tile_at * pipeline.n_chunks;

	return {step % pipeline.n_stages, step / pipeline.n_stages};
}

/// sums += the products of a tile, whose first chunk is at `place`, with the queries whose operands lie `skipped` bytes
/// behind the first; kAtZero: earlier sums are dropped. By a group; place is left behind the tile.
template <class Shape, bool kAtZero, class Sum>
__device__ __forceinline__ void
multiply_tile(const GroupPipeline<Shape> &pipeline, StagePlace &place, uint32_t skipped, uint32_t lane,
	Sum (&sums)[2][Shape::NT][4])
{
	using Product = GroupProduct<Shape::form, Shape::NT>;
	uint32_t last_stage = 0;

	hold_sums(sums[0]);
	hold_sums(sums[1]);
	for (uint32_t chunk = 0; chunk < pipeline.n_chunks; chunk++)
	{
		const uint64_t a = operand_descriptor(pipeline.rows_of(place.stage));
		const uint64_t b = operand_descriptor(pipeline.queries_of(place.stage, chunk) + skipped);

		// In turns: the other group may not have used this stage yet, if its copy came late, and a barrier cannot tell
		// that phase from the one that is waited for here.
		if constexpr (!Shape::kSplit)
			if (place.round > 0)
				barrier_wait(pipeline.empty(place.stage), (place.round - 1) & 1);
		barrier_wait(pipeline.full(place.stage), place.round & 1);
		products_begin();
#pragma unroll
		for (uint32_t k = 0; k < kChunkBytes; k += 32)
		{
			const uint32_t accumulate = kAtZero ? chunk + k : 1;

			Product::add(sums[0], a + k / 16, b + k / 16, accumulate);
			Product::add(sums[1], a + (64 * kChunkBytes + k) / 16, b + k / 16, accumulate);
		}
		products_commit();
		if (chunk > 0)
		{
			products_wait<1>();
			if (lane == 0)
				barrier_arrive(pipeline.empty(last_stage));
		}
		last_stage = place.stage;
		place.advance(pipeline.n_stages);
	}
	products_wait<0>();
	hold_sums(sums[0]);
	hold_sums(sums[1]);
	if (lane == 0)
		barrier_arrive(pipeline.empty(last_stage));
}

} // namespace vectorgpu::kernels
