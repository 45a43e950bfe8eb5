// See spread_placement.hpp.
#include "worker/devices/spread_placement.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "worker/devices/passing_cuts.hpp"
#include "worker/devices/side_by_side.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kReplicaShare = 2;                            // a copy of more than this part of a device is cut
constexpr uint64_t kStripesOfHalf = 16;                          // least number of stripes that half a device takes
constexpr uint64_t kPauseNs = uint64_t{10} * 1000 * 1000 * 1000; // after a replica could not be made
constexpr uint64_t kLeastLargeBytes = 256 * 1024;                // of a change that goes to devices side by side
constexpr int kMostWaits = 1000;                                 // milliseconds
constexpr uint64_t kKeptFree = 8; // part of a device that is left free when a copy is brought there as a replica

Status
full()
{
	return Status::error(StatusCode::kOutOfMemory, "the budget of the device is used up");
}

/// True if a segment's rows may be on several devices: a structure is about all rows of its segment.
bool
may_cut(const SpreadCopy &copy)
{
	return copy.record.spec.kind == engine::CopyKind::kRows;
}

/// Wait until the searches in a replica that was given up have ended, and its memory is free; not for long.
void
await_end(const std::weak_ptr<DevicePlace> &given_up)
{
	for (int i = 0; i < kMostWaits && !given_up.expired(); i++)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace

CopyId
SpreadPlacement::add(CopyPtr copy)
{
	const std::lock_guard lock(mutex_);

	copies_.emplace(next_copy_, std::move(copy));
	return next_copy_++;
}

CopyPtr
SpreadPlacement::find(CopyId id) const
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(id);

	return found == copies_.end() ? nullptr : found->second;
}

CopyPtr
SpreadPlacement::take(CopyId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(id);

	if (found == copies_.end())
		return nullptr;

	CopyPtr copy = std::move(found->second);

	copies_.erase(found);
	return copy;
}

