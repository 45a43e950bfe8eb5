// Codes on the device: their layout, preparing queries, passes over many candidates, canonical scores of candidates.
#include "kernels/canonical/canonical.cuh"
#include "kernels/codes/codes_launch.hpp"
#include "kernels/codes/codes_rabitq.cuh"

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

/// A thread for each 16 bytes of the result.
__global__ void __launch_bounds__(kThreads)
pq_layout_kernel(const uint8_t *from, uint32_t code_bytes, uint64_t first_block, uint64_t n_blocks, uint8_t *codes,
	uint32_t pitch_bytes)
{
	const uint32_t n_groups = pitch_bytes / 16;
	const uint64_t n = n_blocks * n_groups * kCodeRows;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint32_t row = static_cast<uint32_t>(i % kCodeRows);
		const uint32_t group = static_cast<uint32_t>(i / kCodeRows % n_groups);
		const uint64_t block = i / kCodeRows / n_groups;
		uint32_t words[4] = {};

		for (uint32_t b = 0; b < 16 && group * 16 + b < code_bytes; b++)
			words[b / 4] |= static_cast<uint32_t>(from[(block * code_bytes + group * 16 + b) * kCodeRows + row])
				<< (b % 4 * 8);
		reinterpret_cast<uint4 *>(codes)[first_block * n_groups * kCodeRows + i] =
			make_uint4(words[0], words[1], words[2], words[3]);
	}
}

/// A thread for each byte of the result.
__global__ void __launch_bounds__(kThreads)
pq_layout_back_kernel(
	const uint8_t *codes, uint32_t pitch_bytes, uint32_t code_bytes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to)
{
	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_bytes; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint64_t at = first_byte + i;
		const uint64_t row = at % kCodeRows;
		const uint64_t byte = at / kCodeRows % code_bytes;
		const uint64_t block = at / kCodeRows / code_bytes;

		to[i] = codes[(block * (pitch_bytes / 16) + byte / 16) * (kCodeRows * 16) + row * 16 + byte % 16];
	}
}

/// The place of element d of a row.
__device__ __forceinline__ uint32_t
sq8_place(uint32_t d)
{
	return d / kSq8GroupDims * kSq8GroupDims + d % kLanes * 4 + d % kSq8GroupDims / kLanes;
}

__global__ void __launch_bounds__(kThreads)
sq8_layout_kernel(
	const uint8_t *from, uint32_t dim, uint64_t first_row, uint64_t n_rows, uint8_t *codes, uint32_t pitch_bytes)
{
	const uint64_t n = n_rows * pitch_bytes;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint64_t row = i / pitch_bytes;
		const uint32_t d = static_cast<uint32_t>(i % pitch_bytes);

		codes[(first_row + row) * pitch_bytes + sq8_place(d)] = d < dim ? from[row * dim + d] : 0;
	}
}

__global__ void __launch_bounds__(kThreads)
sq8_layout_back_kernel(
	const uint8_t *codes, uint32_t pitch_bytes, uint32_t dim, uint64_t first_byte, uint64_t n_bytes, uint8_t *to)
{
	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_bytes; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint64_t at = first_byte + i;

		to[i] = codes[at / dim * pitch_bytes + sq8_place(static_cast<uint32_t>(at % dim))];
	}
}

