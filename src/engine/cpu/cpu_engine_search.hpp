// Batched exact search over a snapshot of a copy. Thread-safe; throws bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// results [queries.size()]: see Engine::search. Return how many rows passed the filter and were rescored.
/// control, if not null, counts up with every span of rows (about a megabyte of vectors); once it says stop, the
/// results are incomplete.
uint64_t search_snapshot(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	const CpuEngineOptions &options, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results,
	SearchControl *control);

} // namespace vectorgpu::engine
