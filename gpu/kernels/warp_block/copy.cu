// Small copies between pinned host memory and the device by a kernel: in a chain of kernels they start sooner than a
// copy by the copy engine, which the stream would have to switch to and back.
#include "kernels/kernels.hpp"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kCopyThreads = 256;

__global__ void __launch_bounds__(kCopyThreads)
copy_kernel(uint4 *to, const uint4 *from, uint32_t n)
{
	const uint32_t i = blockIdx.x * kCopyThreads + threadIdx.x;

	let_next_start();
	wait_for_stream();
	if (i < n)
		to[i] = from[i];
}

} // namespace

cudaError_t
launch_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
	const uint32_t n = static_cast<uint32_t>((bytes + sizeof(uint4) - 1) / sizeof(uint4));

	if (n == 0)
		return cudaSuccess;
	return launch_after(copy_kernel, (n + kCopyThreads - 1) / kCopyThreads, kCopyThreads, 0, stream,
		static_cast<uint4 *>(to), static_cast<const uint4 *>(from), n);
}

} // namespace vectorgpu::kernels
