// The filter's other kernels: preparing a batch, thresholds from sampled minima, cutting candidates back before they
// are rescored. All bounds are computed in double and rounded outwards.
#include <cuda_fp16.h>

#include "kernels/filter/filter_bound.cuh"
#include "kernels/filter/take_over.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kPrepareThreads = 128;
constexpr uint32_t kThresholdWarps = 4;

/// Grid n_queries, block 128. Query operand: see filter_mma.cuh.
template <Form form>
__global__ void __launch_bounds__(kPrepareThreads)
prepare_kernel(
	Metric metric, const Queries queries, uint32_t operand_bytes, const Incoming incoming, const FilterQueries out)
{
	__shared__ double sums[kPrepareThreads / 32];
	__shared__ uint32_t shared_bad;
	const float *query =
		static_cast<const float *>(queries.vectors) + static_cast<size_t>(blockIdx.x) * queries.dim_pad;
	unsigned char *operand =
		static_cast<unsigned char *>(out.operand) + static_cast<size_t>(blockIdx.x) * operand_bytes;
	uint32_t bad = 0;
	double sum = 0.0;

	let_next_start();
	if (threadIdx.x == 0)
		shared_bad = 0;
	wait_for_stream();
	take_over(incoming, queries, out.redo);
	for (uint32_t i = threadIdx.x; i < operand_bytes / 4; i += blockDim.x)
		reinterpret_cast<uint32_t *>(operand)[i] = 0;
	__syncthreads();
	for (uint32_t e = threadIdx.x; e < queries.dim_pad; e += blockDim.x)
	{
		const float value = query[e];

		sum = fma(static_cast<double>(value), static_cast<double>(value), sum);
		if constexpr (form == Form::kByte)
		{
			const bool exact = value >= 0.0f && value <= 255.0f && floorf(value) == value;

			bad |= !exact;
			operand[e] = exact ? static_cast<unsigned char>(value) : 0;
		}
		else if constexpr (form == Form::kFloat16)
		{
			const __half half = __float2half_rn(value); // FilterBound covers the rounding

			bad |= __hisinf(half) != 0;
			reinterpret_cast<__half *>(operand)[e] = half;
		}
		else
		{
			uint32_t rounded; // to TF32

			asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
			reinterpret_cast<uint32_t *>(operand)[e] = rounded;
		}
	}
	for (int width = 16; width >= 1; width /= 2)
		sum += __shfl_xor_sync(0xFFFFFFFFu, sum, width);
	if (threadIdx.x % 32 == 0)
		sums[threadIdx.x / 32] = sum;
	if (bad != 0)
		shared_bad = 1;
	__syncthreads();
	if (threadIdx.x == 0)
	{
		const double norm = sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));

		out.norms[blockIdx.x] = norm;
		set_redo(incoming, shared_bad != 0 || !filter_trusts(metric, norm), out.redo);
	}
}

/// A query's first threshold. What it needs to know of the query is loaded before its sample.
struct FirstThreshold
{
	const FilterSelect &args;
	uint32_t query;
	uint32_t k;
	uint32_t n_best;
	bool redo;
	QuerySize size;

	__device__ __forceinline__ FirstThreshold(const FilterSelect &of, uint32_t number)
		: args(of), query(number), k(of.queries.k[number]), n_best(of.best.counts[number]),
		  redo(of.prepared.redo[number] != 0), size(query_size(of.prepared, number))
	{
	}

	/// order: of the k-th smallest minimum; 0xFFFFFFFF: there are fewer. By one thread.
	__device__ __forceinline__ void set(uint32_t order) const
	{
		double cut = order == 0xFFFFFFFFu ? infinity() : cut_for_estimate(args.bound, size, order_to_float(order));

		if (n_best >= k)
			cut = fmin(cut,
				cut_for_score(args.bound, size,
					key_score(args.best.entries[static_cast<size_t>(query) * args.best.stride + k - 1].key)));
		cut = fmin(cut, largest_estimate(args.bound, size));
		args.candidates.counts[query] = 0;
		args.thresholds[query] = redo ? -__int_as_float(0x7F800000) : __double2float_ru(cut);
	}
};

/// Grid ceil(n_queries / 4), block 128: a warp for each query, with up to 32 kEach minima.
template <int kEach>
__global__ void __launch_bounds__(kThresholdWarps * 32)
warp_thresholds_kernel(const FilterSelect args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t query = blockIdx.x * kThresholdWarps + threadIdx.x / 32;

	let_next_start();
	wait_for_stream();
	if (query >= args.queries.n_queries)
		return;

	const FirstThreshold threshold(args, query);
	const float *minima = args.minima + static_cast<size_t>(query) * args.n_minima;
	uint32_t mine[kEach];

#pragma unroll
	for (uint32_t j = 0; j < kEach; j++)
		mine[j] = j * 32 + lane < args.n_minima ? float_to_order(minima[j * 32 + lane]) : 0xFFFFFFFFu;

	const uint32_t kth = warp_kth_of_few(mine, threshold.k);

	if (lane == 0)
		threshold.set(kth);
}

