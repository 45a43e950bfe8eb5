// The contexts of an engine's searches: made at start, lent to one search each.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/search/search.hpp"

namespace vectorgpu::cuda
{

class ContextPool
{
public:
	Status create(const Device *device, int n, size_t workspace_bytes, size_t pinned_bytes)
	{
		for (int i = 0; i < n; i++)
		{
			contexts_.push_back(std::make_unique<SearchContext>());
			VECTORGPU_TRY(contexts_.back()->create(device, workspace_bytes, pinned_bytes));
			free_.push_back(contexts_.back().get());
		}
		return Status::ok();
	}

	/// A context for one search. Waits until one is free.
	class Lease
	{
	public:
		explicit Lease(ContextPool *pool) : pool_(pool)
		{
			std::unique_lock lock(pool->mutex_);

			pool->freed_.wait(lock, [&] { return !pool->free_.empty(); });
			context_ = pool->free_.back();
			pool->free_.pop_back();
		}

		~Lease()
		{
			{
				const std::lock_guard lock(pool_->mutex_);

				pool_->free_.push_back(context_); // does not allocate: it had the room before
			}
			pool_->freed_.notify_one();
		}

		Lease(const Lease &) = delete;
		Lease &operator=(const Lease &) = delete;

		SearchContext *get() const { return context_; }

	private:
		ContextPool *pool_;
		SearchContext *context_;
	};

private:
	std::vector<std::unique_ptr<SearchContext>> contexts_;
	std::mutex mutex_;
	std::condition_variable freed_;
	std::vector<SearchContext *> free_; // under mutex_
};

} // namespace vectorgpu::cuda
