// See thread_pool.hpp. One mutex and a queue: a search queues at most one call per helper, so that there is little
// contention.
#include "engine/cpu/thread_pool.hpp"

#include <utility>

namespace vectorgpu::engine
{

ThreadPool::ThreadPool(size_t n_threads)
{
	helpers_.reserve(n_threads);
	try
	{
		for (size_t i = 1; i < n_threads; i++)
			helpers_.emplace_back([this] { help(); });
	}
	catch (const std::exception &)
	{
		// The system grants no more threads: fewer helpers do the same work.
	}
}

ThreadPool::~ThreadPool()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
	}
	work_arrived_.notify_all();
	for (std::thread &helper : helpers_)
		helper.join();
}

void
ThreadPool::run(size_t n_workers, const std::function<void(size_t)> &work)
{
	Job job{&work, 0, nullptr};

	if (n_workers > 1 && !helpers_.empty())
	{
		{
			const std::lock_guard lock(mutex_);

			for (size_t worker = 1; worker < n_workers; worker++)
				waiting_.push_back({&job, worker});
		}
		// A helper that is woken for nothing takes the lock from those that are not.
		if (n_workers > helpers_.size())
			work_arrived_.notify_all();
		else
			for (size_t worker = 1; worker < n_workers; worker++)
				work_arrived_.notify_one();
	}

	std::exception_ptr failure;

	try
	{
		work(0);
	}
	catch (...)
	{
		failure = std::current_exception();
	}

	std::unique_lock lock(mutex_);

	std::erase_if(waiting_, [&](const Call &call) { return call.job == &job; });
	call_ended_.wait(lock, [&] { return job.n_running == 0; });
	lock.unlock();

	if (failure == nullptr)
		failure = job.failure;
	if (failure != nullptr)
		std::rethrow_exception(failure);
}

void
ThreadPool::help()
{
	std::unique_lock lock(mutex_);

	for (;;)
	{
		work_arrived_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
		if (stopping_)
			return;

		const Call call = waiting_.front();
		std::exception_ptr failure;

		waiting_.pop_front();
		call.job->n_running++;
		lock.unlock();
		try
		{
			(*call.job->work)(call.worker);
		}
		catch (...)
		{
			failure = std::current_exception();
		}
		lock.lock();
		if (failure != nullptr && call.job->failure == nullptr)
			call.job->failure = failure;
		call.job->n_running--;
		call_ended_.notify_all();
	}
}

} // namespace vectorgpu::engine
