// An engine made of one engine for each of several devices: small copies are on all of them, large ones are cut. See
// README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/interface/engine.hpp"
#include "worker/devices/device_set.hpp"
#include "worker/devices/spread_search.hpp"

namespace vectorgpu::worker
{

struct SpreadOptions
{
	DeviceSetOptions devices;
	uint64_t stripe_bytes = uint64_t{32} << 20; // rows of a large segment that follow each other on a device, at least
	SpreadCuts cuts;
	bool background = true; // threads tend and watch the devices; off: tests call tend()
};

class SpreadEngine : public engine::Engine
{
public:
	/// Open lost devices again, and bring one small copy to a device that does not have it.
	virtual void tend() = 0;

	/// For benchmarks: where the time of searches went.
	virtual SpreadTimes times() const = 0;

	/// For tests: lose a device.
	virtual void lose(size_t device) = 0;

	/// For tests: the number of devices that have the copy or a part of it.
	virtual size_t n_places(engine::CopyId copy) = 0;

	/// For tests: whether they have different rows.
	virtual bool is_sharded(engine::CopyId copy) = 0;
};

/// kUnavailable: no device can be used. The log says why.
Status make_spread_engine(const SpreadOptions &options, std::unique_ptr<SpreadEngine> *engine);

} // namespace vectorgpu::worker
