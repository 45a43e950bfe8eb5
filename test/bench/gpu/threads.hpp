// The host's threads, for what benchmarks do there beside the GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace vectorgpu::bench
{

inline const size_t n_threads = std::min<size_t>(16, std::max(1u, std::thread::hardware_concurrency()));

/// parallel of engine::ivf::Call and engine::graph::Call: each task in a thread of its own.
inline void
in_threads(void *, size_t n_tasks, void (*task)(void *argument, size_t index), void *argument)
{
	std::vector<std::thread> threads;

	for (size_t i = 1; i < n_tasks; i++)
		threads.emplace_back(task, argument, i);
	task(argument, 0);
	for (std::thread &thread : threads)
		thread.join();
}

} // namespace vectorgpu::bench
