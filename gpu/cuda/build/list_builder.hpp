// Builds of inverted lists on the device; see engine/interface/list_builder.hpp.
#pragma once

#include <memory>

#include "cuda/build/kmeans.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::cuda
{

/// control: progress and stop; outlives the builder, as do device and budget.
Status make_list_builder(const engine::ListBuildSpec &spec, const Device *device, Budget *budget,
	engine::SearchControl *control, std::unique_ptr<engine::ListBuilder> *builder);

} // namespace vectorgpu::cuda
