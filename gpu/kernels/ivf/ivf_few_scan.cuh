// The second launch of the search of few queries over inverted lists. Each block chooses a query's lists redundantly,
// and the blocks of a query share the rows; the last block to end joins the results and writes the answer. A Scorer
// computes the score of a row:
//
//   kChunkRows         rows that a warp scores together, a power of two
//   kBlocks            blocks of a multiprocessor
//   kPairs             scores are not floats (cosine). An order is then that of the score rounded to a float, which is
//                      monotonic, so the k first by orders, with all ties, contain the k first; in the end keys are
//                      made of scores computed again
//   query_units(dim_pad)               a query in shared memory, in units of 16 bytes
//   Scorer(args, query, wanted, lane)
//   order(first, end)  the order of place first + lane, which counts if it is before end and lane < kChunkRows; end -
//                      first may be more or less than these. By all threads of a warp
//   key(candidate)     the key of the lane's candidate, kPairs only. By all threads of a warp
//   is_inexact(key)    whether a score with this key may differ from the canonical one
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/ivf/ivf_few.hpp"
#include "kernels/ivf/ivf_few_lists.cuh"
#include "kernels/warp_block/launch.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kFewKept = 2048; // rows a block holds; block_kth_of_few
constexpr uint32_t kFewNoOrder = 0xFFFFFFFFu;
constexpr uint32_t kFewFirstRows = 256;          // of a block, that make its first threshold
constexpr uint32_t kFewRoundRows = kFewKept / 2; // of a block between barriers

static_assert(kFewKept == kFewEach * kFewThreads && kIvfFewCandidates == kFewKept);

/// Shared memory of few_scan_kernel in units of 16 bytes: the orders of lists and later the rows held; then the query.
__host__ __device__ constexpr uint32_t
few_room_units(uint32_t n_lists)
{
	const uint32_t orders = (n_lists + 3) / 4;
	const uint32_t rows = kFewKept * static_cast<uint32_t>(sizeof(IvfFewCandidate)) / 16;

	return orders > rows ? orders : rows;
}

/// The k-th smallest of the orders held, kFewNoOrder if there are fewer. Begins and ends with a barrier.
__device__ __forceinline__ uint32_t
few_kth_held(const IvfFewCandidate *held, uint32_t n, uint32_t k, FewListScratch *scratch)
{
	uint32_t orders[kFewEach];

	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kFewThreads + threadIdx.x;

		orders[j] = i < n ? held[i].order : kFewNoOrder;
	}

	const uint32_t kth = block_kth_of_few(orders, k, &scratch->few);

	__syncthreads();
	return kth;
}

/// Append by one atomic of a warp. Entries beyond `room` are counted only.
__device__ __forceinline__ void
few_append(IvfFewCandidate *to, uint32_t *n, uint32_t room, bool taken, uint32_t order, uint32_t place, uint32_t lane)
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

/// Keep only rows held up to the threshold. Returns how many.
__device__ __forceinline__ uint32_t
few_cut_held(IvfFewCandidate *held, uint32_t n, uint32_t threshold, FewListScratch *scratch, uint32_t lane)
{
	IvfFewCandidate mine[kFewEach];

#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kFewThreads + threadIdx.x;

		mine[j] = i < n ? held[i] : IvfFewCandidate{kFewNoOrder, 0};
	}
	__syncthreads();
	if (threadIdx.x == 0)
		scratch->fill = 0;
	__syncthreads();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
		few_append(held, &scratch->fill, kFewKept, mine[j].order <= threshold && mine[j].order != kFewNoOrder,
			mine[j].order, mine[j].place, lane);
	__syncthreads();

	const uint32_t left = scratch->fill;

	__syncthreads(); // all have read it
	return left;
}

