// Kernels that do what broken ones do, for tests of what comes after. In builds with VECTORGPU_FAULTS only.
#pragma once

#ifdef VECTORGPU_FAULTS

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace vectorgpu::kernels
{

enum class FaultKind : uint8_t
{
	kBadLaunch,  // refused by the driver: the context lives
	kAddress,    // a write to an address that is not mapped: sticky
	kMisaligned, // a write to an odd address: sticky
	kTrap,       // a trap instruction: sticky
	kAssert,     // an assertion that fails: sticky
	kSpin,       // never ends
};

/// Launches it. Only kBadLaunch fails here, the others when the stream is waited for.
[[nodiscard]] cudaError_t launch_fault(FaultKind kind, cudaStream_t stream);

/// Inverts one byte of `to`.
[[nodiscard]] cudaError_t launch_flip(uint8_t *to, size_t at, cudaStream_t stream);

} // namespace vectorgpu::kernels

#endif
