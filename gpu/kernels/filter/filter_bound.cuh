// The filter's bound, in double and rounded outwards, and the cut of one query's candidates. Used by filter_select.cu
// and scores.cuh.
#pragma once

#include "kernels/select/kth.cuh"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::kernels
{

constexpr int kSelectThreads = 256;
constexpr uint32_t kManyQueries = 512; // from here on a warp takes a query where it can, not a block: takes_many

__device__ __forceinline__ double
infinity()
{
	return __longlong_as_double(0x7FF0000000000000ll);
}

/// What the bound needs to know of a query.
struct QuerySize
{
	double norm = 0; // |x|
	double lost = 0; // |x - x'|: Form::kScaled

	QuerySize() = default;
	__device__ QuerySize(double norm_, double lost_ = 0) : norm(norm_), lost(lost_) {}
};

/// The size of a query of a batch.
__device__ inline QuerySize
query_size(const FilterQueries &prepared, uint32_t query)
{
	return {prepared.norms[query], prepared.scaled.lost == nullptr ? 0 : prepared.scaled.lost[query]};
}

/// |estimate - exact value|, and for inner product and cosine the canonical score's error too.
__device__ inline double
estimate_error(const FilterBound &bound, const QuerySize &query)
{
	const double norm = query.norm;
	const double product = norm * bound.max_norm;
	const double underflow = bound.underflow * (1 + norm + bound.max_norm);
	const double off = (norm + query.lost) * bound.off * (1 + 0x1p-20);

	if (bound.metric == Metric::kCosine)
		return norm * (bound.product + 2 * bound.sums + 2 * bound.canonical / (1 - bound.canonical) + 0x1p-21) +
			bound.lost * (1 + 0x1p-6) * (1 + norm * bound.inverse) + off + query.lost * (1 + 0x1p-20);

	const double lost = bound.lost * (1 + 0x1p-6) * (norm + bound.max_norm) + off + query.lost * bound.max_norm;

	if (bound.metric == Metric::kL2)
		return bound.product * product + (bound.sums + 0x1p-23) * (bound.max_norm * bound.max_norm + product) + lost +
			underflow;
	return (bound.product + 2 * bound.sums + bound.canonical + 0x1p-23) * product + lost + underflow;
}

/// Rows with an estimate above the result have a canonical score that is certainly greater than `score`.
__device__ inline double
cut_for_score(const FilterBound &bound, const QuerySize &query, double score)
{
	const double norm = query.norm;
	const double error = estimate_error(bound, query);

	if (!(score < infinity()))
		return infinity();
	if (bound.metric == Metric::kL2)
	{
		const double squares = norm * norm * (1 - 0x1p-40);

		return error + ((score + bound.underflow) / (1 - bound.canonical) - squares) / 2 + 0x1p-40 * (score + squares);
	}
	if (bound.metric == Metric::kInnerProduct)
		return score + error + 0x1p-40 * fabs(score);
	return (score - 1) * norm + error;
}

/// As cut_for_score, for a row whose estimate is known but not its score.
__device__ inline double
cut_for_estimate(const FilterBound &bound, const QuerySize &query, double estimate)
{
	const double norm = query.norm;
	const double error = estimate_error(bound, query);

	if (!(estimate < infinity()))
		return infinity();
	if (bound.metric == Metric::kL2)
	{
		const double squares = norm * norm * (1 + 0x1p-40);
		const double most = fmax(squares + 2 * (estimate + error), 0.0);

		return cut_for_score(bound, query, most * (1 + bound.canonical) + bound.underflow);
	}
	return estimate + 2 * error + 0x1p-40 * fabs(estimate);
}

/// An upper bound on the estimates of all trusted rows. A threshold is cut down to it, which loses no row: sums begin
/// at the threshold, so they and the estimates computed from them are as exact as the bound states only if the
/// threshold is not larger than estimates can be.
__device__ inline double
largest_estimate(const FilterBound &bound, const QuerySize &query)
{
	const double norm = query.norm;
	const double error = estimate_error(bound, query);

	if (bound.metric == Metric::kL2)
		return (bound.max_norm / 2 + norm) * bound.max_norm * (1 + 0x1p-20) + error;
	return (bound.metric == Metric::kInnerProduct ? norm * bound.max_norm : norm) * (1 + 0x1p-20) + error;
}

__device__ inline double
key_score(uint64_t key)
{
	if (key >= kNanKey)
		return infinity();
	return __longlong_as_double(static_cast<long long>((key >> 63) != 0 ? key & 0x7FFFFFFFFFFFFFFFu : ~key));
}

/// Write what a query's candidates were cut back to. By one thread.
__device__ __forceinline__ void
set_cut(const FilterSelect &args, uint32_t query, uint32_t n_kept, float cut)
{
	args.candidates.counts[query] = n_kept;
	args.thresholds[query] = cut;
	if (args.last)
		atomicAdd(reinterpret_cast<unsigned long long *>(args.n_rescored), static_cast<unsigned long long>(n_kept));
}

/// True if a warp is to take a query where it can: scaled rows leave too many candidates for that.
inline bool
takes_many(const FilterSelect &args)
{
	return args.queries.n_queries >= kManyQueries && args.prepared.scaled.lost == nullptr;
}

/// The candidates of a query that a warp holds: 32 kEach at most.
template <int kEach>
struct WarpCandidates
{
	uint32_t orders[kEach]; // of their estimates; 0xFFFFFFFF: none (NaN), or no candidate
	uint32_t rows[kEach];
	uint32_t count;

	/// Get the query's; false if there are too many, or it has to be searched again.
	__device__ __forceinline__ bool load(const FilterSelect &args, uint32_t query)
	{
		const size_t first = static_cast<size_t>(query) * args.candidates.capacity + threadIdx.x % 32;

		count = args.candidates.counts[query];
		if (args.prepared.redo[query] != 0 || count > min(args.candidates.capacity, 32u * kEach))
			return false;
#pragma unroll
		for (uint32_t j = 0; j < kEach; j++)
		{
			orders[j] = is_candidate(j) ? float_to_order(args.candidates.estimates[first + j * 32]) : 0xFFFFFFFFu;
			rows[j] = is_candidate(j) ? args.candidates.rows[first + j * 32] : 0;
		}
		__syncwarp(); // no lane writes a place that another has yet to read
		return true;
	}

	/// The query's threshold, sharpened by them.
	__device__ __forceinline__ float cut(const FilterSelect &args, uint32_t query) const
	{
		const uint32_t kth = warp_kth_of_few(orders, args.queries.k[query]);
		const float threshold = args.thresholds[query];

		if (kth == 0xFFFFFFFFu) // fewer than k candidates have an estimate
			return threshold;
		return fminf(threshold,
			__double2float_ru(cut_for_estimate(args.bound, query_size(args.prepared, query), order_to_float(kth))));
	}

	/// Call keep(place, j) for each that is not beyond the cut, with its place among these; their number.
	template <class Keep>
	__device__ __forceinline__ uint32_t for_each_kept(float cut, const Keep &keep) const
	{
		uint32_t n = 0;

#pragma unroll
		for (uint32_t j = 0; j < kEach; j++)
		{
			const bool stays = is_candidate(j) && !(order_to_float(orders[j]) > cut); // NaN stays
			const uint32_t all = __ballot_sync(0xFFFFFFFFu, stays);

			if (stays)
				keep(n + __popc(all & ((1u << threadIdx.x % 32) - 1)), j);
			n += __popc(all);
		}
		return n;
	}

private:
	__device__ __forceinline__ bool is_candidate(uint32_t j) const { return j * 32 + threadIdx.x % 32 < count; }
};

/// tighten_block by a warp. False, and nothing has changed, if there are too many candidates for it.
__device__ inline bool
tighten_by_warp(const FilterSelect &args, uint32_t query)
{
	const size_t first = static_cast<size_t>(query) * args.candidates.capacity;
	WarpCandidates<16> candidates;

	if (!candidates.load(args, query))
		return false;

	const float cut = candidates.cut(args, query);
	const uint32_t n_kept = candidates.for_each_kept(cut,
		[&](uint32_t at, uint32_t j)
		{
			args.candidates.rows[first + at] = candidates.rows[j];
			args.candidates.estimates[first + at] = order_to_float(candidates.orders[j]);
		});

	if (threadIdx.x % 32 == 0)
		set_cut(args, query, n_kept, cut);
	return true;
}

/// Drop candidates that cannot be among the k first, in place: a thread never writes a place that another has yet to
/// read. For a block of kSelectThreads; ends with a barrier.
__device__ inline void
tighten_block(const FilterSelect &args, uint32_t query)
{
	__shared__ RadixScratch scratch;
	__shared__ uint32_t warp_counts[kSelectThreads / 32];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t k = args.queries.k[query];
	const uint32_t count = args.candidates.counts[query];
	uint32_t *rows = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	float *estimates = args.candidates.estimates + static_cast<size_t>(query) * args.candidates.capacity;

	if (args.prepared.redo[query] != 0 || count > args.candidates.capacity)
	{
		__syncthreads();
		if (threadIdx.x == 0)
		{
			args.candidates.counts[query] = 0;
			args.prepared.redo[query] = 1;
			args.thresholds[query] = -__int_as_float(0x7F800000);
		}
		__syncthreads();
		return;
	}

	float cut = args.thresholds[query];

	if (k <= count)
	{
		const uint32_t kth =
			block_kth_smallest([&](uint32_t i) { return float_to_order(estimates[i]); }, count, k, &scratch);
		const float value = order_to_float(kth);

		if (kth != 0xFFFFFFFFu) // NaN: fewer than k candidates have an estimate
			cut = fminf(cut, __double2float_ru(cut_for_estimate(args.bound, query_size(args.prepared, query), value)));
	}

	uint32_t kept = 0;

	for (uint32_t base = 0; base < count; base += blockDim.x)
	{
		const uint32_t i = base + threadIdx.x;
		const uint32_t row = i < count ? rows[i] : 0;
		const float estimate = i < count ? estimates[i] : 0.0f;
		const bool keep = i < count && !(estimate > cut);
		const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, keep);

		if (lane == 0)
			warp_counts[warp] = __popc(ballot);
		__syncthreads();

		uint32_t at = kept + __popc(ballot & ((1u << lane) - 1));
		uint32_t total = 0;

		for (uint32_t w = 0; w < kSelectThreads / 32; w++)
		{
			at += w < warp ? warp_counts[w] : 0;
			total += warp_counts[w];
		}
		if (keep)
		{
			rows[at] = row;
			estimates[at] = estimate;
		}
		kept += total;
		__syncthreads();
	}
	if (threadIdx.x == 0)
		set_cut(args, query, kept, cut);
	__syncthreads();
}

} // namespace vectorgpu::kernels
