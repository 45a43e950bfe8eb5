// Turns a k-NN graph into a graph for searches: leaves out edges that others make superfluous.
#pragma once

#include "engine/graph/knn_graph.hpp"

namespace vectorgpu::engine::graph
{

/// The rule that decides which edges are superfluous. Stored in indexes: never renumber.
enum class PruneKind : uint8_t
{
	kRank = 0, // by the number of detours, counted by ranks alone (CAGRA: Ootomo et al. 2023, section 3.2)
	kRng = 1,  // relative neighbourhood: a kept neighbour is nearer to it than the row is (HNSW's heuristic)
};

/// Set forward [n_rows, degree] to at most `degree` neighbours of each row, the most useful first, kNoNode behind them.
/// rows: for kRng only. chosen [n_rows], or null: rows with zero there keep their forward edges. Work memory:
/// prune_bytes(). The same with any number of call's threads.
Outcome prune(const GraphRows &rows, const KnnLists &lists, PruneKind kind, uint32_t degree, uint32_t *forward,
	void *work, size_t work_bytes, const Call &call = {}, const uint8_t *chosen = nullptr);
size_t prune_bytes(const KnnLists &lists, size_t n_threads = 1);

} // namespace vectorgpu::engine::graph
