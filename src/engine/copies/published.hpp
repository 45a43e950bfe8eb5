// What writers of a copy have made for searches to see: taken and replaced in a moment, whatever a writer does
// meanwhile.
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

		snapshot_.swap(next); // the old one goes after the lock
	}

private:
	mutable std::mutex mutex_; // held for a moment only
	std::shared_ptr<const Snapshot> snapshot_;
};

} // namespace vectorgpu::engine
