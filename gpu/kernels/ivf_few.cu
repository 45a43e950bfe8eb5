// Inverted lists of bytes for few queries in two launches: scores of the centroids; then blocks that choose a query's lists by themselves,
// share out their rows, and of which the last one to end joins what the others found and writes the answer. Scores are exact
// integers, as in ivf_bytes.cu, and so are their orders as floats: nothing is estimated. With more than kIvfMostByteDims dimensions
// that is so of L2 scores below 2^24 (all terms and sums of the canonical score are whole and not negative, so that it is exact up to there
// and not below 2^24 beyond); queries that find others have redo set.
#include "kernels/canonical.cuh"
#include "kernels/ivf_few.hpp"
#include "kernels/launch.cuh"
#include "kernels/merge.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kChunkRows = 32;  // a warp's rows at a time
constexpr uint32_t kAhead = 4;       // chunks of a warp between barriers
constexpr uint32_t kKept = 2048;     // rows a block holds; block_kth_of_few
constexpr uint32_t kMostRanked = 256; // lists that are put in order: the nearest first makes good thresholds, nothing else
constexpr uint32_t kNoOrder = 0xFFFFFFFFu;
constexpr double kMostExact = 0x1p24; // scores from here on may be rounded

static_assert(kKept == kFewEach * kThreads && kIvfFewCandidates == kKept);
static_assert(kWarps * kAhead * kChunkRows <= kKept / 2);

constexpr int kQ = 8; // queries, and rows, of a warp
constexpr int kR = 32 / kQ;
constexpr uint32_t kRankBlocks = 132; // at least kIvfFewMostQueries / kQ

/// Grid (any, ceil(n_queries / 8)), block 256: a warp scores 4 centroids at a time for 8 queries. Each block reads its queries over the bus: there
/// should not be many.
template <Metric metric>
__global__ void __launch_bounds__(kThreads)
rank_kernel(const __grid_constant__ IvfFewArgs args, const __grid_constant__ IvfFewInline travelling)
{
	extern __shared__ float4 shared_vectors[]; // [kQ, dim_pad]
	float *vectors = reinterpret_cast<float *>(shared_vectors);
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t first_query = blockIdx.y * kQ;
	const uint32_t n_here = min(static_cast<uint32_t>(kQ), args.n_queries - first_query);
	const uint32_t dim_pad = args.dim_pad;
	const uint32_t n_words = n_here * dim_pad / 4;
	const uint32_t first_word = first_query * dim_pad / 4;
	const uint32_t *host_words = reinterpret_cast<const uint32_t *>(args.host_bytes);
	const uint32_t query = lane % kQ;
	const auto word_at = [&](uint32_t i) { return host_words != nullptr ? host_words[first_word + i] : travelling.words[first_word + i]; };
	bool waited = false;

	let_next_start();
	for (uint32_t i = threadIdx.x; i < kQ * dim_pad / 4; i += kThreads)
	{
		const uint32_t word = i < n_words ? word_at(i) : 0;

		shared_vectors[i] = make_float4(static_cast<float>(word & 0xFF), static_cast<float>(word >> 8 & 0xFF),
			static_cast<float>(word >> 16 & 0xFF), static_cast<float>(word >> 24));
	}
	__syncthreads();
	for (uint32_t first_list = (blockIdx.x * kWarps + threadIdx.x / 32) * kR; first_list < args.n_lists; first_list += gridDim.x * kWarps * kR)
	{
		const float *rows[kR];
		float sums[32] = {};

#pragma unroll
		for (int r = 0; r < kR; r++)
			rows[r] = args.centroids + static_cast<size_t>(min(first_list + r, args.n_lists - 1)) * dim_pad;
#pragma unroll 4
		for (uint32_t e = lane; e < dim_pad; e += kLanes)
		{
			float y[kR];

#pragma unroll
			for (int r = 0; r < kR; r++)
				y[r] = __ldg(rows[r] + e);
#pragma unroll
			for (int q = 0; q < kQ; q++)
			{
				const float x = vectors[q * dim_pad + e];

#pragma unroll
				for (int r = 0; r < kR; r++)
					sums[r * kQ + q] = canonical_step<metric>(x, y[r], sums[r * kQ + q]);
			}
		}

		// The score is a float, but for cosine, which is none of these.
		const float score = static_cast<float>(canonical_score<metric>(reduce_pairs(sums, lane), 0.0f, 0.0f));
		const uint32_t list = first_list + lane / kQ;

		if (!waited)
			wait_for_stream(); // the search before may be at its end still
		waited = true;
		if (query < n_here && list < args.n_lists)
			args.orders[static_cast<size_t>(first_query + query) * args.n_lists + list] = float_to_order(score);
	}
	wait_for_stream();
	if (blockIdx.x > 0)
		return;
	for (uint32_t i = threadIdx.x; i < n_words; i += kThreads)
		reinterpret_cast<uint32_t *>(args.bytes)[first_word + i] = word_at(i);
	if (threadIdx.x < n_here)
	{
		const uint32_t number = first_query + threadIdx.x;

		args.queries[number] = host_words != nullptr ? args.host_queries[number] : travelling.queries[number];
		args.n_found[number] = 0;
		args.n_done[number] = 0;
	}
}

