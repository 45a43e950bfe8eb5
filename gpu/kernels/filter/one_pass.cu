// See one_pass.hpp. A block stays on a processor, as in filter_group_kernel (filter_wgmma.cuh), whose pipeline it
// shares: one warp brings rows, two groups of four warps take turns with the tiles. Rows are requested from the start.
// The first tile of each group is multiplied before there is a threshold; the smallest estimates of its rows are the
// sample. The sums stay in registers until the thresholds are there, and are judged then, so no row is read or
// multiplied twice. In the end, once all blocks have passed on their candidates, a block takes each query and writes
// its answer to the host.
//
// Blocks wait for each other up to four times, by counters in memory: for the queries, unless they are among the
// arguments; for the sample; for the thresholds, if there are more than kAloneQueries queries (then a block each finds
// them); and for the candidates. If not all blocks can be on the device at a time (another process has some of its
// processors), those that wait give up.
#include "kernels/filter/one_pass.hpp"

#include <atomic>
#include <cstring>

#include "kernels/filter/one_pass_finish.cuh"
#include "kernels/filter/one_pass_pipeline.cuh"
#include "kernels/filter/one_pass_sample.cuh"

namespace vectorgpu::kernels
{
namespace
{

// 256 · 255² < 2²⁴: estimates are halves of whole numbers up to 2²³, no sum of a score is rounded.
constexpr uint32_t kExactDims = 256;
constexpr uint32_t kMostHeld = 4;      // tiles of a group whose sums wait for thresholds
constexpr uint32_t kAloneQueries = 16; // up to this many queries, each block computes all thresholds redundantly

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
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp =
		__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0); // lets the compiler see that all lanes have the same number
	__shared__ uint32_t tile_list[BlockTiles::kPlaces];
	BlockTiles tiles(args, n_tiles_all, plan, tile_list);
	const GroupPipeline<Shape> pipeline(shared, args.parts.rows[0].pitch_bytes, n_stages);
	uint32_t *counters = args.counters.counters;
	const uint32_t n_operand_bytes = pipeline.n_chunks * kChunkBytes;
	const bool is_given =
		OnePassInline::kQueries >= args.n_queries && args.n_queries * n_operand_bytes <= OnePassInline::kBytes;

	static_assert(!Shape::kSplit && Shape::kWarps * 32 == kConsumers);
	auto stamp_one = [&](OnePassStamps::What what) // by the threads that multiply
	{
		if (threadIdx.x == 0)
			stamp(args.stamps, what);
	};

	let_next_start();
	stamp_one(OnePassStamps::kBegin);
	if (threadIdx.x == 0)
		pipeline.init();
	if (threadIdx.x < Shape::kWarps)
		*WarpMemory<Shape>(pipeline.behind, threadIdx.x).count = 0;
	__syncthreads();

	if (warp >= Shape::kWarps)
	{
		if constexpr (kManySums)
			give_registers<40>();
		if (warp == Shape::kWarps && lane == 0)
			bring_parts<Shape>(pipeline, args, maps, plan, !is_given, tiles);
		return;
	}
	if constexpr (kManySums)
		take_registers<232>();

