// Labels of rows that a copy holds already; see Engine::label_rows().
#pragma once

#include <span>

#include "cuda/device/block.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

/// labels [n_rows] of the first rows of a block. kUnsupported unless they are float32, on the device.
Status label_rows(Budget *budget, const Block &block, uint32_t n_rows, uint32_t dim, std::span<const float> centroids,
	uint32_t *labels, engine::SearchControl *control);

} // namespace vectorgpu::cuda
