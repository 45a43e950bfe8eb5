// Entry points for parts of a graph that searches do not find.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/helper.hpp"

namespace vectorgpu::engine::graph
{

/// Add entry points [*n_entries, most_entries) where searches go astray. Embeddings lie in groups; a group larger than
/// the lists of nearest rows has no edges to others, so that a search reaches it only through an entry point of its
/// own. Rows that stand for all are searched for; one whose neighbourhood is not found becomes an entry point, which
/// its whole group is found by from then on. Edges are not changed. entries [most_entries]: ascending when done.
/// *n_added: how many came. Deterministic, and the same by any number of call's threads.
Outcome add_unreached(const GraphRows &rows, uint32_t degree, const uint32_t *edges, uint32_t *entries,
	uint32_t *n_entries, uint32_t most_entries, uint32_t *n_added, void *work, size_t work_bytes, const Call &call = {},
	const Helper *helper = nullptr);
size_t add_unreached_bytes(const GraphRows &rows, uint32_t degree, uint32_t most_entries, size_t n_threads);

} // namespace vectorgpu::engine::graph
