// A thread that runs tasks one after the other: the loading thread, and the thread of builds. It counts its progress,
// for heartbeats.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "worker/clock.hpp"

namespace vectorgpu::worker
{

class TaskThread
{
public:
	~TaskThread() { stop(); }

	/// spin_us: how long it polls for another task before it sleeps. A loading client has its next rows ready in less
	/// time than a thread takes to sleep and to be woken.
	void start(uint32_t spin_us = 0)
	{
		spin_ns_ = static_cast<uint64_t>(spin_us) * 1000;
		thread_ = std::thread([this] { run(); });
	}

	/// End the thread after the running task; drop the waiting ones.
	void stop()
	{
		{
			const std::lock_guard lock(mutex_);

			stopping_ = true;
			n_waiting_.fetch_add(1, std::memory_order_relaxed);
			work_arrived_.notify_one();
		}
		if (thread_.joinable())
			thread_.join();
	}

	/// Any thread. Throws bad_alloc. The task must not throw.
	void push(std::function<void()> task)
	{
		const std::lock_guard lock(mutex_);

		tasks_.push_back(std::move(task));
		n_waiting_.fetch_add(1, std::memory_order_release);
		work_arrived_.notify_one();
	}

	/// The running task has advanced.
	void moved() { n_moves_.fetch_add(1, std::memory_order_relaxed); }

	/// The state at a caller's last call of progressing().
	struct Seen
	{
		uint64_t moves = 0;
	};

	/// Return false if a task is running and has not advanced since *seen; update *seen. Any thread.
	bool progressing(Seen *seen) const
	{
		const bool busy = busy_.load(std::memory_order_acquire);
		const uint64_t n_moves = n_moves_.load(std::memory_order_relaxed);

		return !busy || std::exchange(seen->moves, n_moves) != n_moves;
	}

private:
	void run()
	{
		std::unique_lock lock(mutex_);

		for (;;)
		{
			work_arrived_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
			if (stopping_)
				return;

			std::function<void()> task = std::move(tasks_.front());

			tasks_.pop_front();
			n_waiting_.fetch_sub(1, std::memory_order_relaxed);
			lock.unlock();
			moved();
			busy_.store(true, std::memory_order_release);
			task();
			task = nullptr; // destroys the task's captures outside the lock
			busy_.store(false, std::memory_order_release);
			spin();
			lock.lock();
		}
	}

	void spin() const
	{
		const uint64_t until = spin_ns_ == 0 ? 0 : monotonic_clock() + spin_ns_;

		while (n_waiting_.load(std::memory_order_acquire) == 0 && spin_ns_ != 0 && monotonic_clock() < until)
			for (int i = 0; i < 32 && n_waiting_.load(std::memory_order_relaxed) == 0; i++)
			{
#if defined(__x86_64__)
				__builtin_ia32_pause();
#endif
			}
	}

	uint64_t spin_ns_ = 0;
	std::mutex mutex_; // tasks_, stopping_
	std::condition_variable work_arrived_;
	std::deque<std::function<void()>> tasks_;
	bool stopping_ = false;
	std::atomic<uint32_t> n_waiting_{0}; // tasks, plus one for stop(): for polling without the lock
	std::atomic<bool> busy_{false};
	std::atomic<uint64_t> n_moves_{0};
	std::thread thread_;
};

} // namespace vectorgpu::worker
