// The base of all resident copies. Writers hold the copy's mutex, change its members and publish a new immutable
// snapshot, or roll the change back if there is no memory for the snapshot. Searches take the snapshot and hold no lock
// from then on.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/copies/published.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Interface: StoredCopy, or an interface that is derived from it. Segment: what the copy holds of one segment.
template <class Interface, class Snapshot, class Segment>
class PublishedCopy : public Interface
{
public:
	std::shared_ptr<const Snapshot> snapshot() const { return snapshot_.get(); }

	Status drop_segment(SegmentId id) override
	{
		const std::lock_guard lock(mutex_);

		return drop(id);
	}

protected:
	/// Return what later searches are to see, from the members. Caller holds the mutex. Throws bad_alloc.
	virtual std::shared_ptr<const Snapshot> make_snapshot() const = 0;

	/// Called with the mutex held after a snapshot was published.
	virtual void account() {}

	/// Caller holds the mutex. Throws bad_alloc before any change.
	void publish() { publish(make_snapshot()); }

	void publish(std::shared_ptr<const Snapshot> next)
	{
		snapshot_.set(std::move(next));
		account();
	}

	/// Publish a change of the members; if that throws, call undo(), which must not throw, and throw on.
	template <class Undo>
	void publish_or(Undo undo)
	{
		try
		{
			publish();
		}
		catch (...)
		{
			undo();
			throw;
		}
	}

	/// Return a segment, or null. Caller holds the mutex.
	Segment *find_segment(SegmentId id)
	{
		const auto found = segments_.find(id);

		return found == segments_.end() ? nullptr : &found->second;
	}

	const Segment *find_segment(SegmentId id) const
	{
		const auto found = segments_.find(id);

		return found == segments_.end() ? nullptr : &found->second;
	}

	/// Caller holds the mutex.
	Status drop(SegmentId id)
	{
		auto dropped = segments_.extract(id);

		if (dropped.empty())
			return no_segment();
		publish_or([&] { segments_.insert(std::move(dropped)); });
		return Status::ok();
	}

	static Status no_segment() { return Status::error(StatusCode::kNotFound, "no such segment"); }

	mutable std::mutex mutex_; // writers; all members of a copy but the snapshot
	std::map<SegmentId, Segment> segments_;

private:
	Published<Snapshot> snapshot_;
};

} // namespace vectorgpu::engine
