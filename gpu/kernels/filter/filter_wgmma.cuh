// The matrix product of the filter by warp groups (sm_90a). A block stays on a processor: one warp brings rows by bulk
// tensor copies, two groups of four warps multiply and judge, each at its own pace, so that one judges while the other
// multiplies. The queries stay in shared memory; if they have too many dimensions for that, they come from L2 with
// every tile of rows. The sums are judged by filter_sums.cuh; filter_mma.cuh computes the same estimates on other
// devices.
//
// A group of rows of a sampled tile (FilterPass::kMinima) is rows 16 w ... 16 w + 15 of both halves of the tile.
#pragma once

#include "kernels/filter/filter_sums.cuh"
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
constexpr uint32_t kWarpStaged = 128;     // candidates that a warp stages
constexpr uint32_t kFlushWarpStaged = 64; // flushed after a tile once this many wait
constexpr uint32_t kWarpRows = 32;        // of a tile, judged by a warp
constexpr uint32_t kValueSlots = 4; // tiles, a power of two, whose values lie in shared memory or are being loaded

/// Shared memory besides the stages: alignment, operands, barriers; candidates, values and a count for each warp
/// (WarpMemory).
template <class Shape>
size_t
group_fixed_bytes(uint32_t dim_pad)
{
	return 1024 + (Shape::kStreamed ? 0 : Shape::kQueries * operand_bytes(Shape::form, dim_pad)) +
		(2 * kMostGroupStages + 1) * sizeof(uint64_t) +
		Shape::kWarps * (kWarpStaged * sizeof(Staged) + kValueSlots * kWarpRows * sizeof(float) + sizeof(uint32_t));
}

/// A warp's own part of the shared memory after the pipeline's.
template <class Shape>
struct WarpMemory
{
	uint32_t *count; // counts of all warps come first; they have to be cleared
	Staged *staged;  // [kWarpStaged]
	float *values;   // [kValueSlots, kWarpRows]

	__device__ __forceinline__ WarpMemory(unsigned char *behind, uint32_t warp)
		: count(reinterpret_cast<uint32_t *>(behind) + warp),
		  staged(reinterpret_cast<Staged *>(behind + Shape::kWarps * sizeof(uint32_t)) + warp * kWarpStaged),
		  values(reinterpret_cast<float *>(behind + Shape::kWarps * (sizeof(uint32_t) + kWarpStaged * sizeof(Staged))) +
			  warp * kValueSlots * kWarpRows)
	{
	}
};

/// The values (launch_row_values) of the rows that a warp judges, requested tiles ahead: a load takes longer than a
/// tile while rows come at the memory's bandwidth. Each lane requests one of the 32 rows, 16 w ... 16 w + 15 of both
/// halves of the tile. All lanes call together.
class ValueRing
{
public:
	__device__ __forceinline__ ValueRing(float *slots, uint32_t warp, uint32_t lane)
		: own_(static_cast<uint32_t>(__cvta_generic_to_shared(slots)) + lane * sizeof(float)), slots_(slots),
		  lane_(lane), row_(lane / 16 * 64 + warp % 4 * 16 + lane % 16)
	{
	}

	/// The row of a tile that this lane requests.
	__device__ __forceinline__ uint32_t row() const { return row_; }

	/// Request the next tile's value at `from`; 0 if there is no row. Calls of ask are at most kValueSlots - 1 ahead of
	/// take, which assumes exactly that.
	__device__ __forceinline__ void ask(const float *from, bool is_there)
	{
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\ncp.async.commit_group;" ::"r"(
						 own_ + asked_ % kValueSlots * kWarpRows * 4),
			"l"(from), "r"(is_there ? 4 : 0)
			: "memory");
		asked_++;
	}

	/// Get values[i]: of the thread's row lane / 4 + 8 (i mod 2) of the half i / 2.
	__device__ __forceinline__ void take(float (&values)[4])
	{
		const volatile float *slot = slots_ + taken_ % kValueSlots * kWarpRows;

		asm volatile("cp.async.wait_group %0;" ::"n"(kValueSlots - 2) : "memory");
		__syncwarp(); // and all lanes have read the slot that is requested next
#pragma unroll
		for (int i = 0; i < 4; i++)
			values[i] = slot[i / 2 * 16 + i % 2 * 8 + lane_ / 4];
		taken_++;
	}

