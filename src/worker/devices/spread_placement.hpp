// The copies of an engine of several devices, and which devices have what: replicas, shards, room. See README.md,
// "Replicas and shards".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/cpu/thread_pool.hpp"
#include "worker/devices/spread_copy.hpp"

namespace vectorgpu::worker
{

/// A change of a copy inside the engine of one device.
using PlaceChange = std::function<Status(engine::Engine &engine, CopyId copy)>;

class SpreadPlacement
{
public:
	SpreadPlacement(DeviceSet &devices, uint64_t stripe_bytes)
		: devices_(devices), stripe_bytes_(stripe_bytes), pool_(devices.size())
	{
	}

	// Any thread.
	CopyId add(CopyPtr copy);
	CopyPtr find(CopyId id) const;            // null: there is none
	CopyPtr take(CopyId id);                  // find, and remove it from the list
	std::vector<CopyPtr> by_last_use() const; // the longest unused first
	size_t n_copies() const;
	uint64_t spare_bytes() const; // of all replicas but one of each copy: they give way

	// The caller holds the copy's write mutex. They throw bad_alloc; the copy is then inconsistent.

	/// Make the copy on the devices.
	Status create(SpreadCopy *copy);

	/// Change all replicas, or the shard that has the delta. n_bytes: of memory that the change takes. A large change
	/// of replicas is made on all side by side: it is called by several threads. A replica that cannot follow is given
	/// up while another one can.
	Status change(SpreadCopy *copy, uint64_t n_bytes, const PlaceChange &change);

	/// Change every place that has rows of the segment. once: a place that has succeeded is not called again.
	Status change_segment(SpreadCopy *copy, SegmentId segment, bool once, const PlaceChange &change);

	/// As Engine::set_tombstones; each shard gets the bits of its rows.
	Status set_tombstones(SpreadCopy *copy, SegmentId segment, std::span<const uint8_t> bits);

	/// Add rows or parts of a structure to a segment, on devices that have room. A copy that becomes large is put into
	/// shards first.
	Status grow_segment(
		SpreadCopy *copy, SegmentId segment, uint64_t n_rows, uint64_t n_bytes, const PlaceChange &change);

	/// As Engine::move_rows_to_host, on the devices that have refused the last change. A copy in replicas becomes
	/// shards first: rows are in host memory once.
	Status move_rows_to_host(SpreadCopy *copy, uint64_t most_bytes);

	/// Bring one copy to a device that has room for it. Called when nothing else is to be done.
	void spread_one(uint64_t now_ns);

	static Status not_resident() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

private:
	Status change_all(SpreadCopy *copy, uint64_t n_bytes, bool is_large, const PlaceChange &change);
	Status change_replicas(SpreadCopy *copy, uint64_t n_bytes, bool is_large, const PlaceChange &change);
	static void begin_change(SpreadCopy *copy);
	Status change_place(DevicePlace *place, uint64_t n_bytes, const PlaceChange &change);
	Status grow_shard(
		SpreadCopy *copy, SegmentId segment, uint64_t n_rows, uint64_t n_bytes, const PlaceChange &change);
	Status try_to_grow(SpreadCopy *copy, RowRanges *ranges, uint64_t first, uint64_t n_rows, uint64_t n_bytes,
		const PlaceChange &change);
	std::vector<DevicePtr> takers(const SpreadCopy &copy, const RowRanges &ranges, uint64_t n_rows) const;
	Status place_for(SpreadCopy *copy, const DevicePtr &device, PlacePtr *place);
	uint64_t most_replica_bytes() const;
	void shard(SpreadCopy *copy);
	bool make_room(const SpreadCopy *but_not, const OpenedDevice *only);
	std::vector<DevicePtr> by_room() const;
	bool bring(SpreadCopy *copy, const DevicePtr &device);

	DeviceSet &devices_;
	const uint64_t stripe_bytes_;
	mutable std::mutex mutex_; // of the two below; never held during work on a copy
	std::map<CopyId, CopyPtr> copies_;
	CopyId next_copy_ = 1;
	engine::ThreadPool pool_; // waits for devices
};

} // namespace vectorgpu::worker
