// See group_probe.hpp.
#include "kernels/warp_block/group_probe.hpp"
#include "kernels/warp_block/wgmma.cuh"

namespace vectorgpu::kernels
{
namespace
{

/// One thread.
__global__ void
probe_kernel(uint32_t *has_wgmma)
{
	*has_wgmma = VECTORGPU_HAS_WGMMA;
}

} // namespace

cudaError_t
probe_groups(bool *has_wgmma)
{
	uint32_t *answer = nullptr;
	uint32_t host = 0;
	cudaError_t error = cudaMalloc(&answer, sizeof(*answer));

	*has_wgmma = false;
	if (error != cudaSuccess)
		return error;
	probe_kernel<<<1, 1>>>(answer);
	error = cudaGetLastError();
	if (error == cudaSuccess)
		error = cudaMemcpy(&host, answer, sizeof(host), cudaMemcpyDeviceToHost);

	const cudaError_t freed = cudaFree(answer);

	*has_wgmma = host != 0;
	return error != cudaSuccess ? error : freed;
}

} // namespace vectorgpu::kernels
