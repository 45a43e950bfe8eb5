// See gpu_fault.hpp.
#include "kernels/warp_block/gpu_fault.hpp"

#ifdef VECTORGPU_FAULTS

#undef NDEBUG // or there would be no assertion
#include <cassert>

namespace vectorgpu::kernels
{
namespace
{

/// The address comes as a number, so that no compiler sees what is done.
__global__ void
write_kernel(uint64_t address)
{
	*reinterpret_cast<volatile uint32_t *>(address) = 1;
}

__global__ void
trap_kernel()
{
	asm volatile("trap;");
}

/// The value comes as an argument, so that no compiler knows it.
__global__ void
assert_kernel(int value)
{
	assert(value != 0);
}

__global__ void
spin_kernel()
{
	for (;;)
		__nanosleep(1000);
}

__global__ void
nothing_kernel()
{
}

__global__ void
flip_kernel(uint8_t *byte)
{
	*byte = static_cast<uint8_t>(~*byte);
}

} // namespace

cudaError_t
launch_fault(FaultKind kind, cudaStream_t stream)
{
	switch (kind)
	{
		case FaultKind::kBadLaunch:
			nothing_kernel<<<1, 4096, 0, stream>>>(); // more threads than any block may have
			break;
		case FaultKind::kAddress:
			write_kernel<<<1, 1, 0, stream>>>(16);
			break;
		case FaultKind::kMisaligned:
			write_kernel<<<1, 1, 0, stream>>>(0x101);
			break;
		case FaultKind::kTrap:
			trap_kernel<<<1, 1, 0, stream>>>();
			break;
		case FaultKind::kAssert:
			assert_kernel<<<1, 1, 0, stream>>>(0);
			break;
		case FaultKind::kSpin:
			spin_kernel<<<1, 1, 0, stream>>>();
			break;
	}
	return cudaGetLastError();
}

cudaError_t
launch_flip(uint8_t *to, size_t at, cudaStream_t stream)
{
	flip_kernel<<<1, 1, 0, stream>>>(to + at);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels

#endif
