// Asks the worker for a batch of a scan, and brings its copy of the index up to date where that is little work. PG
// dialect.
#pragma once

#include "am/shared/scan.hpp"

namespace vectorgpu::am
{

/// Fills state->rows with the batch, as scan_next_batch does, if the worker has a copy that is new enough for the scan.
/// False: nothing has changed, and the batch has to come from the pages. Raises errors for interrupts only (and for
/// damaged pages that it reads to bring the copy up to date).
bool worker_search(Relation index, ScanState *state);

/// Where the worker's rows are only candidates (WorkerStructure::n_candidates): those of the scan's next pass, ascending, palloc'd.
/// False: as above.
bool worker_candidates(Relation index, ScanState *state, RowId **candidates, uint64 *n_candidates);

} // namespace vectorgpu::am
