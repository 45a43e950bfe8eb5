// Adds reverse edges.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// Set edges [n_rows, degree]: first half of each row's forward edges (as prune makes them); then edges to rows whose
/// forward edges lead to it, ordered by the rank of that edge, then by row; then its other forward edges. No node
/// twice, never itself. Work memory: add_reverse_bytes(). The same with any number of call's threads.
Outcome add_reverse(uint32_t n_rows, uint32_t degree, const uint32_t *forward, uint32_t *edges, void *work,
	size_t work_bytes, const Call &call = {});
size_t add_reverse_bytes(uint32_t n_rows, uint32_t degree);

} // namespace vectorgpu::engine::graph
