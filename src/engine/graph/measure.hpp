// Which graph a calibration measures, behind a build: the one without the rows that are its queries, or the whole one,
// in which they are passed over.
#pragma once

#include "engine/graph/build.hpp"
#include "engine/graph/calibrate.hpp"

namespace vectorgpu::engine::graph
{

/// After graph_build with spec.knn.n_aside = query_rows() (hold_out.hpp), or where neighbours are exact: measured
/// becomes the graph as it would be without `n_queries` of its rows, which are the queries; their near copies stay in
/// it. measured->entries are those of the build. queries [n_queries]: memory that measured will refer to, as it does to
/// the work memory, which is that of graph_build as that has left it, with the same rows, spec and number of threads.
/// Where rows cannot be held out (edges by the relative neighbourhood, too few rows) measured stays as it is.
Outcome measure_without(const GraphRows &rows, const BuildSpec &spec, uint32_t *queries, uint32_t n_queries,
	MeasuredGraph *measured, void *work, size_t work_bytes, const Call &call = {});

} // namespace vectorgpu::engine::graph
