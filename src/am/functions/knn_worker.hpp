// The k-NN graph by the worker, many searches at a time. PG dialect.
#pragma once

#include "am/functions/knn_graph.hpp"

namespace vectorgpu::am
{

/// Ask the worker for the neighbours of all sources. Where answered[i] comes out true, the counts[i] edges of source i
/// are at edges + i * k; the others have to be asked for one by one. Returns the first source that was not asked for,
/// or in vain, because the copy is outdated or missing: a scan for it brings the copy up to date, and the rest may be
/// asked for again; n_sources if there is none.
uint32 knn_ask_worker(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources,
	uint32 n_sources, uint32 k, KnnEdge *edges, uint32 *counts, bool *answered);

} // namespace vectorgpu::am
