// Batches whose queries have different conditions. Internal to the CPU engine.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/cpu/passing_rows.hpp"

namespace vectorgpu::engine
{

/// A search of queries that all have the same rows to look at; results [queries.size()].
using GroupSearch = std::function<void(
	const Snapshot &snapshot, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)>;

/// Whether any query has conditions.
bool has_conditions(std::span<const SearchQuery> queries);

/// Call `search` for the queries of each SearchQuery::passing, with the snapshot masked by it. results: of all queries.
/// Return what mask_snapshot returns. The queries' filter_way is kNone before. control: null, or ends after a group.
Status search_groups(const Snapshot &snapshot, std::span<const SearchQuery> queries, const GroupSearch &search,
	std::vector<std::vector<Neighbor>> *results, const SearchControl *control);

} // namespace vectorgpu::engine
