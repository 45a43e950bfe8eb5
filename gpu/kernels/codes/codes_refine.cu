// Canonical scores of the candidates that codes name, or what is kept of them; passes over many candidates.
#include "kernels/canonical/rescore.cuh"
#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kRefineThreads = 128;

uint32_t
blocks_for(uint64_t n)
{
	return static_cast<uint32_t>(min(uint64_t{1} << 30, (n + kThreads - 1) / kThreads));
}

__global__ void __launch_bounds__(kThreads)
code_next_kernel(uint32_t n_queries, const uint32_t *counts, uint32_t *left, uint32_t *wanted, uint32_t *n_found)
{
	const uint32_t query = blockIdx.x * kThreads + threadIdx.x;

	if (query >= n_queries)
		return;

	const uint32_t rest = counts[query] < wanted[query] ? 0 : left[query] - counts[query];

	left[query] = rest;
	wanted[query] = min(rest, kMostPassCandidates);
	if (n_found != nullptr)
		n_found[query] += counts[query];
}

/// Grid (n_queries, blocks of a query), block 128. A thread takes a candidate.
__global__ void __launch_bounds__(kRefineThreads)
code_keep_kernel(const RescoreArgs args)
{
	const uint32_t query = blockIdx.x;
	const uint32_t count = min(args.candidates.counts[query], args.candidates.capacity);
	const uint32_t *places = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	uint64_t *keys = args.candidates.keys + static_cast<size_t>(query) * args.candidates.capacity;

	for (uint32_t i = blockIdx.y * kRefineThreads + threadIdx.x; i < count; i += gridDim.y * kRefineThreads)
	{
		const uint32_t place = places[i];

		if (!is_after(args, query, keys[i], place) || row_is_dead(args.rows, place))
			keys[i] = kExcludedKey;
	}
}

/// Grid (n_queries, blocks of a query), block 128.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kRefineThreads)
code_refine_kernel(const RescoreArgs args)
{
	const uint32_t query = blockIdx.x;
	constexpr uint32_t kWarps = kRefineThreads / 32;

	rescore_candidates<metric, FormT>(args, query, blockIdx.y * kWarps + threadIdx.x / 32, gridDim.y * kWarps,
		[&](double score, uint32_t place)
		{
			const uint64_t key = key_after(score, args.queries, query, args.rows.row_ids, place);

			return key == kNanKey || row_is_dead(args.rows, place) ? kExcludedKey : key;
		});
}

template <Metric metric>
cudaError_t
refine_metric(const RescoreArgs &args, cudaStream_t stream)
{
	const dim3 grid(args.queries.n_queries, args.queries.n_queries >= 512 ? 1 : 8);

	switch (args.rows.form)
	{
		case Form::kFloat32:
			code_refine_kernel<metric, Float32Form><<<grid, kRefineThreads, 0, stream>>>(args);
			break;
		case Form::kFloat16:
			code_refine_kernel<metric, Float16Form><<<grid, kRefineThreads, 0, stream>>>(args);
			break;
		case Form::kByte:
			code_refine_kernel<metric, ByteForm><<<grid, kRefineThreads, 0, stream>>>(args);
			break;
		case Form::kBit:
		case Form::kScaled:
			return cudaErrorInvalidValue;
	}
	return cudaGetLastError();
}

} // namespace

cudaError_t
launch_code_next(uint32_t n_queries, const uint32_t *counts, uint32_t *left, uint32_t *wanted, uint32_t *n_found,
	cudaStream_t stream)
{
	code_next_kernel<<<blocks_for(n_queries), kThreads, 0, stream>>>(n_queries, counts, left, wanted, n_found);
	return cudaGetLastError();
}

cudaError_t
launch_code_keep(const RescoreArgs &args, cudaStream_t stream)
{
	if (args.queries.n_queries == 0)
		return cudaSuccess;
	code_keep_kernel<<<dim3(args.queries.n_queries, args.queries.n_queries >= 512 ? 1 : 8), kRefineThreads, 0,
		stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_code_refine(const RescoreArgs &args, cudaStream_t stream)
{
	if (args.queries.n_queries == 0)
		return cudaSuccess;
	switch (args.metric)
	{
		case Metric::kL2:
			return refine_metric<Metric::kL2>(args, stream);
		case Metric::kInnerProduct:
			return refine_metric<Metric::kInnerProduct>(args, stream);
		case Metric::kCosine:
			return refine_metric<Metric::kCosine>(args, stream);
		case Metric::kL1:
			return refine_metric<Metric::kL1>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::kernels
