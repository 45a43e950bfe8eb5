// The worker's part in a build or a merge: the nearest rows of each row of a part, which is most of the work. The rows go to the worker as a
// copy of their own, for the time that takes; their exact searches come back many at a time. Whatever goes wrong is a kNo, and the backend
// finds neighbours by itself. PG dialect.
#pragma once

#include "am/gpugraph/writer.hpp"
#include "engine/graph/build.hpp"

namespace vectorgpu::am
{

/// Fills the lists [n_rows, k] if the worker is worth asking: with a GPU always; by its CPU engine, which compares all rows, only where
/// the backend would do the same. May raise errors for interrupts; the worker keeps nothing then either.
engine::graph::Found graph_worker_neighbors(
	GraphWriter *writer, const engine::graph::GraphRows *rows, const engine::graph::KnnLists *lists);

} // namespace vectorgpu::am