std::vector<CopyPtr>
SpreadPlacement::by_last_use() const
{
	std::vector<std::pair<uint64_t, CopyPtr>> dated;
	std::vector<CopyPtr> copies;

	{
		const std::lock_guard lock(mutex_);

		for (const auto &[id, copy] : copies_)
			dated.emplace_back(copy->last_used_ns.load(std::memory_order_relaxed), copy);
	}
	std::stable_sort(dated.begin(), dated.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
	for (auto &[used, copy] : dated)
		copies.push_back(std::move(copy));
	return copies;
}

size_t
SpreadPlacement::n_copies() const
{
	const std::lock_guard lock(mutex_);

	return copies_.size();
}

uint64_t
SpreadPlacement::spare_bytes() const
{
	uint64_t bytes = 0;

	for (const CopyPtr &copy : by_last_use())
	{
		const ViewPtr view = copy->view();

		for (size_t i = 1; !view->sharded && i < view->places.size(); i++)
			bytes += view->places[i]->device->lost ? 0 : view->places[i]->bytes.load();
	}
	return bytes;
}

/// The usable devices, that with the most room first. Equal ones in their order.
std::vector<DevicePtr>
SpreadPlacement::by_room() const
{
	std::vector<std::pair<uint64_t, DevicePtr>> sized;
	std::vector<DevicePtr> devices;

	for (const DevicePtr &device : devices_.usable())
		sized.emplace_back(device->free_bytes(), device);
	std::stable_sort(sized.begin(), sized.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
	for (auto &[bytes, device] : sized)
		devices.push_back(std::move(device));
	return devices;
}

Status
SpreadPlacement::place_for(SpreadCopy *copy, const DevicePtr &device, PlacePtr *place)
{
	CopyId id = 0;

	*place = copy->place_on(device.get());
	if (*place != nullptr)
		return Status::ok();

	const Status status =
		devices_.run(device.get(), [&](engine::Engine &engine) { return engine.create(copy->record.spec, &id); });

	if (status.is_ok())
	{
		*place = std::make_shared<DevicePlace>(device, id);
		copy->places.push_back(*place);
	}
	return status;
}

Status
SpreadPlacement::create(SpreadCopy *copy)
{
	const std::vector<DevicePtr> devices = by_room();
	Status failed = not_resident();

	copy->cuts = std::make_shared<PassingCuts>();
	copy->on_host = !devices.empty() && devices.front()->engine->keeps_on_host(copy->record.spec.kind);
	copy->sharded = copy->on_host || copy->record.spec.rows_on_host; // once in host memory is enough
	for (const DevicePtr &device : devices)
	{
		PlacePtr place;

		if (const Status status = place_for(copy, device, &place); !status.is_ok())
			failed = status;
		else if (copy->sharded)
			break;
	}
	copy->publish();
	return copy->places.empty() ? failed : Status::ok();
}

Status
SpreadPlacement::change_place(DevicePlace *place, uint64_t n_bytes, const PlaceChange &change)
{
	Status status = n_bytes > 0 && place->device->refuses(n_bytes)
		? full()
		: devices_.run(place->device.get(), [&](engine::Engine &engine) { return change(engine, place->id); });

	place->refused = status.code == StatusCode::kOutOfMemory;
	return status;
}

/// Forget which devices refused an earlier change.
void
SpreadPlacement::begin_change(SpreadCopy *copy)
{
	for (const PlacePtr &place : copy->places)
		place->refused = false;
}

Status
SpreadPlacement::move_rows_to_host(SpreadCopy *copy, uint64_t most_bytes)
{
	Status status = Status::error(StatusCode::kNotFound, "no rows of the copy are on a device that lacks memory");

	if (!copy->sharded)
	{
		const bool has_replicas = copy->places.size() > 1;

		shard(copy);
		if (has_replicas) // further segments may go to the other devices
			return Status::ok();
	}
	for (const PlacePtr &place : copy->places)
	{
		if (!place->refused)
			continue;

		const Status moved = devices_.run(place->device.get(),
			[&](engine::Engine &engine) { return engine.move_rows_to_host(place->id, most_bytes); });

		if (moved.is_ok())
			return moved;
		if (moved.code != StatusCode::kNotFound)
			status = moved;
	}
	return status.code == StatusCode::kUnavailable ? not_resident() : status;
}

Status
SpreadPlacement::change(SpreadCopy *copy, uint64_t n_bytes, const PlaceChange &change)
{
	return change_all(copy, n_bytes, n_bytes >= kLeastLargeBytes, change);
}

/// As change. is_large: waking other threads takes less time than the change.
Status
SpreadPlacement::change_all(SpreadCopy *copy, uint64_t n_bytes, bool is_large, const PlaceChange &change)
{
	const auto make = [&]
	{
		return copy->sharded ? change_place(copy->places.front().get(), n_bytes, change)
							 : change_replicas(copy, n_bytes, is_large, change);
	};
	const OpenedDevice *const only = copy->sharded ? copy->places.front()->device.get() : nullptr;

	begin_change(copy);

	Status status = make();

	while (status.code == StatusCode::kOutOfMemory && make_room(copy, only))
		status = make();
	return status.code == StatusCode::kUnavailable ? not_resident() : status;
}

Status
SpreadPlacement::change_replicas(SpreadCopy *copy, uint64_t n_bytes, bool is_large, const PlaceChange &change)
{
	const size_t n = copy->places.size();
	std::vector<Status> made(n);
	std::vector<PlacePtr> good;
	Status failed = DeviceSet::gone();

	(void) run_side_by_side(&pool_, is_large ? n : 1, n,
		[&](size_t i)
		{
			made[i] = change_place(copy->places[i].get(), n_bytes, change);
			return Status::ok();
		});
	for (size_t i = 0; i < n; i++)
		if (made[i].is_ok())
			good.push_back(copy->places[i]);
		else if (made[i].code != StatusCode::kUnavailable)
			failed = made[i];
	if (good.empty()) // as a rule all refuse alike, and nothing has changed
		return failed;
	if (good.size() == copy->places.size())
		return Status::ok();
	if (failed.code != StatusCode::kUnavailable)
		devices_.say("a copy is on fewer devices: " + failed.message);
	copy->places = std::move(good);
	copy->publish();
	return Status::ok();
}

Status
SpreadPlacement::change_segment(SpreadCopy *copy, SegmentId segment, bool once, const PlaceChange &change)
{
	if (!copy->sharded)
		return change_all(copy, 0, true, change);

	const auto found = copy->ranges.find(segment);
	std::vector<DevicePlace *> places;

	if (found != copy->ranges.end())
		for (const RowRange &range : found->second)
			if (std::find(places.begin(), places.end(), range.place) == places.end())
				places.push_back(range.place);
	if (places.empty()) // the engine says what is wrong with a segment that is not there
		places.push_back(copy->places.front().get());

	std::vector<DevicePlace *> &done = copy->done[segment];

	begin_change(copy);
	for (DevicePlace *place : places)
	{
		if (once && std::find(done.begin(), done.end(), place) != done.end())
			continue;

		Status status = change_place(place, 0, change);

		while (status.code == StatusCode::kOutOfMemory && make_room(copy, place->device.get()))
			status = change_place(place, 0, change);
		if (!status.is_ok())
			return status.code == StatusCode::kUnavailable ? not_resident() : status;
		if (once)
			done.push_back(place);
	}
	copy->done.erase(segment);
	return Status::ok();
}

Status
SpreadPlacement::set_tombstones(SpreadCopy *copy, SegmentId segment, std::span<const uint8_t> bits)
{
	const auto found = copy->ranges.find(segment);

	if (!copy->sharded || found == copy->ranges.end())
		return change_segment(copy, segment, false,
			[&](engine::Engine &engine, CopyId id) { return engine.set_tombstones(id, segment, bits); });

	const std::vector<uint8_t> all(bits.begin(), bits.end());

	if (all.size() != (copy->record.segments[segment].n_rows + 7) / 8)
		return Status::error(StatusCode::kInvalidArgument, "the bitmap is of another number of rows");
	return change_segment(copy, segment, false,
		[&](engine::Engine &engine, CopyId id)
		{
			std::vector<uint8_t> own;

			for (const RowRange &range : found->second)
				if (range.place->id == id && range.place->device->engine.get() == &engine)
					move_bits(all, range.first, range.n_rows, &own, range.at);
			return engine.set_tombstones(id, segment, own);
		});
}

/// The most bytes of a copy that all devices have: half of the smallest one. What comes then goes to the others, so
/// that a copy as large as a device or larger ends in equal shards.
uint64_t
SpreadPlacement::most_replica_bytes() const
{
	uint64_t least = std::numeric_limits<uint64_t>::max();
	const std::vector<DevicePtr> devices = devices_.usable();

	for (const DevicePtr &device : devices)
		if (const uint64_t budget = device->budget_bytes(); budget != 0 && devices.size() > 1)
			least = std::min(least, budget / kReplicaShare);
	return least;
}

/// Make one replica the first shard; the others are dropped when the searches in them have ended.
void
SpreadPlacement::shard(SpreadCopy *copy)
{
	PlacePtr home;

	for (const PlacePtr &place : copy->places)
		if (!place->device->lost && (home == nullptr || place->device->free_bytes() > home->device->free_bytes()))
			home = place;
	if (home == nullptr)
		return;
	for (const auto &[segment, rows] : copy->record.segments)
		copy->ranges[segment] = {{0, rows.n_rows, home.get(), 0}};
	copy->places = {home};
	copy->sharded = true;
	copy->publish();
}

Status
SpreadPlacement::grow_segment(
	SpreadCopy *copy, SegmentId segment, uint64_t n_rows, uint64_t n_bytes, const PlaceChange &change)
{
	if (!copy->sharded && record_bytes(copy->record) + n_bytes > most_replica_bytes())
		shard(copy);
	return copy->sharded ? grow_shard(copy, segment, n_rows, n_bytes, change) : this->change(copy, n_bytes, change);
}

/// The devices that may take the next rows of a segment, in the order in which they are asked. Rows go on behind the
/// last ones until a stripe is full; then the device with the most room gets the next.
std::vector<DevicePtr>
SpreadPlacement::takers(const SpreadCopy &copy, const RowRanges &ranges, uint64_t n_rows) const
{
	const uint64_t stripe = std::min(stripe_bytes_, most_replica_bytes() / kStripesOfHalf);
	std::vector<DevicePtr> devices;

	if (!ranges.empty() &&
		!(may_cut(copy) && n_rows > 0 && ranges.back().n_rows * copy.record.bytes_per_segment_row >= stripe))
		devices.push_back(ranges.back().place->device);
	if (ranges.empty() || may_cut(copy))
		for (const DevicePtr &device : by_room())
			if (devices.empty() || device != devices.front())
				devices.push_back(device);
	return devices;
}

Status
SpreadPlacement::grow_shard(
	SpreadCopy *copy, SegmentId segment, uint64_t n_rows, uint64_t n_bytes, const PlaceChange &change)
{
	if (const auto held = copy->record.segments.find(segment);
		held != copy->record.segments.end() && (held->second.sealed || held->second.prepared))
		return Status::error(StatusCode::kInvalidArgument, "the segment is sealed"); // a further device cannot know

	RowRanges &ranges = copy->ranges[segment];
	const bool goes_on = !ranges.empty() && !may_cut(*copy);
	const OpenedDevice *const only = goes_on ? ranges.back().place->device.get() : nullptr;

	begin_change(copy);

	Status status = try_to_grow(copy, &ranges, copy->record.segments[segment].n_rows, n_rows, n_bytes, change);

	while (status.code == StatusCode::kOutOfMemory && make_room(copy, only))
		status = try_to_grow(copy, &ranges, copy->record.segments[segment].n_rows, n_rows, n_bytes, change);
	if (ranges.empty())
	{
		copy->ranges.erase(segment);
		copy->record.segments.erase(segment);
	}
	return status.code == StatusCode::kUnavailable ? not_resident() : status;
}

/// first: the number of the first of the rows. Only kOutOfMemory and kUnavailable go on to the next device.
Status
SpreadPlacement::try_to_grow(
	SpreadCopy *copy, RowRanges *ranges, uint64_t first, uint64_t n_rows, uint64_t n_bytes, const PlaceChange &change)
{
	Status status = full();

	for (const DevicePtr &device : takers(*copy, *ranges, n_rows))
	{
		const size_t n_places = copy->places.size();
		PlacePtr place;

		status = place_for(copy, device, &place);
		if (copy->places.size() > n_places)
			copy->publish();
		if (status.is_ok())
			status = change_place(place.get(), n_bytes, change);
		if (status.is_ok())
		{
			uint64_t at = 0;

			for (const RowRange &range : *ranges)
				at += range.place == place.get() ? range.n_rows : 0;
			if (!ranges->empty() && ranges->back().place == place.get())
				ranges->back().n_rows += n_rows;
			else
				ranges->push_back({first, n_rows, place.get(), at});
			return status;
		}
		if (status.code != StatusCode::kOutOfMemory && status.code != StatusCode::kUnavailable)
			return status;
	}
	return status;
}

/// Give up one replica of a copy that has several, of the copy that was not searched for longest. only: the device that
/// needs the room; null: any. False: there is none.
bool
SpreadPlacement::make_room(const SpreadCopy *but_not, const OpenedDevice *only)
{
	for (const CopyPtr &copy : by_last_use())
	{
		if (copy.get() == but_not)
			continue;

		std::weak_ptr<DevicePlace> given_up;

		{
			const std::unique_lock writing(copy->write_mutex, std::try_to_lock); // its writer may wait for ours

			if (!writing.owns_lock() || copy->dropped || copy->sharded || copy->places.size() < 2)
				continue;

			const auto chosen = only != nullptr
				? std::find(copy->places.begin(), copy->places.end(), copy->place_on(only))
				: std::min_element(copy->places.begin(), copy->places.end(), [](const PlacePtr &a, const PlacePtr &b)
					  { return a->device->free_bytes() < b->device->free_bytes(); });

			if (chosen == copy->places.end())
				continue;
			given_up = *chosen;
			copy->places.erase(chosen);
			copy->publish();
		}
		await_end(given_up);
		return true;
	}
	return false;
}

void
SpreadPlacement::spread_one(uint64_t now_ns)
{
	std::vector<CopyPtr> copies = by_last_use();

	std::reverse(copies.begin(), copies.end());
	for (const CopyPtr &copy : copies)
	{
		const std::unique_lock writing(copy->write_mutex, std::try_to_lock);

		if (!writing.owns_lock() || copy->dropped || copy->sharded || !copy->may_spread || copy->view()->broken() ||
			now_ns < copy->not_before_ns || record_bytes(copy->record) > most_replica_bytes())
			continue;
		for (const DevicePtr &device : devices_.usable())
		{
			const uint64_t budget = device->budget_bytes();

			if (copy->place_on(device.get()) != nullptr ||
				record_bytes(copy->record) + budget / kKeptFree > device->free_bytes())
				continue;
			if (!bring(copy.get(), device))
				copy->not_before_ns = now_ns + kPauseNs;
			return;
		}
	}
}

/// Make a replica on a device, from another replica. Searches continue in those meanwhile; writers wait.
bool
SpreadPlacement::bring(SpreadCopy *copy, const DevicePtr &device)
{
	CopyId id = 0;
	Status status =
		devices_.run(device.get(), [&](engine::Engine &engine) { return engine.create(copy->record.spec, &id); });

	if (!status.is_ok())
		return false;

	const auto place = std::make_shared<DevicePlace>(device, id);

	for (const PlacePtr &from : copy->places)
	{
		if (from->device->lost)
			continue;
		place->charge(record_bytes(copy->record));

		const auto counted = DeviceSet::count_call(from->device.get());

		status = devices_.run(device.get(),
			[&](engine::Engine &engine)
			{
				const Status copied = copy_rows(copy->record, {*from->device->engine, from->id}, {engine, id});

				// The loss of the other device is not this one's.
				return copied.code == StatusCode::kUnavailable && from->device->lost
					? Status::error(StatusCode::kInternal, "the rows' device is lost")
					: copied;
			});
		break;
	}
	if (!status.is_ok() || device->lost)
		return false;
	std::erase_if(copy->places, [](const PlacePtr &old) { return old->device->lost.load(); });
	copy->places.push_back(place);
	copy->publish();
	return true;
}

} // namespace vectorgpu::worker
