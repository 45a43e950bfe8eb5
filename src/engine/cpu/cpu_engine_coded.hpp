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
	kNearest,    // of kCodedLists: canonical scores of rows chosen by codes, of segments scored in full, of the delta
	kCandidates, // of kCodes: rows chosen by codes, by estimate; all queries have probes
};

/// See search_lists. snapshot: of a copy of the answer's kind. Return how many rows codes have chosen.
uint64_t search_coded_lists(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	CodedAnswer answer, ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine
