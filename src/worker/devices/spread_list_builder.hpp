// A builder of inverted lists that is made of one builder for each of several devices.
#pragma once

#include <memory>

#include "engine/interface/list_builder.hpp"
#include "worker/devices/device_set.hpp"

namespace vectorgpu::worker
{

/// As Engine::make_list_builder. kUnavailable: no device is left; else the first failure. Throws bad_alloc.
Status make_spread_list_builder(DeviceSet *devices, const engine::ListBuildSpec &spec, engine::SearchControl *control,
	std::unique_ptr<engine::ListBuilder> *builder);

} // namespace vectorgpu::worker
