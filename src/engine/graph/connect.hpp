// Makes every node reachable from the entry points.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// Nodes that edges [n_nodes, degree] lead to from the entry points [n_entries], these included. Work memory of
/// reachable_bytes(). Edges to nodes that are not there lead nowhere.
uint32_t count_reachable(uint32_t n_nodes, uint32_t degree, const uint32_t *edges, const uint32_t *entries,
	uint32_t n_entries, void *work, size_t work_bytes);
size_t reachable_bytes(uint32_t n_nodes);

/// Gives every node that is not reachable an edge from one that is: from a neighbour of its own, else from the nearest
/// node that a search finds, else from any. It takes the place of one that is not there, or of one that no node is
/// reached by first. edges [n_rows, degree], degree from kMinDegree; n_entries from 1 if there are rows. *n_added:
/// edges that were added. absent [n_rows]: rows that are not zero there stay without a way to them; null: none.
Outcome connect(const GraphRows &rows, uint32_t degree, uint32_t *edges, const uint32_t *entries, uint32_t n_entries,
	uint32_t *n_added, void *work, size_t work_bytes, const Call &call = {}, const uint8_t *absent = nullptr);
size_t connect_bytes(const GraphRows &rows, uint32_t degree, uint32_t n_entries);

} // namespace vectorgpu::engine::graph
