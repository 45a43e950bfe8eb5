// The worker's part in a build or a merge: the graph of a part from its rows, and its calibration. After any failure
// the backend does it by itself. PG dialect.
#pragma once

#include "am/gpugraph/writer.hpp"

namespace vectorgpu::am
{

/// Where the graph of a part goes.
struct PartGraph
{
	uint32 *edges;   // [n_rows, degree]
	uint32 *entries; // [entry_count()]
	uint8 *codes;    // [n_rows, code bytes], with codes
};

/// True if a worker answers that finds nearest rows by exact searches, on a GPU.
bool graph_worker_is_exact(GraphWriter *writer, const engine::graph::GraphRows *rows);

/// The worker builds the graph of a part, or inserts rows into the graph `base` where that is not null: edges, entries,
/// report; with `measure` also the writer's calibration, codes and code functions. rows: one behind the other, in
/// part->vectors, which need not be read yet. kNo: no worker, or it failed, and nothing is set; kCancelled: it gave
/// way.
engine::graph::Found graph_worker_build(GraphWriter *writer, PartRows *part, const engine::graph::GraphRows *rows,
	const engine::graph::BaseGraph *base, bool measure, const PartGraph &graph, engine::graph::BuildReport *report);

} // namespace vectorgpu::am
