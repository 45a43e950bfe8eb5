// A copy of an engine that is made of several devices: its record, and the devices that have it or parts of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/copy_record.hpp"
#include "worker/devices/device_set.hpp"

namespace vectorgpu::worker
{

/// A copy inside the engine of one device; dropped there by the destructor. Searches keep it.
struct DevicePlace
{
	DevicePlace(DevicePtr place_device, CopyId copy) : device(std::move(place_device)), id(copy) {}

	~DevicePlace()
	{
		const auto counted = DeviceSet::count_call(device.get());

		device->bytes -= bytes;
		if (!device->lost)
			(void) device->engine->drop(id).is_ok();
	}

	DevicePlace(const DevicePlace &) = delete;
	DevicePlace &operator=(const DevicePlace &) = delete;

	/// Charge the device with this number of bytes. The caller holds the copy's write mutex.
	void charge(uint64_t n_bytes)
	{
		device->bytes += n_bytes - bytes.exchange(n_bytes); // modulo 2^64
	}

	const DevicePtr device;
	const CopyId id;
	std::atomic<uint64_t> bytes{0};
	bool refused = false; // the last change, for want of memory. Under the copy's write mutex
};

using PlacePtr = std::shared_ptr<DevicePlace>;

/// Rows [first, first + n_rows) of a segment are rows [at, at + n_rows) of that segment on a device.
struct RowRange
{
	uint64_t first = 0;
	uint64_t n_rows = 0;
	DevicePlace *place = nullptr;
	uint64_t at = 0;
};

/// A shard's part of the rows of one segment. Ranges go by ascending first row, and cover the segment.
using RowRanges = std::vector<RowRange>;

/// What searches look at. Immutable.
struct SpreadView
{
	bool sharded = false;                  // each place has other rows; else each has all
	std::vector<PlacePtr> places;          // sharded: the first one has the delta
	std::map<SegmentId, RowRanges> ranges; // of sealed segments, if sharded

	/// True if the device of a place that cannot be replaced is lost.
	bool broken() const;
};

using ViewPtr = std::shared_ptr<const SpreadView>;

class PassingCuts;

struct SpreadCopy
{
	std::mutex write_mutex; // guards all but what says otherwise
	CopyRecord record;
	std::atomic<bool> dropped{false}; // or inconsistent
	bool sharded = false;
	bool on_host = false;       // its kind is kept in host memory by the engines: it has one place for each segment
	bool may_spread = true;     // the record is complete: it can be brought to further devices
	uint64_t not_before_ns = 0; // do not try to bring it to a further device before this
	std::vector<PlacePtr> places;
	std::map<SegmentId, RowRanges> ranges;                // if sharded
	std::map<SegmentId, std::vector<DevicePlace *>> done; // places that have prepared or sealed a segment

	std::atomic<uint64_t> last_used_ns{0};
	std::shared_ptr<PassingCuts> cuts; // thread-safe

	ViewPtr view() const
	{
		const std::lock_guard lock(view_mutex_);

		return view_;
	}

	/// Show searches the places and sealed segments as they are now. Throws bad_alloc.
	void publish();

	PlacePtr place_on(const OpenedDevice *device) const;

	/// Charge each device with its rows.
	void charge();

private:
	mutable std::mutex view_mutex_;
	ViewPtr view_;
};

using CopyPtr = std::shared_ptr<SpreadCopy>;

/// Set bits [at, at + n) of `to` to bits [first, first + n) of `from`; bits beyond `from` count as 0.
void move_bits(const std::vector<uint8_t> &from, uint64_t first, uint64_t n, std::vector<uint8_t> *to, uint64_t at);

} // namespace vectorgpu::worker
