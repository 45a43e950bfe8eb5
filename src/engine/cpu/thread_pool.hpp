// The threads that help a search of the CPU engine: n - 1 helpers, the caller is the n-th. Not for backends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vectorgpu::engine
{

class ThreadPool
{
public:
	/// n_threads counts the caller: 0 and 1 mean no helper.
	explicit ThreadPool(size_t n_threads);
	~ThreadPool();
	ThreadPool(const ThreadPool &) = delete;
	ThreadPool &operator=(const ThreadPool &) = delete;

	size_t n_threads() const { return helpers_.size() + 1; }

	/// Call work(0) in this thread and work(1) .. work(n_workers - 1) in helpers that are free before work(0) returns;
	/// a call that has not begun by then is dropped, so `work` takes its share from a common counter. Return when
	/// every call that began has ended; rethrow the first exception of any. May be called from several threads.
	void run(size_t n_workers, const std::function<void(size_t)> &work);

private:
	struct Job
	{
		const std::function<void(size_t)> *work;
		size_t n_running = 0; // helpers inside work
		std::exception_ptr failure;
	};

	struct Call
	{
		Job *job;
		size_t worker;
	};

	void help();

	std::mutex mutex_; // all below, and the jobs' members
	std::condition_variable work_arrived_;
	std::condition_variable call_ended_;
	std::deque<Call> waiting_;
	bool stopping_ = false;
	std::vector<std::thread> helpers_;
};

} // namespace vectorgpu::engine
