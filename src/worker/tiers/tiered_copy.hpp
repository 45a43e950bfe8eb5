// A copy of the tiered engine: its record, and the engine that has it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "worker/copy_record.hpp"

namespace vectorgpu::worker
{

constexpr uint64_t kSecondNs = uint64_t{1000} * 1000 * 1000;
constexpr uint64_t kLeastPauseNs = 10 * kSecondNs; // after a failed return to the device; doubles
constexpr uint64_t kMostPauseNs = 600 * kSecondNs;

/// A copy inside one of the engines; dropped there by the destructor.
struct Place : CopyPlace
{
	Place(Engine &place_engine, bool device) : CopyPlace{place_engine}, is_device(device) {}

	~Place()
	{
		if (made)
			(void) engine.drop(id).is_ok();
	}

	Place(const Place &) = delete;
	Place &operator=(const Place &) = delete;

	const bool is_device;
	bool made = false;
};

/// Its record is guarded by the write mutex.
struct TieredCopy : CopyRecord
{
	std::mutex write_mutex; // held by writers and moves; guards the members below except place and the atomics
	bool dropped = false;
	bool movable = true;    // the record is complete
	bool stays = false;     // the copy is never moved: the device engine keeps_on_host() it, and only the device's part
							// comes and goes
	bool attached = true;   // if it stays: the device's part is uploaded, as far as it has room
	bool host_only = false; // the device does not hold such copies
	uint64_t pause_ns = kLeastPauseNs; // the next pause of pause_return()
	uint64_t present_pause_ns = 0;     // the latest
	uint64_t not_before_ns = 0;        // do not try to return to the device before this
	bool rows_moved = false;           // the device has moved rows of the copy to host memory, or lets them begin there

	std::atomic<bool> complete{true}; // on the device: all that can be there is
	std::atomic<uint64_t> bytes{0};
	std::atomic<uint64_t> host_charged{0}; // of the host's budget, wherever the copy is; written under the write mutex
	std::atomic<uint64_t> last_used_ns{0};
	mutable std::mutex place_mutex;
	std::shared_ptr<Place> place;

	/// Do not try to return to the device for a while, longer each time. Within a pause it begins anew, as long: the
	/// segments whose rows one change moves away, one after another, count as one time.
	void pause_return(uint64_t now_ns)
	{
		if (now_ns >= not_before_ns)
		{
			present_pause_ns = pause_ns;
			pause_ns = std::min(2 * pause_ns, kMostPauseNs);
		}
		not_before_ns = now_ns + present_pause_ns;
	}

	std::shared_ptr<Place> get_place() const
	{
		const std::lock_guard lock(place_mutex);

		return place;
	}

	void set_place(std::shared_ptr<Place> next)
	{
		const std::lock_guard lock(place_mutex);

		place.swap(next); // the old place is destroyed after the lock is released
	}
};

} // namespace vectorgpu::worker