	const uint32_t group = warp / 4;
	const uint32_t n_minima = gridDim.x * 8; // 32 rows each: a warp's of a tile
	const uint32_t row_in_tile = warp % 4 * 16 + lane / 4;
	auto row_at = [&](int i) { return row_in_tile + i / 2 * 64 + i % 2 * 8; };
	auto query_of = [&](int i) { return lane % 4 * 2 + i / 2 * 8 + i % 2; };
	const WarpMemory<Shape> own(pipeline.behind, warp);
	ValueRing ring(own.values, warp, lane);
	// For the group's h-th tile, if it exists.
	auto ask_values = [&](uint32_t h)
	{
		const uint32_t tile = tiles[group + 2 * h];
		const bool is_tile = tile != BlockTiles::kNone;
		const TilePlace place = place_of(args.parts, is_tile ? tile : 0);
		const uint32_t row = place.row + ring.row();

		ring.ask(args.parts.values[place.part] + row, is_tile && row < args.parts.rows[place.part].n_rows);
	};

#pragma unroll
	for (uint32_t h = 0; h + 1 < kValueSlots; h++)
		ask_values(h);
	if (is_given)
	{
		place_operand<Shape>(pipeline, shared + (pipeline.operand - shared_address(shared)), given, args.n_queries);
		for (uint32_t query = blockIdx.x; threadIdx.x == 0 && query < args.n_queries; query += gridDim.x)
			args.candidates.counts[query] = 0;
	}
	else
		for (uint32_t query = blockIdx.x; query < args.n_queries; query += gridDim.x)
		{
			take_query(args, query, args.host_bytes + static_cast<size_t>(query) * n_operand_bytes,
				args.host_queries[query], n_operand_bytes);
			show_to_copies();
			Consumers::sync();
			if (threadIdx.x == 0)
				count_up(counters);
		}

	int held[kHeld][2][NT][4];
	float held_values[kHeld][4];
	// Sums that begin at zero, of the group's h-th tile, if it exists.
	auto multiply_ahead = [&](uint32_t h, int(&sums)[2][NT][4], float(&values)[4])
	{
		const uint32_t at = group + 2 * h;

		if (at >= tiles.n_own())
			return;
#pragma unroll
		for (int m = 0; m < 2; m++)
#pragma unroll
			for (int i = 0; i < NT * 4; i++)
				sums[m][i / 4][i % 4] = 0;
		ring.take(values);
		ask_values(h + kValueSlots - 1);
		multiply_tile<Shape>(pipeline, at, lane, sums);
	};

	// The sample.
	if (!is_given)
		barrier_wait(pipeline.queries_here, 0);
	stamp_one(OnePassStamps::kQueriesHere);
	multiply_ahead(0, held[0], held_values[0]);
	stamp_one(OnePassStamps::kFirstProduct);
	{
		float smallest[2 * NT];

#pragma unroll
		for (int i = 0; i < 2 * NT; i++)
			smallest[i] = infinity_f();
		if (group < tiles.n_own())
		{
			const TilePlace place = place_of(args.parts, tiles[group]);
			const Rows &rows = args.parts.rows[place.part];

#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				const uint32_t row = place.row + row_at(i);

				take_smallest<NT>(smallest, held[0][i / 2], i % 2, held_values[0][i],
					row < rows.n_rows && !row_is_dead(rows, row), false);
			}
		}
#pragma unroll
		for (int i = 0; i < 2 * NT; i++)
		{
			const float least = smallest_of_rows(smallest[i]);

			if (lane < 4 && query_of(i) < args.n_queries)
				args.minima[static_cast<size_t>(query_of(i)) * n_minima + blockIdx.x * 8 + group * 4 + warp % 4] =
					least;
		}
	}
	Consumers::sync();
	if (threadIdx.x == 0)
		count_up(counters + OnePassCounters::kSampled * OnePassCounters::kStride);
	stamp_one(OnePassStamps::kSampled);
	// Meanwhile other blocks reach this point.
