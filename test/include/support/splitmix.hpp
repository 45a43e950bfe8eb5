// Random numbers by position, for made rows: the same on every machine, whichever thread makes them. C++ and CUDA.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define VECTORGPU_EVERYWHERE __host__ __device__
#else
#define VECTORGPU_EVERYWHERE
#endif

namespace vectorgpu::test
{

/// Number z of a sequence whose numbers are mixed by splitmix64's last steps.
VECTORGPU_EVERYWHERE constexpr uint64_t
splitmix64(uint64_t z)
{
	z += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

} // namespace vectorgpu::test
