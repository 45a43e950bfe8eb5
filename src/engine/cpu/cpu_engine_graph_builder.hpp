// Builds of graphs by the CPU engine: engine/graph with the engine's threads.
#pragma once

#include <memory>

#include "engine/cpu/near_groups_tuning.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine
{

/// control: progress and stop of long steps. searcher: finds the nearest rows of each row by exact searches, in a
/// temporary copy; if it is null or fails, the pool's threads find them. All outlive the builder. Throws bad_alloc.
std::unique_ptr<GraphBuilder> make_cpu_graph_builder(const GraphBuildSpec &spec, ThreadPool *pool,
	SearchControl *control, Engine *searcher, const NearGroupsTuning &near_groups = {});

} // namespace vectorgpu::engine
