// Launches of kernels that follow each other in a stream, with programmatic dependent launch if the device has it (9.0
// and later): a kernel's blocks come onto the device while the kernel ahead still runs, do the work that does not
// depend on it, and wait.
//
// Rules. A kernel launched by launch_after calls wait_for_stream() in every thread before it reads or writes anything
// that earlier work in the stream touches. Data that are constant while searches run (rows, their values, tombstones)
// may be read before; what else may be says the launcher of the kernel ahead. A kernel may call let_next_start() at
// once, whatever is launched after it: the next kernel waits for its end, not for this call. Blocks come early only
// after a kernel: after a copy, or a wait for another stream's event (NewRows::await), they come when that is over.
#pragma once

#include <cuda_runtime.h>

#include "kernels/warp_block/per_device.hpp"

namespace vectorgpu::kernels
{

__device__ __forceinline__ void
wait_for_stream()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void
let_next_start()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// True if `kernel`, as loaded on this device, contains the wait: code made for older devices does not.
template <class Kernel>
bool
waits_for_stream(Kernel kernel)
{
	static PerDevice known; // answer + 1; one per type of kernel; kernels of one type are compiled together
	cudaFuncAttributes attributes{};
	int device = 0;
	int major = 0;

	if (const uint64_t plus_one = known.get(); plus_one != 0)
		return plus_one > 1;
	if (cudaGetDevice(&device) != cudaSuccess ||
		cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
		cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
		return false; // asked again: the device may have been lost

	const bool waits = major >= 9 && attributes.ptxVersion >= 90;

	known.set(waits ? 2 : 1);
	return waits;
}

/// kernel<<<grid, block, shared, stream>>>(arguments…), see above.
template <class... Parameters, class... Arguments>
cudaError_t
launch_after(
	void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, Arguments... arguments)
{
	cudaLaunchAttribute attribute{};
	cudaLaunchConfig_t config{};

	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = grid;
	config.blockDim = block;
	config.dynamicSmemBytes = shared;
	config.stream = stream;
	config.attrs = &attribute;
	config.numAttrs = waits_for_stream(kernel) ? 1 : 0;
	return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

} // namespace vectorgpu::kernels
