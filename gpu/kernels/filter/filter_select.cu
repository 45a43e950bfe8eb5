// The filter's other kernels: preparing a batch, thresholds from sampled minima, cutting candidates back before they
// are rescored. All bounds are computed in double and rounded outwards.
#include <cuda_fp16.h>

#include "kernels/filter/filter_bound.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kPrepareThreads = 128;

/// Grid n_queries, block 128. Query operand: see filter_mma.cuh.
template <Form form>
__global__ void __launch_bounds__(kPrepareThreads)
prepare_kernel(Metric metric, const Queries queries, uint32_t operand_bytes, const FilterQueries out)
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
		if (shared_bad != 0 || !filter_trusts(metric, norm))
			out.redo[blockIdx.x] = 1; // another source may have set it: never reset to 0
	}
}

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kSelectThreads)
filter_thresholds_kernel(const FilterSelect args)
{
	__shared__ union
	{
		RadixScratch radix;
		FewScratch few;
	} scratch;
	const uint32_t query = blockIdx.x;

	let_next_start();
	wait_for_stream();

	const uint32_t k = args.queries.k[query];
	const QuerySize size = query_size(args.prepared, query);
	const float *minima = args.minima + static_cast<size_t>(query) * args.n_minima;
	double cut = infinity();

	if (k <= args.n_minima)
	{
		uint32_t kth;

		if (args.n_minima <= kFewEach * kSelectThreads)
		{
			uint32_t mine[kFewEach];

#pragma unroll
			for (uint32_t j = 0; j < kFewEach; j++)
			{
				const uint32_t i = j * kSelectThreads + threadIdx.x;

				mine[j] = i < args.n_minima ? float_to_order(minima[i]) : 0xFFFFFFFFu;
			}
			kth = block_kth_of_few(mine, k, &scratch.few);
		}
		else
			kth = block_kth_smallest(
				[&](uint32_t i) { return float_to_order(minima[i]); }, args.n_minima, k, &scratch.radix);
		cut = cut_for_estimate(args.bound, size, order_to_float(kth));
	}
	if (threadIdx.x != 0)
		return;
	if (args.best.counts[query] >= k)
		cut = fmin(cut,
			cut_for_score(args.bound, size,
				key_score(args.best.entries[static_cast<size_t>(query) * args.best.stride + k - 1].key)));
	cut = fmin(cut, largest_estimate(args.bound, size));
	args.candidates.counts[query] = 0;
	args.thresholds[query] = args.prepared.redo[query] != 0 ? -__int_as_float(0x7F800000) : __double2float_ru(cut);
}

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kSelectThreads)
filter_tighten_kernel(const FilterSelect args)
{
	let_next_start();
	wait_for_stream();
	tighten_block(args, blockIdx.x);
}

} // namespace

cudaError_t
launch_prepare_queries(Metric metric, Form form, const Queries &queries, const FilterQueries &out, cudaStream_t stream)
{
	const uint32_t bytes = static_cast<uint32_t>(filter_operand_bytes(form, queries.dim_pad));
	auto launch = [&](auto kernel)
	{ return launch_after(kernel, queries.n_queries, kPrepareThreads, 0, stream, metric, queries, bytes, out); };

	if (form == Form::kByte)
		return launch(prepare_kernel<Form::kByte>);
	if (form == Form::kFloat16)
		return launch(prepare_kernel<Form::kFloat16>);
	return launch(prepare_kernel<Form::kFloat32>);
}

cudaError_t
launch_filter_thresholds(const FilterSelect &args, cudaStream_t stream)
{
	return launch_after(filter_thresholds_kernel, args.queries.n_queries, kSelectThreads, 0, stream, args);
}

cudaError_t
launch_filter_tighten(const FilterSelect &args, cudaStream_t stream)
{
	return launch_after(filter_tighten_kernel, args.queries.n_queries, kSelectThreads, 0, stream, args);
}

} // namespace vectorgpu::kernels
