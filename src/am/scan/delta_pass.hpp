// The delta's part in a pass over the pages: all of its rows are compared. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// Offers the rows of the delta that belong to the scan's phase. The first pass keeps their scores for later ones.
/// Returns false if a page was foreign.
bool delta_pass(Relation index, ScanState *state, const SegmentSearch *search);

} // namespace vectorgpu::am
