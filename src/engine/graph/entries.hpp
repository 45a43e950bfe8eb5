// The entry points of a graph.
#pragma once

#include "engine/graph/build.hpp"

namespace vectorgpu::engine::graph
{

/// Choose entry points: the rows of a sample nearest to its centroids. entries [entry_count()], ascending, *n_entries
/// of them. Deterministic for the spec's seed, whatever the number of call's threads. Work memory:
/// choose_entries_bytes().
Outcome choose_entries(const GraphRows &rows, const BuildSpec &spec, uint32_t *entries, uint32_t *n_entries, void *work,
	size_t work_bytes, const Call &call = {});
size_t choose_entries_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads);

} // namespace vectorgpu::engine::graph
