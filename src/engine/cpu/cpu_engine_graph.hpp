// Batched search over graphs and a delta. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Search a snapshot of a copy of kind kGraph; all queries have probes. *results[i]: the answer to queries[i], see
/// Engine::search. control, if not null, counts up after every few nodes; once it says stop, the results are
/// incomplete. Return how many rows were scored because their rounded rows did not rule them out.
uint64_t search_graphs(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor> *const> results, SearchControl *control);

} // namespace vectorgpu::engine
