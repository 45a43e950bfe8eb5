// Codes on the device: their layout, and queries made ready.
#include "kernels/codes/codes_queries.cuh"
#include "kernels/codes/codes_rabitq.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;

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

/// Grid n_queries, block 256.
__global__ void __launch_bounds__(kThreads)
code_queries_kernel(
	Metric metric, const Codes codes, const Queries queries, const CodePasses passes, const CodeQueries prepared)
{
	__shared__ double shared_scale;
	const uint32_t query = blockIdx.x;
	const uint32_t dim = codes.dim;
	const float *vector = static_cast<const float *>(queries.vectors) + static_cast<size_t>(query) * queries.dim_pad;
	float *unit = prepared.units + static_cast<size_t>(query) * queries.dim_pad;
	float *state = prepared.states + static_cast<size_t>(query) * prepared.state_stride;
	const bool product = metric == Metric::kInnerProduct || metric == Metric::kCosine;

	let_next_start();
	wait_for_stream();
	if (threadIdx.x == 0)
		begin_passes(passes, query);

	const double scale = unit_scale(metric, vector, dim, &shared_scale);

	for (uint32_t d = threadIdx.x; d < queries.dim_pad; d += kThreads)
		unit[d] = unit_of(vector[d], scale);
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
launch_code_queries(Metric metric, const Codes &codes, const Queries &queries, const CodePasses &passes,
	const CodeQueries &prepared, bool after_select, cudaStream_t stream)
{
	if (queries.n_queries == 0)
		return cudaSuccess;
	if (codes.form == CodeForm::kRabitq)
		return launch_rabitq_queries(metric, codes, queries, passes, prepared, after_select, stream);
	return launch_after(
		code_queries_kernel, queries.n_queries, kThreads, 0, stream, metric, codes, queries, passes, prepared);
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
