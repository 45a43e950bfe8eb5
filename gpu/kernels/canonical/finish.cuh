// The steps after the filter for small k, 256 threads to a query: cut its candidates back, score the rest canonically,
// merge them into the query's results. Few candidates (nearly always) stay in registers and shared memory throughout.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/filter/filter_bound.cuh"
#include "kernels/select/merge.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kFewCandidates = kFewEach * kSelectThreads;
static_assert(kFewCandidates == kFinishMostCandidates);

/// Canonical scores of n_rows <= kRows rows with one query: thread r gets row r's. row_at(r): pointer to row r, for any
/// r. query_at(e): the query's element e. The same sums in the same order as score_pairs. It takes fewer rows at a
/// time, for few rows shared by many warps, and has the loads of many steps under way together.
template <Metric metric, class FormT, int kRows, class RowAt, class QueryAt>
__device__ __forceinline__ double
score_few(const RowAt &row_at, const QueryAt &query_at, uint32_t dim_pad, float aa, uint32_t lane)
{
	constexpr int kAhead = 32 / kRows; // steps
	float sums[kRows] = {};
	float squares[kRows] = {};
	const void *rows[kRows];
	float mine = 0.0f;
	float mine_squares = 0.0f;

#pragma unroll
	for (int r = 0; r < kRows; r++)
		rows[r] = row_at(r);
	for (uint32_t base = 0; base < dim_pad; base += kAhead * kLanes)
	{
		float x[kAhead];
		float y[kAhead][kRows];

#pragma unroll
		for (int j = 0; j < kAhead; j++)
		{
			const uint32_t e = base + j * kLanes;
			const bool counts = e < dim_pad; // a multiple of kLanes

			x[j] = counts ? query_at(e + lane) : 0.0f;
#pragma unroll
			for (int r = 0; r < kRows; r++)
				y[j][r] = counts ? FormT::load(rows[r], e + lane) : 0.0f;
		}
#pragma unroll
		for (int j = 0; j < kAhead; j++)
		{
			if (base + j * kLanes >= dim_pad)
				break;
#pragma unroll
			for (int r = 0; r < kRows; r++)
			{
				sums[r] = canonical_step<metric>(x[j], y[j][r], sums[r]);
				if constexpr (metric == Metric::kCosine)
					squares[r] = __fmaf_rn(y[j][r], y[j][r], squares[r]);
			}
		}
	}
#pragma unroll
	for (int r = 0; r < kRows; r++)
	{
#pragma unroll
		for (int width = 16; width >= 1; width /= 2)
		{
			sums[r] = __fadd_rn(sums[r], __shfl_xor_sync(0xFFFFFFFFu, sums[r], width));
			if constexpr (metric == Metric::kCosine)
				squares[r] = __fadd_rn(squares[r], __shfl_xor_sync(0xFFFFFFFFu, squares[r], width));
		}
		mine = static_cast<int>(lane) == r ? sums[r] : mine;
		mine_squares = static_cast<int>(lane) == r ? squares[r] : mine_squares;
	}
	return canonical_score<metric>(mine, aa, mine_squares);
}

/// A query's candidates, and its earlier results.
struct FewCandidates
{
	uint32_t k = 0;
	uint32_t count = 0;               // kFewCandidates at most
	const uint32_t *rows = nullptr;   // [count]
	const float *estimates = nullptr; // [count]
	float threshold = 0.0f;
	QuerySize size;
	const Entry *best = nullptr; // [n_best]
	uint32_t n_best = 0;
};

struct FewFound
{
	uint32_t n_found = 0; // entries
	uint32_t n_kept = 0;  // candidates that were rescored
	float cut = 0.0f;     // candidates after the cut
};

/// Shared memory of finish_few.
struct FinishScratch
{
	Entry entries[kMergeLeast];
	alignas(16) uint32_t rows[kMergeLeast];
	FewScratch few;
	uint32_t n_kept;
	uint32_t n_valid;
};

/// The default for Stamps of finish_few: times are not recorded.
struct NoFinishStamps
{
	__device__ __forceinline__ void cut() const {}
	__device__ __forceinline__ void scored() const {}
	__device__ __forceinline__ void sorted() const {}
};

/// Finish a query with few candidates, by the kSelectThreads of Threads: scratch->entries gets the result. False if
/// there are too many candidates. candidates and the result are the same in all threads. place_of(number, &rows): the
/// source and the row of a candidate; key_of(score, rows, row): its key.
template <Metric metric, class FormT, class Threads, class PlaceOf, class QueryAt, class KeyOf,
	class Stamps = NoFinishStamps>
