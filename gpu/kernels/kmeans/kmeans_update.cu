// The update of k-means: rows sorted by label, means of segments. Sums are in double and in the order of rows, as in
// src/engine/ivf: the result does not depend on atomics or on the shape of the grid. See README.md, "k-means".
#include <bit>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/kmeans/kmeans.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr int kMeanThreads = 128;
constexpr uint32_t kAhead = 8; // rows that are read before the first is added

__global__ void
numbers_kernel(uint32_t *numbers, uint32_t n)
{
	const uint32_t i = blockIdx.x * kThreads + threadIdx.x;

	if (i < n)
		numbers[i] = i;
}

/// Grid ceil((n_rows + 1) / 256), block 256: the thread that sees a new label notes where it begins, also for labels
/// before it without rows.
__global__ void __launch_bounds__(kThreads)
boundaries_kernel(const uint32_t *labels, uint32_t n_rows, uint32_t n_clusters, uint32_t *first)
{
	const uint32_t i = blockIdx.x * kThreads + threadIdx.x;

	if (i > n_rows)
		return;

	const uint32_t begin = i == 0 ? 0 : labels[i - 1] + 1;
	const uint32_t end = i == n_rows ? n_clusters : labels[i];

	for (uint32_t c = begin; c <= end; c++)
		first[c] = i;
}

/// Grid (n_clusters, ceil(dim / 128)), block 128: a thread takes an element.
__global__ void __launch_bounds__(kMeanThreads)
means_kernel(const UpdateArgs args)
{
	const uint32_t cluster = blockIdx.x;
	const uint32_t e = blockIdx.y * kMeanThreads + threadIdx.x;
	const uint32_t begin = args.first[cluster];
	const uint32_t end = args.first[cluster + 1];
	double sum = 0;

	if (begin == end || e >= args.dim)
		return;

	uint32_t i = begin;

	for (; i + kAhead <= end; i += kAhead)
	{
		float values[kAhead];

#pragma unroll
		for (uint32_t j = 0; j < kAhead; j++)
			values[j] = __ldg(args.rows + static_cast<size_t>(__ldg(args.order + i + j)) * args.dim_pad + e);
#pragma unroll
		for (uint32_t j = 0; j < kAhead; j++)
			sum += static_cast<double>(values[j]);
	}
	for (; i < end; i++)
		sum += static_cast<double>(__ldg(args.rows + static_cast<size_t>(__ldg(args.order + i)) * args.dim_pad + e));
	sum /= static_cast<double>(end - begin);
	if (args.spherical)
		args.means[static_cast<size_t>(cluster) * args.dim_pad + e] = sum;
	else
		args.centroids[static_cast<size_t>(cluster) * args.dim_pad + e] = static_cast<float>(sum);
}

/// Grid n_clusters, block 128. The squares are added one after another, as on the CPU.
__global__ void __launch_bounds__(kMeanThreads)
scale_means_kernel(const UpdateArgs args)
{
	__shared__ double scale;
	const uint32_t cluster = blockIdx.x;
	const double *mean = args.means + static_cast<size_t>(cluster) * args.dim_pad;

	if (args.first[cluster] == args.first[cluster + 1])
		return;
	if (threadIdx.x == 0)
	{
		double squares = 0;

		for (uint32_t e = 0; e < args.dim; e++)
			squares += mean[e] * mean[e];
		scale = squares > 0 ? 1 / sqrt(squares) : 1;
	}
	__syncthreads();
	for (uint32_t e = threadIdx.x; e < args.dim; e += kMeanThreads)
		args.centroids[static_cast<size_t>(cluster) * args.dim_pad + e] = static_cast<float>(mean[e] * scale);
}

/// Grid n_clusters, block 128: the block reads, its first thread adds.
__global__ void __launch_bounds__(kMeanThreads)
error_sums_kernel(const UpdateArgs args)
{
	__shared__ float errors[kMeanThreads];
	const uint32_t begin = args.first[blockIdx.x];
	const uint32_t end = args.first[blockIdx.x + 1];
	double sum = 0;

	for (uint32_t base = begin; base < end; base += kMeanThreads)
	{
		const uint32_t n = min(end - base, static_cast<uint32_t>(kMeanThreads));

		if (threadIdx.x < n)
			errors[threadIdx.x] = args.errors[args.order[base + threadIdx.x]];
		__syncthreads();
		if (threadIdx.x == 0)
			for (uint32_t i = 0; i < n; i++)
				sum += static_cast<double>(errors[i]);
		__syncthreads();
	}
	if (threadIdx.x == 0)
		args.error_sums[blockIdx.x] = sum;
}

} // namespace

cudaError_t
launch_numbers(uint32_t *numbers, uint32_t n, cudaStream_t stream)
{
	if (n == 0)
		return cudaSuccess;
	numbers_kernel<<<(n + kThreads - 1) / kThreads, kThreads, 0, stream>>>(numbers, n);
	return cudaGetLastError();
}

cudaError_t
group_rows(GroupArgs *args, cudaStream_t stream)
{
	const int n_bits = std::max(1, static_cast<int>(std::bit_width(args->n_clusters - 1)));
	const cudaError_t error = cub::DeviceRadixSort::SortPairs(args->temp, args->temp_bytes, args->labels,
		args->sorted_labels, args->numbers, args->order, args->n_rows, 0, n_bits, stream);

	if (error != cudaSuccess || args->temp == nullptr)
		return error;
	boundaries_kernel<<<(args->n_rows + kThreads) / kThreads, kThreads, 0, stream>>>(
		args->sorted_labels, args->n_rows, args->n_clusters, args->first);
	return cudaGetLastError();
}

cudaError_t
launch_error_sums(const UpdateArgs &args, cudaStream_t stream)
{
	error_sums_kernel<<<args.n_clusters, kMeanThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_means(const UpdateArgs &args, cudaStream_t stream)
{
	means_kernel<<<dim3(args.n_clusters, (args.dim + kMeanThreads - 1) / kMeanThreads), kMeanThreads, 0, stream>>>(
		args);
	if (args.spherical)
		scale_means_kernel<<<args.n_clusters, kMeanThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
