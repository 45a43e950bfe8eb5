// The k-NN graph by the worker, many searches at a time. PG dialect.
#pragma once

#include "am/functions/knn_graph.hpp"

namespace vectorgpu::am
{

struct KnnAsked; // knn_worker.cpp

/// Ask the worker for the neighbours of all sources. Some answers may be missing until knn_end_asking: the worker has
/// the searches, and makes them while the caller does something else than to use the session. Null: it is not asked.
/// Where answered[i] comes out true, the counts[i] edges of source i are at edges + i * k; the others have to be asked
/// for one by one. All arguments must live until the end. In the current context.
KnnAsked *knn_ask_worker(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources,
	uint32 n_sources, uint32 k, KnnEdge *edges, uint32 *counts, bool *answered);

/// Wait for the answers. Returns the first source that was not asked for, or in vain, because the copy is outdated or
/// missing: a scan for it brings the copy up to date, and the rest may be asked for again; n_sources if there is none.
uint32 knn_end_asking(KnnAsked *asked);

/// Wait for all answers of the walk, of other batches too, so that a scan may use the session.
void knn_await_all(KnnWalk *walk);

} // namespace vectorgpu::am