__device__ inline bool
finish_few(const FilterBound &bound, const FewCandidates &candidates, uint32_t dim_pad, float aa,
	const PlaceOf &place_of, const QueryAt &query_at, const KeyOf &key_of, FinishScratch *scratch, FewFound *found,
	const Stamps &stamps = {})
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t count = candidates.count;
	uint32_t order[kFewEach];
	uint32_t row_of[kFewEach];

	if (threadIdx.x == 0)
	{
		scratch->n_kept = 0;
		scratch->n_valid = 0;
	}
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kSelectThreads + threadIdx.x;

		order[j] = i < count ? float_to_order(__ldcg(candidates.estimates + i)) : 0xFFFFFFFFu;
		row_of[j] = i < count ? __ldcg(candidates.rows + i) : 0;
	}

	float cut = candidates.threshold;

	if (candidates.k <= count)
	{
		const uint32_t kth = block_kth_of_few<Threads>(order, candidates.k, &scratch->few);

		if (kth != 0xFFFFFFFFu) // NaN: fewer than k candidates have an estimate
			cut = fminf(cut, __double2float_ru(cut_for_estimate(bound, candidates.size, order_to_float(kth))));
	}
	Threads::sync();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const bool keep = j * kSelectThreads + threadIdx.x < count && !(order_to_float(order[j]) > cut); // NaN stays

		if (keep)
		{
			const uint32_t at = atomicAdd(&scratch->n_kept, 1u);

			if (at < kMergeLeast)
				scratch->rows[at] = row_of[j];
		}
	}
	Threads::sync();

	const uint32_t n_kept = scratch->n_kept;

	stamps.cut();
	if (n_kept + candidates.n_best > kMergeLeast)
		return false;

	auto rescore = [&]<int kRows>() // that a warp scores together
	{
		for (uint32_t base = warp * kRows; base < n_kept; base += kSelectThreads / 32 * kRows)
		{
			const Rows *rows;
			const uint32_t row = place_of(scratch->rows[min(base + lane % kRows, n_kept - 1)], &rows);
			const uint64_t row_id = rows->row_ids[row];
			const uint64_t address =
				reinterpret_cast<uint64_t>(rows->vectors) + static_cast<uint64_t>(row) * rows->pitch_bytes;
			const double score = score_few<metric, FormT, kRows>([&](int r)
				{ return reinterpret_cast<const char *>(__shfl_sync(0xFFFFFFFFu, address, r)); }, query_at, dim_pad, aa,
				lane);

			if (lane < kRows && base + lane < n_kept)
			{
				const uint64_t key = key_of(score, *rows, row);

				scratch->entries[base + lane] =
					key == kExcludedKey ? Entry{kExcludedKey, kExcludedKey} : Entry{key, row_id};
				if (key != kExcludedKey)
					atomicAdd(&scratch->n_valid, 1u);
			}
		}
	};

	// Few rows are shared by all warps; many rows share the loads of the query.
	if (n_kept <= 2 * kSelectThreads / 32)
		rescore.template operator()<2>();
	else
		rescore.template operator()<4>();
	for (uint32_t i = threadIdx.x; i < candidates.n_best; i += kSelectThreads)
		scratch->entries[n_kept + i] = candidates.best[i];

	stamps.scored();

	const uint32_t n_sorted =
		flush_entries<Threads>(scratch->entries, n_kept + candidates.n_best, candidates.k); // begins with a barrier

	stamps.sorted();
	*found = {min(n_sorted, scratch->n_valid + candidates.n_best), n_kept, cut};
	return true;
}

// Up to this many are ranked by counting the smaller ones, instead of halving ranges.
constexpr uint32_t kRankedCandidates = 512;

/// Sort entries [n] in shared memory, n at most Threads::size(), by counting for each the entries before it. Begins
/// with a barrier; one must follow.
template <class Threads>
__device__ inline void
rank_entries(Entry *entries, uint32_t n)
{
	Entry mine = {kExcludedKey, kExcludedKey};
	uint32_t rank = 0;

	Threads::sync();
	if (threadIdx.x < n)
	{
		mine = entries[threadIdx.x];
		for (uint32_t j = 0; j < n; j++)
		{
			const Entry other = entries[j];

			rank += entry_less(other, mine) || (j < threadIdx.x && !entry_less(mine, other));
		}
	}
	Threads::sync();
	if (threadIdx.x < n)
		entries[rank] = mine;
}

