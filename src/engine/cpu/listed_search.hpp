// Exact search of listed rows, and of what a masked snapshot has besides. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/masked_snapshot.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Add the nearest of the listed rows to the answers. results [queries.size()]: the answers so far, at most k each. A
/// stopped search leaves rows out.
void search_listed(const DistanceSpec &spec, std::span<const ListedRows> listed, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
