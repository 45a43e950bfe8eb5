// See compare.hpp.
#include "kernels/canonical/compare.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr unsigned int kThreads = 256;
constexpr uint64_t kMostBlocks = 1056;

unsigned int
blocks_for(uint64_t n)
{
	const uint64_t blocks = (n + kThreads - 1) / kThreads;

	return static_cast<unsigned int>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// Add a thread's count to the sum of all threads. By whole warps.
__device__ void
add(uint32_t found, uint32_t *n_different)
{
	found = __reduce_add_sync(0xFFFFFFFFu, found);
	if (threadIdx.x % 32 == 0 && found != 0)
		atomicAdd(n_different, found);
}

__global__ void __launch_bounds__(kThreads)
compare_kernel(const uint32_t *a, const uint32_t *b, uint64_t n_words, uint32_t *n_different)
{
	uint32_t found = 0;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_words; i += uint64_t{gridDim.x} * kThreads)
		found += a[i] != b[i] ? 1 : 0;
	add(found, n_different);
}

__global__ void __launch_bounds__(kThreads)
padding_kernel(const uint8_t *rows, uint64_t n_rows, uint32_t pitch_bytes, uint32_t used_bytes, uint32_t *n_different)
{
	const uint32_t n_padding = pitch_bytes - used_bytes;
	uint32_t found = 0;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_rows * n_padding;
		i += uint64_t{gridDim.x} * kThreads)
		found += rows[i / n_padding * pitch_bytes + used_bytes + i % n_padding] != 0 ? 1 : 0;
	add(found, n_different);
}

} // namespace

cudaError_t
launch_compare(const uint32_t *a, const uint32_t *b, uint64_t n_words, uint32_t *n_different, cudaStream_t stream)
{
	if (n_words == 0)
		return cudaSuccess;
	compare_kernel<<<blocks_for(n_words), kThreads, 0, stream>>>(a, b, n_words, n_different);
	return cudaGetLastError();
}

cudaError_t
launch_check_padding(const uint8_t *rows, uint64_t n_rows, uint32_t pitch_bytes, uint32_t used_bytes,
	uint32_t *n_different, cudaStream_t stream)
{
	if (n_rows == 0 || used_bytes >= pitch_bytes)
		return cudaSuccess;
	padding_kernel<<<blocks_for(n_rows * (pitch_bytes - used_bytes)), kThreads, 0, stream>>>(
		rows, n_rows, pitch_bytes, used_bytes, n_different);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
