// Scaled rows and queries (scaled.hpp): making them, and the constants of their range. Proofs: README.md, "Scaled
// rows".
#include <algorithm>
#include <cmath>

#include "kernels/filter/take_over.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kRowThreads = 256;
constexpr int kQueryThreads = 128;
constexpr float kMostWhole = 127.0f;
constexpr uint32_t kMostDims = 4096;       // beyond, sums and their start are no ints
constexpr double kLeastNorm = 0x1p-30;     // of the longest row; factors are far from the limits of floats
constexpr double kMostNorm = 0x1p30;       // the same
constexpr double kShortest = 8;            // queries up to this many times shorter than the rows keep their digits; L2
constexpr double kMostFactor = 0x1p60;     // of queries; other metrics
constexpr double kRangeOfThreshold = 9.01; // largest threshold times h, in units of 127 √d M
constexpr double kRangeOfStart = 14;       // largest start of a sum, in units of 127² d

/// √d times the largest whole number, a bound on |x| h and on |y| g of the longest row.
double
most_length(uint32_t dim)
{
	return kMostWhole * std::sqrt(static_cast<double>(dim));
}

__device__ __forceinline__ float
largest_of_warp(float value)
{
	for (int width = 16; width >= 1; width /= 2)
		value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, width));
	return value;
}

__device__ __forceinline__ double
sum_of_warp(double value)
{
	for (int width = 16; width >= 1; width /= 2)
		value += __shfl_xor_sync(0xFFFFFFFFu, value, width);
	return value;
}

__device__ __forceinline__ float
to_whole(float value, float factor)
{
	return fminf(fmaxf(rintf(__fmul_rn(value, factor)), -kMostWhole), kMostWhole);
}

struct ScaleRows
{
	Metric metric;
	Rows rows;
	const float *norms;
	uint32_t dim_pad;
	float most_factor;
	signed char *to; // null: not written
	uint32_t pitch_bytes;
	ScaledValue *values; // the same
	uint32_t *off_bits;
};

/// Grid ceil(n_rows / 8), block 256: a warp per row, sums in double.
__global__ void __launch_bounds__(kRowThreads)
scale_rows_kernel(const ScaleRows args)
{
	const uint32_t row = blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32;
	const uint32_t lane = threadIdx.x % 32;

	if (row >= args.rows.n_rows)
		return;

	const float *vector = reinterpret_cast<const float *>(
		static_cast<const char *>(args.rows.vectors) + static_cast<size_t>(row) * args.rows.pitch_bytes);
	const float norm_value = args.norms[row];
	const bool is_trusted = norm_value == norm_value;
	float largest = 0.0f;

	for (uint32_t e = lane; e < args.dim_pad; e += 32)
		largest = fmaxf(largest, fabsf(vector[e]));
	largest = largest_of_warp(largest);

	const float factor = is_trusted ? fminf(kMostWhole / largest, args.most_factor) : 0.0f;
	const double step = is_trusted ? 1.0 / static_cast<double>(factor) : 0.0;
	double off = 0.0;
	double squares = 0.0;

	for (uint32_t e = lane; e < args.pitch_bytes; e += 32)
	{
		const float value = is_trusted && e < args.dim_pad ? vector[e] : 0.0f;
		const float whole = to_whole(value, factor);
		const double lost = static_cast<double>(value) - static_cast<double>(whole) * step;

		off = fma(lost, lost, off);
		squares = fma(static_cast<double>(value), static_cast<double>(value), squares);
		if (args.to != nullptr)
			args.to[static_cast<size_t>(row) * args.pitch_bytes + e] = static_cast<signed char>(whole);
	}
	off = sqrt(sum_of_warp(off));
	squares = sqrt(sum_of_warp(squares));
	if (lane != 0)
		return;

	const bool is_cosine = args.metric == Metric::kCosine;

	if (args.values != nullptr)
		args.values[row] = {!is_trusted || args.metric == Metric::kL2 ? norm_value : 0.0f,
			is_cosine && is_trusted ? static_cast<float>(static_cast<double>(factor) * squares) : factor};
	if (is_trusted)
		atomicMax(args.off_bits, __float_as_uint(__double2float_ru((is_cosine ? off / squares : off) * 1.000001)));
}

