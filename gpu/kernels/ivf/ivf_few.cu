// Inverted lists of bytes for few queries of bytes (ivf_few_scan.cuh), and the entry to all kernels of few queries.
// Scores are exact integers, as in ivf_bytes.cu, and so are their orders as floats: nothing is estimated. With more
// than kIvfMostByteDims dimensions that holds for L2 scores below 2^24: all terms and sums of the canonical score are
// whole and not negative, so it is exact up to there and not below 2^24 beyond. Queries that find other scores have
// redo set.
#include "kernels/ivf/ivf_few_launch.hpp"
#include "kernels/ivf/ivf_few_rank.cuh"
#include "kernels/ivf/ivf_few_scan.cuh"

namespace vectorgpu::kernels
{

extern template cudaError_t launch_ivf_few_reals<Metric::kL2>(const IvfFewArgs &, const IvfFewInline &, cudaStream_t);
extern template cudaError_t launch_ivf_few_reals<Metric::kInnerProduct>(
	const IvfFewArgs &, const IvfFewInline &, cudaStream_t);
extern template cudaError_t launch_ivf_few_reals<Metric::kCosine>(
	const IvfFewArgs &, const IvfFewInline &, cudaStream_t);
extern template cudaError_t launch_ivf_few_reals<Metric::kL1>(const IvfFewArgs &, const IvfFewInline &, cudaStream_t);
extern template cudaError_t prepare_ivf_few_reals<Metric::kL2>();
extern template cudaError_t prepare_ivf_few_reals<Metric::kInnerProduct>();
extern template cudaError_t prepare_ivf_few_reals<Metric::kCosine>();
extern template cudaError_t prepare_ivf_few_reals<Metric::kL1>();

namespace
{

constexpr double kMostExact = 0x1p24; // scores from here on may be rounded

/// Products of the query (shared memory) with rows [first, end), up to 32: thread l gets that of row first + l, x · y,
/// or, if wide, 2 x · y − |y|². Eight threads take a row, so a warp reads whole rows, 4 KB of them at a time.
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

			values[s] = at < dim_pad
				? __ldg(reinterpret_cast<const uint4 *>(block + static_cast<size_t>(place) * rows.pitch_bytes + at))
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
			sums[s] = 2 * sums[s] - squares[s]; // two's complement, here and below
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

/// kWide: more than kIvfMostByteDims dimensions.
template <Metric metric, bool kWide>
class ByteScorer
{
public:
	static constexpr uint32_t kChunkRows = 32;
	static constexpr int kBlocks = 3;
	static constexpr bool kPairs = false;

	static __host__ __device__ constexpr uint32_t query_units(uint32_t dim_pad) { return dim_pad / 16; }

	__device__ __forceinline__ ByteScorer(
		const IvfFewArgs &args, const uint4 *query, const IvfFewQuery &wanted, uint32_t lane)
		: args_(args), query_(query), norm_(wanted.norm), lane_(lane)
	{
	}

	__device__ __forceinline__ uint32_t order(uint32_t first, uint32_t end) const
	{
		const float row_value =
			metric == Metric::kL2 && !kWide ? __ldg(args_.row_values + min(first + lane_, end - 1)) : 0.0f;
		const int32_t product = multiply_chunk<kWide>(args_.rows, args_.dim_pad, query_, first, end, lane_);
		const int32_t value = metric != Metric::kL2 ? -product
			: kWide                                 ? norm_ - product
													: norm_ + __float2int_rn(2.0f * row_value) - 2 * product;

		return float_to_order(static_cast<float>(value));
	}

