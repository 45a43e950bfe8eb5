// The entry points of a graph.
#pragma once

#include "engine/graph/build.hpp"

namespace vectorgpu::engine::graph
{

/// entries [entry_count()], of which *n_entries are there, ascending: of some of the rows those that are nearest to the
/// centroids of these. Edges are not looked at. Deterministic for the spec's seed; with call's threads, and the same by
/// any number of them. Work memory of choose_entries_bytes().
Outcome choose_entries(const GraphRows &rows, const BuildSpec &spec, uint32_t *entries, uint32_t *n_entries, void *work,
	size_t work_bytes, const Call &call = {});
size_t choose_entries_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads);

} // namespace vectorgpu::engine::graph