#pragma unroll
	for (int h = 1; h < kHeld; h++)
		multiply_ahead(h, held[h], held_values[h]);

	// Thresholds.
	const uint32_t all_sampled = args.counters.before[1] + gridDim.x;
	auto k_of = [&](uint32_t query) { return is_given ? given.queries[query].k : __ldcg(args.k + query); };
	auto norm_of = [&](uint32_t query) { return is_given ? given.queries[query].norm : __ldcg(args.norms + query); };

	if (args.n_queries <= kAloneQueries)
	{
		// One thread polls: all warps of all blocks would delay those that count.
		if (threadIdx.x == 0)
			wait_for_count(args.counters, OnePassCounters::kSampled, all_sampled);
		stamp_one(OnePassStamps::kAllSampled);
		Consumers::sync();
		for (uint32_t query = warp; query < args.n_queries; query += Shape::kWarps)
		{
			const float threshold = sampled_threshold(args, query, k_of(query), norm_of(query), n_minima, lane);

			if (lane == 0)
				thresholds_of[query] = threshold;
		}
	}
	else
	{
		for (uint32_t query = blockIdx.x + warp * gridDim.x; query < args.n_queries; query += Shape::kWarps * gridDim.x)
		{
			if (lane == 0)
				wait_for_count(args.counters, OnePassCounters::kSampled, all_sampled);
			stamp_one(OnePassStamps::kAllSampled);
			__syncwarp();

			const float threshold = sampled_threshold(args, query, k_of(query), norm_of(query), n_minima, lane);

			if (lane == 0)
			{
				args.thresholds[query] = threshold;
				count_up(counters + OnePassCounters::kThresholds * OnePassCounters::kStride);
			}
		}
		if (threadIdx.x == 0)
			wait_for_count(args.counters, OnePassCounters::kThresholds, args.counters.before[2] + args.n_queries);
		Consumers::sync();
		if (threadIdx.x < args.n_queries)
			thresholds_of[threadIdx.x] = __ldcg(args.thresholds + threadIdx.x);
	}
	Consumers::sync();
	stamp_one(OnePassStamps::kThresholds);

	uint32_t starts[2 * NT];

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
		starts[i] = kept_threshold<Form::kByte>(
			query_of(i) < args.n_queries ? thresholds_of[query_of(i)] : -infinity_f(), false);

	// Candidates wait in shared memory, each warp's separately.
	Staged *staged = own.staged;
	uint32_t *n_staged = own.count;
	auto flush = [&](uint32_t at_least)
	{
		__syncwarp();

		const uint32_t n = *n_staged;

		if (n <= at_least)
			return;
		for (uint32_t i = lane; i < min(n, kWarpStaged); i += 32)
			pass_on_part(args, staged[i], thresholds_of);
		__syncwarp();
		if (lane == 0)
			*n_staged = 0;
		__syncwarp();
	};
	auto judge = [&](uint32_t tile, const int(&sums)[2][NT][4], const float(&values)[4])
	{
		const TilePlace place = place_of(args.parts, tile);
		const uint32_t n_rows = args.parts.rows[place.part].n_rows;

#pragma unroll
		for (int i = 0; i < 4; i++)
			find_passed<NT>(sums[i / 2], i % 2, values[i], place.row + row_at(i) < n_rows,
				[&](int hit, int sum)
				{
					if (query_of(hit) >= args.n_queries)
						return;

					const Staged found = {tile * kFilterTileRows + row_at(i), query_of(hit), sum_bits(sum)};
					const uint32_t at = atomicAdd(n_staged, 1u);

					if (at < kWarpStaged)
						staged[at] = found;
					else
						pass_on_part(args, found, thresholds_of);
				});
		flush(kFlushWarpStaged);
	};

	auto start = [&](int(&sums)[2][NT][4], const float(&values)[4])
	{
#pragma unroll
		for (int m = 0; m < 2; m++)
		{
			const float of[2] = {values[2 * m], values[2 * m + 1]};

			start_sums<Form::kByte, false, false>(sums[m], starts, of, false);
		}
	};
	int sums[2][NT][4];

