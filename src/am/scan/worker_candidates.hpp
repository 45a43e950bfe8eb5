// Batches that the pages finish: the worker names the candidates that a pass looks at. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// For an access method whose worker names candidates (WorkerStructure::n_candidates, finds_candidates): those of the
/// scan's next pass, ascending, palloc'd. False: the pass finds its candidates from the pages. Raises errors as
/// worker_search does.
bool worker_candidates(Relation index, ScanState *state, RowId **candidates, uint64 *n_candidates);

} // namespace vectorgpu::am
