// Calls that several threads make side by side; each waits for a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "common/status.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::worker
{

/// Call work(i) for i below n, in this order, on this thread and at most n_workers - 1 of the pool's that are free.
/// Each call is made, whatever others return. The first failure, or ok. Rethrows an exception of work.
template <class Work>
Status
run_side_by_side(engine::ThreadPool *pool, size_t n_workers, size_t n, Work work)
{
	std::atomic<size_t> next{0};
	std::mutex mutex;
	Status first;

	pool->run(n_workers,
		[&](size_t)
		{
			for (size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1))
				if (Status status = work(i); !status.is_ok())
				{
					const std::lock_guard lock(mutex);

					if (first.is_ok())
						first = std::move(status);
				}
		});
	return first;
}

} // namespace vectorgpu::worker
