// Search of copies of kind kMatch on the CPU: segments by their inverted index, the delta value by value. Thread-safe;
// throws bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/copies/match_copy.hpp"
#include "engine/copies/match_delta.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::engine
{

/// Search a snapshot. results [queries.size()]; sets coverage. Queries have been checked. Return how many pairs of a
/// query and a text of a segment were compared.
uint64_t search_match(const DistanceSpec &spec, const MatchSnapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
