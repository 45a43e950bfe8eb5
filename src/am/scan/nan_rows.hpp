// Rows whose distance is NaN, behind a bound that they pass (pg::DistanceBound::nan_passes). To look for them is a pass
// over all rows; so what it has found of an index's segments is remembered for all sessions. PG dialect. Used by
// scan.cpp.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// False if no row of the index can have such a distance.
bool nan_rows_may_be(const ScanState *state);

/// True if it is known that no row of the segments has one. For `<=>` that does not depend on the query; for `<#>` it
/// takes elements whose products are beyond the range of a float.
bool nan_rows_none_in_segments(IndexScanDesc scan, const ScanState *state);

/// Remembers that there are none.
void nan_rows_note_none(IndexScanDesc scan, const ScanState *state);

} // namespace vectorgpu::am
