// Threads for the steps of engine/ivf and engine/graph, of unit tests and benchmarks.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace vectorgpu::test
{

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

} // namespace vectorgpu::test
