// A number for each GPU of the process, for what is found out once: the GPUs of a machine may differ, and one whose
// context was reset has to be prepared again.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace vectorgpu::kernels
{

/// Of the calling thread's device each. Thread-safe.
class PerDevice
{
public:
	/// 0: not set, or the device is not one of those kept.
	uint64_t get() const
	{
		const int device = current();

		return device >= 0 ? values_[device].load(std::memory_order_relaxed) : 0;
	}

	void set(uint64_t value)
	{
		if (const int device = current(); device >= 0)
			values_[device].store(value, std::memory_order_relaxed);
	}

private:
	static constexpr int kMost = 64;

	static int current()
	{
		int device = -1;

		return cudaGetDevice(&device) == cudaSuccess && device < kMost ? device : -1;
	}

	std::atomic<uint64_t> values_[kMost]{};
};

} // namespace vectorgpu::kernels