private:
	uint32_t own_; // the lane's place in the first slot
	float *slots_;
	uint32_t lane_;
	uint32_t row_;
	uint32_t asked_ = 0;
	uint32_t taken_ = 0;
};

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

	/// By one thread: bring n_tiles tiles, row_of_tile(i) the first row of each, and the block's queries.
	template <class RowOfTile>
	__device__ __forceinline__ void bring(const CUtensorMap *rows, const CUtensorMap *queries, uint32_t first_query,
		uint32_t n_tiles, RowOfTile row_of_tile) const
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
			copy_box(rows_of(stage), rows, chunk * kChunkBytes, row_of_tile(tile), full(stage));
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

/// Candidates that a warp has found and not yet passed on. All of it is the warp's own.
template <Form form>
struct WarpStaging
{
	const FilterArgs &args;
	Staged *staged;
	uint32_t *n_staged;

	__device__ __forceinline__ void add(const Staged &candidate)
	{
		const uint32_t at = atomicAdd(n_staged, 1u);

		if (at < kWarpStaged)
			staged[at] = candidate;
		else
			pass_on<form>(args, candidate);
	}

	/// By all lanes.
	__device__ __forceinline__ void flush(uint32_t at_least)
	{
		__syncwarp();

		const uint32_t n = *n_staged;

		if (n <= at_least)
			return;
		for (uint32_t i = threadIdx.x % 32; i < min(n, kWarpStaged); i += 32)
			pass_on<form>(args, staged[i]);
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			*n_staged = 0;
		__syncwarp();
	}
};

/// Grid and tiles as filter_kernel (filter_mma.cuh), candidates and minima only; block Shape::kThreads; shared
/// group_fixed_bytes and the stages, Shape::kStageBytes each. rows: [n_rows, pitch_bytes], boxes of kChunkBytes x
/// kFilterTileRows; queries: [n_queries, operand_bytes], boxes of kChunkBytes x Shape::kQueries; both with 128B
/// swizzle. kByteCosine: see start_sums.
template <class Shape, FilterPass kPass, bool kByteCosine>
__global__ void __launch_bounds__(Shape::kThreads, 1)
filter_group_kernel(const FilterArgs args, const __grid_constant__ CUtensorMap rows,
	const __grid_constant__ CUtensorMap queries, uint32_t n_query_tiles, uint32_t tiles_per_stripe, uint32_t n_stages)
{
#if VECTORGPU_HAS_WGMMA
	constexpr bool kMinima = kPass == FilterPass::kMinima;
	constexpr int NT = Shape::NT;
	using Sum = typename Accumulator<Shape::form>::Type;
	extern __shared__ unsigned char shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp =
		__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0); // lets the compiler see that all lanes have the same number
	const uint32_t first_query = blockIdx.x % n_query_tiles * Shape::kQueries;
	const uint32_t first_tile = blockIdx.x / n_query_tiles * tiles_per_stripe;
	const uint32_t n_tiles = min(tiles_per_stripe, args.n_tiles - min(args.n_tiles, first_tile));
	const GroupPipeline<Shape> pipeline(shared, args.rows.pitch_bytes, n_stages);
	const uint32_t n_chunks = pipeline.n_chunks;

	let_next_start();
	if (n_tiles == 0)
		return;
	if (threadIdx.x == 0)
		pipeline.init();
	if (threadIdx.x < Shape::kWarps)
		*WarpMemory<Shape>(pipeline.behind, threadIdx.x).count = 0;
	__syncthreads();

	auto tile_row = [&](uint32_t tile) { return (args.first_tile + tile * args.tile_stride) * kFilterTileRows; };

	if (warp >= Shape::kWarps)
	{
		give_registers<24>();
		if (warp == Shape::kWarps && lane == 0)
			pipeline.bring(&rows, &queries, first_query, n_tiles, [&](uint32_t i) { return tile_row(first_tile + i); });
		else
			wait_for_stream();
		return;
	}
	take_registers<240>();

	const uint32_t group = warp / 4;
	const uint32_t query_base = first_query + (Shape::kSplit ? group * NT * 8 : 0) + lane % 4 * 2;
	const bool is_cosine = args.metric == Metric::kCosine;
	auto row_of = [&](uint32_t tile, int m, int half)
	{ return tile_row(tile) + m * 64 + warp % 4 * 16 + half * 8 + lane / 4; };
	auto query_of = [&](int i) { return query_base + i / 2 * 8 + i % 2; };
	const WarpMemory<Shape> own(pipeline.behind, warp);
	WarpStaging<Shape::form> staging{args, own.staged, own.count};
	ValueRing ring(own.values, warp, lane);
	uint32_t thresholds[2 * NT];
	constexpr uint32_t kStep = Shape::kSplit ? 1 : Shape::kGroups;
	const uint32_t first_mine = first_tile + (Shape::kSplit ? 0 : group);
	auto ask_values = [&](uint32_t tile)
	{
		const uint32_t row = tile_row(tile) + ring.row();

		ring.ask(args.row_values + row, tile < first_tile + n_tiles && row < args.rows.n_rows);
	};

