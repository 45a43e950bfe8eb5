// Chooses the graph that a calibration measures after a build: the graph without the rows that are its queries, or the
// whole one, whose searches pass over them.
#pragma once

#include "engine/graph/build.hpp"
#include "engine/graph/calibrate/calibrate.hpp"

namespace vectorgpu::engine::graph
{

/// Set measured to the graph as it would be without `n_queries` of its rows, which become the queries; their near
/// copies stay in it. Call it after graph_build with spec.knn.n_aside = query_rows() (hold_out.hpp), or with exact
/// neighbours; the work memory is graph_build's as it left it, for the same rows, spec and number of threads.
/// measured->entries: those of the build. measured will refer to queries [n_queries] and to the work memory. If rows
/// cannot be held out (edges by the relative neighbourhood, too few rows) measured is unchanged.
Outcome measure_without(const GraphRows &rows, const BuildSpec &spec, uint32_t *queries, uint32_t n_queries,
	MeasuredGraph *measured, void *work, size_t work_bytes, const Call &call = {}, const Helper *helper = nullptr);

} // namespace vectorgpu::engine::graph
