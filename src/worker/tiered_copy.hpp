// What the tiered engine knows of a copy: which engine has it, and what a move must bring.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/interface/engine.hpp"

namespace vectorgpu::worker
{

using engine::CopyId;
using engine::Engine;
using engine::SegmentId;

constexpr uint64_t kSecondNs = uint64_t{1000} * 1000 * 1000;
constexpr uint64_t kLeastPauseNs = 10 * kSecondNs; // after a failed way back to the device; doubles

/// A copy inside one of the engines; dropped there with the last holder.
struct Place
{
	Place(Engine &place_engine, bool device) : engine(place_engine), is_device(device) {}

	~Place()
	{
		if (made)
			(void) engine.drop(id).is_ok();
	}

	Place(const Place &) = delete;
	Place &operator=(const Place &) = delete;

	Engine &engine;
	const bool is_device;
	CopyId id = 0;
	bool made = false;
};

struct SegmentRows
{
	uint64_t n_rows = 0;
	uint32_t parameter = 0;       // of the structure
	uint64_t structure_bytes = 0; // by load_structure
	bool prepared = false;
	bool sealed = false;
	std::vector<uint8_t> dead; // the bitmap given last
};

struct TieredCopy
{
	engine::CopySpec spec;
	uint64_t bytes_per_row = 0;         // of the delta
	uint64_t bytes_per_segment_row = 0; // 8 if segments have row ids alone

	std::mutex write_mutex; // writers and moves; all below but place and the atomics
	std::map<SegmentId, SegmentRows> segments;
	uint64_t delta_first = 0;
	uint64_t delta_last = 0;
	uint64_t delta_dead_first = 0;
	std::vector<uint8_t> delta_dead;
	bool has_delta_dead = false;
	bool dropped = false;
	bool movable = true; // all above is known
	bool stays =
		false; // in its place, the device's engine, whose keeps_on_host() is true: what moves is the device's part
	bool attached = true;   // such a copy: the device has what it has room for
	bool host_only = false; // the device does not hold such copies
	uint64_t pause_ns = kLeastPauseNs;
	uint64_t not_before_ns = 0; // no way back to the device earlier
	uint64_t host_charged = 0;  // of the host's budget, wherever the copy lies

	std::atomic<bool> complete{true}; // such a copy: the device has all of its part
	std::atomic<uint64_t> bytes{0};
	std::atomic<uint64_t> last_used_ns{0};
	mutable std::mutex place_mutex;
	std::shared_ptr<Place> place;

	std::shared_ptr<Place> get_place() const
	{
		const std::lock_guard lock(place_mutex);

		return place;
	}

	void set_place(std::shared_ptr<Place> next)
	{
		const std::lock_guard lock(place_mutex);

		place.swap(next); // the old one goes after the lock
	}
};

/// All that the copy has, from one place to a new one. Its writers wait. Throws bad_alloc.
Status copy_rows(const TieredCopy &copy, const Place &from, Place *to);

} // namespace vectorgpu::worker
