// Threads that do something every second until they are stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace vectorgpu::worker
{

class EverySecond
{
public:
	EverySecond() = default;

	/// Waits until the calls that run have returned.
	~EverySecond()
	{
		{
			const std::lock_guard lock(mutex_);

			stopping_ = true;
		}
		stop_.notify_all();
		for (std::thread &thread : threads_)
			thread.join();
	}

	EverySecond(const EverySecond &) = delete;
	EverySecond &operator=(const EverySecond &) = delete;

	/// Call work() every second on a thread of its own. Where memory lacks it is tried again.
	void add(std::function<void()> work)
	{
		threads_.emplace_back([this, call = std::move(work)] { run(call); });
	}

private:
	void run(const std::function<void()> &work)
	{
		std::unique_lock lock(mutex_);

		while (!stop_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; }))
		{
			lock.unlock();
			try
			{
				work();
			}
			catch (const std::bad_alloc &)
			{
				// A copy that was being brought to a device is dropped there.
			}
			lock.lock();
		}
	}

	std::mutex mutex_; // stopping_
	bool stopping_ = false;
	std::condition_variable stop_;
	std::vector<std::thread> threads_;
};

} // namespace vectorgpu::worker
