// An engine made of two: each copy is on the device or in host memory, invisibly to the caller. A copy for which the
// device has no room goes to the host, where the CPU engine answers; it comes back when there is room. See README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/interface/engine.hpp"
#include "worker/clock.hpp"

namespace vectorgpu::worker
{

struct TieredEngineOptions
{
	uint64_t host_bytes = 0; // maximum of resident bytes in the host engine
	uint64_t idle_ns =
		uint64_t{10} * 1000 * 1000 * 1000; // a copy that was not searched for this long gives way on the device
	bool background = true;                // a thread brings copies back to the device; off: tests call rebalance()
	Clock clock = monotonic_clock;
	std::function<void(const char *line)> log; // any thread
};

class TieredEngine : public engine::Engine
{
public:
	/// Move one recently searched copy back to the device, if it fits. The background thread calls this every second.
	virtual void rebalance() = 0;

	/// For tests: return true if the copy is on the device.
	virtual bool on_device(engine::CopyId copy) = 0;
};

std::unique_ptr<TieredEngine> make_tiered_engine(
	std::unique_ptr<engine::Engine> device, std::unique_ptr<engine::Engine> host, const TieredEngineOptions &options);

} // namespace vectorgpu::worker
