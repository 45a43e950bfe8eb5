// See device_set.hpp.
#include "worker/devices/device_set.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kSecondNs = uint64_t{1000} * 1000 * 1000;
constexpr uint64_t kLeastPauseNs = 10 * kSecondNs; // before a lost device is opened again; doubles
constexpr uint64_t kMostPauseNs = 600 * kSecondNs;
constexpr int kMostFailures = 2;             // a broken context that stays so needs a new process
constexpr uint64_t kStuckNs = 5 * kSecondNs; // a call that is still in a lost device then will not return

} // namespace

OpenedDevice::~OpenedDevice()
{
	if (lost && engine != nullptr && engine->computes_elsewhere())
		(void) engine.release();
}

uint64_t
OpenedDevice::free_bytes() const
{
	const uint64_t budget = budget_bytes();
	const uint64_t most = budget != 0 ? budget : std::numeric_limits<uint64_t>::max() / 2;
	const uint64_t used = most_bytes_ == 0 && budget != 0 ? engine->stats().resident_bytes : bytes.load();

	return most > used ? most - used : 0;
}

/// The caller does not hold the mutex.
bool
DeviceSet::open_slot(size_t index)
{
	auto device = std::make_shared<OpenedDevice>(index, options_.device_bytes);
	bool again = false;

	{
		const std::lock_guard lock(mutex_);

		again = std::exchange(slots_[index].tried, true); // a failed attempt may have broken the context, too
	}

	const Status status = options_.open(
		index, again,
		[this, weak = std::weak_ptr<OpenedDevice>(device)]
		{
			if (const DevicePtr lost = weak.lock(); lost != nullptr)
				lose(lost.get());
		},
		&device->engine);

	if (!status.is_ok())
	{
		say("device " + options_.names[index] + " is not used: " + status.message);
		return false;
	}

	device->engine_budget = device->engine->stats().budget_bytes;

	const std::lock_guard lock(mutex_);

	slots_[index].opened = true;
	slots_[index].n_failed = 0;
	if (device->lost)
		return false;
	slots_[index].device = std::move(device);
	return true;
}

bool
DeviceSet::open()
{
	bool any = false;

	for (size_t i = 0; i < slots_.size(); i++)
	{
		any |= open_slot(i);
		slots_[i].pause_ns = kLeastPauseNs;
		slots_[i].not_before_ns = options_.clock() + kLeastPauseNs;
	}
	return any;
}

DevicePtr
DeviceSet::get(size_t device) const
{
	const std::lock_guard lock(mutex_);

	return slots_[device].device;
}

std::vector<DevicePtr>
DeviceSet::usable() const
{
	const std::lock_guard lock(mutex_);
	std::vector<DevicePtr> found;

	for (const Slot &slot : slots_)
		if (slot.device != nullptr && !slot.device->lost)
			found.push_back(slot.device);
	return found;
}

void
DeviceSet::lose(OpenedDevice *device)
{
	DevicePtr held; // released after the lock
	bool left = false;

	if (device->lost.exchange(true, std::memory_order_acq_rel))
		return;
	{
		const std::lock_guard lock(mutex_);
		Slot &slot = slots_[device->index];

		device->lost_ns = options_.clock();
		if (slot.device.get() == device)
		{
			lost_rescored_ += device->engine->n_rescored();
			held = std::move(slot.device);
			lost_.push_back(held);
			slot.not_before_ns = device->lost_ns + slot.pause_ns;
		}
		for (const Slot &other : slots_)
			left |= other.device != nullptr;
	}
	say("device " + options_.names[device->index] + " is lost: its copies are gone, the others continue");
	if (!left)
		options_.on_all_lost();
}

std::vector<engine::DeviceStats>
DeviceSet::stats() const
{
	std::vector<engine::DeviceStats> all;

	for (size_t i = 0; i < size(); i++)
	{
		engine::DeviceStats &stats = all.emplace_back();
		const DevicePtr device = get(i);

		stats.name = name(i);
		stats.usable = device != nullptr;
		if (device == nullptr)
			continue;
		stats.resident_bytes = device->bytes;
		stats.budget_bytes = device->budget_bytes();
	}
	return all;
}

uint64_t
DeviceSet::n_rescored() const
{
	const std::lock_guard lock(mutex_);
	uint64_t n = lost_rescored_;

	for (const Slot &slot : slots_)
		n += slot.device != nullptr ? slot.device->engine->n_rescored() : 0;
	return n;
}

void
DeviceSet::watch()
{
	const uint64_t now = options_.clock();
	std::vector<DevicePtr> lost; // released after the lock
	bool stuck = false;

	{
		const std::lock_guard lock(mutex_);

		std::erase_if(lost_, [](const auto &weak) { return weak.expired(); });
		for (const auto &weak : lost_)
			if (DevicePtr device = weak.lock(); device != nullptr)
			{
				stuck |= device->n_calls > 0 && now - device->lost_ns > kStuckNs;
				lost.push_back(std::move(device));
			}
	}
	if (stuck)
		options_.on_stuck();
}

/// True if a call has not returned from a lost engine of the device: opening it again ends what the call uses. The
/// caller holds the mutex.
bool
DeviceSet::is_busy(size_t index) const
{
	return std::any_of(lost_.begin(), lost_.end(),
		[index](const std::weak_ptr<OpenedDevice> &weak)
		{
			const DevicePtr device = weak.lock();

			return device != nullptr && device->index == index && device->n_calls > 0;
		});
}

void
DeviceSet::tend()
{
	const uint64_t now = options_.clock();
	std::vector<size_t> due;

	{
		const std::lock_guard lock(mutex_);

		for (size_t i = 0; i < slots_.size(); i++)
			if (slots_[i].device == nullptr && now >= slots_[i].not_before_ns && !is_busy(i))
				due.push_back(i);
	}
	for (const size_t i : due)
	{
		const bool opened = open_slot(i);
		std::unique_lock lock(mutex_);

		// It never becomes shorter: a device that is lost again and again shall rarely be tried.
		slots_[i].pause_ns = std::min(2 * slots_[i].pause_ns, kMostPauseNs);
		slots_[i].not_before_ns = options_.clock() + slots_[i].pause_ns;
		if (opened)
		{
			say("device " + options_.names[i] + " is used again");
			continue;
		}

		const bool closed = slots_[i].opened && ++slots_[i].n_failed == kMostFailures;

		lock.unlock();
		if (closed)
			options_.on_closed();
	}
}

void
DeviceSet::say(const std::string &line) const
{
	if (options_.log)
		options_.log(line.c_str());
}

} // namespace vectorgpu::worker