#pragma unroll
	for (int h = 0; h < kHeld; h++)
		if (group + 2 * h < tiles.n_own())
		{
			// Add the value at which the sums would have begun: exact in whole numbers.
			start(sums, held_values[h]);
#pragma unroll
			for (int m = 0; m < 2; m++)
#pragma unroll
				for (int i = 0; i < NT * 4; i++)
					sums[m][i / 4][i % 4] += held[h][m][i / 4][i % 4];
			judge(tiles[group + 2 * h], sums, held_values[h]);
		}
	for (uint32_t at = group + 2 * kHeld, tile = tiles[at]; tile != BlockTiles::kNone; at += 2, tile = tiles[at])
	{
		float values[4];

		ring.take(values);
		ask_values(at / 2 + kValueSlots - 1);
		start(sums, values);
		multiply_tile<Shape>(pipeline, at, lane, sums);
		judge(tile, sums, values);
	}
	stamp_one(OnePassStamps::kRowsDone);
	flush(0);

	// A block finishes each query.
	Consumers::sync();
	if (threadIdx.x == 0)
		count_up(counters + OnePassCounters::kPassedOn * OnePassCounters::kStride);
	stamp_one(OnePassStamps::kPassedOn);

	FinishScratch *scratch = reinterpret_cast<FinishScratch *>(
		shared + (pipeline.start - shared_address(shared))); // the stages are not needed any more

	static_assert(sizeof(FinishScratch) <= kGroupStageBytes);
	for (uint32_t query = blockIdx.x; query < args.n_queries; query += gridDim.x)
	{
		if (threadIdx.x == 0)
			all_passed_on =
				wait_for_count(args.counters, OnePassCounters::kPassedOn, args.counters.before[3] + gridDim.x);
		stamp_one(OnePassStamps::kAllPassedOn);
		Consumers::sync();
		finish_query<Shape>(args, all_passed_on, plan.tuning.exact_scores && args.dim_pad <= kExactDims,
			plan.tuning.ranked, query, k_of(query), norm_of(query), thresholds_of[query],
			shared + (pipeline.operand - shared_address(shared)), scratch);
		Consumers::sync();
	}
#endif
}

std::atomic<uint32_t> processors{0};

constexpr size_t kStaticShared = 1024; // the kernel's static shared memory, or more

/// Stages that fit in shared memory with the shape.
template <class Shape>
uint32_t
one_pass_stages(uint32_t dim_pad)
{
	const size_t fixed = group_fixed_bytes<Shape>(dim_pad) + kStaticShared;
	const size_t most = filter_most_shared();

	return most < fixed ? 0
						: static_cast<uint32_t>(std::min<size_t>((most - fixed) / kGroupStageBytes, kMostGroupStages));
}

template <class Shape>
cudaError_t
launch_shape(const OnePassArgs &args, const OnePassPlan &plan, cudaStream_t stream)
{
	const uint32_t n_stages = one_pass_stages<Shape>(args.dim_pad);
	const size_t shared = group_fixed_bytes<Shape>(args.dim_pad) + n_stages * kGroupStageBytes;
	const size_t pitch = operand_bytes(Form::kByte, args.dim_pad);
	uint32_t n_tiles = 0;
	OnePassMaps maps;
	OnePassInline given;

	for (uint32_t i = 0; i < args.parts.n; i++)
	{
		const Rows &rows = args.parts.rows[i];

		if (const cudaError_t error =
				describe_rows(rows.vectors, rows.n_rows, rows.pitch_bytes, kChunkBytes, kFilterTileRows, &maps.rows[i]);
			error != cudaSuccess)
			return error;
		n_tiles = args.parts.first_row[i] / kFilterTileRows + (rows.n_rows + kFilterTileRows - 1) / kFilterTileRows;
	}
	if (const cudaError_t error = describe_rows(args.operand, args.n_queries, operand_bytes(Form::kByte, args.dim_pad),
			kChunkBytes, Shape::kQueries, &maps.queries);
		error != cudaSuccess)
		return error;
	if (OnePassInline::holds(args.n_queries, pitch))
	{
		std::memcpy(given.bytes, args.host_bytes, args.n_queries * pitch);
		std::copy_n(args.host_queries, args.n_queries, given.queries);
	}
	one_pass_kernel<Shape>
		<<<plan.n_blocks, Shape::kThreads, shared, stream>>>(args, maps, given, plan, n_tiles, n_stages);
	return cudaGetLastError();
}