/// Σ x² with the bits of engine/ivf's square_norm: 32 sums in double, the rest one by one, then the sums in order. All
/// threads of a warp get it.
__device__ double
square_norm(const float *x, uint32_t dim, uint32_t lane)
{
	const uint32_t whole = dim / 32 * 32;
	double mine = 0.0;
	double sum = 0.0;

	for (uint32_t d = lane; d < whole; d += 32)
	{
		const double v = static_cast<double>(x[d]);

		mine = __dadd_rn(mine, __dmul_rn(v, v));
	}
	for (uint32_t d = whole; d < dim; d++)
	{
		const double v = static_cast<double>(x[d]);

		sum = __dadd_rn(sum, __dmul_rn(v, v));
	}
	for (int j = 0; j < 32; j++)
		sum = __dadd_rn(sum, __shfl_sync(0xFFFFFFFFu, mine, j));
	return sum;
}

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kThreads)
code_queries_kernel(Metric metric, const Codes codes, const Queries queries, const CodeQueries prepared)
{
	__shared__ double shared_scale;
	const uint32_t query = blockIdx.x;
	const uint32_t dim = codes.dim;
	const float *vector = static_cast<const float *>(queries.vectors) + static_cast<size_t>(query) * queries.dim_pad;
	float *unit = prepared.units + static_cast<size_t>(query) * queries.dim_pad;
	float *state = prepared.states + static_cast<size_t>(query) * prepared.state_stride;
	const bool product = metric == Metric::kInnerProduct || metric == Metric::kCosine;

	if (metric == Metric::kCosine)
	{
		if (threadIdx.x < 32)
		{
			const double squares = square_norm(vector, dim, threadIdx.x);

			if (threadIdx.x == 0)
				shared_scale = squares > 0.0 ? __ddiv_rn(1.0, __dsqrt_rn(squares)) : -1.0;
		}
		__syncthreads();
	}

	const double scale = metric == Metric::kCosine ? shared_scale : -1.0;

	for (uint32_t d = threadIdx.x; d < queries.dim_pad; d += kThreads)
		unit[d] = scale >= 0.0 ? __double2float_rn(__dmul_rn(static_cast<double>(vector[d]), scale)) : vector[d];
	__syncthreads(); // the block's own writes

	if (codes.form == CodeForm::kSq8)
	{
		const uint32_t padded = prepared.state_stride / 2;
		const float *low = codes.model;
		const float *step = codes.model + dim;

		for (uint32_t d = threadIdx.x; d < padded; d += kThreads)
		{
			const double q = d < dim ? static_cast<double>(unit[d]) : 0.0;

			state[d] = d < dim ? __double2float_rn(__dsub_rn(q, static_cast<double>(low[d]))) : 0.0f;
			state[padded + d] = d >= dim ? 0.0f
				: product                ? __double2float_rn(__dmul_rn(q, static_cast<double>(step[d])))
										 : step[d];
		}
		if (threadIdx.x == 0)
		{
			double constant = 0.0;

			for (uint32_t d = 0; product && d < dim; d++) // products of two floats are exact
				constant = __dadd_rn(constant, __dmul_rn(static_cast<double>(unit[d]), static_cast<double>(low[d])));
			prepared.constants[query] = constant;
		}
	}
	else if (codes.form == CodeForm::kPq8 || codes.form == CodeForm::kPq4)
		for (uint32_t j = threadIdx.x; j < codes.m * codes.sub_dim; j += kThreads)
		{
			float sum = 0.0f;

			if (codes.rotation == nullptr)
				sum = j < dim ? unit[j] : 0.0f;
			else if (j < dim)
				for (uint32_t d = 0; d < dim; d++)
					sum = __fmaf_rn(
						unit[d], __ldg(codes.rotation + static_cast<size_t>(d) * codes.rotation_stride + j), sum);
			state[j] = sum;
		}
}

__global__ void __launch_bounds__(kThreads)
code_begin_kernel(uint32_t n_queries, const uint32_t *candidates, uint32_t *left, uint32_t *wanted)
{
	const uint32_t query = blockIdx.x * kThreads + threadIdx.x;

	if (query >= n_queries)
		return;
	left[query] = candidates[query];
	wanted[query] = min(candidates[query], kMostPassCandidates);
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
	const bool has_after = args.queries.after != nullptr && args.queries.has_after[query] != 0;
	const Entry after = has_after ? args.queries.after[query] : Entry{0, 0};

	for (uint32_t i = blockIdx.y * kRefineThreads + threadIdx.x; i < count; i += gridDim.y * kRefineThreads)
	{
		const uint32_t place = places[i];
		const uint64_t key = keys[i];
		const bool behind = !has_after || key > after.key || (key == after.key && args.rows.row_ids[place] > after.row);

		if (!behind || row_is_dead(args.rows, place))
			keys[i] = kExcludedKey;
	}
}