/// Shared memory of a block of scan_kernel, beside the orders of the lists.
struct Scratch
{
	uint32_t chosen_order[kIvfFewMostProbes];
	uint32_t chosen_list[kIvfFewMostProbes];
	uint32_t first[kIvfFewMostProbes];           // the place where a list begins
	uint32_t end[kIvfFewMostProbes];
	uint32_t chunk_first[kIvfFewMostProbes + 1]; // number of its first chunk
	uint32_t warp_sums[kWarps];
	uint32_t list_sums[2][kWarps];
	uint32_t n_below;
	uint32_t fill; // rows held
	uint32_t is_last;
	uint4 query[kIvfFewMostDims / 16];
	RadixScratch radix;
	FewScratch few;
};

/// chosen_*: the n_probes first lists by (order, list), ascending by list: all blocks of a query must have the same ones in the same places.
/// orders: shared [n_lists].
__device__ __forceinline__ void
choose_lists(const uint32_t *orders, uint32_t n_lists, uint32_t n_probes, Scratch *scratch)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t lower = (1u << lane) - 1;
	uint32_t n_mine = 0;
	uint32_t before = 0; // of the lists before: those below the k-th, those equal to it in the upper half

	if (threadIdx.x == 0)
		scratch->n_below = 0;

	const uint32_t kth = block_kth_smallest([&](uint32_t i) { return orders[i]; }, n_lists, n_probes, &scratch->radix); // begins with a barrier

	for (uint32_t i = threadIdx.x; i < n_lists; i += kThreads)
		n_mine += orders[i] < kth;
	n_mine = __reduce_add_sync(0xFFFFFFFFu, n_mine);
	if (lane == 0)
		atomicAdd(&scratch->n_below, n_mine);
	__syncthreads();

	const uint32_t n_tied = n_probes - scratch->n_below; // that are chosen

	for (uint32_t base = 0; base < n_lists; base += kThreads)
	{
		const uint32_t i = base + threadIdx.x;
		const uint32_t order = i < n_lists ? orders[i] : 0;
		const bool below = i < n_lists && order < kth;
		const bool tied = i < n_lists && order == kth;
		const uint32_t all_below = __ballot_sync(0xFFFFFFFFu, below);
		const uint32_t all_tied = __ballot_sync(0xFFFFFFFFu, tied);
		uint32_t *sums = scratch->list_sums[base / kThreads % 2]; // two in turn, so that one barrier a round is enough

		if (lane == 0)
			sums[warp] = __popc(all_below) | __popc(all_tied) << 16;
		__syncthreads();

		uint32_t own = before;

		for (uint32_t w = 0; w < kWarps; w++)
		{
			own += w < warp ? sums[w] : 0;
			before += sums[w];
		}

		const uint32_t n_tied_before = (own >> 16) + __popc(all_tied & lower);

		if (below || (tied && n_tied_before < n_tied))
		{
			const uint32_t at = (own & 0xFFFF) + __popc(all_below & lower) + min(n_tied_before, n_tied);

			scratch->chosen_order[at] = order;
			scratch->chosen_list[at] = i;
		}
	}
	__syncthreads();
}