/// Call use(shape) with the shape for this many queries, if it fits.
template <class Use>
void
with_shape(uint32_t n_queries, uint32_t dim_pad, Use use)
{
	auto try_shape = [&]<class Shape>(Shape shape)
	{
		const uint32_t n_stages = one_pass_stages<Shape>(dim_pad);

		if (n_stages >= kLeastGroupStages &&
			operand_bytes(Form::kByte, dim_pad) / kChunkBytes < n_stages) // see with_group_shape
			use(shape);
	};

	if (n_queries <= 8)
		try_shape(GroupShape<Form::kByte, 1, false>{});
	else if (n_queries <= 16)
		try_shape(GroupShape<Form::kByte, 2, false>{});
	else if (n_queries <= 32)
		try_shape(GroupShape<Form::kByte, 4, false>{});
	else if (n_queries <= kOnePassMostQueries)
		try_shape(GroupShape<Form::kByte, 8, false>{});
}

} // namespace

OnePassPlan
plan_one_pass(uint32_t n_queries, uint32_t dim_pad, uint32_t n_tiles, const OnePassTuning &tuning)
{
	const uint32_t slots = processors.load(std::memory_order_relaxed);
	OnePassPlan plan;

	if (slots == 0 || !filter_groups_allowed() || slots * 8 > kMostMinimaEach * 32 || n_queries == 0 || n_tiles < slots)
		return plan;
	with_shape(n_queries, dim_pad,
		[&](auto)
		{
			plan.tiles_per_block = (n_tiles + slots - 1) / slots;
			plan.n_blocks = (n_tiles + plan.tiles_per_block - 1) / plan.tiles_per_block;
			// Blocks share tiles that are certainly left when a block is half done; sharing few is not worth it.
			plan.n_own = plan.tiles_per_block;
			if (n_queries >= tuning.least_queries_to_share &&
				plan.tiles_per_block >= std::max(tuning.least_tiles_to_share,
											4 * kMostHeld)) // tiles that both groups hold are the block's own
			{
				const uint32_t n_groups = plan.tiles_per_block / 2 / tuning.shared_tiles;

				plan.n_own -= n_groups * tuning.shared_tiles;
				// Each block takes one group in vain, except a last block that is short.
				plan.n_shared = (n_groups + 1) * plan.n_blocks -
					(n_tiles - (plan.n_blocks - 1) * plan.tiles_per_block < plan.n_own ? 1 : 0);
			}
			if (tuning.kept_bytes > 0)
				plan.kept_of_16 = static_cast<uint32_t>(std::min<uint64_t>(16,
					tuning.kept_bytes * 16 /
						(uint64_t{n_tiles} * kFilterTileRows * operand_bytes(Form::kByte, dim_pad))));
			plan.tuning = tuning;
			plan.n_minima = plan.n_blocks * 8;
			plan.n_sampled = plan.tiles_per_block == 1
				? plan.n_blocks
				: 2 * plan.n_blocks - (n_tiles % plan.tiles_per_block == 1 ? 1 : 0);
		});
	return plan;
}

uint32_t
one_pass_taken_over(uint32_t n_queries, uint32_t dim_pad)
{
	return OnePassInline::holds(n_queries, operand_bytes(Form::kByte, dim_pad)) ? 0 : n_queries;
}

uint32_t
one_pass_thresholds(uint32_t n_queries)
{
	return n_queries <= kAloneQueries ? 0 : n_queries;
}

cudaError_t
launch_one_pass(const OnePassArgs &args, const OnePassPlan &plan, cudaStream_t stream)
{
	cudaError_t error = cudaErrorNotSupported;

	with_shape(
		args.n_queries, args.dim_pad, [&](auto shape) { error = launch_shape<decltype(shape)>(args, plan, stream); });
	return error;
}

cudaError_t
prepare_one_pass(uint32_t n_processors)
{
	const int most = static_cast<int>(filter_most_shared() - kStaticShared);
	cudaError_t error = cudaSuccess;
	auto prepare = [&](auto kernel)
	{
		if (error == cudaSuccess)
			error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
	};

	if (n_processors > 0)
	{
		prepare(one_pass_kernel<GroupShape<Form::kByte, 1, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 2, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 4, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 8, false>>);
	}
	processors.store(error == cudaSuccess ? n_processors : 0u, std::memory_order_relaxed);
	return error;
}

} // namespace vectorgpu::kernels