/// Grid n_queries, block 256: a block for each query, with any number of minima.
__global__ void __launch_bounds__(kSelectThreads)
block_thresholds_kernel(const FilterSelect args)
{
	__shared__ union
	{
		RadixScratch radix;
		FewScratch few;
	} scratch;
	const float *minima = args.minima + static_cast<size_t>(blockIdx.x) * args.n_minima;
	uint32_t kth = 0xFFFFFFFFu;

	let_next_start();
	wait_for_stream();

	const FirstThreshold threshold(args, blockIdx.x);

	if (args.n_minima <= kFewEach * kSelectThreads)
	{
		uint32_t mine[kFewEach];

#pragma unroll
		for (uint32_t j = 0; j < kFewEach; j++)
		{
			const uint32_t i = j * kSelectThreads + threadIdx.x;

			mine[j] = i < args.n_minima ? float_to_order(minima[i]) : 0xFFFFFFFFu;
		}
		kth = block_kth_of_few(mine, threshold.k, &scratch.few);
	}
	else if (threshold.k <= args.n_minima)
		kth = block_kth_smallest(
			[&](uint32_t i) { return float_to_order(minima[i]); }, args.n_minima, threshold.k, &scratch.radix);
	if (threadIdx.x == 0)
		threshold.set(kth);
}

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kSelectThreads)
filter_tighten_kernel(const FilterSelect args)
{
	let_next_start();
	wait_for_stream();
	tighten_block(args, blockIdx.x);
}

/// Grid ceil(n_queries / 8), block 256: a warp for each query. Those with many candidates are left to the whole block.
__global__ void __launch_bounds__(kSelectThreads)
filter_tighten_many_kernel(const FilterSelect args)
{
	constexpr uint32_t kWarps = kSelectThreads / 32;
	__shared__ bool left[kWarps];
	const uint32_t first = blockIdx.x * kWarps;
	const uint32_t warp = threadIdx.x / 32;

	let_next_start();
	wait_for_stream();

	const bool is_query = first + warp < args.queries.n_queries;
	const bool done = !is_query || tighten_by_warp(args, first + warp);

	if (threadIdx.x % 32 == 0)
		left[warp] = !done;
	__syncthreads();
	for (uint32_t i = 0; i < kWarps; i++)
		if (left[i])
			tighten_block(args, first + i);
}

} // namespace

cudaError_t
launch_prepare_queries(Metric metric, Form form, const Queries &queries, const Incoming &incoming,
	const FilterQueries &out, cudaStream_t stream)
{
	const uint32_t bytes = static_cast<uint32_t>(filter_operand_bytes(form, queries.dim_pad));
	auto launch = [&](auto kernel)
	{
		return launch_after(
			kernel, queries.n_queries, kPrepareThreads, 0, stream, metric, queries, bytes, incoming, out);
	};

	if (form == Form::kByte)
		return launch(prepare_kernel<Form::kByte>);
	if (form == Form::kFloat16)
		return launch(prepare_kernel<Form::kFloat16>);
	return launch(prepare_kernel<Form::kFloat32>);
}

cudaError_t
launch_filter_thresholds(const FilterSelect &args, cudaStream_t stream)
{
	const uint32_t n = args.queries.n_queries;
	auto by_warps = [&](auto kernel)
	{
		return launch_after(kernel, (n + kThresholdWarps - 1) / kThresholdWarps, kThresholdWarps * 32, 0, stream, args);
	};

	if (args.n_minima <= 512)
		return by_warps(warp_thresholds_kernel<16>);
	if (args.n_minima <= 2048 && n >= kManyQueries)
		return by_warps(warp_thresholds_kernel<64>);
	return launch_after(block_thresholds_kernel, n, kSelectThreads, 0, stream, args);
}

cudaError_t
launch_filter_tighten(const FilterSelect &args, cudaStream_t stream)
{
	const uint32_t n = args.queries.n_queries;

	if (takes_many(args))
		return launch_after(filter_tighten_many_kernel, (n + kSelectThreads / 32 - 1) / (kSelectThreads / 32),
			kSelectThreads, 0, stream, args);
	return launch_after(filter_tighten_kernel, n, kSelectThreads, 0, stream, args);
}

} // namespace vectorgpu::kernels
