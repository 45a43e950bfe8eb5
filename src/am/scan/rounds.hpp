// The rounds of a batch of an approximate access method: how wide a pass searches, and whether another one follows.
// PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// Ranks that earlier batches have looked for, and those that the present one adds. Their sum says how wide it
/// searches.
uint64 scan_ranks_before(const ScanState *state);
uint64 scan_ranks_wanted(const ScanState *state);

/// True if the batch's next pass is to look at all rows.
bool scan_is_exact(const ScanState *state);

/// After a pass that looked at `coverage` of the rows and filled the batch: true if the batch is done, else the next
/// round follows.
bool scan_end_round(ScanState *state, Coverage coverage);

/// For EXPLAIN: n of the rows that a pass of the batch has found do not come after the last one returned: the rows
/// returned, and those left out.
void scan_note_up_to_last(ScanState *state, uint64 n);

} // namespace vectorgpu::am