/// first, end, chunk_first of the chosen lists, the nearest first if they are not many, in the same places in all blocks. Returns the number of
/// chunks.
__device__ __forceinline__ uint32_t
lay_out_lists(const uint64_t *offsets, uint32_t n_probes, Scratch *scratch)
{
	constexpr uint32_t kEach = kIvfFewMostProbes / kThreads;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;

	for (uint32_t i = threadIdx.x; i < n_probes; i += kThreads)
	{
		const uint32_t order = scratch->chosen_order[i];
		const uint32_t list = scratch->chosen_list[i];
		uint32_t slot = i;

		if (n_probes <= kMostRanked)
		{
			slot = 0;
			for (uint32_t other = 0; other < n_probes; other++)
			{
				const uint32_t its = scratch->chosen_order[other];

				slot += its < order || (its == order && scratch->chosen_list[other] < list);
			}
		}
		scratch->first[slot] = static_cast<uint32_t>(__ldg(offsets + list));
		scratch->end[slot] = static_cast<uint32_t>(__ldg(offsets + list + 1));
	}
	__syncthreads();

	uint32_t counts[kEach];
	uint32_t sum = 0;

#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
	{
		const uint32_t slot = threadIdx.x * kEach + j;

		counts[j] = slot < n_probes ? (scratch->end[slot] - scratch->first[slot] + kChunkRows - 1) / kChunkRows : 0;
		sum += counts[j];
	}

	uint32_t before = sum;

#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, before, offset);

		if (static_cast<int>(lane) >= offset)
			before += other;
	}
	if (lane == 31)
		scratch->warp_sums[warp] = before;
	__syncthreads();
	before -= sum;
	for (uint32_t w = 0; w < warp; w++)
		before += scratch->warp_sums[w];
#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
	{
		const uint32_t slot = threadIdx.x * kEach + j;

		if (slot <= n_probes)
			scratch->chunk_first[slot] = before;
		before += counts[j];
	}
	if (threadIdx.x == kThreads - 1 && n_probes == kIvfFewMostProbes)
		scratch->chunk_first[n_probes] = before;
	__syncthreads();
	return scratch->chunk_first[n_probes];
}

/// The list of a chunk.
__device__ __forceinline__ uint32_t
slot_of(uint32_t chunk, uint32_t n_probes, const Scratch &scratch)
{
	uint32_t low = 0; // the last slot whose first chunk is not behind it
	uint32_t high = n_probes;

	while (high - low > 1)
	{
		const uint32_t middle = (low + high) / 2;

		if (scratch.chunk_first[middle] <= chunk)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/// Products of the query (shared memory) with rows [first, end), of which there are up to 32: thread l gets that of row first + l, x · y,
/// or, wide, 2 x · y − |y|². Eight threads take a row, so that a warp reads whole rows, 4 KB of them at a time.
template <bool kWide>
__device__ __forceinline__ int32_t
multiply_chunk(const Rows &rows, uint32_t dim_pad, const uint4 *query, uint32_t first, uint32_t end, uint32_t lane)
{
	const uint8_t *block = static_cast<const uint8_t *>(rows.vectors);
	const uint32_t group = lane / 8;
	const uint32_t part = lane % 8;
	uint32_t sums[8] = {};
	uint32_t squares[kWide ? 8 : 1] = {};

	for (uint32_t base = 0; base < dim_pad; base += 128)
	{
		const uint32_t at = base + part * 16;
		const uint4 x = at < dim_pad ? query[at / 16] : make_uint4(0, 0, 0, 0);
		uint4 values[8];

#pragma unroll
		for (int s = 0; s < 8; s++)
		{
			const uint32_t place = min(first + group * 8 + s, end - 1);

			values[s] = at < dim_pad ? __ldg(reinterpret_cast<const uint4 *>(block + static_cast<size_t>(place) * rows.pitch_bytes + at))
									 : make_uint4(0, 0, 0, 0);
		}
#pragma unroll
		for (int s = 0; s < 8; s++)
		{
			sums[s] = __dp4a(values[s].x, x.x, sums[s]);
			sums[s] = __dp4a(values[s].y, x.y, sums[s]);
			sums[s] = __dp4a(values[s].z, x.z, sums[s]);
			sums[s] = __dp4a(values[s].w, x.w, sums[s]);
			if constexpr (kWide)
			{
				squares[s] = __dp4a(values[s].x, values[s].x, squares[s]);
				squares[s] = __dp4a(values[s].y, values[s].y, squares[s]);
				squares[s] = __dp4a(values[s].z, values[s].z, squares[s]);
				squares[s] = __dp4a(values[s].w, values[s].w, squares[s]);
			}
		}
	}
	if constexpr (kWide)
	{
#pragma unroll
		for (int s = 0; s < 8; s++)
			sums[s] = 2 * sums[s] - squares[s]; // in the two's complement, as is what follows
	}
	// A transposed butterfly over the eight threads of a row: each ends with one of the eight sums.
#pragma unroll
	for (int width = 4; width >= 1; width /= 2)
	{
		const bool upper = (lane & width) != 0;

#pragma unroll
		for (int i = 0; i < width; i++)
		{
			const uint32_t keep = upper ? sums[i + width] : sums[i];
			const uint32_t send = upper ? sums[i] : sums[i + width];

			sums[i] = keep + __shfl_xor_sync(0xFFFFFFFFu, send, width);
		}
	}
	return static_cast<int32_t>(sums[0]);
}

/// The k-th smallest of the orders held, kNoOrder if there are fewer. Begins and ends with a barrier.
__device__ __forceinline__ uint32_t
kth_held(const IvfFewCandidate *held, uint32_t n, uint32_t k, Scratch *scratch)
{
	uint32_t orders[kFewEach];

	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kThreads + threadIdx.x;

		orders[j] = i < n ? held[i].order : kNoOrder;
	}

	const uint32_t kth = block_kth_of_few(orders, k, &scratch->few);

	__syncthreads();
	return kth;
}

/// Appends by one atomic of a warp. Places from room on are counted only.
__device__ __forceinline__ void
append(IvfFewCandidate *to, uint32_t *n, uint32_t room, bool taken, uint32_t order, uint32_t place, uint32_t lane)
{
	const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, taken);
	uint32_t at = 0;

	if (ballot == 0)
		return;
	if (lane == 0)
		at = atomicAdd(n, static_cast<uint32_t>(__popc(ballot)));
	at = __shfl_sync(0xFFFFFFFFu, at, 0) + __popc(ballot & ((1u << lane) - 1));
	if (taken && at < room)
		to[at] = {order, place};
}