/// Write the answer of a query from the results of its blocks. held: room for kFewKept.
template <class Scorer>
__device__ __forceinline__ void
few_answer(const IvfFewArgs &args, const Scorer &scorer, uint32_t query, uint32_t k, IvfFewCandidate *held,
	FewListScratch *scratch)
{
	constexpr uint32_t kMostSorted = kFewKept * sizeof(IvfFewCandidate) / sizeof(Entry);
	const uint32_t lane = threadIdx.x % 32;
	const IvfFewCandidate *found = args.found + static_cast<size_t>(query) * kIvfFewCandidates;
	Entry *entries = reinterpret_cast<Entry *>(held);
	const uint32_t count = __ldcg(args.n_found + query);
	uint32_t n = 0;
	bool redo = count > kIvfFewCandidates;

	if (!redo)
	{
		for (uint32_t i = threadIdx.x; i < count; i += kFewThreads)
		{
			const uint2 candidate =
				__ldcg(reinterpret_cast<const uint2 *>(found + i)); // by other blocks: not from this processor's cache

			held[i] = {candidate.x, candidate.y};
		}

		const uint32_t kth = few_kth_held(held, count, k, scratch);

		n = few_cut_held(held, count, kth, scratch, lane); // kFewNoOrder: all stay
		redo = n > kMostSorted;
	}
	if (!redo)
	{
		Entry mine[kMostSorted / kFewThreads];

#pragma unroll
		for (uint32_t j = 0; j < kMostSorted / kFewThreads; j++)
		{
			const uint32_t i = j * kFewThreads + threadIdx.x;

			mine[j] = {kExcludedKey, kExcludedKey};
			if (i - lane >= n) // the same for a warp
				continue;

			const IvfFewCandidate candidate = held[min(i, n - 1)];
			uint64_t key;

			if constexpr (Scorer::kPairs)
				key = scorer.key(candidate);
			else
				key = device_score_to_key(static_cast<double>(order_to_float(candidate.order)));
			if (i < n)
				mine[j] = {key, __ldg(args.rows.row_ids + candidate.place)};
		}
		__syncthreads(); // entries lie in the place of candidates
#pragma unroll
		for (uint32_t j = 0; j < kMostSorted / kFewThreads; j++)
		{
			const uint32_t i = j * kFewThreads + threadIdx.x;

			if (i < n)
				entries[i] = mine[j];
		}
		n = flush_entries(entries, n, k);
		redo = n > 0 && scorer.is_inexact(entries[n - 1].key); // n may be below k
		for (uint32_t i = threadIdx.x; i < n; i += kFewThreads)
			args.answers.entries[static_cast<size_t>(query) * args.answers.stride + i] = entries[i];
	}
	__syncthreads();
	if (threadIdx.x == 0)
	{
		volatile AnswerHead *head = args.answers.heads + query;

		head->n_entries = n;
		head->n_rescored = 0;
		head->redo = redo ? 1 : 0;
		__threadfence_system(); // the block's writes come before the mark
		head->mark = args.answers.mark;
	}
}

/// Write the answer's head of a query whose rows lie away from it. By one thread.
__device__ __forceinline__ void
few_give_way(const IvfFewArgs &args, uint32_t query)
{
	volatile AnswerHead *head = args.answers.heads + query;

	head->n_entries = 0;
	head->n_rescored = 0;
	head->redo = kAnswerIsAway;
	__threadfence_system();
	head->mark = args.answers.mark;
}

/// Append the candidates of held [n_held] up to the threshold to the query's in memory. By all threads of a block.
__device__ __forceinline__ void
few_pass_on(const IvfFewArgs &args, uint32_t query, const IvfFewCandidate *held, uint32_t n_held, uint32_t threshold)
{
	const uint32_t lane = threadIdx.x % 32;

	for (uint32_t base = threadIdx.x / 32 * 32; base < n_held; base += kFewThreads)
	{
		const uint32_t i = base + lane;
		const IvfFewCandidate candidate = i < n_held ? held[i] : IvfFewCandidate{kFewNoOrder, 0};

		few_append(args.found + static_cast<size_t>(query) * kIvfFewCandidates, args.n_found + query, kIvfFewCandidates,
			candidate.order <= threshold, candidate.order, candidate.place, lane);
	}
}

/// Whether all other blocks of the query have passed on their candidates, which this block then sees. By all threads.
__device__ __forceinline__ bool
few_is_last(const IvfFewArgs &args, uint32_t query, FewListScratch *scratch)
{
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		scratch->is_last = atomicAdd(args.n_done + query, 1u) == args.n_splits - 1;
	__syncthreads();
	if (scratch->is_last == 0)
		return false;
	__threadfence();
	return true;
}

/// Bring the orders of a query's lists and the query [n_units] into shared memory; no rows are held. By a block;
/// without a barrier.
__device__ __forceinline__ void
few_load(
	const IvfFewArgs &args, uint32_t query, uint32_t n_units, uint32_t *orders, uint4 *vector, FewListScratch *scratch)
{
	const uint32_t *own_orders = args.orders + static_cast<size_t>(query) * args.n_lists;
	const uint4 *own_vector = static_cast<const uint4 *>(args.vectors) + static_cast<size_t>(query) * n_units;

	for (uint32_t i = threadIdx.x; i < args.n_lists; i += kFewThreads)
		orders[i] = own_orders[i];
	for (uint32_t i = threadIdx.x; i < n_units; i += kFewThreads)
		vector[i] = own_vector[i];
	if (threadIdx.x == 0)
		scratch->fill = 0;
}

/// What row_is_dead reads of a row's bit, in two steps: the load waits for nothing until the bit is asked for. Rows
/// with conditions are judged one by one; their bits would cost a second wait for memory after that for the rows.
class DeadByte
{
public:
	__device__ __forceinline__ DeadByte(const Rows &rows, uint32_t row, bool wanted)
		: bit_(static_cast<uint64_t>(rows.dead_start + static_cast<int64_t>(row))) // negative: huge
	{
		if (wanted && rows.dead != nullptr && bit_ < rows.dead_bits)
			byte_ = rows.dead[bit_ / 8];
	}

	__device__ __forceinline__ bool is_set() const { return (byte_ >> (bit_ % 8) & 1) != 0; }

private:
	uint64_t bit_;
	uint32_t byte_ = 0;
};

