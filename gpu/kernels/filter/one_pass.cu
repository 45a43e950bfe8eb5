// See one_pass.hpp. A block stays on a processor, as filter_group_kernel's (filter_wgmma.cuh) do, whose pipeline it
// shares: one warp brings rows, two groups of four warps take turns with the tiles. Rows are on their way from the
// start. Of the first tile of each group the products are made before there is a threshold; the smallest estimates of
// its rows are the sample. They stay in registers until the thresholds are there, and are judged then, so that no row
// is read or multiplied twice. In the end a block takes each query, once all of them have passed on their candidates,
// and writes its answer to the host.
//
// Blocks wait for each other up to four times, by counters in memory: for the queries, unless they are among the
// arguments, for the sample, of more than kAloneQueries queries for the thresholds, which then are found by a block
// each, and for the candidates. Where they cannot all be on the device at a time (another process has some of its
// processors), those that wait give up.
#include "kernels/filter/one_pass.hpp"

#include <atomic>
#include <cstring>

#include "kernels/filter/filter_bound.cuh"
#include "kernels/filter/filter_group_launch.cuh"
#include "kernels/canonical/finish.cuh"
#include "kernels/filter/one_pass_blocks.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kMostMinimaEach = 34; // of a lane
constexpr uint32_t kConsumers = 256;     // threads that multiply
constexpr uint32_t kExactDims =
	256; // 256 · 255² < 2²⁴: estimates are halves of whole numbers up to 2²³, no sum of a score is rounded
constexpr uint32_t kMostHeld = 4;      // tiles of a group whose sums wait for thresholds
constexpr uint32_t kAloneQueries = 16; // so many thresholds every block finds by itself

/// Writes to memory before it, by whomever this thread has waited for, are seen by bulk copies after it.
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

__device__ __forceinline__ float
infinity_f()
{
	return __int_as_float(0x7F800000);
}

/// A query for all blocks, by the threads that multiply. bytes [n_operand_bytes], given: on the host.
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

/// The queries among the arguments become the block's operand, as a copy of them would lie there, by the threads that
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
	show_to_copies(); // and to products
	Consumers::sync();
}

/// One thread: brings the rows of the block's tiles, and the queries, if they are wanted, as soon as they are there.
/// Stages as GroupPipeline::bring.
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
			// As soon as the queries are there; rows go on coming until then, while there is room.
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

/// A number that at least k of what a warp's lanes hold are not above, the k-th smallest or little more; infinity where
/// fewer than k are below that. All lanes get it.
__device__ inline float
warp_kth_or_more(const float (&values)[kMostMinimaEach], uint32_t k)
{
	constexpr int kMostHalvings = 20;
	float low = infinity_f();
	float high = -infinity_f();
	auto count_to = [&](float most)
	{
		uint32_t n[4] = {}; // additions that do not wait for each other

#pragma unroll
		for (uint32_t j = 0; j < kMostMinimaEach; j++)
			n[j % 4] += values[j] <= most;
		return __reduce_add_sync(0xFFFFFFFFu, (n[0] + n[1]) + (n[2] + n[3]));
	};

#pragma unroll
	for (const float v : values)
	{
		low = fminf(low, v);
		high = fmaxf(high, v < infinity_f() ? v : -infinity_f());
	}
	low = order_to_float(__reduce_min_sync(0xFFFFFFFFu, float_to_order(low)));
	high = order_to_float(__reduce_max_sync(0xFFFFFFFFu, float_to_order(high)));
	if (count_to(high) < k)
		return infinity_f();
	for (int halving = 0; halving < kMostHalvings; halving++)
	{
		const float middle = 0.5f * low + 0.5f * high;
		const uint32_t n = count_to(middle);

		if (n < k)
			low = middle;
		else
			high = middle;
		if (n >= k && n <= k + k / 8)
			break;
	}
	return high;
}

/// A query's threshold from its sample, by a warp. Reads what other blocks have written.
__device__ inline float
sampled_threshold(const OnePassArgs &args, uint32_t query, uint32_t k, double norm, uint32_t n_minima, uint32_t lane)
{
	const float *minima = args.minima + static_cast<size_t>(query) * n_minima;
	float mine[kMostMinimaEach];

#pragma unroll
	for (uint32_t j = 0; j < kMostMinimaEach; j++)
		mine[j] = j * 32 + lane < n_minima ? __ldcg(minima + j * 32 + lane) : infinity_f();

	const double cut =
		fmin(cut_for_estimate(args.bound, norm, warp_kth_or_more(mine, k)), largest_estimate(args.bound, norm));

	return __double2float_ru(cut);
}

/// A candidate's estimate, if it is alive, goes to memory. row: its number.
__device__ __forceinline__ void
pass_on_part(const OnePassArgs &args, const Staged &candidate, const float *thresholds)
{
	const uint32_t part = part_of(args.parts, candidate.row);
	const uint32_t row = candidate.row - args.parts.first_row[part];

	if (row_is_dead(args.parts.rows[part], row))
		return;
	append(args.candidates.counts, args.candidates.rows, args.candidates.estimates, args.candidates.capacity,
		candidate.query, candidate.row,
		estimate_of<Form::kByte>(
			static_cast<int>(candidate.sum), thresholds[candidate.query], __ldg(args.parts.values[part] + row), false));
}

/// When finish_few got where.
struct FinishStamps
{
	const OnePassStamps &stamps;

	__device__ __forceinline__ void at(OnePassStamps::What what) const
	{
		if (threadIdx.x == 0)
			stamp(stamps, what);
	}
	__device__ __forceinline__ void cut() const { at(OnePassStamps::kCut); }
	__device__ __forceinline__ void scored() const { at(OnePassStamps::kScored); }
	__device__ __forceinline__ void sorted() const { at(OnePassStamps::kSorted); }
};

