// The choice of a graph's edges on the device; see engine/graph/helper.hpp.
#pragma once

#include "cuda/device/budget.hpp"
#include "cuda/device/uploader.hpp"
#include "engine/graph/helper.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

/// See Engine::choose_graph_edges. Uploads of copies wait meanwhile.
Status choose_graph_edges(
	Budget *budget, Uploader *uploader, const engine::graph::EdgeJob &job, engine::SearchControl *control);

} // namespace vectorgpu::cuda