/// For the one or two orders of this thread (j * kSelectThreads + threadIdx.x) of count <= kRankedCandidates: how many
/// others are smaller. orders [kRankedCandidates] in shared memory, at a multiple of 16.
template <class Threads>
__device__ inline void
count_smaller(const uint32_t (&mine)[2], uint32_t count, uint32_t *orders, uint32_t (&smaller)[2])
{
	const uint32_t end = (count + 3) / 4 * 4;

#pragma unroll
	for (uint32_t j = 0; j < 2; j++)
	{
		const uint32_t i = j * kSelectThreads + threadIdx.x;

		smaller[j] = 0;
		if (i < end)
			orders[i] = mine[j]; // after the last: 0xFFFFFFFF, which is smaller than no other
	}
	Threads::sync();
	for (uint32_t i = 0; i < end; i += 4)
	{
		const uint4 others = *reinterpret_cast<const uint4 *>(orders + i);

		smaller[0] += (others.x < mine[0]) + (others.y < mine[0]) + (others.z < mine[0]) + (others.w < mine[0]);
		if (count > kSelectThreads) // of all threads
			smaller[1] += (others.x < mine[1]) + (others.y < mine[1]) + (others.z < mine[1]) + (others.w < mine[1]);
	}
}

/// As finish_few, if estimates determine scores exactly: nothing is scored again, and every candidate that is not among
/// the k first or tied with them is cut off. score_of(estimate): the score. No estimate is NaN, and there are no
/// earlier results. ranked: rank few candidates by counting.
template <class Threads, class PlaceOf, class ScoreOf, class Stamps = NoFinishStamps>
__device__ inline bool
finish_exact(const FewCandidates &candidates, const PlaceOf &place_of, const ScoreOf &score_of, bool ranked,
	FinishScratch *scratch, FewFound *found, const Stamps &stamps = {})
{
	const uint32_t count = candidates.count;
	const bool by_count = ranked && count <= kRankedCandidates;
	uint32_t order[kFewEach];
	uint32_t row_of[kFewEach];
	uint32_t cut = 0xFFFFFFFFu;

	if (threadIdx.x == 0)
		scratch->n_kept = 0;
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
	{
		const uint32_t i = j * kSelectThreads + threadIdx.x;

		order[j] = i < count ? float_to_order(__ldcg(candidates.estimates + i)) : 0xFFFFFFFFu;
		row_of[j] = i < count ? __ldcg(candidates.rows + i) : 0;
	}
	if (by_count)
	{
		uint32_t smaller[2];

		static_assert(2 * kSelectThreads == kRankedCandidates && kMergeLeast >= kRankedCandidates);
		count_smaller<Threads>({order[0], order[1]}, count, scratch->rows, smaller);
#pragma unroll
		for (uint32_t j = 0; j < 2; j++)
			if (smaller[j] >= candidates.k)
				order[j] = 0xFFFFFFFFu;
		cut = 0xFFFFFFFEu;
	}
	else if (candidates.k <= count)
		cut = block_kth_of_few<Threads>(order, candidates.k, &scratch->few);
	Threads::sync();
	stamps.cut();
#pragma unroll
	for (uint32_t j = 0; j < kFewEach; j++)
		if (j * kSelectThreads + threadIdx.x < count && order[j] <= cut)
		{
			const uint32_t at = atomicAdd(&scratch->n_kept, 1u);
			const Rows *rows;
			const uint32_t row = place_of(row_of[j], &rows);

			if (at < kMergeLeast)
				scratch->entries[at] = {device_score_to_key(score_of(order_to_float(order[j]))), rows->row_ids[row]};
		}
	Threads::sync();

	const uint32_t n_kept = scratch->n_kept;

	stamps.scored();
	if (n_kept > kMergeLeast)
		return false;

	if (ranked && n_kept <= kSelectThreads)
		rank_entries<Threads>(scratch->entries, n_kept);
	else
		flush_entries<Threads>(scratch->entries, n_kept, candidates.k);
	stamps.sorted();
	*found = {min(n_kept, candidates.k), n_kept, 0.0f};
	return true;
}

/// Write a query's answer to the host: entries [n] in shared or global memory, then its head. By all of Threads; begins
/// with a barrier.
template <class Threads>
__device__ inline void
give_answer(const Answers &answers, uint32_t query, const Entry *entries, uint32_t n, uint32_t n_rescored, bool redo)
{
	Threads::sync();
	for (uint32_t i = threadIdx.x; i < n; i += Threads::size())
		answers.entries[static_cast<size_t>(query) * answers.stride + i] = entries[i];
	Threads::sync();
	if (threadIdx.x == 0)
	{
		volatile AnswerHead *head = answers.heads + query;

		head->n_entries = n;
		head->n_rescored = n_rescored;
		head->redo = redo;
		__threadfence_system(); // the block's writes come before the mark
		head->mark = answers.mark;
	}
}

} // namespace vectorgpu::kernels
