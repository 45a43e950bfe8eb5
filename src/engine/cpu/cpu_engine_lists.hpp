// Batched search over inverted lists and a delta. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// A snapshot of a copy of kind kLists. results [queries.size()]: see Engine::search. control, if not null, counts up
/// with every list; once it says stop, the results are incomplete. Return how many rows were scored because their
/// rounded rows did not rule them out.
uint64_t search_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
