// Makes the rounded rows of a graph.
#include "kernels/graph/graph_narrow.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kRowThreads = 256;

struct NarrowRows
{
	Metric metric;
	Rows rows;
	uint32_t dim_pad;
	int8_t *to;
	uint32_t pitch_bytes;
	NarrowRow *values;
};

/// Grid ceil(n_rows / 8), block 256: a warp per row.
__global__ void __launch_bounds__(kRowThreads)
narrow_rows_kernel(const NarrowRows args)
{
	const uint32_t row = blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32;
	const uint32_t lane = threadIdx.x % 32;

	if (row >= args.rows.n_rows)
		return;

	const float *vector = reinterpret_cast<const float *>(
		static_cast<const char *>(args.rows.vectors) + static_cast<size_t>(row) * args.rows.pitch_bytes);
	float largest = 0.0f;
	double norm = 0.0;
	int32_t squares = 0;

	for (uint32_t e = lane; e < args.dim_pad; e += 32)
	{
		largest = fmaxf(largest, fabsf(vector[e]));
		norm = fma(static_cast<double>(vector[e]), static_cast<double>(vector[e]), norm);
	}
	for (int width = 16; width >= 1; width /= 2)
	{
		largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, width));
		norm += __shfl_xor_sync(0xFFFFFFFFu, norm, width);
	}

	const bool is_trusted = narrow_trusts(args.metric, norm);
	const float scale = is_trusted ? __fdiv_rn(largest, 127.0f) : 0.0f;
	const float inverse = narrow_inverse(scale);

	for (uint32_t e = lane; e < args.pitch_bytes; e += 32)
	{
		const int whole = is_trusted && e < args.dim_pad ? narrow_byte(vector[e], inverse) : 0;

		args.to[static_cast<size_t>(row) * args.pitch_bytes + e] = static_cast<int8_t>(whole);
		squares += whole * whole;
	}
	for (int width = 16; width >= 1; width /= 2)
		squares += __shfl_xor_sync(0xFFFFFFFFu, squares, width);
	if (lane == 0)
		args.values[row] = is_trusted ? narrow_row(args.metric, scale, squares) : narrow_nowhere();
}

} // namespace

cudaError_t
launch_narrow_rows(Metric metric, const Rows &rows, uint32_t dim_pad, int8_t *to, uint32_t pitch_bytes,
	NarrowRow *values, cudaStream_t stream)
{
	if (rows.n_rows == 0)
		return cudaSuccess;
	if (rows.form != Form::kFloat32 || pitch_bytes < dim_pad || pitch_bytes % 16 != 0)
		return cudaErrorInvalidValue;
	narrow_rows_kernel<<<(rows.n_rows + kRowThreads / 32 - 1) / (kRowThreads / 32), kRowThreads, 0, stream>>>(
		{metric, rows, dim_pad, to, pitch_bytes, values});
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
