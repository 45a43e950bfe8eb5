// Asks the worker for a batch of a scan, and brings its copy of the index up to date where that is little work. PG
// dialect.
#pragma once

#include "am/scan/scan.hpp"

namespace vectorgpu::am
{

/// Fills state->rows with the batch, as scan_next_batch does, if the worker has a copy that is new enough for the scan.
/// False: nothing has changed, and the batch has to come from the pages. Raises errors for interrupts only (and for
/// damaged pages that it reads to bring the copy up to date).
bool worker_search(Relation index, ScanState *state);

/// Where the worker's rows are only candidates (WorkerStructure::n_candidates, finds_candidates): those of the scan's
/// next pass, ascending, palloc'd. False: as above.
bool worker_candidates(Relation index, ScanState *state, RowId **candidates, uint64 *n_candidates);

/// For those that ask many searches at a time (knn_worker.cpp). True if the worker is worth asking, and its rows are an
/// answer.
bool worker_may_answer(Relation index, const ScanState *state);

/// The SEARCH of the scan's round for k rows. probes: [kMaxSegments], of which *n_probes are to be sent behind it, and
/// then the query. False: a page was foreign.
bool worker_search_request(Relation index, const ScanState *state, uint64 k, wire::SearchRequest *search,
	wire::SegmentProbes *probes, uint32 *n_probes);

/// True if the n rows can be an answer to a SEARCH for k from the first on.
bool worker_rows_valid(const ScanState *state, engine::Neighbor *rows, uint64 n, uint64 k);

} // namespace vectorgpu::am
