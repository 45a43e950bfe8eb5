// See watchdog.hpp.
#include "cuda/device/watchdog.hpp"

#include <algorithm>

namespace vectorgpu::cuda
{

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

void
Watchdog::start(const Device *device, milliseconds limit)
{
	thread_ = std::thread([this, device, limit] { watch(device, limit); });
}

void
Watchdog::stop()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
	}
	ended_.notify_one();
	if (thread_.joinable())
		thread_.join();
}

void
Watchdog::watch(const Device *device, milliseconds limit)
{
	const uint64_t limit_ns = static_cast<uint64_t>(nanoseconds(limit).count());
	const milliseconds pause = std::clamp(limit / 8, milliseconds(10), milliseconds(1000));
	std::unique_lock lock(mutex_);

	while (!ended_.wait_for(lock, pause, [this] { return stopping_; }))
	{
		const auto now = std::chrono::steady_clock::now().time_since_epoch();
		const uint64_t now_ns = static_cast<uint64_t>(std::chrono::duration_cast<nanoseconds>(now).count());
		const uint64_t since = device->waiting_since_ns();

		if (since != 0 && now_ns > since && now_ns - since > limit_ns)
			device->lose("a kernel does not end");
	}
}

} // namespace vectorgpu::cuda