/// Grid (n_queries, blocks of a query), block 128.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kRefineThreads)
code_refine_kernel(const RescoreArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t query = blockIdx.x;
	const uint32_t count = min(args.candidates.counts[query], args.candidates.capacity);
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
	const uint32_t *places = args.candidates.rows + static_cast<size_t>(query) * args.candidates.capacity;
	uint64_t *keys = args.candidates.keys + static_cast<size_t>(query) * args.candidates.capacity;
	const char *block = static_cast<const char *>(args.rows.vectors);
	const uint32_t n_warps = gridDim.y * (kRefineThreads / 32);
	const uint32_t warp = blockIdx.y * (kRefineThreads / 32) + threadIdx.x / 32;
	float aa = 0.0f;

	if (warp * 32 >= count)
		return;
	if constexpr (metric == Metric::kCosine)
		aa = query_square_sum(vector, dim_pad, lane);
	for (uint32_t base = warp * 32; base < count; base += n_warps * 32)
	{
		const uint32_t mine = places[min(base + lane, count - 1)];
		const double score = score_pairs<metric, FormT, 32, 1>([&](int r)
			{ return block + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, mine, r)) * args.rows.pitch_bytes; }, vector,
			1, dim_pad, aa, lane);

		if (base + lane >= count)
			continue;

		const uint64_t key = key_after(score, args.queries, query, args.rows.row_ids, mine);

		keys[base + lane] = key == kNanKey || row_is_dead(args.rows, mine) ? kExcludedKey : key;
	}
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

uint32_t
code_state_floats(const Codes &codes)
{
	switch (codes.form)
	{
		case CodeForm::kHalves:
			return 1;
		case CodeForm::kSq8:
			return 2 * ((codes.dim + kSq8GroupDims - 1) / kSq8GroupDims * kSq8GroupDims);
		case CodeForm::kRabitq:
			return static_cast<uint32_t>(rabitq_shape(codes).state_bytes() / sizeof(float));
		case CodeForm::kPq8:
		case CodeForm::kPq4:
			break;
	}
	return codes.m * codes.sub_dim;
}

cudaError_t
launch_code_queries(
	Metric metric, const Codes &codes, const Queries &queries, const CodeQueries &prepared, cudaStream_t stream)
{
	if (queries.n_queries == 0)
		return cudaSuccess;
	code_queries_kernel<<<queries.n_queries, kThreads, 0, stream>>>(metric, codes, queries, prepared);
	if (codes.form == CodeForm::kRabitq)
		return launch_rabitq_queries(codes, queries.n_queries, queries.dim_pad, prepared, stream);
	return cudaGetLastError();
}

cudaError_t
launch_code_begin(uint32_t n_queries, const uint32_t *candidates, uint32_t *left, uint32_t *wanted, cudaStream_t stream)
{
	code_begin_kernel<<<blocks_for(n_queries), kThreads, 0, stream>>>(n_queries, candidates, left, wanted);
	return cudaGetLastError();
}

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

cudaError_t
launch_pq_layout(const uint8_t *from, uint32_t code_bytes, uint64_t first_block, uint64_t n_blocks, uint8_t *codes,
	uint32_t pitch_bytes, cudaStream_t stream)
{
	if (n_blocks == 0)
		return cudaSuccess;
	pq_layout_kernel<<<blocks_for(n_blocks * (pitch_bytes / 16) * kCodeRows), kThreads, 0, stream>>>(
		from, code_bytes, first_block, n_blocks, codes, pitch_bytes);
	return cudaGetLastError();
}

cudaError_t
launch_pq_layout_back(const uint8_t *codes, uint32_t pitch_bytes, uint32_t code_bytes, uint64_t first_byte,
	uint64_t n_bytes, uint8_t *to, cudaStream_t stream)
{
	if (n_bytes == 0)
		return cudaSuccess;
	pq_layout_back_kernel<<<blocks_for(n_bytes), kThreads, 0, stream>>>(
		codes, pitch_bytes, code_bytes, first_byte, n_bytes, to);
	return cudaGetLastError();
}

cudaError_t
launch_sq8_layout(const uint8_t *from, uint32_t dim, uint64_t first_row, uint64_t n_rows, uint8_t *codes,
	uint32_t pitch_bytes, cudaStream_t stream)
{
	if (n_rows == 0)
		return cudaSuccess;
	sq8_layout_kernel<<<blocks_for(n_rows * pitch_bytes), kThreads, 0, stream>>>(
		from, dim, first_row, n_rows, codes, pitch_bytes);
	return cudaGetLastError();
}

cudaError_t
launch_sq8_layout_back(const uint8_t *codes, uint32_t pitch_bytes, uint32_t dim, uint64_t first_byte, uint64_t n_bytes,
	uint8_t *to, cudaStream_t stream)
{
	if (n_bytes == 0)
		return cudaSuccess;
	sq8_layout_back_kernel<<<blocks_for(n_bytes), kThreads, 0, stream>>>(
		codes, pitch_bytes, dim, first_byte, n_bytes, to);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