/// The end of a query, by the threads that multiply, once all blocks have passed on their candidates: finish.cuh.
/// operand: the block's, as copies leave it. is_whole: all candidates are there; else the query has no answer.
/// is_exact: estimates are scores but for what the query has to itself.
template <class Shape>
__device__ __forceinline__ void
finish_query(const OnePassArgs &args, bool is_whole, bool is_exact, bool ranked, uint32_t query, uint32_t k,
	double norm, float threshold, const unsigned char *operand, FinishScratch *scratch)
{
	const FinishStamps stamps{args.stamps};
	FewCandidates candidates;
	FewFound found;
	auto place_of = [&](uint32_t number, const Rows **rows)
	{
		const uint32_t part = part_of(args.parts, number);

		*rows = args.parts.rows + part;
		return number - args.parts.first_row[part];
	};
	auto query_at = [&](uint32_t e)
	{
		const uint32_t unit = e % kChunkBytes / 16 ^ query % 8;

		return static_cast<float>(
			operand[(e / kChunkBytes * Shape::kQueries + query) * kChunkBytes + unit * 16 + e % 16]);
	};
	auto key_of = [&](double score, const Rows &rows, uint32_t row)
	{ return key_after(score, Queries{}, query, rows.row_ids, row); };
	auto finish = [&]<Metric metric>()
	{
		if (is_exact)
		{
			const double squares =
				metric == Metric::kL2 ? rint(norm * norm) : 0.0; // norm is the root of a whole number
			auto score_of = [&](float estimate)
			{ return metric == Metric::kL2 ? squares + 2.0 * estimate : estimate + 0.0; };

			return finish_exact<Consumers>(candidates, place_of, score_of, ranked, scratch, &found, stamps);
		}
		return finish_few<metric, ByteForm, Consumers>(
			args.bound, candidates, args.dim_pad, 0.0f, place_of, query_at, key_of, scratch, &found, stamps);
	};

	candidates.k = k;
	candidates.count = __ldcg(args.candidates.counts + query);
	candidates.rows = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	candidates.estimates = args.candidates.estimates + static_cast<size_t>(query) * args.candidates.capacity;
	candidates.threshold = threshold;
	candidates.norm = norm;

	const bool few = is_whole && candidates.count <= min(args.candidates.capacity, kFewCandidates) &&
		(args.metric == Metric::kL2 ? finish.template operator()<Metric::kL2>()
									: finish.template operator()<Metric::kInnerProduct>());

	give_answer<Consumers>(
		args.answers, query, scratch->entries, few ? found.n_found : 0, few ? found.n_kept : 0, !few);
	stamps.at(OnePassStamps::kAnswered);
}

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
	constexpr bool kManySums = NT >= 4; // a block's registers are then shared out
	constexpr int kHeld = NT == 1 ? kMostHeld : 1;
	extern __shared__ unsigned char shared[];
	__shared__ float thresholds_of[Shape::kQueries];
	__shared__ bool all_passed_on;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp =
		__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0); // the compiler sees that it is the same in all lanes
	__shared__ uint32_t tile_list[BlockTiles::kPlaces];
	BlockTiles tiles(args, n_tiles_all, plan, tile_list);
	const GroupPipeline<Shape> pipeline(shared, args.parts.rows[0].pitch_bytes, n_stages);
	uint32_t *counters = args.counters.counters;
	const uint32_t n_operand_bytes = pipeline.n_chunks * kChunkBytes;
	const bool is_given =
		OnePassInline::kQueries >= args.n_queries && args.n_queries * n_operand_bytes <= OnePassInline::kBytes;

	static_assert(!Shape::kSplit && Shape::kWarps * 32 == kConsumers);
	auto stamp_one = [&](OnePassStamps::What what) // of the threads that multiply
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
	// Of the group's h-th tile, if there is one.
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
	// Sums that begin at zero, of the h-th tile of the group, if there is one.
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
	// While others are not so far yet.
#pragma unroll
	for (int h = 1; h < kHeld; h++)
		multiply_ahead(h, held[h], held_values[h]);

	// Thresholds.
	const uint32_t all_sampled = args.counters.before[1] + gridDim.x;
	auto k_of = [&](uint32_t query) { return is_given ? given.queries[query].k : __ldcg(args.k + query); };
	auto norm_of = [&](uint32_t query) { return is_given ? given.queries[query].norm : __ldcg(args.norms + query); };

	if (args.n_queries <= kAloneQueries)
	{
		// One thread looks: all warps of all blocks would hold up those that count.
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

	// Candidates wait in shared memory, each warp's by themselves.
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
			// What the sums would have begun at, added behind: whole numbers do not mind.
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

	// The end of the queries, by a block each.
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

constexpr size_t kStaticShared = 1024; // of the kernel, or more

/// Stages that fit beside what the shape needs.
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

/// Calls use(shape) with the shape for so many queries, if it fits.
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
			// Tiles are shared out of what is certainly left when a block is half done; few are not worth it.
			plan.n_own = plan.tiles_per_block;
			if (n_queries >= tuning.least_queries_to_share &&
				plan.tiles_per_block >=
					std::max(tuning.least_tiles_to_share, 4 * kMostHeld)) // what both groups hold is their own
			{
				const uint32_t n_groups = plan.tiles_per_block / 2 / tuning.shared_tiles;

				plan.n_own -= n_groups * tuning.shared_tiles;
				// Each block takes one in vain, but for a last one that is short.
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
