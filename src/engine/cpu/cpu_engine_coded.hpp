// Batched search over inverted lists with codes, and, where there are vectors, a delta. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

enum class CodedAnswer : uint8_t
{
	kNearest, // of kCodedLists: canonical scores of what codes have chosen, of segments that are looked at as a whole,
			  // of the delta
	kCandidates, // of kCodes: what codes have chosen, by estimate; all queries have probes
};

/// A snapshot of a copy of that kind. As search_lists; returns how many rows codes have chosen.
uint64_t search_coded_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	CodedAnswer answer, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
