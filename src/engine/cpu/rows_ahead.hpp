// Rows of a graph as they come: read by all threads of a pool, and handed on to a searcher's copy while others come.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/cpu/nearest_rows.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine
{

/// Read n_bytes into `to`. The first failure, after which no further piece is begun.
inline Status
read_pieces(ThreadPool *pool, size_t n_bytes, const GraphBuilder::ReadBytes &read, unsigned char *to)
{
	constexpr size_t kReadBytes = size_t{2} << 20; // by a thread at a time
	std::atomic<size_t> next{0};
	std::mutex mutex;
	Status status;

	pool->run(std::min(pool->n_threads(), (n_bytes + kReadBytes - 1) / kReadBytes),
		[&](size_t)
		{
			for (size_t first; (first = next.fetch_add(kReadBytes)) < n_bytes;)
			{
				Status part = read(first, std::min(kReadBytes, n_bytes - first), to + first);

				if (part.is_ok())
					continue;
				next = n_bytes; // the others end as well

				const std::lock_guard lock(mutex);

				if (status.is_ok())
					status = std::move(part);
			}
		});
	return status;
}

/// Hands rows on, on a thread of its own.
class RowsAhead
{
public:
	/// rows: begun; nothing else calls them before end() has returned. They outlive the object. Throws system_error.
	explicit RowsAhead(SearcherRows *rows) : rows_(rows), thread_([this](const std::stop_token &stop) { run(stop); }) {}

	/// Stops.
	~RowsAhead() = default;
	RowsAhead(const RowsAhead &) = delete;
	RowsAhead &operator=(const RowsAhead &) = delete;

	/// The first n rows are there.
	void added(uint32_t n)
	{
		{
			const std::lock_guard lock(mutex_);

			n_added_ = n;
		}
		changed_.notify_all();
	}

	/// All rows are: wait until the searcher has them. As SearcherRows::load. Call it once.
	graph::Found end()
	{
		{
			const std::lock_guard lock(mutex_);

			ending_ = true;
		}
		changed_.notify_all();
		thread_.join();
		return found_ == graph::Found::kYes ? rows_->end() : found_;
	}

private:
	void run(const std::stop_token &stop)
	{
		uint32_t n_loaded = 0;

		while (found_ == graph::Found::kYes && !stop.stop_requested())
		{
			std::unique_lock lock(mutex_);

			if (!changed_.wait(lock, stop, [&] { return n_added_ > n_loaded || ending_; }) || n_added_ == n_loaded ||
				stop.stop_requested())
				return;

			const uint32_t n = n_added_;

			lock.unlock();
			found_ = rows_->load_more(n_loaded, n - n_loaded);
			n_loaded = n;
		}
	}

	SearcherRows *const rows_;
	std::mutex mutex_;
	std::condition_variable_any changed_;
	uint32_t n_added_ = 0;
	bool ending_ = false;
	graph::Found found_ = graph::Found::kYes; // the thread's, until it has ended
	std::jthread thread_;
};

} // namespace vectorgpu::engine
