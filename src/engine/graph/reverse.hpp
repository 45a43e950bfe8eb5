// What leads to a node leads back from it.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// edges [n_rows, degree]: the first half of each row's forward edges (as prune gives them), edges back from rows whose
/// forward edges lead to it (those that are most useful to their rows first, and of these those of the first rows),
/// then what else there is of its own. No node twice, never itself. Work memory of add_reverse_bytes(). Cancelled if
/// progress says so. With call's threads, and the same by any number of them.
Outcome add_reverse(uint32_t n_rows, uint32_t degree, const uint32_t *forward, uint32_t *edges, void *work,
	size_t work_bytes, const Call &call = {});
size_t add_reverse_bytes(uint32_t n_rows, uint32_t degree);

} // namespace vectorgpu::engine::graph
