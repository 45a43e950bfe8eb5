// The effort of a graph's search with conditions. Internal to the CPU engine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/passing_rows.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::engine
{

/// Set up a search of that width in a part of n_nodes nodes for the rows that pass; view: masked, not listed. rows:
/// how many rows are scored in the time that a node takes whose edges are followed. most_uneven: a search ends that has
/// met so many times more nodes as if the rows that pass were spread evenly. False: scoring all rows of the
/// part that pass is cheaper. A search that has expanded spec->most_expanded nodes has met rows that fail for the most
/// part, and scoring all is cheaper then.
inline bool
prepare_masked(
	const RowsView &view, uint64_t n_nodes, uint32_t width, double rows, double most_uneven, graph::SearchSpec *spec)
{
	const double share = static_cast<double>(view.passing->n_pass()) / static_cast<double>(view.rows.last);
	const double even = width / share;
	const double affordable = share * static_cast<double>(n_nodes) / rows;

	if (even >= affordable)
		return false;
	spec->width = width;
	spec->most_expanded = static_cast<uint32_t>(std::min(most_uneven * even, affordable));
	spec->kept = std::max(spec->most_expanded, width);
	spec->fails = view.dead->data();
	return true;
}

/// Whether such a search, alone in its statistics, has ended early: what it found is not used.
inline bool
gave_up(const graph::SearchSpec &spec, const graph::SearchStats &stats)
{
	return spec.most_expanded > 0 && stats.n_expanded >= spec.most_expanded;
}

} // namespace vectorgpu::engine
