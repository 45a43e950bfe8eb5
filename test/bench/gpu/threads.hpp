// The host's threads, for the parts of benchmarks that run there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>

#include "support/in_threads.hpp"

namespace vectorgpu::bench
{

inline const size_t n_threads = std::min<size_t>(16, std::max(1u, std::thread::hardware_concurrency()));

using vectorgpu::test::in_threads;

} // namespace vectorgpu::bench
