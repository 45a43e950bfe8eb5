// Exact search of copies of kind kSparse on the CPU: one walk over the rows for all queries of a batch. Thread-safe;
// throws bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/selection.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/distance/sparse.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// kInvalidArgument if a query is malformed.
Status check_sparse_queries(std::span<const SearchQuery> queries);

/// Search a snapshot, which may be masked by conditions. results [queries.size()], with distances (finish_score) as
/// scores; sets coverage. Queries have been checked. Return how many distances of rows were computed, the others being
/// ruled out by a bound. control, if not null, counts up with every span of rows; once it says stop, the results are
/// incomplete.
uint64_t search_sparse(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

/// Offer rows [first, first + n) of a segment, which is not listed (PassingRows), to a query's selection. bounds [n]: a
/// number that the row's distance is not below, or that it is NaN. Return as search_sparse.
uint64_t offer_bounded(const RowsView &view, uint64_t first, size_t n, const float *bounds, Metric metric,
	const SparseVector &query, Selection *selection);

} // namespace vectorgpu::engine
