// An ivf::Call that uses a pool's threads and a control's progress and stop.
#pragma once

#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine
{

/// Both outlive the call.
inline ivf::Call
pool_call(ThreadPool *pool, SearchControl *control)
{
	ivf::Call call;

	call.progress = [](void *context, uint64_t, uint64_t)
	{
		SearchControl *watched = static_cast<SearchControl *>(context);

		watched->progress.fetch_add(1, std::memory_order_relaxed);
		return !watched->stop.load(std::memory_order_relaxed);
	};
	call.progress_context = control;
	call.n_threads = pool->n_threads();
	call.parallel = [](void *context, size_t n_tasks, void (*task)(void *, size_t), void *argument)
	{ static_cast<ThreadPool *>(context)->run(n_tasks, [&](size_t i) { task(argument, i); }); };
	call.parallel_context = pool;
	return call;
}

} // namespace vectorgpu::engine
