// A batch of searches some of which have conditions. Thread-safe; throws bad_alloc.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Searches a snapshot for queries without conditions of their own: the rows that fail are dead in it.
using SearchGroup = std::function<void(
	const Snapshot &snapshot, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)>;

/// True if a query of the batch has conditions.
bool any_passing(std::span<const SearchQuery> queries);

/// Answer the queries in groups that have the same rows that pass. results [queries.size()]: see Engine::search.
/// widens: the search of a group notes the filter way and widens probes by itself; else it looks at all rows of a
/// masked snapshot.
void search_passing(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	bool widens, const SearchGroup &search, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results,
	SearchControl *control);

} // namespace vectorgpu::engine