/// Grid (n_splits, n_queries), block 256. Shared: few_room_units and query_units.
template <class Scorer>
__global__ void __launch_bounds__(kFewThreads, Scorer::kBlocks)
few_scan_kernel(const __grid_constant__ IvfFewArgs args)
{
	constexpr uint32_t kChunkRows = Scorer::kChunkRows;
	constexpr uint32_t kAhead = kFewRoundRows / kFewWarps / kChunkRows; // chunks of a warp between barriers
	constexpr uint32_t kFirst = kFewFirstRows / kFewWarps / kChunkRows; // ... in the first round

	static_assert(kFirst > 0 && kFirst <= kAhead && kAhead <= 32 && 32 % kAhead == 0 &&
		kFewWarps * kAhead * kChunkRows <= kFewKept / 2);

	extern __shared__ uint4 dynamic[];
	__shared__ FewListScratch scratch;
	uint32_t *orders = reinterpret_cast<uint32_t *>(dynamic);
	IvfFewCandidate *held = reinterpret_cast<IvfFewCandidate *>(dynamic);
	uint4 *vector = dynamic + few_room_units(args.n_lists);
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t query = blockIdx.y;
	const uint32_t n_units = Scorer::query_units(args.dim_pad);

	let_next_start();
	wait_for_stream();

	const IvfFewQuery wanted = args.queries[query];
	const uint32_t *lows = Scorer::kPairs ? args.lows + static_cast<size_t>(query) * args.n_lists : nullptr;

	few_load(args, query, n_units, orders, vector, &scratch);
	choose_lists<Scorer::kPairs>(orders, lows, args.n_lists, wanted.n_probes, &scratch);

	const uint32_t n_probes = rank_lists<Scorer::kPairs>(args, lows, wanted.n_probes, &scratch);

	if (n_probes == 0) // of all blocks of the query alike
	{
		if (few_is_last(args, query, &scratch) && threadIdx.x == 0)
			few_give_way(args, query);
		return;
	}

	// Ends with a barrier: the orders have been read.
	const uint32_t n_chunks = lay_out_lists<kChunkRows>(n_probes, &scratch);
	const Scorer scorer(args, vector, wanted, lane);
	uint32_t threshold = kFewNoOrder - 1;
	uint32_t n_held = 0;
	bool too_many = false;

	// Chunk i of a block is chunk i * n_splits + split of the query: all blocks see the nearest lists.
	for (uint32_t next = 0; next * args.n_splits + blockIdx.x < n_chunks;)
	{
		const bool is_first = next == 0; // it makes a threshold
		const uint32_t ahead = is_first ? kFirst : kAhead;
		const uint32_t own = (next + lane % kAhead * kFewWarps + warp) * args.n_splits + blockIdx.x;
		const uint32_t slot = own < n_chunks ? slot_of(own, n_probes, scratch) : 0;
		const uint32_t own_first = scratch.first[slot] + (own - scratch.chunk_first[slot]) * kChunkRows;
		const uint32_t own_end = own < n_chunks ? scratch.end[slot] : 0;

		for (uint32_t j = 0; j < ahead; j++)
		{
			const uint32_t first = __shfl_sync(0xFFFFFFFFu, own_first, j);
			const uint32_t end = __shfl_sync(0xFFFFFFFFu, own_end, j);

			if (end == 0)
				break;

			const uint32_t place = first + lane;
			const bool counts = lane < kChunkRows && place < end;
			const DeadByte dead(args.rows, place, counts); // on the way beside the rows
			const uint32_t order = scorer.order(first, end);

			few_append(
				held, &scratch.fill, kFewKept, counts && order <= threshold && !dead.is_set(), order, place, lane);
		}
		next += ahead * kFewWarps;
		__syncthreads();
		n_held = scratch.fill;
		__syncthreads(); // all have read it before the next round adds
		if (is_first)
			threshold = min(threshold, few_kth_held(held, n_held, wanted.k, &scratch));
		else if (n_held > kFewKept - kFewRoundRows)
		{
			threshold = min(threshold, few_kth_held(held, n_held, wanted.k, &scratch));
			n_held = few_cut_held(held, n_held, threshold, &scratch, lane);
			if (n_held > kFewKept - kFewRoundRows)
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
		threshold = min(threshold, few_kth_held(held, n_held, wanted.k, &scratch));
		few_pass_on(args, query, held, n_held, threshold);
	}
	if (!few_is_last(args, query, &scratch))
		return;
	few_answer(args, scorer, query, wanted.k, held, &scratch);
}

template <class Scorer>
cudaError_t
launch_few_scan(const IvfFewArgs &args, cudaStream_t stream)
{
	return launch_after(few_scan_kernel<Scorer>, dim3(args.n_splits, args.n_queries), kFewThreads,
		(few_room_units(args.n_lists) + Scorer::query_units(args.dim_pad)) * size_t{16}, stream, args);
}

/// Set the attributes of few_scan_kernel, for the most lists and dimensions.
template <class Scorer>
cudaError_t
prepare_few_scan(uint32_t most_dims)
{
	return cudaFuncSetAttribute(few_scan_kernel<Scorer>, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>((few_room_units(kIvfFewMostLists) + Scorer::query_units(most_dims)) * 16));
}

} // namespace vectorgpu::kernels
