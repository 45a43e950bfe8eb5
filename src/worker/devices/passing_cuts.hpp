// The rows that meet the conditions of searches, cut for the devices of a copy in shards.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/interface/passing.hpp"
#include "worker/devices/spread_copy.hpp"

namespace vectorgpu::worker
{

/// Thread-safe. Keeps the cuts of segments made last, as each search with the same conditions needs them.
class PassingCuts
{
public:
	/// Return the part of `passing` that is about rows of a place: its segments, and the delta if the place is the
	/// view's first. Segments that lie there as a whole are shared, not cut. Throws bad_alloc.
	std::shared_ptr<const engine::Passing> cut(
		const SpreadView &view, const engine::Passing &passing, const DevicePlace *place);

private:
	using SegmentPtr = std::shared_ptr<const engine::PassingSegment>;

	struct Kept
	{
		std::weak_ptr<const engine::PassingSegment> whole;
		const DevicePlace *place = nullptr;
		SegmentPtr part;
	};

	SegmentPtr part_of(const SegmentPtr &whole, const RowRanges &ranges, const DevicePlace *place);

	std::mutex mutex_; // of the two below
	std::vector<Kept> kept_;
	size_t next_ = 0; // to be replaced
};

} // namespace vectorgpu::worker
