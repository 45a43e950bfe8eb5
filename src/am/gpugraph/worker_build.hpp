// The worker's part in a build or a merge: the graph of a part from its rows, and what recall its searches have. Whatever goes wrong, the backend
// does it by itself. PG dialect.
#pragma once

#include "am/gpugraph/writer.hpp"

namespace vectorgpu::am
{

/// The worker builds the graph of a part: edges [n_rows, degree], entries [entry_count()], report; with `measure` also the writer's calibration.
/// rows: one behind the other. kNo: it is not there, or has failed, and nothing is set; kCancelled: it gave way.
engine::graph::Found graph_worker_build(GraphWriter *writer, const engine::graph::GraphRows *rows, bool measure, uint32 *edges,
	uint32 *entries, engine::graph::BuildReport *report);

} // namespace vectorgpu::am
