// Builds of inverted lists by the CPU engine: engine/ivf with the engine's threads.
#pragma once

#include <memory>

#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::engine
{

/// control: progress and stop of long steps. It outlives the builder, as does the pool. Throws bad_alloc.
std::unique_ptr<ListBuilder> make_cpu_list_builder(const ListBuildSpec &spec, ThreadPool *pool, SearchControl *control);

} // namespace vectorgpu::engine
