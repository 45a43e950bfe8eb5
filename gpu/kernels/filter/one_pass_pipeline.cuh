// The pipeline of a block of a search in one pass: how it takes the queries over from the host and brings rows by bulk
// copies (group_pipeline.cuh has the same for large batches).
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

/// The queries of a search: among the kernel's arguments, or taken over into memory.
struct OnePassQueries
{
	const OnePassArgs &args;
	const OnePassInline &given;
	uint32_t operand_bytes; // of a query
	bool are_given;

	__device__ __forceinline__ OnePassQueries(
		const OnePassArgs &of, const OnePassInline &inline_queries, uint32_t bytes)
		: args(of), given(inline_queries), operand_bytes(bytes),
		  are_given(OnePassInline::kQueries >= of.n_queries && of.n_queries * bytes <= OnePassInline::kBytes)
	{
	}

	__device__ __forceinline__ uint32_t k(uint32_t query) const
	{
		return are_given ? given.queries[query].k : __ldcg(args.k + query);
	}

	__device__ __forceinline__ double norm(uint32_t query) const
	{
		return are_given ? given.queries[query].norm : __ldcg(args.norms + query);
	}
};

/// Place the queries in the block's operand, if they are given, or else take the block's share of them over for all
/// blocks. By the threads that multiply.
template <class Shape>
__device__ __forceinline__ void
take_queries(const GroupPipeline<Shape> &pipeline, const OnePassQueries &queries, unsigned char *operand)
{
	const OnePassArgs &args = queries.args;

	if (queries.are_given)
	{
		place_operand<Shape>(pipeline, operand, queries.given, args.n_queries);
		for (uint32_t query = blockIdx.x; threadIdx.x == 0 && query < args.n_queries; query += gridDim.x)
			args.candidates.counts[query] = 0;
		return;
	}
	for (uint32_t query = blockIdx.x; query < args.n_queries; query += gridDim.x)
	{
		take_query(args, query, args.host_bytes + static_cast<size_t>(query) * queries.operand_bytes,
			args.host_queries[query], queries.operand_bytes);
		show_to_copies();
		Consumers::sync();
		if (threadIdx.x == 0)
			count_up(args.counters.counters);
	}
}

/// Count up, once all threads that multiply are here.
__device__ __forceinline__ void
all_count_up(const OnePassArgs &args, uint32_t which)
{
	Consumers::sync();
	if (threadIdx.x == 0)
		count_up(args.counters.counters + which * OnePassCounters::kStride);
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

} // namespace vectorgpu::kernels