/// Leaves those held up to the threshold. Returns how many.
__device__ __forceinline__ uint32_t
cut_held(IvfFewCandidate *held, uint32_t n, uint32_t threshold, Scratch *scratch, uint32_t lane)
{
	IvfFewCandidate mine[kFewEach];

#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kThreads + threadIdx.x;

		mine[j] = i < n ? held[i] : IvfFewCandidate{kNoOrder, 0};
	}
	__syncthreads();
	if (threadIdx.x == 0)
		scratch->fill = 0;
	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
		append(held, &scratch->fill, kKept, mine[j].order <= threshold && mine[j].order != kNoOrder, mine[j].order, mine[j].place, lane);
	__syncthreads();

	const uint32_t left = scratch->fill;

	__syncthreads(); // all have read it
	return left;
}

/// The answer of a query from what its blocks have found. held: room for kKept.
__device__ __forceinline__ void
answer(const IvfFewArgs &args, uint32_t query, uint32_t k, IvfFewCandidate *held, Scratch *scratch)
{
	constexpr uint32_t kMostSorted = kKept * sizeof(IvfFewCandidate) / sizeof(Entry);
	const uint32_t lane = threadIdx.x % 32;
	const IvfFewCandidate *found = args.found + static_cast<size_t>(query) * kIvfFewCandidates;
	Entry *entries = reinterpret_cast<Entry *>(held);
	const uint32_t count = __ldcg(args.n_found + query);
	uint32_t n = 0;
	bool redo = count > kIvfFewCandidates;

	if (!redo)
	{
		for (uint32_t i = threadIdx.x; i < count; i += kThreads)
		{
			const uint2 candidate = __ldcg(reinterpret_cast<const uint2 *>(found + i)); // of other blocks: not from this processor's cache

			held[i] = {candidate.x, candidate.y};
		}

		const uint32_t kth = kth_held(held, count, k, scratch);

		n = cut_held(held, count, kth, scratch, lane); // kNoOrder: all stay
		redo = n > kMostSorted;
	}
	if (!redo)
	{
		Entry mine[kMostSorted / kThreads];

#pragma unroll
		for (uint32_t j = 0; j < kMostSorted / kThreads; j++)
		{
			const uint32_t i = j * kThreads + threadIdx.x;

			mine[j] = i < n ? Entry{device_score_to_key(static_cast<double>(order_to_float(held[i].order))), __ldg(args.rows.row_ids + held[i].place)}
							: Entry{kExcludedKey, kExcludedKey};
		}
		__syncthreads(); // entries lie where candidates did
#pragma unroll
		for (uint32_t j = 0; j < kMostSorted / kThreads; j++)
		{
			const uint32_t i = j * kThreads + threadIdx.x;

			if (i < n)
				entries[i] = mine[j];
		}
		n = flush_entries(entries, n, k);
		redo = args.dim_pad > kIvfMostByteDims && n > 0 && entries[n - 1].key >= device_score_to_key(kMostExact); // n may be below k
		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
			args.answers.entries[static_cast<size_t>(query) * args.answers.stride + i] = entries[i];
	}
	__syncthreads();
	if (threadIdx.x == 0)
	{
		volatile AnswerHead *head = args.answers.heads + query;

		head->n_entries = n;
		head->n_rescored = 0;
		head->redo = redo ? 1 : 0;
		__threadfence_system(); // what the block has written comes before the mark
		head->mark = args.answers.mark;
	}
}

