// Makes every node reachable from the entry points.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// Count the nodes that can be reached over edges [n_nodes, degree] from entries [n_entries], these included. Edges
/// with an end beyond n_nodes are ignored. Work memory: reachable_bytes().
uint32_t count_reachable(uint32_t n_nodes, uint32_t degree, const uint32_t *edges, const uint32_t *entries,
	uint32_t n_entries, void *work, size_t work_bytes);
size_t reachable_bytes(uint32_t n_nodes);

/// How many nodes to connect at most, and what that led to.
struct ConnectLimit
{
	uint32_t most;
	uint32_t n_reached; // out: nodes that can be reached since, those that were connected included
};

/// Give every unreachable node an edge from a reachable one: from a neighbour of its own, else from the nearest node
/// that a search finds, else from any. The new edge fills an empty place, or replaces an edge by which no node is
/// reached first. edges [n_rows, degree], degree from kMinDegree; n_entries from 1 if there are rows. *n_added: number
/// of edges added. absent [n_rows], or null: rows with a nonzero byte stay unreachable. The same whatever the number of
/// threads.
Outcome connect(const GraphRows &rows, uint32_t degree, uint32_t *edges, const uint32_t *entries, uint32_t n_entries,
	uint32_t *n_added, void *work, size_t work_bytes, const Call &call = {}, const uint8_t *absent = nullptr,
	ConnectLimit *limit = nullptr);
size_t connect_bytes(const GraphRows &rows, uint32_t degree, uint32_t n_entries);

} // namespace vectorgpu::engine::graph
