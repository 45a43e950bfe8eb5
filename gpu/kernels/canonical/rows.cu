// Storing rows: which narrower form is exact, writing rows in it, and the filter's value of each row.
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/canonical/canonical.cuh"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr unsigned int kCheckBlocks = 1056;

/// Grid-stride, block 256. Bits decide: -0 is no byte, NaN fits nothing narrower.
__global__ void __launch_bounds__(kThreads)
narrow_check_kernel(const float *vectors, uint64_t n, uint32_t *flags)
{
	uint32_t found = 0;

	for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
		i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
	{
		const float value = vectors[i];
		const uint32_t bits = __float_as_uint(value);
		const bool is_byte = value >= 0.0f && value <= 255.0f &&
			__float_as_uint(static_cast<float>(static_cast<unsigned int>(value))) == bits;
		const bool is_half = __float_as_uint(__half2float(__float2half_rn(value))) == bits && value == value;

		found |= (is_byte ? 0u : 1u) | (is_half ? 0u : 2u);
	}
	found = __reduce_or_sync(0xFFFFFFFFu, found);
	if (threadIdx.x % 32 == 0 && found != 0)
		atomicOr(flags, found);
}

/// Grid (n_rows capped, grid-stride), block 256: a block writes one row at a time, padding included.
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
store_kernel(const From *from, uint32_t dim, uint32_t n_rows, char *to, uint32_t pitch_bytes)
{
	const uint32_t n_padded = pitch_bytes / sizeof(To);

	for (uint32_t row = blockIdx.x; row < n_rows; row += gridDim.x)
	{
		To *out = reinterpret_cast<To *>(to + static_cast<size_t>(row) * pitch_bytes);

		for (uint32_t e = threadIdx.x; e < n_padded; e += blockDim.x)
		{
			To value{};

			if (e < dim)
			{
				const From in = from[static_cast<size_t>(row) * dim + e];

				if constexpr (sizeof(From) == sizeof(To))
					value = in;
				else if constexpr (sizeof(To) == 1)
					value = static_cast<To>(in);
				else
					value = __float2half_rn(in);
			}
			out[e] = value;
		}
	}
}

template <class From, class To>
cudaError_t
store(const void *from, uint32_t dim, uint32_t n_rows, void *to, uint32_t pitch_bytes, cudaStream_t stream)
{
	const uint32_t n_blocks = std::min(n_rows, 65536u);
	store_kernel<From, To><<<n_blocks, kThreads, 0, stream>>>(
		static_cast<const From *>(from), dim, n_rows, static_cast<char *>(to), pitch_bytes);
	return cudaGetLastError();
}

/// Grid-stride over 16 bytes of vectors each, block 256; the first n_rows threads also take a row's id and value. All
/// reads from host memory are under way before the first write waits for one.
__global__ void __launch_bounds__(kThreads)
take_rows_kernel(const StoredRows rows)
{
	const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
	const uint64_t n_pieces = static_cast<uint64_t>(rows.n_rows) * rows.pitch_bytes /
		sizeof(uint4); // at least n_rows: a pitch is 16 bytes or more

	for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_pieces; i += step)
	{
		const bool has_row = i < rows.n_rows;
		const bool has_value = has_row && rows.from_values != nullptr;
		const uint4 piece = static_cast<const uint4 *>(rows.from_vectors)[i];
		const RowId row_id = has_row ? rows.from_row_ids[i] : 0;
		const float value = has_value ? rows.from_values[i] : 0.0f;

		static_cast<uint4 *>(rows.vectors)[i] = piece;
		if (has_row)
			rows.row_ids[i] = row_id;
		if (has_value)
			rows.values[i] = value;
	}
}

