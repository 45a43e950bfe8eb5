// An engine of two: each copy lies on the device or in host memory, and whoever uses it need not know. A copy that the
// device has no room for goes to the host, where the CPU engine answers; it comes back when there is room. See
// README.md, "Two places".
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
	uint64_t host_bytes = 0;                              // most resident bytes of the host engine
	uint64_t idle_ns = uint64_t{10} * 1000 * 1000 * 1000; // a copy not searched for so long gives way on the device
	bool background = true; // a thread brings copies back to the device; off: tests call rebalance()
	Clock clock = monotonic_clock;
	std::function<void(const char *line)> log; // any thread
};

class TieredEngine : public engine::Engine
{
public:
	/// Brings one copy that was searched lately back to the device, if it fits. Called by the background thread every
	/// second.
	virtual void rebalance() = 0;

	/// For tests: where a copy lies.
	virtual bool on_device(engine::CopyId copy) = 0;
};

std::unique_ptr<TieredEngine> make_tiered_engine(
	std::unique_ptr<engine::Engine> device, std::unique_ptr<engine::Engine> host, const TieredEngineOptions &options);

} // namespace vectorgpu::worker
