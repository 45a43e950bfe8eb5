// Builds of graphs by the CPU engine: engine/graph with the engine's threads.
#pragma once

#include <memory>

#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine
{

/// control: progress and stop of all that takes long; searcher: finds the nearest rows of each by exact searches, in a
/// copy that comes and goes; if it is null or cannot, the threads find them. Both outlive the builder, as does the
/// pool. Throws bad_alloc.
std::unique_ptr<GraphBuilder> make_cpu_graph_builder(
	const GraphBuildSpec &spec, ThreadPool *pool, SearchControl *control, Engine *searcher);

} // namespace vectorgpu::engine
