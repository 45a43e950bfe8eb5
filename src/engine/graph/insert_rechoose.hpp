// Edges of rows, new ones and those that were there, chosen anew. Internal to the folder: of insertion.
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
	KnnLists lists; // [n_added, k] their nearest rows, by (score, number)
	PruneKind prune = PruneKind::kRank;
	uint32_t degree = 0;
	uint32_t *forward = nullptr; // [n_rows, degree]: out
};

/// forward as prune leaves it: of new rows from their lists; of others their edges before (the first half of which, as
/// add_reverse has made them, are their best), unless one of them led to a row that leaves or a new row is nearer than
/// the furthest of the first half: then they are chosen among what is left of their edges, what rows that leave had
/// edges to, and the new rows that have them in their lists. The same by any number of call's threads.
Outcome rechoose(const Rechoice &choice, void *work, size_t work_bytes, const Call &call);
size_t rechoose_bytes(const Rechoice &choice, size_t n_threads);

} // namespace vectorgpu::engine::graph
