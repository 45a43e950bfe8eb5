// The devices of an engine that is made of several: open, lost, opened again. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/interface/engine.hpp"
#include "worker/clock.hpp"

namespace vectorgpu::worker
{

/// Opens the engine of device number `device` of the list. again: this process has lost it before. on_lost may be
/// called once the engine is returned, by any thread.
using OpenDevice = std::function<Status(
	size_t device, bool again, std::function<void()> on_lost, std::unique_ptr<engine::Engine> *engine)>;

struct DeviceSetOptions
{
	std::vector<std::string> names; // of the devices, as the setting names them
	OpenDevice open;
	uint64_t device_bytes = 0; // most bytes of copies on each device; 0: as many as its engine takes
	Clock clock = monotonic_clock;
	std::function<void(const char *line)> log;   // any thread
	std::function<bool(const char *name)> fault; // for tests: whether the fault of this name should happen
	std::function<void()> on_all_lost = [] {};   // no device is left
	std::function<void()> on_stuck = [] {};      // a call does not return from a lost device
	std::function<void()> on_closed = [] {};     // a lost device cannot be opened again: a new process may be able to
};

/// The engine of a device from when it is opened to when it is lost. What it holds refers to it, and is gone with it.
class OpenedDevice
{
public:
	OpenedDevice(size_t device_index, uint64_t most_bytes) : index(device_index), most_bytes_(most_bytes) {}

	/// An engine with a broken context is not destroyed: freeing through it may hang.
	~OpenedDevice();
	OpenedDevice(const OpenedDevice &) = delete;
	OpenedDevice &operator=(const OpenedDevice &) = delete;

	const size_t index;
	std::unique_ptr<engine::Engine> engine;
	std::atomic<bool> lost{false};
	std::atomic<uint64_t> n_calls{0};   // that run
	std::atomic<uint64_t> n_queries{0}; // that run
	std::atomic<uint64_t> n_done{0};    // queries given to it
	std::atomic<uint64_t> bytes{0};     // of copies, by the rows given
	uint64_t lost_ns = 0;               // under the set's mutex
	uint64_t engine_budget = 0;         // of its engine, which does not change

	/// Bytes for copies; 0: no limit. free_bytes: a huge number then, less what is used.
	uint64_t budget_bytes() const { return most_bytes_ != 0 ? most_bytes_ : engine_budget; }
	uint64_t free_bytes() const;

	/// True if a limit of its own, which its engine does not know, has no room for this many bytes.
	bool refuses(uint64_t n_bytes) const { return most_bytes_ != 0 && bytes + n_bytes > most_bytes_; }

private:
	const uint64_t most_bytes_;
};

using DevicePtr = std::shared_ptr<OpenedDevice>;

class DeviceSet
{
public:
	explicit DeviceSet(const DeviceSetOptions &options) : options_(options), slots_(options.names.size()) {}

	/// Open all; false if none can be opened. Each failure is a line in the log.
	bool open();

	size_t size() const { return slots_.size(); }
	const std::string &name(size_t device) const { return options_.names[device]; }

	/// Null: it is lost, or could not be opened.
	DevicePtr get(size_t device) const;

	/// Those that are not lost, in their order.
	std::vector<DevicePtr> usable() const;

	/// A device cannot be used any more. Any thread; only the first call counts.
	void lose(OpenedDevice *device);

	/// Counts a call of a device's engine that does not go through run(): while it lives, the engine is not given up.
	static auto count_call(OpenedDevice *device) { return Counted(&device->n_calls, 1); }

	/// Run call(engine) on a device. kUnavailable if it is lost, or is lost by the call.
	template <class Call>
	Status run(OpenedDevice *device, Call call)
	{
		const Counted counted(&device->n_calls, 1);
		const Status status = device->lost ? gone() : call(*device->engine);

		if (status.code == StatusCode::kUnavailable)
			lose(device);
		return device->lost ? gone() : status;
	}

	/// The same for a search, which may lose its device on purpose in tests.
	template <class Call>
	Status run_search(OpenedDevice *device, size_t n_queries, Call call)
	{
		if (options_.fault && options_.fault("lose_device"))
			lose(device);

		const Counted counted(&device->n_queries, n_queries);

		device->n_done.fetch_add(n_queries, std::memory_order_relaxed);
		return run(device, call);
	}

	/// Of all engines, lost ones too.
	uint64_t n_rescored() const;

	/// Of all devices, in their order.
	std::vector<engine::DeviceStats> stats() const;

	/// Notice a call that does not return from a lost device. Called every second, by a thread that makes no such call.
	void watch();

	/// Open lost devices again, with pauses that grow. Called every second.
	void tend();

	void say(const std::string &line) const;

	static Status gone() { return Status::error(StatusCode::kUnavailable, "the device is lost"); }

private:
	/// Counts for as long as it lives.
	class Counted
	{
	public:
		Counted(std::atomic<uint64_t> *counter, uint64_t n) : counter_(counter), n_(n) { counter_->fetch_add(n_); }
		~Counted() { counter_->fetch_sub(n_); }
		Counted(const Counted &) = delete;
		Counted &operator=(const Counted &) = delete;

	private:
		std::atomic<uint64_t> *const counter_;
		const uint64_t n_;
	};

	struct Slot
	{
		DevicePtr device;      // null: lost, or not opened
		bool tried = false;    // to open it, once at least
		bool opened = false;   // once at least
		int n_failed = 0;      // attempts to open it since it was lost
		uint64_t pause_ns = 0; // before the next attempt
		uint64_t not_before_ns = 0;
	};

	bool open_slot(size_t index);
	bool is_busy(size_t index) const;

	const DeviceSetOptions options_;
	mutable std::mutex mutex_; // all below; not held during a call of an engine
	std::vector<Slot> slots_;
	std::vector<std::weak_ptr<OpenedDevice>> lost_; // that calls may still be in
	uint64_t lost_rescored_ = 0;                    // by lost engines
};

} // namespace vectorgpu::worker