/// Grid ceil(n_rows / 8), block 256: a warp per row, sums in double.
template <class FormT>
__global__ void __launch_bounds__(kThreads)
row_values_kernel(Metric metric, const Rows rows, uint32_t dim_pad, float *values, RowStats *stats)
{
	const uint32_t row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	const uint32_t lane = threadIdx.x % 32;

	if (row >= rows.n_rows)
		return;

	const char *vector = static_cast<const char *>(rows.vectors) + static_cast<size_t>(row) * rows.pitch_bytes;
	double sum = 0.0;

	for (uint32_t e = lane; e < dim_pad; e += 32)
	{
		const double value = FormT::load(vector, e);

		sum = fma(value, value, sum);
	}
	for (int width = 16; width >= 1; width /= 2)
		sum += __shfl_xor_sync(0xFFFFFFFFu, sum, width);
	if (lane != 0)
		return;

	const double norm = sqrt(sum);
	float value = 0.0f;

	if (!filter_trusts(metric, norm))
	{
		value = __uint_as_float(0x7FC00000u);
		atomicAdd(&stats->n_untrusted, 1u);
	}
	else
	{
		if (metric == Metric::kL2)
			value = static_cast<float>(sum / 2);
		else if (metric == Metric::kCosine)
		{
			value = static_cast<float>(-1.0 / norm);
			atomicMax(&stats->max_inverse_bits, __float_as_uint(__double2float_ru(1.000001 / norm)));
		}
		atomicMax(&stats->max_norm_bits, __float_as_uint(__double2float_ru(norm * 1.000001)));
	}
	values[row] = value;
}

} // namespace

cudaError_t
launch_narrow_check(const float *vectors, uint64_t n_elements, uint32_t *flags, cudaStream_t stream)
{
	if (n_elements == 0)
		return cudaSuccess;
	narrow_check_kernel<<<kCheckBlocks, kThreads, 0, stream>>>(vectors, n_elements, flags);
	return cudaGetLastError();
}

cudaError_t
launch_store_rows(const void *from, ElementType element, uint32_t dim, uint32_t n_rows, void *to, Form form,
	uint32_t pitch_bytes, cudaStream_t stream)
{
	if (n_rows == 0)
		return cudaSuccess;
	switch (element)
	{
		case ElementType::kFloat32:
			if (form == Form::kFloat32)
				return store<float, float>(from, dim, n_rows, to, pitch_bytes, stream);
			if (form == Form::kFloat16)
				return store<float, __half>(from, dim, n_rows, to, pitch_bytes, stream);
			return store<float, uint8_t>(from, dim, n_rows, to, pitch_bytes, stream);
		case ElementType::kFloat16:
			return store<__half, __half>(from, dim, n_rows, to, pitch_bytes, stream);
		case ElementType::kBit:
			return store<uint8_t, uint8_t>(from, (dim + 7) / 8, n_rows, to, pitch_bytes, stream);
		case ElementType::kSet:
			break; // no vector to store
	}
	return cudaErrorInvalidValue;
}

cudaError_t
launch_take_rows(const StoredRows &rows, cudaStream_t stream)
{
	constexpr uint64_t kMostBlocks = 32;
	const uint64_t n_pieces = static_cast<uint64_t>(rows.n_rows) * rows.pitch_bytes / sizeof(uint4);
	const uint64_t blocks = n_pieces / kThreads + 1;

	if (rows.n_rows == 0)
		return cudaSuccess;
	take_rows_kernel<<<static_cast<unsigned int>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0, stream>>>(
		rows);
	return cudaGetLastError();
}

cudaError_t
launch_row_values(
	Metric metric, const Rows &rows, uint32_t dim_pad, float *values, RowStats *stats, cudaStream_t stream)
{
	if (rows.n_rows == 0)
		return cudaSuccess;

	const uint32_t blocks = (rows.n_rows + kThreads / 32 - 1) / (kThreads / 32);

	switch (rows.form)
	{
		case Form::kFloat32:
			row_values_kernel<Float32Form><<<blocks, kThreads, 0, stream>>>(metric, rows, dim_pad, values, stats);
			break;
		case Form::kFloat16:
			row_values_kernel<Float16Form><<<blocks, kThreads, 0, stream>>>(metric, rows, dim_pad, values, stats);
			break;
		case Form::kByte:
			row_values_kernel<ByteForm><<<blocks, kThreads, 0, stream>>>(metric, rows, dim_pad, values, stats);
			break;
		case Form::kBit:
		case Form::kScaled:
			return cudaErrorInvalidValue;
	}
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