#pragma unroll
	for (uint32_t i = 0; i + 1 < kValueSlots; i++)
		ask_values(first_mine + i * kStep);
	wait_for_stream();
#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
		thresholds[i] = kept_threshold<Shape::form>(
			!kMinima && query_of(i) < args.n_queries ? args.thresholds[query_of(i)] : -__int_as_float(0x7F800000),
			is_cosine);
	if constexpr (!Shape::kStreamed)
		barrier_wait(pipeline.queries_here, 0);

	const uint32_t my_queries = Shape::kSplit ? group * NT * 8 * kChunkBytes : 0;
	Sum sums[2][NT][4];

	for (uint32_t tile = first_mine; tile < first_tile + n_tiles; tile += kStep)
	{
		const uint32_t first_step = (tile - first_tile) * n_chunks;
		uint32_t stage = first_step % n_stages;
		uint32_t round = first_step / n_stages;
		uint32_t last_stage = 0;
		float values[4];

		ring.take(values);
		ask_values(tile + (kValueSlots - 1) * kStep);
#pragma unroll
		for (int m = 0; m < 2; m++)
		{
			const float of[2] = {values[2 * m], values[2 * m + 1]};

			start_sums<Shape::form, kMinima, kByteCosine>(sums[m], thresholds, of, is_cosine);
		}
		hold_sums(sums[0]);
		hold_sums(sums[1]);
		for (uint32_t chunk = 0; chunk < n_chunks; chunk++)
		{
			const uint64_t a = operand_descriptor(pipeline.rows_of(stage));
			const uint64_t b = operand_descriptor(pipeline.queries_of(stage, chunk) + my_queries);

			// In turns: the other group may not have used this stage yet, if its copy came late, and a barrier cannot
			// tell that phase from the one that is waited for here.
			if constexpr (!Shape::kSplit)
				if (round > 0)
					barrier_wait(pipeline.empty(stage), (round - 1) & 1);
			barrier_wait(pipeline.full(stage), round & 1);
			products_begin();
#pragma unroll
			for (uint32_t k = 0; k < kChunkBytes; k += 32)
			{
				GroupProduct<Shape::form, NT>::add(sums[0], a + k / 16, b + k / 16);
				GroupProduct<Shape::form, NT>::add(sums[1], a + (64 * kChunkBytes + k) / 16, b + k / 16);
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

		if constexpr (kMinima)
		{
			float smallest[2 * NT];

#pragma unroll
			for (int i = 0; i < 2 * NT; i++)
				smallest[i] = __int_as_float(0x7F800000);
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				const uint32_t row = row_of(tile, i / 2, i % 2);

				take_smallest<NT>(smallest, sums[i / 2], i % 2, values[i],
					row < args.rows.n_rows && !row_is_dead(args.rows, row), is_cosine);
			}
#pragma unroll
			for (int i = 0; i < 2 * NT; i++)
			{
				const float least = smallest_of_rows(smallest[i]);

				if (lane < 4 && query_of(i) < args.n_queries)
					args.minima[static_cast<size_t>(query_of(i)) * args.minima_stride + tile * kFilterGroupsPerTile +
						warp % 4] = least;
			}
		}
		else
		{
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				const uint32_t row = row_of(tile, i / 2, i % 2);

				find_passed<NT>(sums[i / 2], i % 2, values[i], row < args.rows.n_rows,
					[&](int hit, Sum sum)
					{
						if (query_of(hit) < args.n_queries)
							staging.add({row, query_of(hit), sum_bits(sum)});
					});
			}
			staging.flush(kFlushWarpStaged);
		}
	}
	if constexpr (!kMinima)
		staging.flush(0);
#endif
}

} // namespace vectorgpu::kernels
