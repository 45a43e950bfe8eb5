// Device memory of copies, counted against a budget, and host memory of theirs that the device reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cuda/device/device.hpp"
#include "cuda/device/host_buffer.hpp"

namespace vectorgpu::cuda
{

/// Device memory for copies, counted against a budget.
class Budget
{
public:
	Budget(const Device *device, uint64_t most) : device_(device), most_(most) {}

	const Device *device() const { return device_; }
	uint64_t most() const { return most_; }

	/// Call before other threads use the budget.
	void set_most(uint64_t most) { most_ = most; }
	uint64_t used() const { return used_.load(std::memory_order_relaxed); }
	Status take(uint64_t bytes);
	void give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

private:
	const Device *device_;
	uint64_t most_; // 0: no limit but the device's
	std::atomic<uint64_t> used_{0};
};

/// A device buffer that counts against a budget, or host memory for the same data, which counts against none: its
/// owner reports it (Engine::host_bytes).
class Held
{
public:
	Held() = default;
	~Held() { reset(); }
	Held(const Held &) = delete;
	Held &operator=(const Held &) = delete;

	/// Free the memory held and allocate. kOutOfMemory, with an empty buffer, if the budget or the device has too
	/// little.
	Status allocate(Budget *budget, size_t bytes, const char *purpose)
	{
		return allocate(budget->device(), budget, bytes, purpose);
	}

	/// budget: null: not counted.
	Status allocate(const Device *device, Budget *budget, size_t bytes, const char *purpose);

	/// The same in host memory: see HostBuffer.
	Status allocate_on_host(const Device *device, size_t bytes, const char *purpose);
	Status allocate_pinned(const Device *device, size_t bytes, const char *purpose);
	Status pin() { return host_.pin(); }
	void reset() noexcept;
	size_t bytes() const { return on_host() ? host_.bytes() : buffer_.bytes(); }
	bool on_host() const { return host_.bytes() > 0; }
	bool is_pinned() const { return host_.is_pinned(); }

	template <class T>
	T *as() const
	{
		return on_host() ? reinterpret_cast<T *>(host_.get()) : buffer_.as<T>();
	}

private:
	Budget *budget_ = nullptr;
	DeviceBuffer buffer_;
	HostBuffer host_;
};

} // namespace vectorgpu::cuda