/// Grid n_queries, block 128.
__global__ void __launch_bounds__(kQueryThreads)
scale_queries_kernel(Metric metric, const Queries queries, float most_factor, uint32_t operand_bytes,
	const Incoming incoming, const FilterQueries out)
{
	__shared__ float largest_of[kQueryThreads / 32];
	__shared__ double lost_of[kQueryThreads / 32];
	__shared__ double squares_of[kQueryThreads / 32];
	const float *query =
		static_cast<const float *>(queries.vectors) + static_cast<size_t>(blockIdx.x) * queries.dim_pad;
	signed char *operand = static_cast<signed char *>(out.operand) + static_cast<size_t>(blockIdx.x) * operand_bytes;
	float largest = 0.0f;
	double lost = 0.0;
	double squares = 0.0;

	let_next_start();
	wait_for_stream();
	take_over(incoming, queries, out.redo);
	for (uint32_t e = threadIdx.x; e < queries.dim_pad; e += blockDim.x)
		largest = fmaxf(largest, fabsf(query[e])); // ignores NaN; the norm does not
	largest = largest_of_warp(largest);
	if (threadIdx.x % 32 == 0)
		largest_of[threadIdx.x / 32] = largest;
	__syncthreads();
	largest = fmaxf(fmaxf(largest_of[0], largest_of[1]), fmaxf(largest_of[2], largest_of[3]));

	// The factor of an infinite query is 0, and it is not trusted; then any other does.
	float factor = fminf(kMostWhole / largest, most_factor);

	factor = factor > 0.0f ? factor : 1.0f;

	const double step = 1.0 / static_cast<double>(factor);

	for (uint32_t e = threadIdx.x; e < operand_bytes; e += blockDim.x)
	{
		const float value = e < queries.dim_pad ? query[e] : 0.0f;
		const float whole = to_whole(value, factor); // NaN: some number, since the query is answered another way
		const double rest = static_cast<double>(value) - static_cast<double>(whole) * step;

		lost = fma(rest, rest, lost);
		squares = fma(static_cast<double>(value), static_cast<double>(value), squares);
		operand[e] = static_cast<signed char>(whole);
	}
	lost = sum_of_warp(lost);
	squares = sum_of_warp(squares);
	if (threadIdx.x % 32 == 0)
	{
		lost_of[threadIdx.x / 32] = lost;
		squares_of[threadIdx.x / 32] = squares;
	}
	__syncthreads();
	if (threadIdx.x != 0)
		return;

	const double norm = sqrt((squares_of[0] + squares_of[1]) + (squares_of[2] + squares_of[3]));

	out.norms[blockIdx.x] = norm;
	out.scaled.factors[blockIdx.x] = factor;
	out.scaled.lost[blockIdx.x] = sqrt((lost_of[0] + lost_of[1]) + (lost_of[2] + lost_of[3])) * (1 + 0x1p-30);
	set_redo(incoming, !filter_trusts(metric, norm), out.redo);
}

} // namespace

float
scaled_most_factor(Metric metric, uint32_t dim, double max_norm)
{
	return static_cast<float>(metric == Metric::kL2 ? kShortest * most_length(dim) / max_norm : kMostFactor);
}

void
scale_pass(Metric metric, uint32_t dim, double max_norm, ScaledPass *pass)
{
	const double longest = metric == Metric::kCosine ? 1 : max_norm;
	const double range = kRangeOfStart * kMostWhole * kMostWhole * dim;

	pass->most_kept = static_cast<float>(kRangeOfThreshold * most_length(dim) * longest);
	pass->unit_bits = 0;
	while (std::ldexp(1.0, 22 + static_cast<int>(pass->unit_bits)) < range)
		pass->unit_bits++;
}

bool
scaled_serves(Metric metric, uint32_t dim, double max_norm)
{
	const bool is_known = metric == Metric::kL2 || metric == Metric::kInnerProduct || metric == Metric::kCosine;

	return is_known && dim <= kMostDims && max_norm >= kLeastNorm && max_norm <= kMostNorm;
}

cudaError_t
launch_scale_rows(Metric metric, const Rows &rows, const float *norms, uint32_t dim, uint32_t dim_pad, double max_norm,
	void *to, uint32_t pitch_bytes, ScaledValue *values, uint32_t *off_bits, cudaStream_t stream)
{
	const uint32_t blocks = (rows.n_rows + kRowThreads / 32 - 1) / (kRowThreads / 32);
	ScaleRows args;

	if (rows.n_rows == 0)
		return cudaSuccess;
	args.metric = metric;
	args.rows = rows;
	args.norms = norms;
	args.dim_pad = dim_pad;
	args.most_factor = static_cast<float>(metric == Metric::kCosine ? kMostFactor : most_length(dim) / max_norm);
	args.to = static_cast<signed char *>(to);
	args.pitch_bytes = pitch_bytes;
	args.values = values;
	args.off_bits = off_bits;
	scale_rows_kernel<<<blocks, kRowThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_scale_queries(Metric metric, const Queries &queries, float most_factor, const Incoming &incoming,
	const FilterQueries &out, cudaStream_t stream)
{
	return launch_after(scale_queries_kernel, queries.n_queries, kQueryThreads, 0, stream, metric, queries, most_factor,
		static_cast<uint32_t>(filter_operand_bytes(Form::kScaled, queries.dim_pad)), incoming, out);
}

} // namespace vectorgpu::kernels
