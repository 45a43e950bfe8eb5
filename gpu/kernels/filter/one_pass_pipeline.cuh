// The pipeline of a block of one_pass.cu: how it takes the queries over from the host, brings rows by bulk copies and
// multiplies tiles (filter_wgmma.cuh has the same for large batches).
#pragma once

#include "kernels/filter/filter_group_launch.cuh"
#include "kernels/filter/one_pass.hpp"
#include "kernels/filter/one_pass_blocks.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kConsumers = 256; // threads that multiply

/// Make earlier writes to memory, by all threads that this thread has waited for, visible to later bulk copies.
__device__ __forceinline__ void
show_to_copies()
{
	asm volatile("fence.proxy.async;" ::: "memory");
}

/// The threads that multiply, and in the end finish queries.
struct Consumers
{
	static __device__ __forceinline__ constexpr uint32_t size() { return kConsumers; }
	static __device__ __forceinline__ void sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
};
static_assert(Consumers::size() == 256 && kSelectThreads == 256);

/// Take a query over for all blocks, by the threads that multiply. bytes [n_operand_bytes], given: on the host.
__device__ __forceinline__ void
take_query(
	const OnePassArgs &args, uint32_t query, const uint8_t *bytes, const OnePassQuery &given, uint32_t n_operand_bytes)
{
	const uint4 *from = reinterpret_cast<const uint4 *>(bytes);
	uint4 *operand = reinterpret_cast<uint4 *>(args.operand + static_cast<size_t>(query) * n_operand_bytes);

	for (uint32_t i = threadIdx.x; i < n_operand_bytes / 16; i += kConsumers)
		operand[i] = from[i];
	if (threadIdx.x == 0)
	{
		args.k[query] = given.k;
		args.norms[query] = given.norm;
		args.candidates.counts[query] = 0;
	}
}

/// Turn the queries among the arguments into the block's operand, in the layout of a copy, by the threads that
/// multiply.
template <class Shape>
__device__ __forceinline__ void
place_operand(
	const GroupPipeline<Shape> &pipeline, unsigned char *operand, const OnePassInline &given, uint32_t n_queries)
{
	constexpr uint32_t kUnits = kChunkBytes / 16;

	for (uint32_t i = threadIdx.x; i < pipeline.n_chunks * Shape::kQueries * kUnits; i += kConsumers)
	{
		const uint32_t unit = i % kUnits;
		const uint32_t query = i / kUnits % Shape::kQueries;
		const uint32_t chunk = i / kUnits / Shape::kQueries;
		uint4 part = {0, 0, 0, 0};

		if (query < n_queries)
			part = *reinterpret_cast<const uint4 *>(
				given.bytes + (query * pipeline.n_chunks + chunk) * kChunkBytes + unit * 16);
		*reinterpret_cast<uint4 *>(
			operand + (chunk * Shape::kQueries + query) * kChunkBytes + (unit ^ query % 8) * 16) = part;
	}
	show_to_copies(); // and visible to products
	Consumers::sync();
}

/// By one thread: bring the rows of the block's tiles, and the queries, if queries_wanted, as soon as they are there.
/// Stages as in GroupPipeline::bring.
template <class Shape>
__device__ __forceinline__ void
bring_parts(const GroupPipeline<Shape> &pipeline, const OnePassArgs &args, const OnePassMaps &maps,
	const OnePassPlan &plan, bool queries_wanted, BlockTiles &tiles)
{
	const uint32_t on_the_way = plan.tuning.stages_on_the_way;
	const uint64_t making_way = l2_policy_first();
	const uint64_t staying = l2_policy_normal();
	const uint32_t last_chance =
		min(pipeline.n_stages, tiles.n_own() * pipeline.n_chunks) - 1; // later steps wait for products
	const uint32_t all_taken_over = args.counters.before[OnePassCounters::kTakenOver] + args.n_queries;
	uint32_t step = 0;
	uint32_t stage = 0;
	uint32_t round = 0;

	tiles.begin();
	stamp(args.stamps, OnePassStamps::kFirstCopy);
	for (uint32_t at = 0;; at++)
	{
		tiles.look_ahead(at);

		const uint32_t tile = tiles[at];

		if (tile == BlockTiles::kNone)
			break;

		const TilePlace place = place_of(args.parts, tile);
		const uint64_t policy = tiles.stays(tile) ? staying : making_way;

		for (uint32_t chunk = 0; chunk < pipeline.n_chunks; chunk++, step++)
		{
			// As soon as the queries are there; until then rows keep coming while there is room.
			if (queries_wanted && step >= min(on_the_way, last_chance) &&
				(step == last_chance || has_count(args.counters, OnePassCounters::kTakenOver, all_taken_over)))
			{
				queries_wanted = false;
				wait_for_count(args.counters, OnePassCounters::kTakenOver, all_taken_over);
				show_to_copies();
				barrier_expect(pipeline.queries_here, pipeline.n_chunks * Shape::kQueries * kChunkBytes);
				for (uint32_t i = 0; i < pipeline.n_chunks; i++)
					copy_box(pipeline.operand + i * Shape::kQueries * kChunkBytes, &maps.queries, i * kChunkBytes, 0,
						pipeline.queries_here);
			}
			pipeline.wait_for_turn(step, stage, round, on_the_way);
			barrier_expect(pipeline.full(stage), kGroupStageBytes);
			copy_box_for(pipeline.start + stage * kGroupStageBytes, maps.rows + place.part, chunk * kChunkBytes,
				place.row, pipeline.full(stage), policy);
			if (++stage == pipeline.n_stages)
			{
				stage = 0;
				round++;
			}
		}
	}
	stamp(args.stamps, OnePassStamps::kLastCopy);
}

/// sums += the products of one tile, the `tile_at`-th of the block. As in filter_group_kernel, for groups that take
/// turns.
template <class Shape>
__device__ __forceinline__ void
multiply_tile(const GroupPipeline<Shape> &pipeline, uint32_t tile_at, uint32_t lane, int (&sums)[2][Shape::NT][4])
{
	const uint32_t n_chunks = pipeline.n_chunks;
	const uint32_t first_step = tile_at * n_chunks;
	uint32_t stage = first_step % pipeline.n_stages;
	uint32_t round = first_step / pipeline.n_stages;
	uint32_t last_stage = 0;

	hold_sums(sums[0]);
	hold_sums(sums[1]);
	for (uint32_t chunk = 0; chunk < n_chunks; chunk++)
	{
		const uint64_t a = operand_descriptor(pipeline.start + stage * kGroupStageBytes);
		const uint64_t b = operand_descriptor(pipeline.operand + chunk * Shape::kQueries * kChunkBytes);

		if (round > 0)
			barrier_wait(pipeline.empty(stage), (round - 1) & 1);
		barrier_wait(pipeline.full(stage), round & 1);
		products_begin();
#pragma unroll
		for (uint32_t k = 0; k < kChunkBytes; k += 32)
		{
			GroupProduct<Form::kByte, Shape::NT>::add(sums[0], a + k / 16, b + k / 16);
			GroupProduct<Form::kByte, Shape::NT>::add(sums[1], a + (64 * kChunkBytes + k) / 16, b + k / 16);
		}
		products_commit();
		if (chunk > 0)
		{
			products_wait<1>();
			if (lane == 0)
				barrier_arrive(pipeline.empty(last_stage));
		}
		last_stage = stage;
		if (++stage == pipeline.n_stages)
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
}

} // namespace vectorgpu::kernels
