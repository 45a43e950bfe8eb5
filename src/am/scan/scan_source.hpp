// Where the rows of a batch come from: the worker or the pages. PG dialect. Used by scan.cpp.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// The size of a batch for this number of wanted rows: within work_mem and the rows of the index.
uint64 scan_batch_rows(const ScanState *state, uint64 wanted);

/// Fills state->batch with the next batch.size rows of the phase, or with fewer if there are no more. batch.size may
/// become less, for lack of work_mem.
void scan_next_batch(Relation index, Snapshot snapshot, ScanState *state);

} // namespace vectorgpu::am
