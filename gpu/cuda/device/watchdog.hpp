// The watchdog of an engine: notices a kernel that never ends. Threads that wait for it wait in the driver and cannot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

/// From start() to stop() a thread of its own gives the device up (Device::lose) once a GpuWait takes longer than the
/// limit.
class Watchdog
{
public:
	Watchdog() = default;
	~Watchdog() { stop(); }
	Watchdog(const Watchdog &) = delete;
	Watchdog &operator=(const Watchdog &) = delete;

	/// device: outlives the watchdog.
	void start(const Device *device, std::chrono::milliseconds limit);
	void stop();

private:
	void watch(const Device *device, std::chrono::milliseconds limit);

	std::mutex mutex_;
	std::condition_variable ended_;
	bool stopping_ = false; // under mutex_
	std::thread thread_;
};

} // namespace vectorgpu::cuda