	__device__ __forceinline__ bool is_inexact(uint64_t key) const
	{
		return kWide && key >= device_score_to_key(kMostExact);
	}

private:
	const IvfFewArgs &args_;
	const uint4 *query_;
	int32_t norm_;
	uint32_t lane_;
};

template <Metric metric>
cudaError_t
launch_bytes(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	const cudaError_t error = launch_few_rank<metric, ByteForm>(args, travelling, stream);

	if (error != cudaSuccess)
		return error;
	if constexpr (metric == Metric::kL2)
		if (args.dim_pad > kIvfMostByteDims)
			return launch_few_scan<ByteScorer<metric, true>>(args, stream);
	return launch_few_scan<ByteScorer<metric, false>>(args, stream);
}

/// Whether grids and shared memory are within their bounds, and the kernels can take such rows.
bool
can_launch(const IvfFewArgs &args)
{
	const bool serves = args.reals
		? ivf_few_serves_reals(args.metric, args.rows.form, args.dim_pad)
		: ivf_few_serves(args.metric, args.rows.form, args.dim_pad) && !args.vectors_are_there;
	const bool travels = args.host_vectors == nullptr;
	const size_t query_bytes = size_t{args.dim_pad} * (args.reals ? sizeof(float) : 1);

	return serves && args.n_queries <= kIvfFewMostQueries && args.n_lists > 0 && args.n_lists <= kIvfFewMostLists &&
		args.n_splits > 0 && travels == (args.host_queries == nullptr) &&
		(args.metric != Metric::kCosine || args.lows != nullptr) &&
		(!travels ||
			(args.n_queries <= kIvfFewInlineQueries && args.n_queries * query_bytes <= kIvfFewInlineBytes &&
				!args.vectors_are_there));
}

} // namespace

bool
ivf_few_serves(Metric metric, Form form, uint32_t dim_pad)
{
	return ivf_bytes_are_exact(metric, form, dim_pad) ||
		(metric == Metric::kL2 && form == Form::kByte && dim_pad <= kIvfFewMostDims);
}

bool
ivf_few_serves_reals(Metric metric, Form form, uint32_t dim_pad)
{
	const bool metric_serves =
		metric == Metric::kL2 || metric == Metric::kInnerProduct || metric == Metric::kCosine || metric == Metric::kL1;

	return metric_serves && form != Form::kBit && dim_pad > 0 && dim_pad % kLanes == 0 &&
		dim_pad <= kIvfFewMostRealDims;
}

IvfFewGrid
ivf_few_grid(bool reals, uint32_t dim_pad)
{
	constexpr uint64_t kProcessors = 132;

	if (!reals)
		return {kProcessors * 3, 256, kIvfFewCandidates / 2};
	// Blocks by their registers, of two chunks for each warp, or one of narrow rows. Rows of reals are rarely at one
	// distance.
	return dim_pad <= kIvfFewNarrowDims ? IvfFewGrid{kProcessors * 2, 256, kIvfFewCandidates / 8 * 7}
										: IvfFewGrid{kProcessors * 3, 128, kIvfFewCandidates / 8 * 7};
}

cudaError_t
launch_ivf_few(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	if (args.n_queries == 0)
		return cudaSuccess; // an empty grid is an error
	if (!can_launch(args))
		return cudaErrorInvalidValue;
	if (!args.reals)
		return args.metric == Metric::kL2 ? launch_bytes<Metric::kL2>(args, travelling, stream)
										  : launch_bytes<Metric::kInnerProduct>(args, travelling, stream);
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_ivf_few_reals<Metric::kL2>(args, travelling, stream);
		case Metric::kInnerProduct:
			return launch_ivf_few_reals<Metric::kInnerProduct>(args, travelling, stream);
		case Metric::kCosine:
			return launch_ivf_few_reals<Metric::kCosine>(args, travelling, stream);
		case Metric::kL1:
			return launch_ivf_few_reals<Metric::kL1>(args, travelling, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

cudaError_t
prepare_ivf_few()
{
	cudaError_t error = prepare_few_scan<ByteScorer<Metric::kL2, false>>(kIvfFewMostDims);

	for (cudaError_t (*prepare)() : {+[]() { return prepare_few_scan<ByteScorer<Metric::kL2, true>>(kIvfFewMostDims); },
			 +[]() { return prepare_few_scan<ByteScorer<Metric::kInnerProduct, false>>(kIvfFewMostDims); },
			 &prepare_ivf_few_reals<Metric::kL2>, &prepare_ivf_few_reals<Metric::kInnerProduct>,
			 &prepare_ivf_few_reals<Metric::kCosine>, &prepare_ivf_few_reals<Metric::kL1>})
		if (error == cudaSuccess)
			error = prepare();
	return error;
}

} // namespace vectorgpu::kernels
