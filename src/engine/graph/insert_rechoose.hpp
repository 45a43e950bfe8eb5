// Chooses edges of new and old rows anew. Internal to the folder, for insertion.
#pragma once

#include "engine/graph/insert.hpp"

namespace vectorgpu::engine::graph
{

struct Rechoice
{
	GraphRows rows;
	const BaseGraph *base = nullptr;
	const uint32_t *origin = nullptr; // [n_rows] numbers in base, kNoNode: new
	const uint32_t *added = nullptr;  // [n_added] the new rows, ascending
	uint32_t n_added = 0;
	KnnLists lists; // [n_added, k] the nearest rows of the new ones, by (score, number)
	PruneKind prune = PruneKind::kRank;
	uint32_t degree = 0;
	uint32_t *forward = nullptr; // [n_rows, degree]: out
};

/// Set forward as prune does. A new row chooses from its list. An old row keeps its edges (the first half of which,
/// made by add_reverse, are its best), unless one of them led to a removed row or a new row is nearer than the farthest
/// of the first half. Then it chooses among its remaining edges, the edges of those removed rows, and the new rows that
/// have it in their lists. The same with any number of call's threads.
Outcome rechoose(const Rechoice &choice, void *work, size_t work_bytes, const Call &call);
size_t rechoose_bytes(const Rechoice &choice, size_t n_threads);

} // namespace vectorgpu::engine::graph
