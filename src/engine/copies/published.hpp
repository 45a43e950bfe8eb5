// The latest snapshot of a copy. Taking and replacing it never waits for a writer at work.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace vectorgpu::engine
{

template <class Snapshot>
class Published
{
public:
	Published() : snapshot_(std::make_shared<const Snapshot>()) {}

	std::shared_ptr<const Snapshot> get() const
	{
		const std::lock_guard lock(mutex_);

		return snapshot_;
	}

	void set(std::shared_ptr<const Snapshot> next)
	{
		const std::lock_guard lock(mutex_);

		snapshot_.swap(next); // the old one is freed after the lock
	}

private:
	mutable std::mutex mutex_; // held for a moment only
	std::shared_ptr<const Snapshot> snapshot_;
};

} // namespace vectorgpu::engine
