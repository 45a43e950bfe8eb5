// Vectors of k-means as halves, with the error of each and its norm. See README.md, "k-means".
#include "kernels/kmeans/kmeans.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr float kMostHalf = 65504.0f;

__device__ __forceinline__ double
warp_sum(double value)
{
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		value += __shfl_xor_sync(0xFFFFFFFFu, value, width);
	return value;
}

/// A float not below the number; NaN stays.
__device__ __forceinline__ float
rounded_up(double value)
{
	return __double2float_ru(value * (1 + 0x1p-40));
}

/// Grid ceil(n / 8), block 256: a warp takes a vector.
__global__ void __launch_bounds__(kThreads)
narrow_kernel(const NarrowArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t i = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	const uint32_t pitch = narrow_pitch(args.dim);
	double norm = 0;
	double error = 0;
	double exact_norm = 0;

	if (i >= args.n)
		return;

	const float *vector = args.vectors + static_cast<size_t>(i) * args.dim_pad;
	__half *narrow = args.narrow + static_cast<size_t>(i) * pitch;

	for (uint32_t e = lane; e < pitch; e += 32)
	{
		const double exact = e < args.dim
			? (static_cast<double>(__ldg(vector + e)) - static_cast<double>(__ldg(args.shift + e))) *
				static_cast<double>(args.scale)
			: 0.0;
		const float rounded = static_cast<float>(exact);
		const __half half = __float2half_rn(rounded > kMostHalf ? kMostHalf
				: rounded < -kMostHalf                          ? -kMostHalf
																: rounded);
		const double kept = static_cast<double>(__half2float(half));

		narrow[e] = half;
		norm += kept * kept;
		error += (kept - exact) * (kept - exact);
		exact_norm += exact * exact;
	}
	norm = warp_sum(norm);
	error = warp_sum(error);
	exact_norm = warp_sum(exact_norm);
	if (lane != 0)
		return;

	const NarrowError found = {rounded_up(sqrt(norm)), rounded_up(sqrt(error))};

	if (args.n_not_finite != nullptr && !isfinite(exact_norm)) // binary64 has room for the squares of floats
		atomicAdd(args.n_not_finite, 1u);
	if (args.errors != nullptr)
		args.errors[i] = found;
	if (args.half_norms != nullptr)
		args.half_norms[i] = static_cast<float>(exact_norm / 2);
	if (args.largest != nullptr)
	{
		// Non-negative floats order as their bits do as integers, with NaN above all.
		atomicMax(reinterpret_cast<uint32_t *>(&args.largest->norm), __float_as_uint(found.norm) & 0x7FFFFFFFu);
		atomicMax(reinterpret_cast<uint32_t *>(&args.largest->error), __float_as_uint(found.error) & 0x7FFFFFFFu);
	}
}

} // namespace

cudaError_t
launch_narrow(const NarrowArgs &args, cudaStream_t stream)
{
	constexpr uint32_t kEach = kThreads / 32;

	if (args.n == 0)
		return cudaSuccess;
	narrow_kernel<<<(args.n + kEach - 1) / kEach, kThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
