// The tiered engine's record of a copy: the engine that has it, and the data that a move must transfer.
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
constexpr uint64_t kLeastPauseNs = 10 * kSecondNs; // after a failed return to the device; doubles

/// A copy inside one of the engines; dropped there by the destructor.
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
	uint64_t bytes_per_segment_row = 0; // 8 if segments have only row ids

	std::mutex write_mutex; // held by writers and moves; guards the members below except place and the atomics
	std::map<SegmentId, SegmentRows> segments;
	uint64_t delta_first = 0;
	uint64_t delta_last = 0;
	uint64_t delta_dead_first = 0;
	std::vector<uint8_t> delta_dead;
	bool has_delta_dead = false;
	bool dropped = false;
	bool movable = true;    // the members above are complete
	bool stays = false;     // the copy is never moved: the device engine keeps_on_host() it, and only the device's part
							// comes and goes
	bool attached = true;   // if it stays: the device's part is uploaded, as far as it has room
	bool host_only = false; // the device does not hold such copies
	uint64_t pause_ns = kLeastPauseNs;
	uint64_t not_before_ns = 0; // do not try to return to the device before this
	uint64_t host_charged = 0;  // of the host's budget, wherever the copy is

	std::atomic<bool> complete{true}; // if it stays: the device has all of its part
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

		place.swap(next); // the old place is destroyed after the lock is released
	}
};

/// Transfer the copy's data from one place to a new one. The caller holds the write mutex. Throws bad_alloc.
Status copy_rows(const TieredCopy &copy, const Place &from, Place *to);

} // namespace vectorgpu::worker
