// Scans ordered by an operator of pgvector: its code computes the distance, in floats and in an order of its own, so
// the last bits may differ from the canonical distance by which an index orders. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// True if another extension computes the distances of the index's operator class.
bool foreign_distance(Relation index);

/// Move a bound as far behind as its distances may differ: a row that passes by the operator's distance stays before
/// it. The executor tests the condition on every row in any case. No bound is left where that is unknown.
void foreign_distance_widen_bound(ScanState *state);

} // namespace vectorgpu::am