/// Grid (n_splits, n_queries), block 256. Shared: orders [n_lists], or kKept rows. kWide: more than kIvfMostByteDims dimensions.
template <Metric metric, bool kWide>
__global__ void __launch_bounds__(kThreads, 3)
scan_kernel(const __grid_constant__ IvfFewArgs args)
{
	extern __shared__ uint4 dynamic[];
	__shared__ Scratch scratch;
	uint32_t *orders = reinterpret_cast<uint32_t *>(dynamic);
	IvfFewCandidate *held = reinterpret_cast<IvfFewCandidate *>(dynamic);
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t query = blockIdx.y;
	const uint32_t dim_pad = args.dim_pad;

	let_next_start();
	wait_for_stream();

	const IvfFewQuery wanted = args.queries[query];

	for (uint32_t i = threadIdx.x; i < args.n_lists; i += kThreads)
		orders[i] = args.orders[static_cast<size_t>(query) * args.n_lists + i];
	if (threadIdx.x < dim_pad / 16)
		scratch.query[threadIdx.x] = reinterpret_cast<const uint4 *>(args.bytes + static_cast<size_t>(query) * dim_pad)[threadIdx.x];
	choose_lists(orders, args.n_lists, wanted.n_probes, &scratch);

	const uint32_t n_chunks = lay_out_lists(args.offsets, wanted.n_probes, &scratch); // ends with a barrier: the orders have been read
	uint32_t threshold = kNoOrder - 1;
	uint32_t n_held = 0;
	bool too_many = false;

	if (threadIdx.x == 0)
		scratch.fill = 0;
	__syncthreads();
	// Chunk i of a block is chunk i * n_splits + split of the query: all blocks see the nearest lists.
	for (uint32_t next = 0; next * args.n_splits + blockIdx.x < n_chunks;)
	{
		const uint32_t ahead = next == 0 ? 1 : kAhead; // a first round makes a threshold
		const uint32_t own = (next + lane % kAhead * kWarps + warp) * args.n_splits + blockIdx.x;
		const uint32_t slot = own < n_chunks ? slot_of(own, wanted.n_probes, scratch) : 0;
		const uint32_t own_first = scratch.first[slot] + (own - scratch.chunk_first[slot]) * kChunkRows;
		const uint32_t own_end = own < n_chunks ? scratch.end[slot] : 0;

		for (uint32_t j = 0; j < ahead; j++)
		{
			const uint32_t first = __shfl_sync(0xFFFFFFFFu, own_first, j);
			const uint32_t end = __shfl_sync(0xFFFFFFFFu, own_end, j);

			if (end == 0)
				break;

			const uint32_t place = first + lane;
			const float row_value = metric == Metric::kL2 && !kWide ? __ldg(args.row_values + min(place, end - 1)) : 0.0f;
			const int32_t product = multiply_chunk<kWide>(args.rows, dim_pad, scratch.query, first, end, lane);
			const int32_t value = metric != Metric::kL2 ? -product
								  : kWide				? wanted.norm - product
														: wanted.norm + __float2int_rn(2.0f * row_value) - 2 * product;
			const uint32_t order = float_to_order(static_cast<float>(value));

			append(held, &scratch.fill, kKept, place < end && order <= threshold && !row_is_dead(args.rows, place), order, place, lane);
		}
		next += ahead * kWarps;
		__syncthreads();
		n_held = scratch.fill;
		__syncthreads(); // all have read it before the next round adds
		if (next == kWarps)
			threshold = min(threshold, kth_held(held, n_held, wanted.k, &scratch));
		else if (n_held > kKept - kWarps * kAhead * kChunkRows)
		{
			threshold = min(threshold, kth_held(held, n_held, wanted.k, &scratch));
			n_held = cut_held(held, n_held, threshold, &scratch, lane);
			if (n_held > kKept - kWarps * kAhead * kChunkRows)
			{
				too_many = true; // at one distance
				break;
			}
		}
	}
	if (too_many)
	{
		if (threadIdx.x == 0)
			atomicAdd(args.n_found + query, kIvfFewCandidates + 1);
	}
	else
	{
		threshold = min(threshold, kth_held(held, n_held, wanted.k, &scratch));
		for (uint32_t base = warp * 32; base < n_held; base += kThreads)
		{
			const uint32_t i = base + lane;
			const IvfFewCandidate candidate = i < n_held ? held[i] : IvfFewCandidate{kNoOrder, 0};

			append(args.found + static_cast<size_t>(query) * kIvfFewCandidates, args.n_found + query, kIvfFewCandidates,
				candidate.order <= threshold, candidate.order, candidate.place, lane);
		}
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		scratch.is_last = atomicAdd(args.n_done + query, 1u) == args.n_splits - 1;
	__syncthreads();
	if (scratch.is_last == 0)
		return;
	__threadfence();
	answer(args, query, wanted.k, held, &scratch);
}

uint32_t
shared_bytes(uint32_t n_lists)
{
	const uint32_t orders = n_lists * static_cast<uint32_t>(sizeof(uint32_t));
	const uint32_t rows = kKept * static_cast<uint32_t>(sizeof(IvfFewCandidate));

	return orders > rows ? orders : rows;
}

template <Metric metric>
cudaError_t
launch(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	const dim3 grid(args.n_splits, args.n_queries);
	const uint32_t shared = shared_bytes(args.n_lists);
	const uint32_t n_groups = (args.n_queries + kQ - 1) / kQ;
	const uint32_t n_parts = (args.n_lists + kR * kWarps - 1) / (kR * kWarps);
	const uint32_t wanted = kRankBlocks / n_groups;
	const cudaError_t error = launch_after(rank_kernel<metric>, dim3(n_parts < wanted ? n_parts : wanted, n_groups),
		kThreads, kQ * args.dim_pad * sizeof(float), stream, args, travelling);

	if (error != cudaSuccess)
		return error;
	if constexpr (metric == Metric::kL2)
		if (args.dim_pad > kIvfMostByteDims)
			return launch_after(scan_kernel<metric, true>, grid, kThreads, shared, stream, args);
	return launch_after(scan_kernel<metric, false>, grid, kThreads, shared, stream, args);
}

} // namespace

bool
ivf_few_serves(Metric metric, Form form, uint32_t dim_pad)
{
	return ivf_bytes_are_exact(metric, form, dim_pad) || (metric == Metric::kL2 && form == Form::kByte && dim_pad <= kIvfFewMostDims);
}

cudaError_t
launch_ivf_few(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	if (args.n_queries == 0)
		return cudaSuccess; // an empty grid is an error
	return args.metric == Metric::kL2 ? launch<Metric::kL2>(args, travelling, stream) : launch<Metric::kInnerProduct>(args, travelling, stream);
}

cudaError_t
prepare_ivf_few()
{
	constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
	const int bytes = static_cast<int>(shared_bytes(kIvfFewMostLists));
	cudaError_t error = cudaFuncSetAttribute(scan_kernel<Metric::kL2, false>, kLimit, bytes);

	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(scan_kernel<Metric::kL2, true>, kLimit, bytes);
	return error != cudaSuccess ? error : cudaFuncSetAttribute(scan_kernel<Metric::kInnerProduct, false>, kLimit, bytes);
}

} // namespace vectorgpu::kernels
