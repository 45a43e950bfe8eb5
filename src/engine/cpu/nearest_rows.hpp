// The nearest rows of each row of a graph that is built, by exact searches of another engine, such as a GPU's.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/graph/build.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Fill the lists as knn_graph does. kNo: the searcher has no room or has failed, which does not fail the build.
/// go_on(rows searched for): false to cancel; called by several threads.
graph::Found find_nearest_rows(Engine *searcher, const graph::GraphRows &rows, const graph::KnnLists &lists,
	SearchControl *control, const std::function<bool(uint64_t)> &go_on);

} // namespace vectorgpu::engine
