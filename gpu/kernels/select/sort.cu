// All rows in order, for large k: CUB's radix sort, by row and then, stable, by key.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{
namespace
{

/// Grid ceil(n / 256), block 256.
__global__ void
zip_kernel(const uint64_t *keys, const uint64_t *rows, uint64_t n, Entry *out)
{
	const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = {keys[i], rows[i]};
}

} // namespace

cudaError_t
sort_entries(void *temp, size_t *temp_bytes, uint64_t *keys, uint64_t *rows, uint64_t *sorted_keys,
	uint64_t *sorted_rows, uint64_t n, bool rows_ascending, cudaStream_t stream)
{
	if (temp == nullptr || rows_ascending)
		return cub::DeviceRadixSort::SortPairs(
			temp, *temp_bytes, keys, sorted_keys, rows, sorted_rows, n, 0, 64, stream);

	// Pairs (row, key) by row, then pairs (key, row) by key: the second sort is stable.
	if (cudaError_t error =
			cub::DeviceRadixSort::SortPairs(temp, *temp_bytes, rows, sorted_rows, keys, sorted_keys, n, 0, 64, stream);
		error != cudaSuccess)
		return error;
	if (cudaError_t error =
			cub::DeviceRadixSort::SortPairs(temp, *temp_bytes, sorted_keys, keys, sorted_rows, rows, n, 0, 64, stream);
		error != cudaSuccess)
		return error;
	if (cudaError_t error = cudaMemcpyAsync(sorted_keys, keys, n * sizeof(uint64_t), cudaMemcpyDeviceToDevice, stream);
		error != cudaSuccess)
		return error;
	return cudaMemcpyAsync(sorted_rows, rows, n * sizeof(uint64_t), cudaMemcpyDeviceToDevice, stream);
}

cudaError_t
launch_zip(const uint64_t *keys, const uint64_t *rows, uint64_t n, Entry *out, cudaStream_t stream)
{
	if (n == 0)
		return cudaSuccess;
	zip_kernel<<<static_cast<unsigned int>((n + 255) / 256), 256, 0, stream>>>(keys, rows, n, out);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
