// Batched search over inverted lists with codes, and a delta. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/engine.hpp"

namespace vectorgpu::engine
{

/// A snapshot of a copy of kind kCodedLists. As search_lists; returns how many rows codes have chosen.
uint64_t search_coded_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries, ThreadPool &pool,
	std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
