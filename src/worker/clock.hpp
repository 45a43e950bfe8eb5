// The worker's time: nanoseconds of CLOCK_MONOTONIC, as clients use it. A function pointer, so that tests can replace
// it.
#pragma once

#include <cstdint>
#include <ctime>

namespace vectorgpu::worker
{

using Clock = uint64_t (*)();

inline uint64_t
monotonic_clock()
{
	timespec now{};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

} // namespace vectorgpu::worker
