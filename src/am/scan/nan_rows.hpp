// Rows whose distance is NaN, behind a bound that they pass (pg::DistanceBound::nan_passes), or before all others. To
// look for them is a pass over all rows; so what it has found of an index's segments is remembered for all sessions. PG
// dialect. Used by scan.cpp.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// False if no row of the index can have such a distance.
bool nan_rows_may_be(const ScanState *state);

/// True if it is known that no row of the segments has one from the scan's query.
bool nan_rows_none_in_segments(IndexScanDesc scan, const ScanState *state);

/// Remembers that a look at all rows has found none, if that holds for other queries, too. The scan has ended.
void nan_rows_note_none(IndexScanDesc scan, ScanState *state);

} // namespace vectorgpu::am
