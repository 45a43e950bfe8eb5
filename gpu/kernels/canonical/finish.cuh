// The steps after the filter for small k, 256 threads to a query: cut its candidates back, score the rest canonically,
// merge them into the query's results. Few candidates (nearly always) stay in registers and shared memory throughout.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/canonical/rank.cuh"

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

/// Canonical scores of the rows `rows` [n_rows], kRows at a time, by warp `warp` of n_warps: sets entries [n_rows], and
/// adds to *n_valid those that are not excluded. place_of, query_at, key_of: as in finish_few.
template <Metric metric, class FormT, int kRows, class PlaceOf, class QueryAt, class KeyOf>
__device__ __forceinline__ void
score_rows(const uint32_t *rows, uint32_t n_rows, uint32_t warp, uint32_t n_warps, uint32_t dim_pad, float aa,
	const PlaceOf &place_of, const QueryAt &query_at, const KeyOf &key_of, Entry *entries, uint32_t *n_valid)
{
	const uint32_t lane = threadIdx.x % 32;

	for (uint32_t base = warp * kRows; base < n_rows; base += n_warps * kRows)
	{
		const Rows *of;
		const uint32_t row = place_of(rows[min(base + lane % kRows, n_rows - 1)], &of);
		const uint64_t row_id = of->row_ids[row];
		const uint64_t address = reinterpret_cast<uint64_t>(of->vectors) + static_cast<uint64_t>(row) * of->pitch_bytes;
		const double score = score_few<metric, FormT, kRows>([&](int r)
			{ return reinterpret_cast<const char *>(__shfl_sync(0xFFFFFFFFu, address, r)); }, query_at, dim_pad, aa,
			lane);

		if (lane < kRows && base + lane < n_rows)
		{
			const uint64_t key = key_of(score, *of, row);

			entries[base + lane] = key == kExcludedKey ? Entry{kExcludedKey, kExcludedKey} : Entry{key, row_id};
			if (key != kExcludedKey)
				atomicAdd(n_valid, 1u);
		}
	}
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
	uint32_t kth;
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
/// there are too many candidates. candidates and the result are the same in all threads. square_sum(): Σ a² of the
/// query, for cosine; place_of(number, &rows): the source and the row of a candidate; key_of(score, rows, row): its
/// key.
template <Metric metric, class FormT, class Threads, class SquareSum, class PlaceOf, class QueryAt, class KeyOf,
	class Stamps = NoFinishStamps>
__device__ inline bool
finish_few(const FilterBound &bound, const FewCandidates &candidates, uint32_t dim_pad, const SquareSum &square_sum,
	const PlaceOf &place_of, const QueryAt &query_at, const KeyOf &key_of, FinishScratch *scratch, FewFound *found,
	const Stamps &stamps = {})
{
	const uint32_t count = candidates.count;
	uint32_t order[kFewEach];
	uint32_t row_of[kFewEach];

	if (threadIdx.x == 0)
	{
		scratch->kth = 0;
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

	const float aa = square_sum(); // while those are under way
	float cut = candidates.threshold;

	if (candidates.k <= count)
	{
		const uint32_t kth = count <= kCountedCandidates
			? kth_by_count<Threads>({order[0], order[1]}, count, candidates.k, scratch->rows, &scratch->kth)
			: block_kth_of_few<Threads>(order, candidates.k, &scratch->few);

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
		score_rows<metric, FormT, kRows>(scratch->rows, n_kept, threadIdx.x / 32, kSelectThreads / 32, dim_pad, aa,
			place_of, query_at, key_of, scratch->entries, &scratch->n_valid);
	};

	// Few rows are shared by all warps; many rows share the loads of the query.
	if (n_kept <= 2 * kSelectThreads / 32)
		rescore.template operator()<2>();
	else
		rescore.template operator()<4>();
	for (uint32_t i = threadIdx.x; i < candidates.n_best; i += kSelectThreads)
		scratch->entries[n_kept + i] = candidates.best[i];

	stamps.scored();

	const uint32_t n_entries = n_kept + candidates.n_best;

	if (n_entries <= kRankedEntries)
	{
		rank_entries<Threads>(scratch->entries, n_entries); // begins with a barrier, as flush_entries
		Threads::sync();
	}
	else
		flush_entries<Threads>(scratch->entries, n_entries, candidates.k);
	stamps.sorted();
	*found = {min(min(n_entries, candidates.k), scratch->n_valid + candidates.n_best), n_kept, cut};
	return true;
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
