// One pass of a batch over the pages: segments and delta. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// Fills state->batch with the first rows that the round finds. candidates: ApproximateSearch::candidates. *coverage:
/// how much of the rows it has looked at. False if a page was foreign: the batch's rows are then undefined.
bool page_pass(Relation index, ScanState *state, const RowId *candidates, uint64 n_candidates, Coverage *coverage);

} // namespace vectorgpu::am
